"""The API server is read, and what it refuses has a sentence; `test_publisher` shows what is written."""

from http import HTTPStatus

import pytest

from agent.api_server import ApiServer
from numalign.kube.access import Access
from numalign.kube.errors import Forbidden, InvalidObject, NotFound, Unauthorized, Unreachable
from tests.unit.agent.conftest import Connect
from tools.clusters.fake_api import FakeApi

NODE = "/api/v1/nodes/a"


async def test_an_object_is_read(fake: FakeApi, api: ApiServer) -> None:
    found = await api.get(NODE, what="node a")
    assert isinstance(found, dict)
    assert found["metadata"]["name"] == "a"
    assert isinstance(await api.metadata(NODE, what="node a"), dict)
    await api.get("/api/v1/pods", [("fieldSelector", "spec.nodeName=a")], what="pods")
    assert fake.received("LIST", "/api/v1/pods")[0].query == {"fieldSelector": "spec.nodeName=a"}


async def test_a_merge_changes_no_other_object(api: ApiServer) -> None:
    with pytest.raises(NotFound):
        await api.merge(f"{NODE[:-1]}b", {}, what="node b")
    with pytest.raises(InvalidObject):
        await api.merge(NODE, {"metadata": {"uid": "another", "labels": {"a": "b"}}}, what="node a")


@pytest.mark.parametrize(
    ("status", "error"), [(401, Unauthorized), (403, Forbidden), (429, Unreachable), (500, Unreachable)]
)
async def test_refusal_raises(fake: FakeApi, api: ApiServer, status: int, error: type[Exception]) -> None:
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
