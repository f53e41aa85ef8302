"""An informer makes its sink equal to the API server, also after every kind of fault."""

import asyncio
import itertools
import math
import random
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from numalign.kube import informer, kinds
from numalign.kube.client import Api, Query
from numalign.kube.informer import PAGE, Informer, WatchMetrics
from numalign.kube.kinds import Collection, Key
from numalign.runtime import cooperative
from tests.worlds.clock import Clock
from tests.worlds.log import RecordedLog
from tests.worlds.notation import table
from tests.worlds.objects import Json, node, nrt, pod
from tests.worlds.sinks import RecordedSink
from tests.worlds.tasks import in_background
from tools.clusters.fake_api import FakeApi, Where, line
from tools.clusters.waiting import until

NODES = kinds.NODES.path
NEWER, OLDER = (collection.path for collection in kinds.TOPOLOGIES)
NOT_SERVED: dict[Where, HTTPStatus] = dict.fromkeys((NEWER, OLDER), HTTPStatus.NOT_FOUND)
V1ALPHA1 = "topology.node.k8s.io/v1alpha1"
WHOLE = Collection("Node", "v1", NODES, MappingProxyType({"metadata": True}))
HALF_LINE = b'{"type":"BOOKMARK","object":{"kind":"Node"'
HISTORY_IS_GONE = line("ERROR", {"code": 410, "message": "too old resource version", "reason": "Expired"})
PATIENCE = 20.0
"""Seconds of the real clock without a byte, for what takes a few milliseconds."""


class Watcher:
    """A running informer of nodes, unless other collections are named; its sleep moves its clock."""

    def __init__(
        self,
        server: FakeApi,
        api: Api,
        *collections: Collection,
        silence: float = PATIENCE,
        broken: str = "",
        chance: float = 1.0,
    ) -> None:
        self.server, self.sink, self.log = server, RecordedSink(broken), RecordedLog()
        self.registry, self.clock, self.pauses = CollectorRegistry(), Clock(), list[float]()
        self.on_pause: Callable[[], object] = lambda: None
        self.informer_ = Informer(api, collections or (kinds.NODES,), self.sink, log=self.log.log,
            metrics=WatchMetrics.of(self.registry), silence=silence, clock=self.clock, sleep=self.sleep,
            chance=lambda: chance)  # fmt: skip

    async def sleep(self, seconds: float) -> None:
        if seconds:
            self.pauses.append(seconds)
            self.clock.advance(seconds)
            self.on_pause()
        await asyncio.sleep(0)

    async def watching(self) -> None:
        await until(lambda: self.server.watching(self.informer_.kind))

    async def sees(self, names: str) -> None:
        await until(lambda: self.sink.names == names)

    def count(self, name: str, **labels: str) -> float:
        labels = {"kind": self.informer_.kind, **labels}
        return self.registry.get_sample_value(f"numalign_watch_{name}", labels) or 0

    async def asks(self, method: str, *, more_than: int = 1) -> None:
        await until(lambda: len(self.server.received(method, NODES)) > more_than)


@asynccontextmanager
async def following(server: FakeApi, *collections: Collection, **options: Any) -> AsyncIterator[Watcher]:  # noqa: ANN401
    async with server.client() as api:
        made = Watcher(server, api, *collections, **options)
        async with in_background(made.informer_.run()):
            yield made


@pytest.fixture
async def server() -> AsyncIterator[FakeApi]:
    async with FakeApi() as running:
        for name in "ab":
            running.put(node(name))
        yield running


@pytest.fixture
async def watcher(server: FakeApi) -> AsyncIterator[Watcher]:
    async with following(server) as made:
        await made.watching()
        yield made


async def test_changes_are_followed(server: FakeApi, watcher: Watcher) -> None:
    server.put(node("c"))
    server.put(node("a", zone="y"))
    server.delete(f"{NODES}/b")
    await watcher.sees("a c")
    assert watcher.sink.objects["", "a"]["metadata"]["labels"] == {"zone": "y"}
    counted = [watcher.count("events_total", type=each) for each in ("ADDED", "MODIFIED", "DELETED")]
    assert counted == [1, 1, 1]
    assert len(server.received("LIST", NODES)) == 1


async def test_parameters_of_a_watch(server: FakeApi) -> None:
    async with following(server, chance=0.5) as watcher:
        await watcher.watching()
    assert server.received("WATCH", NODES)[0].query == {"watch": "true", "allowWatchBookmarks": "true",
        "resourceVersion": str(server.version), "timeoutSeconds": "450"}  # fmt: skip


