"""One write binds a pod and records its reservation, or nothing happens."""

import asyncio
from unittest.mock import AsyncMock, Mock

import pytest

from numalign.kube.bindings import BIND_SECONDS, BindsInFlight, bind
from numalign.kube.errors import Conflict, Unreachable
from numalign.model.intent import PLACEMENT
from tests.worlds.clock import Clock
from tests.worlds.notation import table
from tests.worlds.objects import Json
from tools.clusters.fake_api import FakeApi

PATH = "/api/v1/namespaces/team/pods/web"
RECORD = {PLACEMENT: '[{"zones":["node-0"],"amount":{"cpu":"2"}}]'}


def pod(**spec: object) -> Json:
    metadata = {"name": "web", "namespace": "team", "annotations": {"numalign.io/policy": "restricted"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def bound(server: FakeApi, *, uid: str, node: str = "a") -> Json:
    async with server.client() as api:
        await bind(api, namespace="team", name="web", uid=uid, node=node, annotations=RECORD)
    stored = server.get(PATH)
    assert stored
    return stored


async def test_node_and_record_are_one_write() -> None:
    async with FakeApi() as server:
        made = server.put(pod())
        stored = await bound(server, uid=made["metadata"]["uid"])
        assert stored["spec"]["nodeName"] == "a"
        assert stored["metadata"]["annotations"] == {"numalign.io/policy": "restricted", **RECORD}
        [request] = server.requests
        metadata = {"name": "web", "namespace": "team", "uid": made["metadata"]["uid"], "annotations": RECORD}
        target = {"apiVersion": "v1", "kind": "Node", "name": "a"}
        assert (request.method, request.path, request.query) == ("POST", f"{PATH}/binding", {"timeout": "4s"})
        assert request.body == {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


async def test_a_pod_that_cannot_be_bound_is_unchanged() -> None:
    async with FakeApi() as server:
        made = server.put(pod())
        with pytest.raises(
            Conflict, match=r"binding of pod team/web to node a.*the uid in the precondition \(old\)"
        ):
            await bound(server, uid="old")
        assert server.get(PATH) == made


async def test_names_are_quoted_in_the_path() -> None:
    api = Mock(create=AsyncMock())
    await bind(api, namespace="a/b", name="../c", uid="", node="n", annotations={})
    assert api.create.call_args.args[0] == "/api/v1/namespaces/a%2Fb/pods/..%2Fc/binding"


async def ended(clock: Clock, call: "asyncio.Task[None]", flights: BindsInFlight) -> float:
    """How long nothing more could land, from when the call had ended."""
    await asyncio.gather(call, return_exceptions=True)
    began = clock.seconds
    await flights.landed()
    return clock.seconds - began


@pytest.mark.parametrize(("error", "seconds"), table([
    # what becomes of a bind: the answer, and how long it may land after that
    ("it is done", None, 0),
    ("it is refused", Conflict("bound already"), 0),
    ("no answer", Unreachable("silence"), BIND_SECONDS),
]))  # fmt: skip
async def test_a_bind_lands_until_its_timeout(error: Exception | None, seconds: float) -> None:
    clock, answer = Clock(), asyncio.get_running_loop().create_future()
    flights = BindsInFlight(lambda: answer, clock=clock, sleep=clock.sleep)
    call = asyncio.create_task(flights())
    waiting = asyncio.create_task(flights.landed())
    await asyncio.sleep(0)
    assert not waiting.done()
    answer.set_exception(error) if error else answer.set_result(None)
    assert await ended(clock, call, flights) == pytest.approx(seconds, abs=0.1)
    await waiting


async def test_a_cancelled_bind_may_still_land() -> None:
    clock, answer = Clock(), asyncio.get_running_loop().create_future()
    flights = BindsInFlight(lambda: answer, clock=clock, sleep=clock.sleep)
    call = asyncio.create_task(flights())
    await asyncio.sleep(0)
    call.cancel()
    assert await ended(clock, call, flights) == pytest.approx(BIND_SECONDS, abs=0.1)
