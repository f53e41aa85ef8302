"""What is written arrives; what is gone is left alone; a server that is away is waited for."""

from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest

from harness.fake_api import FakeApi
from harness.sim import documents
from harness.sim.desk import TOPOLOGIES, ApiDesk, delete
from harness.sim.shapes import SimNode
from numalign.kube.client import Api, ClusterError
from tests.sim.stand_ins import Clock, pod

PATH = "/api/v1/namespaces/team/pods/a"
MACHINE = SimNode("n", "small")
LEFT = {zone: MACHINE.make.allocatable() for zone in MACHINE.make.ids}


class Recovering(Clock):
    """A clock, and a server that is well again after some seconds of it."""

    def __init__(self, server: FakeApi) -> None:
        super().__init__()
        self.server = server
        self.after = float("inf")

    async def sleep(self, seconds: float) -> None:
        """As a clock does."""
        await super().sleep(seconds)
        if self.now > self.after:
            self.server.failures.clear()


@pytest.fixture
async def server() -> AsyncIterator[FakeApi]:
    async with FakeApi() as running:
        yield running


@pytest.fixture
async def api(server: FakeApi) -> AsyncIterator[Api]:
    async with server.client() as client:
        yield client


@pytest.fixture
def clock(server: FakeApi) -> Recovering:
    return Recovering(server)


@pytest.fixture
def desk(api: Api, clock: Recovering) -> ApiDesk:
    return ApiDesk(api, clock=clock, sleep=clock.sleep)


async def test_an_annotation_is_put_beside_the_others(server: FakeApi, desk: ApiDesk) -> None:
    server.put(pod("a", annotations={"x": "1"}))
    await desk.annotate(pod("a"), "y", "2")
    found = server.get(PATH)
    assert found
    assert found["metadata"]["annotations"] == {"x": "1", "y": "2"}


async def test_a_pod_is_removed_at_once_and_only_that_one(server: FakeApi, desk: ApiDesk) -> None:
    server.put(pod("a"))
    await desk.remove(pod("a"))
    assert server.get(PATH) is None
    [asked] = server.asked("DELETE", PATH)
    assert asked.body == {"gracePeriodSeconds": 0, "preconditions": {"uid": "uid-a"}}


async def test_of_a_pod_that_is_gone_nothing_is_written(server: FakeApi, desk: ApiDesk) -> None:
    await desk.annotate(pod("a"), "y", "2")
    await desk.status(pod("a"), documents.running(pod("a")))
    await desk.remove(pod("a"))
    assert server.all("/api/v1/pods") == []


async def test_the_last_topology_is_the_one_that_is_there(server: FakeApi, desk: ApiDesk) -> None:
    for cpus in (4000, 1000):
        left = LEFT | {0: LEFT[0] | {"cpu": cpus}}
        await desk.publish(documents.topology(MACHINE, left, {}))
    found = server.get(f"{TOPOLOGIES}/n")
    assert found
    assert [zone["resources"][0]["available"] for zone in found["zones"]] == ["1", "4"]


async def test_a_server_that_is_away_is_asked_again(
    server: FakeApi, desk: ApiDesk, clock: Recovering
) -> None:
    server.put(pod("a"))
    server.failures[PATH] = HTTPStatus.SERVICE_UNAVAILABLE
    clock.after = 5
    await desk.remove(pod("a"))
    assert server.get(PATH) is None
    assert clock.now > 5


async def test_a_server_that_stays_away_is_an_error(server: FakeApi, api: Api, clock: Recovering) -> None:
    desk = ApiDesk(api, patience=2, clock=clock, sleep=clock.sleep)
    server.failures[PATH] = HTTPStatus.FORBIDDEN
    with pytest.raises(ClusterError):
        await desk.annotate(pod("a"), "y", "2")
    assert clock.now == pytest.approx(2, abs=0.5)


async def test_what_cannot_be_deleted_is_an_error_of_the_cluster(server: FakeApi, api: Api) -> None:
    await server.stop()
    with pytest.raises(ClusterError, match="was not deleted"):
        await delete(api, PATH, {})
