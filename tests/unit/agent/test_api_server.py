"""The API server is read, applied to and annotated, and what it refuses has a sentence."""

from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest
import pytest_asyncio

from agent.api_server import MANAGER, ApiServer, Conflicts
from numalign.kube.access import Access
from numalign.kube.errors import Conflict, Forbidden, InvalidObject, NotFound, Unauthorized, Unreachable
from tests.unit.agent.conftest import Connect
from tools.clusters.fake_api import FakeApi, Json

NODE = "/api/v1/nodes/a"
TOPOLOGY = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/a"
GIVE_WAY, TAKE_OVER = Conflicts.GIVE_WAY, Conflicts.TAKE_OVER


@pytest_asyncio.fixture
async def fake() -> AsyncIterator[FakeApi]:
    async with FakeApi() as server:
        server.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}})
        yield server


@pytest.fixture
def api(fake: FakeApi, connect: Connect) -> ApiServer:
    return connect(Access(fake.url))


def topology(*zones: str, **annotations: str) -> Json:
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "a", "annotations": annotations},
        "zones": [{"name": zone, "type": "Node"} for zone in zones],
    }


async def test_an_object_is_read(fake: FakeApi, api: ApiServer) -> None:
    found = await api.get(NODE, what="node a")
    assert isinstance(found, dict)
    assert found["metadata"]["name"] == "a"
    assert isinstance(await api.metadata(NODE, what="node a"), dict)
    await api.get("/api/v1/pods", [("fieldSelector", "spec.nodeName=a")], what="pods")
    assert fake.asked("LIST", "/api/v1/pods")[0].query == {"fieldSelector": "spec.nodeName=a"}


async def test_what_is_applied_is_made_and_then_changed(fake: FakeApi, api: ApiServer) -> None:
    assert await api.apply(TOPOLOGY, topology("x", k="1"), conflicts=GIVE_WAY, what="t") == 201
    assert await api.apply(TOPOLOGY, topology("y"), conflicts=GIVE_WAY, what="t") == 200
    stored = fake.get(TOPOLOGY)
    assert stored
    assert (stored["zones"][0]["name"], stored["metadata"]["annotations"]) == ("y", {})
    assert fake.asked("PATCH", TOPOLOGY)[0].query == {"fieldManager": MANAGER, "force": "false"}


async def test_fields_of_others_are_taken_over_only_if_forced(fake: FakeApi, api: ApiServer) -> None:
    fake.put(topology("x"), manager="nfd")
    with pytest.raises(Conflict, match="nfd"):
        await api.apply(TOPOLOGY, topology("y"), conflicts=GIVE_WAY, what="t")
    await api.apply(TOPOLOGY, topology("y"), conflicts=TAKE_OVER, what="t")
    stored = fake.get(TOPOLOGY)
    assert stored
    assert stored["zones"][0]["name"] == "y"


async def test_a_merge_changes_an_object_that_is_there(fake: FakeApi, api: ApiServer) -> None:
    fake.put(topology("x", old="1", kept="2"), manager="nfd")
    await api.merge(TOPOLOGY, {"metadata": {"annotations": {"old": None, "new": "3"}}}, what="t")
    stored = fake.get(TOPOLOGY)
    assert stored
    assert stored["metadata"]["annotations"] == {"kept": "2", "new": "3"}
    with pytest.raises(NotFound):
        await api.merge(TOPOLOGY[:-1] + "b", {}, what="the topology of node b")
    with pytest.raises(InvalidObject):
        await api.merge(NODE, {"metadata": {"uid": "another", "labels": {"a": "b"}}}, what="node a")


@pytest.mark.parametrize(
    ("status", "error"), [(401, Unauthorized), (403, Forbidden), (429, Unreachable), (500, Unreachable)]
)
async def test_a_refusal_is_an_error(
    fake: FakeApi, api: ApiServer, status: int, error: type[Exception]
) -> None:
    fake.failures[NODE] = HTTPStatus(status)
    with pytest.raises(error, match=r"node a|credentials"):
        await api.get(NODE, what="node a")


async def test_garbage_is_no_answer(fake: FakeApi, api: ApiServer) -> None:
    with pytest.raises(Unreachable, match="longer than 10 bytes"):
        await api.get(NODE, what="node a", most=10)
    fake.oddities[NODE] = b"<html>"
    with pytest.raises(Unreachable, match="is invalid: node a is not JSON"):
        await api.get(NODE, what="node a")


async def test_a_token_is_shown(fake: FakeApi, connect: Connect) -> None:
    fake.token = "let-me-in"  # noqa: S105  of no server
    with pytest.raises(Unauthorized):
        await connect(Access(fake.url)).get(NODE, what="node a")
    assert await connect(Access(fake.url, token=fake.token)).get(NODE, what="node a")


async def test_a_server_that_restarts_is_found_again(fake: FakeApi, api: ApiServer) -> None:
    await api.get(NODE, what="node a")
    await fake.stop()
    with pytest.raises(Unreachable):
        await api.get(NODE, what="node a")
    await fake.start()
    assert await api.get(NODE, what="node a")


async def test_an_address_may_have_a_path(fake: FakeApi, connect: Connect) -> None:
    fake.documents["/k8s/clusters/c/version"] = {"minor": "34"}
    api = connect(Access(f"{fake.url}/k8s/clusters/c/"))
    assert await api.get("/version", what="the version") == {"minor": "34"}