# Watches that end are taken up where they broke off.


def bookmark(server: FakeApi) -> None:
    metadata = {"resourceVersion": str(server.version), "creationTimestamp": None}
    server.push("Node", line("BOOKMARK", {"kind": "Node", "apiVersion": "v1", "metadata": metadata}))


def assert_resumed(watcher: Watcher, *, since: int) -> None:
    """The last watch began at a version, and no list was taken but the first."""
    assert len(watcher.server.received("LIST", NODES)) == 1
    assert watcher.server.received("WATCH", NODES)[-1].query["resourceVersion"] == str(since)


async def test_an_ended_watch_is_resumed_at_its_bookmark(server: FakeApi, watcher: Watcher) -> None:
    server.put(pod("other", namespace="x"))
    bookmark(server)
    await until(lambda: watcher.count("events_total", type="BOOKMARK"))
    watcher.clock.seconds += informer.WATCH_SECONDS
    server.push("Node", None)
    await watcher.asks("WATCH")
    assert_resumed(watcher, since=server.version)
    assert (watcher.pauses, [line["event"] for line in watcher.log.lines()]) == ([], ["watch.listed"])


async def test_a_broken_watch_is_resumed(server: FakeApi, watcher: Watcher) -> None:
    since = server.version
    server.put(node("c"))
    server.delete(f"{NODES}/a")
    server.cut(last=HALF_LINE)
    await watcher.sees("b c")
    assert_resumed(watcher, since=since)
    assert watcher.log.of("watch.unreachable")[0]["level"] == "warning"


async def test_a_watch_is_resumed_after_a_restart_of_the_server(server: FakeApi, watcher: Watcher) -> None:
    since = server.version
    await server.stop()
    server.delete(f"{NODES}/a")
    await until(lambda: len(watcher.pauses) > 5)
    assert "cannot be reached" in (watcher.informer_.trouble or "")
    assert watcher.sink.names == "a b"
    await server.start()
    await watcher.sees("b")
    assert_resumed(watcher, since=since)
    server.put(node("c"))
    await watcher.sees("b c")
    await until(lambda: watcher.informer_.trouble is None)
    assert len(watcher.log.of("watch.recovered")) == 1


async def test_a_silent_watch_is_resumed(server: FakeApi) -> None:
    async with following(server, silence=0.1) as watcher:
        await watcher.watching()
        server.silent, since = True, server.version
        watcher.on_pause = lambda: setattr(server, "silent", False)
        server.put(node("c"))
        await watcher.sees("a b c")
        assert_resumed(watcher, since=since)
        assert len(watcher.log.of("watch.silent")) == 1


async def test_two_silent_watches_lead_to_a_list(server: FakeApi) -> None:
    """A store that was restored may accept a version of its future, and wait for it for ever."""
    async with following(server, silence=0.02) as watcher:
        await watcher.asks("LIST")
    watches = ["WATCH" in request.verbs for request in server.requests]
    assert watches[:4] == [False, True, True, False]


@pytest.mark.parametrize("as_event", [False, True], ids=["as a status", "as an event"])
async def test_compacted_history_leads_to_a_list(server: FakeApi, as_event: bool) -> None:  # noqa: FBT001  a parameter of pytest
    async with following(server) as watcher:
        await watcher.watching()
        server.put(node("c"))
        server.delete(f"{NODES}/a")
        server.compact()
        server.push("Node", HISTORY_IS_GONE) if as_event else server.cut()
        await watcher.asks("LIST")
        await watcher.sees("b c")
        assert len(server.received("LIST", NODES)) == 2
        assert [line["level"] for line in watcher.log.of("watch.expired")] == ["info"]


async def test_a_restored_store_is_listed(server: FakeApi) -> None:
    for index in range(9):
        server.put(node("a", at=str(index)))
    async with following(server) as watcher:
        await watcher.watching()
        await server.stop()
        async with FakeApi(port=server.port) as restored:
            restored.put(node("a"))
            await watcher.sees("a")
        assert "Too large resource version" in watcher.log.of("watch.refused")[0]["error"]


