"""Kubelets that hear of their pods from an API server, and when all of it is done."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from numalign.kube.client import Api
from numalign.model.errors import BadInput
from tests.unit.tools.sim.stand_ins import ZonesByHand, pod
from tools.clusters.fake_api import FakeApi
from tools.clusters.sim import documents
from tools.clusters.sim.cluster import Cluster, Simulated, assembled, running, simulated
from tools.clusters.sim.desk import Desk, pod_path
from tools.clusters.sim.exporter import Publisher, Timing
from tools.clusters.sim.kubelet import Decision
from tools.clusters.sim.shapes import SimNode

Json = dict[str, Any]
MACHINES = [SimNode("n", "small"), SimNode("m", "small")]


@dataclass
class Direct:
    """A desk that writes into the fake server, which knows no statuses apart."""

    server: FakeApi

    async def status(self, of: Json, status: Json) -> None:
        """As said of `Desk`."""
        if found := self.server.get(pod_path(of)):
            self.server.put({**found, "status": status})

    async def annotate(self, of: Json, key: str, value: str) -> None:
        """Nothing here looks at annotations."""

    async def remove(self, of: Json) -> None:
        """As said of `Desk`."""
        self.server.delete(pod_path(of))

    async def publish(self, topology: Json) -> None:
        """As said of `Desk`."""
        self.server.put(topology)


@pytest.fixture
async def server() -> AsyncIterator[FakeApi]:
    async with FakeApi() as serving:
        yield serving


@pytest.fixture
async def api(server: FakeApi) -> AsyncIterator[Api]:
    async with server.client() as client:
        yield client


def two_nodes(desk: Desk, timing: Timing, decisions: list[Decision]) -> dict[str, Simulated]:
    return {
        machine.name: assembled(
            machine,
            ZonesByHand(),
            desk,
            timing,
            decisions=decisions,
            publish=Publisher(machine, desk, method=None, observe=False),
            grace=0.01,
        )
        for machine in MACHINES
    }


@asynccontextmanager
async def started(server: FakeApi, api: Api, timing: Timing) -> AsyncIterator[Cluster]:
    decisions: list[Decision] = []
    nodes = two_nodes(Direct(server), timing, decisions)
    async with running(Cluster(api, nodes, decisions), api, polling=False) as cluster:
        yield cluster


@pytest.fixture
async def cluster(server: FakeApi, api: Api) -> AsyncIterator[Cluster]:
    async with started(server, api, Timing()) as found:
        yield found


def phases(server: FakeApi) -> Iterator[tuple[str, str]]:
    for found in server.all("/api/v1/pods"):
        yield found["metadata"]["name"], found["status"]["phase"]


async def test_kubelet_handles_only_pods_of_its_node(server: FakeApi, cluster: Cluster) -> None:
    for name, cpu, node in (("a", 4, "n"), ("b", 4, "n"), ("c", 1, "n"), ("d", 2, "m"), ("e", 1, "other")):
        server.put(pod(name, cpu=cpu, node=node))
    await cluster.idle()
    expected = {"a": "Running", "b": "Running", "c": "Failed", "d": "Running", "e": "Pending"}
    assert dict(phases(server)) == expected
    assert [(one.pod, one.node, one.reason) for one in cluster.rejections] == [
        ("team/c", "n", "TopologyAffinityError")
    ]
    assert cluster.held("m") == {"team/d": {(0,): {"cpu": 2000}}}
    assert cluster.held("n").keys() == {"team/a", "team/b"}


async def test_what_is_left_is_published_when_the_cluster_is_idle(server: FakeApi, cluster: Cluster) -> None:
    server.put(pod("a", cpu=3))
    await cluster.idle()
    [topology] = server.all(f"/apis/{documents.GROUP}/noderesourcetopologies")
    assert [zone["resources"][0]["available"] for zone in topology["zones"]] == ["1", "4"]
    assert cluster.available("n")[0]["cpu"] == 1000


async def test_a_deleted_pod_ends_and_its_zone_is_free_again(server: FakeApi, cluster: Cluster) -> None:
    server.put(pod("a", cpu=4))
    await cluster.idle()
    server.put(pod("a", cpu=4, deletionTimestamp="2026-01-02T03:04:05Z"))
    await cluster.idle()
    assert server.all("/api/v1/pods") == []
    assert cluster.held("n") == {}


async def test_the_largest_slot_is_that_of_one_zone(server: FakeApi, cluster: Cluster) -> None:
    for number, node in enumerate(("n", "n", "m", "m")):
        server.put(pod(f"p{number}", cpu=3 - number // 3, node=node))
    await cluster.idle()
    assert cluster.largest_slot("cpu") == 2000
    assert cluster.largest_slot("example.com/nobody") == 0


@pytest.mark.parametrize("wait", [Cluster.serve, Cluster.idle], ids=["serve", "idle"])
async def test_failure_of_a_cluster_reaches_its_callers(
    server: FakeApi, api: Api, wait: Callable[[Cluster], Awaitable[None]]
) -> None:
    nonsense = pod("a")
    nonsense["spec"]["containers"] = []
    server.put(nonsense)
    with pytest.raises(IndexError):  # noqa: PT012  the way out is looked at too
        async with started(server, api, Timing()) as cluster:
            with pytest.raises(IndexError):
                await wait(cluster)


async def test_duplicate_node_name_is_refused(api: Api) -> None:
    with pytest.raises(BadInput, match="machines: n is there twice"):
        async with simulated(api, [SimNode("n", "small"), SimNode("n", "two-by-four")]):
            pass
