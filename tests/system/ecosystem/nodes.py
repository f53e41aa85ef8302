"""The nodes of the cluster, and who may call its API server."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from tests.system.e2e import placing
from tests.system.eventually import eventually
from tests.system.workloads import stages, workloads
from tests.system.workloads.stages import EACH, STRICT, Stage, configured, machine
from tools.clusters.api_objects import namespace
from tools.clusters.api_requests import ask
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


DENIES = {"denies": "workloads"}
IMPOSSIBLE = 1000
"""CPUs that no node has in any zone."""


@dataclass(frozen=True, slots=True)
class Denying:
    stage: Stage

    async def begin(self, home: str) -> None:
        """Have workloads denied in a namespace from now on."""
        await self.stage.store.apply(namespace(home, DENIES))
        wish = workloads.template("rehearsal", on={}, cpus=IMPOSSIBLE, restart="Never")
        path = f"/apis/batch/v1/namespaces/{home}/jobs"
        job = workloads.job(home, "rehearsal", 1, wish, backoff=0)
        await eventually(
            partial(ask, self.stage.api, "POST", path, job, dryRun="All"),
            lambda answer: answer.code == HTTPStatus.FORBIDDEN,
            f"an impossible Job was denied in {home}",
        )
