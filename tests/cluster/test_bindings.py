"""A pod is bound and told what it was promised in one write, or nothing happens."""

from http import HTTPStatus
from typing import Any

import pytest

from numalign.cluster.api import ClusterError, Conflict, Forbidden, Missing, Unreachable
from numalign.cluster.bindings import bind
from numalign.rules.intent import PLACEMENT
from tests.fake_api import FakeApi

Json = dict[str, Any]

PATH = "/api/v1/namespaces/team/pods/web"
RECORD = {PLACEMENT: '[{"zones":["node-0"],"amount":{"cpu":"2"}}]'}


def pod(**spec: object) -> Json:
    metadata = {"name": "web", "namespace": "team", "annotations": {"numalign.io/policy": "restricted"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def bound(server: FakeApi, *, uid: str, node: str = "a") -> Json:
    """The pod after it was bound."""
    async with server.client() as api:
        await bind(api, namespace="team", name="web", uid=uid, node=node, annotations=RECORD)
    found = server.get(PATH)
    assert found
    return found


async def test_a_pod_gets_its_node_and_its_record_in_one_write() -> None:
    async with FakeApi() as server:
        made = server.put(pod())
        found = await bound(server, uid=made["metadata"]["uid"])

        assert found["spec"]["nodeName"] == "a"
        assert found["metadata"]["annotations"] == {"numalign.io/policy": "restricted", **RECORD}
        [asked] = server.requests
        assert (asked.method, asked.path, asked.body) == (
            "POST",
            f"{PATH}/binding",
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {
                    "name": "web",
                    "namespace": "team",
                    "uid": made["metadata"]["uid"],
                    "annotations": RECORD,
                },
                "target": {"apiVersion": "v1", "kind": "Node", "name": "a"},
            },
        )


REFUSED: dict[str, tuple[Json, str, str]] = {
    # situation: the pod that is there, the uid that is meant (empty for its own), and what is said
    "bound elsewhere": (pod(nodeName="b"), "", 'already assigned to node "b"'),
    "bound there": (pod(nodeName="a"), "", 'already assigned to node "a"'),
    "behind a gate": (pod(schedulingGates=[{"name": "g"}]), "", "schedulingGates"),
    "another pod of the name": (pod(), "old", "UID in precondition: old"),
    "a pod that is leaving": (
        {**pod(), "metadata": {**pod()["metadata"], "deletionTimestamp": "2026-01-02T03:04:05Z"}},
        "",
        "is being deleted",
    ),
}


@pytest.mark.parametrize(("raw", "uid", "said"), REFUSED.values(), ids=REFUSED)
async def test_a_pod_that_cannot_be_bound_stays_as_it_is(raw: Json, uid: str, said: str) -> None:
    async with FakeApi() as server:
        made = server.put(raw)
        with pytest.raises(Conflict, match="the binding of pod team/web to node a") as raised:
            await bound(server, uid=uid or made["metadata"]["uid"])

        assert said in str(raised.value)
        assert server.get(PATH) == made


FAILURES: dict[str, tuple[HTTPStatus, type[ClusterError]]] = {
    "no role": (HTTPStatus.FORBIDDEN, Forbidden),
    "overload": (HTTPStatus.TOO_MANY_REQUESTS, Unreachable),
    "a fault": (HTTPStatus.INTERNAL_SERVER_ERROR, Unreachable),
}


@pytest.mark.parametrize(("status", "error"), FAILURES.values(), ids=FAILURES)
async def test_what_an_api_server_refuses_is_raised(status: HTTPStatus, error: type[ClusterError]) -> None:
    async with FakeApi() as server:
        made = server.put(pod())
        server.failures[f"{PATH}/binding"] = status
        with pytest.raises(error):
            await bound(server, uid=made["metadata"]["uid"])

        assert server.get(PATH) == made


async def test_a_pod_that_is_gone_is_missing() -> None:
    async with FakeApi() as server:
        with pytest.raises(Missing, match="the binding of pod team/web to node a is not there"):
            await bound(server, uid="x")


async def test_a_name_is_never_more_than_a_name() -> None:
    asked: list[str] = []

    class Noting:
        async def create(self, path: str, _body: object, *, what: str) -> object:
            asked.append(path)
            return what

    await bind(Noting(), namespace="a/b", name="../c", uid="", node="n", annotations={})
    assert asked == ["/api/v1/namespaces/a%2Fb/pods/..%2Fc/binding"]
