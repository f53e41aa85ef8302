"""The nodes of the cluster, and who may call its API server."""

from collections.abc import Mapping

from tests.system.e2e import placing
from tests.system.workloads import stages
from tests.system.workloads.stages import EACH, STRICT, configured, machine
from tools.clusters.controlplane.planes import Users
from tools.clusters.kubelets.kubelets import RealNode

POOL = "pool"
"""The label that says to which pool a node belongs."""

FEW = 3
"""CPUs of each zone of the smaller node that pods can have."""

NODES: Mapping[str, tuple[str, int]] = {
    "strict-1": ("a", EACH),
    "strict-2": ("a", EACH),
    "small-1": ("b", FEW),
    "large-1": ("b", EACH),
}
"""By name of each node its pool, and the CPUs of each zone that pods can have."""

USERS: Users = {**placing.USERS, **stages.USERS}


def node(name: str) -> RealNode:
    """One of `NODES`: its kubelet aligns pods in single zones."""
    pool, cpus = NODES[name]
    return RealNode(name=name, machine=machine(cpus), configuration=configured(STRICT), labels={POOL: pool})
