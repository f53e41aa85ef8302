"""
A map that is served in this process: a small cluster, and users who may see different parts of it.

Ann may see everything, Bob the names of pods in the namespace `team`, Cid no names at all, Eve no map.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import aiohttp
import orjson
from prometheus_client import CollectorRegistry
from yarl import URL

from numalign.kube.decode.kubelet_reports import PLACEMENTS, ObservedPlacement, write_placements
from numalign.kube.files import snapshot
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.kube.pod_informer import PodInformer
from numalign.ledger.reservations import Reservations
from numalign.map import http
from numalign.map.access import MapAccess, TokenAccess
from numalign.map.events import Streams
from numalign.map.http import MapService
from numalign.map.state import MapState
from numalign.model.intent import Match
from numalign.model.placement import Held
from numalign.runtime import server
from numalign.scheduling.scheduler_state import SchedulerState
from tests.unit.map.reviewing import ALL_PODS, TOPOLOGIES, ReviewingApi
from tests.worlds import webhook as world
from tests.worlds.clock import Clock
from tests.worlds.houses import plain, until
from tests.worlds.log import RecordedLog
from tests.worlds.notation import bag, node
from tests.worlds.webhook import Raw, raw

ANN, BOB, CID, EVE = "token.of-ann", "token.of-bob", "token.of-cid", "token.of-eve"
TEAM, SECRET = "team", "secret-space"

SINGLE = "single-numa-node"
NODE = node("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2", policy=SINGLE)

OF_THE_SECRET = (SECRET, "hidden-pod", "hidden-owner", "hidden-container", "hidden-uid", "hidden-message")
"""Words in the pods of the namespace that Bob and Cid may not see."""


def pod(namespace: str, word: str, on: str = "a") -> Raw:
    """A pod on a node, in which each name has this word."""
    made = raw("cpu=2 mem=1Gi gpu=1", policy=SINGLE)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{word}-owner", "uid": f"{word}-uid-2"}
    made["metadata"] |= {"namespace": namespace, "name": f"{word}-pod", "uid": f"{word}-uid"}
    made["metadata"] |= {
        "ownerReferences": [{**owner, "controller": True}],
        "labels": {"app": f"{word}-owner"},
    }
    made["spec"] |= {"nodeName": on}
    made["spec"]["containers"][0]["name"] = f"{word}-container"
    status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "message": f"{word}-message"}
    return {**made, "status": status}


def cluster() -> list[Raw]:
    """Two nodes, one without topology, and on the first a pod of each namespace, observed in two zones."""
    items: list[Raw] = world.snapshot(
        {"a": NODE, "b": NODE, "bare": node()}, namespaces={TEAM: {}, SECRET: {"warn": "restricted"}}
    )["items"]
    [topology] = [each for each in items if each["kind"] != "Node" and each["metadata"]["name"] == "a"]
    both: Held = {("node-0",): bag("cpu=2 mem=1Gi"), ("node-1",): bag("gpu=1")}
    observed = {uid: ObservedPlacement(both, 0) for uid in ("shown-uid", "hidden-uid")}
    topology["metadata"]["annotations"] = {PLACEMENTS: write_placements(observed)}
    return items


@dataclass
class MapHouse:
    """The parts of a served map; changes count from the next call on."""

    api: ReviewingApi = field(default_factory=ReviewingApi)
    clock: Clock = field(default_factory=lambda: Clock(1e6))
    log: RecordedLog = field(default_factory=RecordedLog)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    waiting_for: str | None = None

    def __post_init__(self) -> None:
        self.api.add(ANN, "ann", TOPOLOGIES, ALL_PODS)
        self.api.add(BOB, "bob", TOPOLOGIES, ("pods", TEAM))
        self.api.add(CID, "cid", TOPOLOGIES)
        self.api.add(EVE, "eve", ALL_PODS)
        policy = PolicyKeeper(None, log=self.log.log, registry=self.registry)
        clocks: dict[str, Any] = {"clock": self.clock, "wall": time.time}
        self.state = SchedulerState(Reservations(), policy=policy, match=Match.SATISFIES, **clocks)
        logged: dict[str, Any] = {"log": self.log.log, "registry": CollectorRegistry()}
        self.informer = PodInformer(self.state, self.state.reader, **logged)

    def token_access(self) -> TokenAccess:
        return TokenAccess(self.api, log=self.log.log, registry=self.registry, clock=self.clock)

    async def fill(self) -> None:
        await self.state.update_snapshot(snapshot.of(cluster(), where="a test"))
        for each in (pod(TEAM, "shown"), pod(SECRET, "hidden")):
            self.informer.put(each)

    @contextlib.asynccontextmanager
    async def serving(self, access: MapAccess | None = None) -> AsyncIterator["Browser"]:
        await self.fill()
        log, registry = self.log.log, self.registry
        shown, streams = MapState(self.state), Streams(registry)
        service = MapService(
            shown, access or self.token_access(), streams, log=log, waiting_for=lambda: self.waiting_for
        )
        limits: dict[str, Any] = {"limits": http.LIMITS, "timeouts": http.TIMEOUTS}
        app = server.application([], log=log, registry=registry, checks={}, **limits)
        service.install(app)
        stop, tasks = server.Stop(), {"map": service.follow}
        task = asyncio.create_task(server.serve(app, plain(), stop=stop, tasks=tasks, grace=1))
        await until(lambda: self.log.of("server.listening"))
        port = self.log.of("server.listening")[0]["port"]
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
            yield Browser(session, f"http://127.0.0.1:{port}", stop)
        stop.ask()
        assert await task == 0


@dataclass(frozen=True)
class Answer:
    status: int
    text: str
    headers: Any

    def json(self) -> Any:  # noqa: ANN401  any document
        return orjson.loads(self.text)


@dataclass(frozen=True)
class EventStream:
    """The events that a page gets."""

    answer: aiohttp.ClientResponse

    async def until(self, word: str) -> str:
        """Return all events up to one with this word."""
        text = ""
        while word not in text or not text.endswith("\n\n"):
            piece = await self.answer.content.readany()
            assert piece, f"it ended with: {text}"
            text += piece.decode()
        return text

    async def until_end(self) -> str:
        return (await self.answer.read()).decode().removeprefix(": \n\n")


@dataclass(frozen=True)
class Browser:
    """Calls a map with a token in a header, and follows no redirect."""

    session: aiohttp.ClientSession
    origin: str
    stop: server.Stop

    async def get(self, path: str, token: str | None = None, **headers: str) -> Answer:
        return await self.call("GET", path, token, headers=headers)

    async def post(self, path: str, token: str | None = None, **options: Any) -> Answer:  # noqa: ANN401  of aiohttp
        return await self.call("POST", path, token, **options)

    async def call(self, method: str, path: str, token: str | None = None, **options: Any) -> Answer:  # noqa: ANN401
        token_header = {"Authorization": f"Bearer {token}"} if token else {}
        headers = {**token_header, **options.pop("headers", {})}
        options |= {"headers": headers, "allow_redirects": False}
        async with self.session.request(
            method, URL(f"{self.origin}{path}", encoded=True), **options
        ) as answer:
            return Answer(answer.status, await answer.text(), answer.headers)

    @contextlib.asynccontextmanager
    async def stream(self, token: str, query: str = "", last: str = "") -> AsyncIterator[EventStream]:
        headers = {"Authorization": f"Bearer {token}"} | ({"Last-Event-ID": last} if last else {})
        async with self.session.get(f"{self.origin}/events{query}", headers=headers) as answer:
            assert answer.status == HTTPStatus.OK
            yield EventStream(answer)
