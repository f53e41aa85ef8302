"""
A map that is served in this process: a small cluster, and users who may see different parts of it.

Ann may see everything, Bob the names of pods in the namespace `team`, Cid no names at all, Eve no map.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import aiohttp
import orjson
from prometheus_client import CollectorRegistry
from yarl import URL

from numalign.kube.client import Query
from numalign.kube.cluster import Cluster
from numalign.kube.decode.kubelet_reports import PLACEMENTS, ObservedPlacement, write_placements
from numalign.kube.errors import ClusterError
from numalign.kube.files import snapshot
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.kube.pod_informer import PodInformer
from numalign.kube.reviews import ACCESS_REVIEWS, TOKEN_REVIEWS
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
from tests.worlds import webhook as world
from tests.worlds.clock import Clock
from tests.worlds.clusters import become
from tests.worlds.http_sites import plain, until
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


TOPOLOGIES = ("noderesourcetopologies", "")
ALL_PODS = ("pods", "")

Right = tuple[str, str]
"""A resource that may be listed, and the namespace in which; empty for all."""


@dataclass
class ReviewingApi:
    """Users by their tokens, and what they may list; changes count from the next call on."""

    users: dict[str, str] = field(default_factory=dict)
    rights: dict[str, set[Right]] = field(default_factory=dict)
    audiences: dict[str, str] = field(default_factory=dict)
    """The audience of a token; without an entry, it is the API server."""

    failure: ClusterError | None = None
    gate: asyncio.Event | None = None
    """Reviews are answered once it is set."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def add(self, token: str, user: str, *rights: Right) -> None:
        self.users[token] = user
        self.rights[user] = set(rights)

    async def create(self, path: str, body: object, query: Query = (), *, what: str) -> object:  # noqa: ARG002
        assert isinstance(body, dict)
        self.calls.append((path, body["spec"]))
        if self.gate:
            await self.gate.wait()
        if self.failure:
            raise self.failure
        answers = {TOKEN_REVIEWS: self._token_review, ACCESS_REVIEWS: self._access_review}
        return {"status": answers[path](body["spec"])}

    def count(self, path: str) -> int:
        return [called for called, _ in self.calls].count(path)

    def _token_review(self, spec: dict[str, Any]) -> dict[str, Any]:
        token, wanted = spec["token"], spec.get("audiences", [""])
        made_for = self.audiences.get(token, "")
        if token not in self.users or made_for not in wanted:
            return {"authenticated": False, "error": "[invalid bearer token, it is too old]"}
        user = {"username": self.users[token], "groups": ["system:authenticated"], "extra": {"k": ["v"]}}
        return {"authenticated": True, "user": user, "audiences": [made_for] if made_for else []}

    def _access_review(self, spec: dict[str, Any]) -> dict[str, Any]:
        attributes = spec["resourceAttributes"]
        rights = self.rights.get(spec["user"], set())
        everywhere = (attributes["resource"], "") in rights
        return {"allowed": everywhere or (attributes["resource"], attributes["namespace"]) in rights}


def reviewed_namespaces(api: ReviewingApi) -> Sequence[str]:
    """Return the namespaces whose pods were in a review."""
    specs = (spec["resourceAttributes"] for path, spec in api.calls if path == ACCESS_REVIEWS)
    return [spec["namespace"] for spec in specs if spec["resource"] == "pods" and spec["namespace"]]


@dataclass
class MapSite:
    """The parts of a served map; changes count from the next call on."""

    api: ReviewingApi = field(default_factory=ReviewingApi)
    clock: Clock = field(default_factory=lambda: Clock(1e6))
    log: RecordedLog = field(default_factory=RecordedLog)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    waiting_for: str | None = None
    audience: str = ""

    def __post_init__(self) -> None:
        self.api.add(ANN, "ann", TOPOLOGIES, ALL_PODS)
        self.api.add(BOB, "bob", TOPOLOGIES, ("pods", TEAM))
        self.api.add(CID, "cid", TOPOLOGIES)
        self.api.add(EVE, "eve", ALL_PODS)
        policy = PolicyKeeper(None, log=self.log.log, registry=self.registry)
        clocks: dict[str, Any] = {"clock": self.clock, "wall": time.time}
        self.state = SchedulerState(
            Reservations(), cluster=Cluster(), policy=policy, match=Match.SATISFIES, **clocks
        )
        logged: dict[str, Any] = {"log": self.log.log, "registry": CollectorRegistry()}
        self.informer = PodInformer(self.state, self.state.reader, **logged)

    def token_access(self) -> TokenAccess:
        logged: dict[str, Any] = {"log": self.log.log, "registry": self.registry}
        return TokenAccess(self.api, audience=self.audience, **logged, clock=self.clock)

    async def fill(self) -> None:
        become(self.state.cluster, snapshot.of(cluster(), where="a test"))
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
