"""One write binds a pod and records its reservation, or nothing happens."""

import asyncio
from http import HTTPStatus
from typing import Any

import pytest

from numalign.kube import bindings
from numalign.kube.bindings import BIND_SECONDS, BindsInFlight, bind
from numalign.kube.client import Query
from numalign.kube.errors import ClusterError, Conflict, Forbidden, NotFound, Unreachable
from numalign.model.intent import PLACEMENT
from tools.clusters.fake_api import FakeApi

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
        with pytest.raises(NotFound, match="the binding of pod team/web to node a does not exist"):
            await bound(server, uid="x")


async def test_a_name_is_never_more_than_a_name() -> None:
    asked: list[str] = []

    class Noting:
        async def create(self, path: str, _body: object, _query: Query = (), *, what: str) -> object:
            asked.append(path)
            return what

    await bind(Noting(), namespace="a/b", name="../c", uid="", node="n", annotations={})
    assert asked == ["/api/v1/namespaces/a%2Fb/pods/..%2Fc/binding"]


# It is soon over.


async def test_the_api_server_is_told_how_long_it_may_take() -> None:
    async with FakeApi() as server:
        await bound(server, uid=server.put(pod())["metadata"]["uid"])

        [asked] = server.requests
        assert asked.query == {"timeout": "4s"}


async def test_one_that_is_not_answered_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        async def create(self, _path: str, _body: object, _query: Query = (), *, what: str) -> object:
            return await asyncio.Future[str]() or what

    monkeypatch.setattr(bindings, "BIND_SECONDS", 0.01)
    with pytest.raises(Unreachable, match=r"did not answer within 0\.01 s: the binding of pod team/web"):
        await bind(Silent(), namespace="team", name="web", uid="", node="a", annotations={})


class Wire:
    """Answers with what a test says, and a clock and a sleep that go with it."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self.answer = asyncio.get_running_loop().create_future()

    def clock(self) -> float:
        """The time now."""
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        """Time passes only as somebody waits."""
        self.seconds += seconds
        await asyncio.sleep(0)

    async def write(self, **_told: object) -> None:
        """Bind."""
        await self.answer


async def ended(wire: Wire, call: "asyncio.Task[None]", flights: BindsInFlight) -> float:
    """How long nothing more could land, from when the call had ended."""
    await asyncio.gather(call, return_exceptions=True)
    began = wire.seconds
    await flights.landed()
    return wire.seconds - began


ANSWERS: dict[str, tuple[Exception | None, float]] = {
    # what becomes of a bind: the answer, and how long it may land after that
    "it is done": (None, 0),
    "it is refused": (Conflict("bound already"), 0),
    "nobody answers": (Unreachable("silence"), BIND_SECONDS),
}


@pytest.mark.parametrize(("error", "seconds"), ANSWERS.values(), ids=ANSWERS)
async def test_it_is_known_when_nothing_can_land_any_more(error: Exception | None, seconds: float) -> None:
    wire = Wire()
    flights = BindsInFlight(wire.write, clock=wire.clock, sleep=wire.sleep)
    call = asyncio.create_task(flights())
    waiting = asyncio.create_task(flights.landed())
    await asyncio.sleep(0)
    assert not waiting.done()

    wire.answer.set_exception(error) if error else wire.answer.set_result(None)
    assert await ended(wire, call, flights) == pytest.approx(seconds, abs=0.1)
    await waiting


async def test_a_call_that_was_cut_off_may_still_land() -> None:
    wire = Wire()
    flights = BindsInFlight(wire.write, clock=wire.clock, sleep=wire.sleep)
    call = asyncio.create_task(flights())
    await asyncio.sleep(0)
    call.cancel()

    assert await ended(wire, call, flights) == pytest.approx(BIND_SECONDS, abs=0.1)
