"""Pods with resources of their own, at a kubelet that serves them as a whole, as the agent tells of them."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent.amounts import SeenDevices
from agent.observation import Observation
from agent.report import report
from harness.kubelets.clusters import RealCluster, started
from harness.kubelets.kubelets import RealNode
from numalign.kube.decode.kubelet_reports import PLACEMENTS, read_placements
from numalign.model.machine import read_list
from numalign.model.resources import CPU, MEMORY, Resources
from tests.asked_for import KUBELETS
from tests.kubelets.pods import Json, container, send, settled
from tests.kubelets.test_observer import CONFIGURATION, MACHINE, seeing

pytestmark = [
    pytest.mark.kubelets,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(1800),
]

NAME = "whole"
GIB = 2**30
# A kubelet of 1.36 without cgroups breaks where it looks whether a pod that has just come is to be resized.
GATES = {"PodLevelResourceManagers": True, "InPlacePodLevelResourcesVerticalScaling": False}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster() -> AsyncIterator[RealCluster]:
    """One node whose kubelet serves pods as a whole."""
    configuration = {**CONFIGURATION, "featureGates": GATES}
    node = RealNode(name=NAME, machine=MACHINE, configuration=configuration)
    with KUBELETS.or_skipped():
        async with started([node], version="v1.36.3") as running:
            yield running


async def test_what_its_containers_share_is_published_once(cluster: RealCluster) -> None:
    asked = {"cpu": "4", "memory": "4Gi"}
    shared: list[Json] = [{"name": name, "image": "a"} for name in ("one", "two")]
    async with cluster.plane.client("admin") as api:
        resources = {"requests": asked, "limits": asked}
        own = container("own", cpu="1", memory="1Gi")
        await send(api, "pod", own, *shared, node=NAME, resources=resources)
        assert (await settled(api, "pod")) == ("Running", "")

    seen = await seeing(cluster, NAME)
    told, _ = report(seen, SeenDevices())

    assert listed_memory(seen) == 7 * GIB
    ((_, placement),) = read_placements(told.annotations[PLACEMENTS]).items()
    assert placement.cpus == read_list("1-2,9-10")
    assert placement.held == {("node-0",): Resources({CPU: 4000, MEMORY: 4 * GIB})}


def listed_memory(seen: Observation) -> int:
    """What containers list, added up."""
    return sum(block.size for pod in seen.listed for each in pod.containers for block in each.memory)