async def test_objects_stay_until_a_new_list_is_complete(server: FakeApi, watcher: Watcher) -> None:
    server.compact()
    server.delete(f"{NODES}/a")
    server.compact()
    server.failures["LIST", NODES] = HTTPStatus.SERVICE_UNAVAILABLE
    server.cut()
    await until(lambda: watcher.count("failures_total", reason="refused") > 3)
    assert (watcher.sink.names, watcher.informer_.synced) == ("a b", True)
    server.failures.clear()
    await watcher.sees("b")


UNREADABLE_EVENTS = {
    "no JSON": b"what?\n",
    "a list": b"[]\n",
    "a type that is a list": b'{"type":["ADDED"],"object":{}}\n',
    "a type of tomorrow": b'{"type":"RENAMED","object":{"metadata":{"name":"x","resourceVersion":"9"}}}\n',
    "no object": b'{"type":"ADDED"}\n',
    "a name that is a number": b'{"type":"ADDED","object":{"metadata":{"name":1,"resourceVersion":"9"}}}\n',
    "a deletion without a version": b'{"type":"DELETED","object":{"metadata":{"name":"a"}}}\n',
    "a namespace that is a number": (
        b'{"type":"ADDED","object":{"metadata":{"name":"x","namespace":1,"resourceVersion":"9"}}}\n'
    ),
    "very deep": b'{"type":"ADDED","object":' + b"[" * 5000 + b"\n",
}


@pytest.mark.parametrize("answer", UNREADABLE_EVENTS.values(), ids=UNREADABLE_EVENTS)
async def test_an_unreadable_event_leads_to_a_list(server: FakeApi, watcher: Watcher, answer: bytes) -> None:
    server.push("Node", answer)
    await watcher.asks("LIST")
    await watcher.watching()
    server.put(node("c"))
    await watcher.sees("a b c")
    assert [line["level"] for line in watcher.log.of("watch.unreadable")] == ["warning"]
    assert ("drop", "a") not in watcher.sink.calls


async def test_an_error_event_leads_to_a_list(server: FakeApi, watcher: Watcher) -> None:
    server.push("Node", b'{"type": "ERROR", "object": {"code": 500, "message": "unable to decode"}}\n')
    await watcher.asks("LIST")
    await watcher.watching()
    server.push("Node", b'{"type": "ERROR", "object": "x"}\n')
    await watcher.asks("LIST", more_than=2)
    error = watcher.log.of("watch.failed")[0]["error"]
    assert error == "the API server ended the watch of nodes: unable to decode (500)"


@pytest.mark.parametrize("expires", [False, True], ids=["all", "until they expire"])
async def test_a_long_list_comes_in_pages(server: FakeApi, expires: bool) -> None:  # noqa: FBT001  a parameter of pytest
    server.page = 1
    server.failures |= {("NEXT", NODES): HTTPStatus.GONE} if expires else {}
    async with following(server) as watcher:
        await watcher.watching()
    pages = [{**each.query} for each in server.received("LIST", NODES)]
    two = [{"limit"}, {"limit", "continue"}]
    assert [{*page} for page in pages] == (two * 3 + [set()] if expires else two)
    assert {page.get("limit") for page in pages} <= {str(PAGE), None}
    assert (watcher.sink.calls[-1], watcher.count("lists_total")) == (("keep", {"a", "b"}), 1)


