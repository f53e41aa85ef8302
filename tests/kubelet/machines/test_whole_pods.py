"""Pods with resources of their own, at a kubelet that serves them as a whole, as the agent tells of them."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent.amounts import SeenDevices
from agent.observation import Observation
from agent.report import report
from numalign.kube.decode.kubelet_reports import PLACEMENTS, read_placements
from numalign.model.machine import read_list
from numalign.model.resources import CPU, MEMORY, Resources
from tests.kubelet.machines.pods import MARKS, Json, container, send, settled
from tests.kubelet.machines.test_observer import CONFIGURATION, MACHINE, seeing
from tests.worlds.opt_in import KUBELETS
from tools.clusters.kubelets.clusters import RealCluster, started
from tools.clusters.kubelets.kubelets import RealNode

pytestmark = MARKS

LISTED = {"v1.36.3": (7, 0), "v1.37.2": (1, 4)}
"""GiB that all containers list, those that share memory too, and that the pod lists."""

NAME = "whole"
GIB = 2**30
# A kubelet without cgroups breaks where it looks whether a pod that has just come is to be resized.
GATES = {"PodLevelResourceManagers": True, "InPlacePodLevelResourcesVerticalScaling": False}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=LISTED)
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[RealCluster]:
    configuration = {**CONFIGURATION, "featureGates": GATES}
    node = RealNode(name=NAME, machine=MACHINE, configuration=configuration)
    with KUBELETS.or_skipped():
        async with started([node], version=request.param) as running:
            yield running


async def test_shared_part_of_a_pod_is_published_once(cluster: RealCluster) -> None:
    level = {"cpu": "4", "memory": "4Gi"}
    shared: list[Json] = [{"name": name, "image": "a"} for name in ("one", "two")]
    async with cluster.plane.client("admin") as api:
        resources = {"requests": level, "limits": level}
        own = container("own", cpu="1", memory="1Gi")
        await send(api, "pod", own, *shared, node=NAME, resources=resources)
        assert (await settled(api, "pod")) == ("Running", "")

    seen = await seeing(cluster, NAME)
    published, _ = report(seen, SeenDevices())

    assert listed_memory(seen) == tuple(gib * GIB for gib in LISTED[str(seen.kubelet["version"])])
    ((_, placement),) = read_placements(published.annotations[PLACEMENTS]).items()
    assert placement.cpus == read_list("1-2,9-10")
    assert placement.held == {("node-0",): Resources({CPU: 4000, MEMORY: 4 * GIB})}


def listed_memory(seen: Observation) -> tuple[int, int]:
    """What containers list, added up, and what pods list."""
    containers = sum(block.size for pod in seen.listed for each in pod.containers for block in each.memory)
    return containers, sum(block.size for pod in seen.listed for block in pod.memory)