async def test_lists_and_events_let_other_tasks_run(server: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [0]

    async def count(watcher: Watcher) -> None:
        while True:
            counts.append(len(watcher.sink.calls))
            await asyncio.sleep(0)

    monkeypatch.setattr(cooperative, "SECONDS", -1.0)
    server.page, server.failures["NEXT", NODES] = 1, HTTPStatus.GONE
    for number in range(200):
        server.put(node(f"n{number}"))
    more = ({**node(f"m{number}"), "metadata": {"name": f"m{number}", "resourceVersion": "2000"}}
        for number in range(200))  # fmt: skip
    async with following(server) as watcher, in_background(count(watcher)):
        await watcher.watching()
        server.push("Node", b"".join(line("ADDED", each) for each in more))
        await until(lambda: len(watcher.sink.objects) > 400)
    assert max(after - before for before, after in itertools.pairwise(counts)) < 10


@pytest.mark.parametrize("answer", table([
    ("items that are none", b'{"metadata":{"resourceVersion":"9"},"items":{}}'),
    ("a next page that is a number", b'{"metadata":{"resourceVersion":"9","continue":1},"items":[]}'),
    ("a next page that is this one", b'{"metadata":{"resourceVersion":"9","continue":"x"},"items":[]}'),
]))  # fmt: skip
async def test_an_unreadable_list_is_requested_again(server: FakeApi, answer: bytes) -> None:
    server.oddities[NODES] = answer
    async with following(server) as watcher:
        await until(lambda: watcher.pauses)
        assert not watcher.informer_.synced
        assert watcher.informer_.trouble
        server.oddities.clear()
        await watcher.sees("a b")
        assert len(watcher.log.of("watch.unreadable")) == 1


async def test_items_without_names_are_skipped_and_logged(server: FakeApi) -> None:
    nameless: list[object] = [1, None, [], "x", {}, {"metadata": {"name": ""}}, {"metadata": 1}]
    items = [*nameless, {"metadata": {"name": "z"}}]
    page = {"metadata": {"resourceVersion": str(server.version)}, "items": items}
    server.oddities[NODES] = orjson.dumps(page)
    async with following(server) as watcher:
        await watcher.sees("z")
        await until(lambda: watcher.informer_.synced)
        assert watcher.count("failures_total", reason="unreadable") >= 7
        first = watcher.log.of("watch.unreadable")[0]
        assert first["error"] == "items[0] of the list of nodes has no name"


async def test_a_failing_sink_does_not_stop_other_objects(server: FakeApi) -> None:
    async with following(server, broken="a") as watcher:
        await watcher.watching()
        assert watcher.sink.names == "b"
        server.put(node("a", again="x"))
        server.put(node("c"))
        await watcher.sees("b c")
        assert ("keep", {"a", "b"}) in watcher.sink.calls
        assert [line["object"] for line in watcher.log.of("watch.object_failed")] == ["a", "a"]
        assert len(server.received("LIST", NODES)) == 1


# Kinds that are not there, and doors that are closed.


async def test_the_next_version_is_watched_if_one_vanishes() -> None:
    async with FakeApi() as server:
        server.put(nrt("a"))
        server.put(nrt("b", apiVersion=V1ALPHA1))
        async with following(server, *kinds.TOPOLOGIES) as watcher:
            await watcher.sees("a")
            await watcher.watching()
            server.failures[NEWER] = HTTPStatus.NOT_FOUND
            server.cut()
            await watcher.sees("b")
            assert watcher.log.of("watch.vanished")


async def test_nodes_stay_when_they_are_not_served(server: FakeApi, watcher: Watcher) -> None:
    server.failures[NODES] = HTTPStatus.NOT_FOUND
    server.cut()
    await until(lambda: watcher.count("failures_total", reason="vanished") > 4)
    assert watcher.sink.names == "a b"
    assert "is not an API server" in (watcher.informer_.trouble or "")
    server.failures.clear()
    server.put(node("c"))
    await watcher.sees("a b c")


async def test_a_kind_that_is_not_served_has_no_objects() -> None:
    async with FakeApi(failures={**NOT_SERVED}) as server:
        server.put(nrt("a"))
        async with following(server, *kinds.TOPOLOGIES) as watcher:
            await until(lambda: len(watcher.pauses) > 3)
            assert (watcher.sink.names, watcher.informer_.synced) == ("", True)
            assert watcher.informer_.trouble == (
                "the cluster does not serve noderesourcetopologies.topology.node.k8s.io: until it does,"
                " none are known"
            )
            assert (set(watcher.pauses), len(watcher.log.of("watch.not_served"))) == ({30.0}, 1)
            # In the older version it would have no objects here, were it served first.
            del server.failures[NEWER]
            await watcher.sees("a")
            assert watcher.informer_.trouble is None


async def test_a_kind_is_gone_when_it_is_missing_twice() -> None:
    async with FakeApi() as server:
        server.put(nrt("a"))
        async with following(server, *kinds.TOPOLOGIES) as watcher:
            assert await known_when_missing_once(watcher) == "a"
            await watcher.sees("")
            assert watcher.pauses[-1] == 30
            del server.failures[NEWER]
            await watcher.sees("a")
            assert await known_when_missing_once(watcher) == "a"


async def known_when_missing_once(watcher: Watcher) -> str:
    """What is known at the pause after the kind was missing for the first time."""
    await watcher.watching()
    known: list[str] = []
    watcher.on_pause = lambda: known.append(watcher.sink.names) if watcher.pauses[-1] == 30 else None
    watcher.server.failures |= NOT_SERVED
    watcher.server.cut()
    await until(lambda: known)
    return known[0]


@pytest.mark.parametrize("verb", ["LIST", "WATCH"])
async def test_forbidden_is_logged_with_the_missing_rule(server: FakeApi, verb: str) -> None:
    server.failures[verb, NODES] = HTTPStatus.FORBIDDEN
    async with following(server) as watcher:
        await until(lambda: len(watcher.pauses) > 5)
        assert watcher.informer_.synced is (verb == "WATCH")
        assert watcher.informer_.trouble == (
            "not allowed to list or watch nodes: a ClusterRole must allow the verbs list and watch on nodes"
        )
        assert len(watcher.log.of("watch.forbidden")) == 1
        assert [pause for pause in watcher.pauses if pause][:6] == [0.5, 1, 2, 4, 5, 5]
        server.failures.clear()
        server.put(node("c"))
        await watcher.sees("a b c")
        await watcher.watching()
        server.failures["WATCH", NODES] = HTTPStatus.FORBIDDEN
        server.cut()
        await until(lambda: len(watcher.log.of("watch.forbidden")) == 2)


async def test_pauses_stay_short_without_a_connection(server: FakeApi) -> None:
    await server.stop()
    async with following(server) as watcher:
        await until(lambda: len(watcher.pauses) > 8)
        assert watcher.pauses[:9] == [0.5, 1, 2, 4, 5, 5, 5, 5, 5]
        await until(lambda: sum(watcher.pauses) > informer.LOG_AGAIN_SECONDS)
        passed = sum(watcher.pauses)
        assert len(watcher.log.of("watch.unreachable")) <= passed // informer.LOG_AGAIN_SECONDS + 1
        assert watcher.count("failures_total", reason="unreachable") > 10
    async with following(server, chance=0.25) as watcher:
        await until(lambda: len(watcher.pauses) > 2)
        assert watcher.pauses[:3] == [0.125, 0.25, 0.5]


async def test_the_list_after_a_long_absence_comes_soon(server: FakeApi, watcher: Watcher) -> None:
    await server.stop()
    await until(lambda: sum(watcher.pauses) > informer.LASTING_SECONDS)
    server.put(node("c"))
    server.compact()
    await server.start()
    await watcher.sees("a b c")
    assert watcher.pauses[-1] == 0.5


async def test_pauses_start_short_after_a_restart_of_the_server(server: FakeApi, watcher: Watcher) -> None:
    """A starting server refuses watches until it has read its store."""
    await server.stop()
    await until(lambda: len(watcher.pauses) > 8)
    server.failures["WATCH", NODES] = HTTPStatus.TOO_MANY_REQUESTS
    await server.start()
    await until(lambda: watcher.count("failures_total", reason="refused") > 3)
    short = [informer.CHEAP_PAUSE] * watcher.pauses.count(informer.CHEAP_PAUSE)
    assert [0.5, 1, 2, 4, *short, 0.5, 1, 2] == watcher.pauses[: len(short) + 7]


async def test_lists_are_rare_if_history_is_always_gone(server: FakeApi) -> None:
    server.failures["WATCH", NODES] = HTTPStatus.GONE
    async with following(server) as watcher:
        await until(lambda: len(watcher.pauses) > 8)
        assert sum(watcher.pauses) / watcher.count("lists_total") > 5


@pytest.mark.parametrize(("end", "event"), table([
    ("ends at once", lambda server: server.push("Node", None), "watch.short"),
    ("breaks off", FakeApi.cut, "watch.unreachable"),
]))  # fmt: skip
async def test_pauses_grow_until_a_watch_lasts(
    server: FakeApi, end: Callable[[FakeApi], None], event: str
) -> None:
    async with following(server) as watcher:
        for times in range(1, 4):
            await watcher.watching()
            end(server)
            await until(partial(lambda times: len(watcher.pauses) >= times, times))
        await watcher.watching()
        assert (watcher.pauses, len(watcher.log.of(event))) == ([0.5, 1, 2], 1)
        watcher.clock.seconds += informer.LASTING_SECONDS
        server.cut()
        await until(lambda: len(watcher.pauses) >= 4)
        assert watcher.pauses == [0.5, 1, 2, 0.5]


async def test_the_age_is_the_time_since_the_last_response(server: FakeApi) -> None:
    server.failures[NODES] = HTTPStatus.SERVICE_UNAVAILABLE
    async with following(server) as watcher:
        await until(lambda: len(watcher.pauses) > 7)
        assert watcher.pauses[:7] == [0.5, 1, 2, 4, 8, 16, 30]
        assert (watcher.informer_.age(), watcher.count("age_seconds")) == (math.inf, math.inf)
        server.failures.clear()
        await watcher.watching()
        watcher.clock.seconds += 40
        assert (watcher.informer_.age(), watcher.count("age_seconds")) == (40, 40)
        server.push("Node", b"\n")
        await until(lambda: watcher.informer_.age() == 0)
        assert len(server.received("WATCH", NODES)) == 1


class Page(dict[str, Any]):
    """A page that can be seen to be thrown away."""


class PagedApi(Api):
    """Three pages of large objects; a page is only given out when the one before it is gone."""

    def __init__(self) -> None:
        self.left: list[weakref.ref[Page]] = []

    async def get(self, path: str, query: Query = (), *, what: str, most: int | None = None) -> object:
        assert (path, len(query), what, most) == (NODES, 2 if self.left else 1, "the list of nodes", None)
        assert [page() for page in self.left] == [None] * len(self.left)
        number = len(self.left)
        metadata = {"resourceVersion": "7", "continue": str(number) if number < 2 else ""}
        raw = {**node(f"n{number}"), "spec": {"ballast": "x" * 2**20}}
        page = Page(metadata=metadata, items=[raw])
        self.left.append(weakref.ref(page))
        return page

    async def lines(self, *_: object, **__: object) -> AsyncGenerator[bytes, None]:
        await asyncio.sleep(PATIENCE)
        yield b""


async def test_neither_pages_nor_unread_fields_are_retained() -> None:
    watcher = Watcher(FakeApi(), api := PagedApi())
    async with in_background(watcher.informer_.run()):
        await until(lambda: watcher.informer_.synced)
    assert (watcher.sink.names, [page() for page in api.left]) == ("n0 n1 n2", [None] * 3)
    assert max(len(orjson.dumps(item)) for item in watcher.sink.objects.values()) < 200


STEPS: dict[str, Callable[[FakeApi, random.Random], None]] = {
    "put": lambda server, draw: _discard(server.put(node(draw.choice("abcd"), at=str(draw.random())))),
    "delete": lambda server, draw: server.delete(f"{NODES}/{draw.choice('abcd')}"),
    "another kind": lambda server, draw: _discard(server.put(pod(draw.choice("ab"), namespace="x"))),
    "cut": lambda server, _: server.cut(),
    "half a line": lambda server, _: server.cut(last=HALF_LINE),
    "compact": lambda server, _: server.compact(),
    "bookmark": lambda server, _: bookmark(server),
    "end": lambda server, _: server.push("Node", None),
    "garbage": lambda server, draw: server.push("Node", draw.choice([*UNREADABLE_EVENTS.values()])),
    "smaller pages": lambda server, draw: setattr(server, "page", draw.randint(1, 3)),
    "another way to say gone": lambda server, _: server.push("Node", HISTORY_IS_GONE),
}
LONG_STEPS = ("look", "stop", "start")


def _discard(_: object) -> None: ...


async def run_steps(steps: Sequence[str], draw: random.Random) -> tuple[dict[Key, Json], list[Json]]:
    """What is known, and what there is, when everything has come to rest after some steps."""
    async with FakeApi() as server, following(server, WHOLE) as watcher:
        for step in steps:
            await take_step(step, server, draw)
        await take_step("start", server, draw)
        server.put(node("last"))
        await until(lambda: "last" in watcher.sink.names)
        return watcher.sink.objects, server.all(NODES)


async def take_step(step: str, server: FakeApi, draw: random.Random) -> None:
    if step in STEPS:
        STEPS[step](server, draw)
    elif step == "look":
        await asyncio.sleep(draw.choice([0, 0.001, 0.005]))
    elif step == "stop":
        await server.stop()
    else:
        await server.start()


@given(st.lists(st.sampled_from([*STEPS, *LONG_STEPS, "look", "put", "delete"]), max_size=25), st.randoms())
def test_in_the_end_the_sink_equals_the_server(steps: list[str], draw: random.Random) -> None:
    sink_objects, server_objects = asyncio.run(run_steps(steps, draw))
    assert sink_objects == {("", raw["metadata"]["name"]): WHOLE.described(raw) for raw in server_objects}
