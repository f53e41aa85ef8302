"""Following the API server: nothing is lost, nothing is left over, whatever breaks on the way."""

import asyncio
import functools
import itertools
import math
import random
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

import aiohttp
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from numalign.kube import informer, kinds
from numalign.kube.client import Api, Query
from numalign.kube.errors import Unreachable
from numalign.kube.informer import PAGE, Informer, WatchMetrics
from numalign.kube.kinds import Collection, Key, Object
from numalign.runtime import cooperative
from tests.worlds.log import RecordedLog
from tools.clusters.fake_api import FakeApi, line, verb

Json = dict[str, Any]

NODES = kinds.NODES.path
NEWER, OLDER = (collection.path for collection in kinds.TOPOLOGIES)
WHOLE = Collection("Node", "v1", NODES, MappingProxyType({"metadata": True}))
PATIENCE = 20.0
"""Seconds of the real clock, for what takes a few milliseconds."""


def node(name: str, **labels: str) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def topology(name: str, *, version: str = "v1alpha2") -> Json:
    api_version = f"topology.node.k8s.io/{version}"
    return {"apiVersion": api_version, "kind": "NodeResourceTopology", "metadata": {"name": name}}


def pod(namespace: str, name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name}}


@dataclass
class Shelf:
    """A sink that remembers what it was told."""

    objects: dict[Key, Object] = field(default_factory=dict)
    told: list[tuple[str, object]] = field(default_factory=list)
    poison: str = ""

    def put(self, found: Object) -> None:
        """As a sink does, unless it is the object that a faulty decoder trips over."""
        metadata = found["metadata"]
        if metadata["name"] == self.poison:
            raise ZeroDivisionError("a decoder with a fault")
        self.told.append(("put", metadata["name"]))
        self.objects[metadata.get("namespace", ""), metadata["name"]] = found

    def drop(self, key: Key) -> None:
        """As a sink does."""
        self.told.append(("drop", key[1]))
        self.objects.pop(key, None)

    def keep(self, keys: AbstractSet[Key]) -> None:
        """As a sink does."""
        self.told.append(("keep", {name for _, name in keys}))
        self.objects = {key: found for key, found in self.objects.items() if key in keys}

    @property
    def names(self) -> str:
        """All that is there, in a word."""
        return " ".join(sorted(name for _, name in self.objects))


@dataclass
class Following:
    """A reflector at work, with a clock that only moves when it is told to, or sleeps."""

    server: FakeApi
    shelf: Shelf = field(default_factory=Shelf)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    log: RecordedLog = field(default_factory=RecordedLog)
    pauses: list[float] = field(default_factory=list)
    now: float = 1000.0
    chance: float = 1.0
    on_pause: Callable[[], object] = lambda: None
    reflector: Informer = field(init=False)

    def made(self, api: Api, collections: Sequence[Collection], *, silence: float) -> Informer:
        """The reflector."""
        self.reflector = Informer(
            api,
            collections,
            self.shelf,
            log=self.log.log,
            metrics=WatchMetrics.of(self.registry),
            silence=silence,
            clock=lambda: self.now,
            sleep=self.sleep,
            chance=lambda: self.chance,
        )
        return self.reflector

    async def sleep(self, seconds: float) -> None:
        """No real time passes."""
        if seconds:
            self.pauses.append(seconds)
            self.now += seconds
            self.on_pause()
        await asyncio.sleep(0)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for what is about to happen."""
        async with asyncio.timeout(PATIENCE):
            while not condition():  # noqa: ASYNC110  what is waited for is another's, and tells nobody
                await asyncio.sleep(0.001)

    async def watching(self) -> None:
        """Wait for a watch that is open."""
        await self.until(lambda: self.server.watching(self.reflector.kind))

    async def paused(self, times: int) -> None:
        """Wait until the end of so many watches was noticed: by then the server counts them no more."""
        await self.until(lambda: len(self.pauses) >= times)

    async def sees(self, names: str) -> None:
        """Wait until exactly these objects are there."""
        await self.until(lambda: self.shelf.names == names)

    def said(self, event: str) -> list[Json]:
        """The log lines of an event."""
        return self.log.of(event)

    def events(self) -> list[str]:
        """All events that were logged, in order."""
        return [line["event"] for line in self.log.lines()]

    def count(self, name: str, **labels: str) -> float:
        """What a metric says."""
        labels = {"kind": self.reflector.kind, **labels}
        return self.registry.get_sample_value(f"numalign_watch_{name}", labels) or 0

    def has_counted(self, times: int, name: str, **labels: str) -> bool:
        """Whether a metric has come to say so much."""
        return self.count(name, **labels) == times


@asynccontextmanager
async def following(
    server: FakeApi,
    *collections: Collection,
    silence: float = PATIENCE,
    shelf: Shelf | None = None,
    chance: float = 1.0,
) -> AsyncIterator[Following]:
    """Follow nodes, unless other collections are named; ends with it."""
    async with server.client() as api:
        made = Following(server, shelf or Shelf(), chance=chance)
        task = asyncio.create_task(made.made(api, collections or (kinds.NODES,), silence=silence).run())
        try:
            yield made
        finally:
            ended = task.done()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            assert not ended, "a reflector never ends by itself"


@pytest.fixture
async def server() -> AsyncIterator[FakeApi]:
    """Two nodes."""
    async with FakeApi() as running:
        running.put(node("a"))
        running.put(node("b"))
        yield running


# What there is, and what happens to it.


@pytest.mark.parametrize("late", [False, True], ids=["listed", "an event"])
async def test_what_there_is_is_cut_down_to_what_is_read(server: FakeApi, late: bool) -> None:  # noqa: FBT001  a parameter of pytest
    status = {"allocatable": {"cpu": "8"}, "images": ["x" * 2**20]}
    if late:
        server.delete(f"{NODES}/a")
    async with following(server) as seen:
        await seen.watching() if late else None
        made = server.put({**node("a", zone="x"), "status": status})
        await seen.until(lambda: "status" in seen.shelf.objects.get(("", "a"), {}))

    assert seen.shelf.objects["", "a"] == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a", "labels": {"zone": "x"}, "uid": made["metadata"]["uid"]},
        "status": {"allocatable": {"cpu": "8"}},
    }


async def test_what_happens_is_followed(server: FakeApi) -> None:
    async with following(server) as seen:
        await seen.watching()
        server.put(node("c"))
        server.put(node("a", zone="y"))
        server.delete(f"{NODES}/b")
        await seen.sees("a c")

        assert seen.shelf.objects["", "a"]["metadata"]["labels"] == {"zone": "y"}
        counted = [seen.count("events_total", type=each) for each in ("ADDED", "MODIFIED", "DELETED")]
        assert counted == [1, 1, 1]
        assert len(server.asked("LIST", NODES)) == 1


async def test_a_long_list_comes_in_pages(server: FakeApi) -> None:
    server.page = 1

    async with following(server) as seen:
        await seen.watching()

    pages = [each.query.get("limit") for each in server.asked("LIST", NODES)]
    assert (pages, seen.shelf.told[-1]) == ([str(PAGE)] * 2, ("keep", {"a", "b"}))
    assert seen.count("lists_total") == 1


async def test_objects_are_known_by_namespace_and_name() -> None:
    async with FakeApi() as server:
        server.put(pod("x", "p"))
        server.put(pod("y", "p"))
        async with following(server, kinds.PODS) as seen:
            await seen.watching()
            server.delete("/api/v1/namespaces/x/pods/p")
            await seen.until(lambda: seen.shelf.objects.keys() == {("y", "p")})


async def test_a_watch_asks_for_bookmarks_and_ends_at_a_time_of_its_own(server: FakeApi) -> None:
    async with following(server, chance=0.5) as seen:
        await seen.watching()

    assert server.asked("WATCH", NODES)[0].query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": str(server.version),
        "timeoutSeconds": "450",
    }


# Watches that end are taken up where they broke off.


def nothing_missed(seen: Following, *, since: int) -> None:
    """The last watch began at a version, and no list was taken but the first."""
    assert len(seen.server.asked("LIST", NODES)) == 1
    assert seen.server.asked("WATCH", NODES)[-1].query["resourceVersion"] == str(since)


HAPPENINGS: dict[str, tuple[Callable[[FakeApi], object], str]] = {
    "an object that was added": (lambda server: server.put(node("c")), "a b c"),
    "an object that was deleted": (lambda server: server.delete(f"{NODES}/a"), "b"),
}


@pytest.mark.parametrize(("act", "names"), HAPPENINGS.values(), ids=HAPPENINGS)
async def test_after_its_time_a_watch_is_taken_up_at_once_after(
    server: FakeApi, act: Callable[[FakeApi], object], names: str
) -> None:
    async with following(server) as seen:
        await seen.watching()
        act(server)
        await seen.sees(names)
        seen.now += informer.WATCH_SECONDS
        server.end()
        await seen.until(lambda: len(server.asked("WATCH", NODES)) > 1)

        nothing_missed(seen, since=server.version)
        assert (seen.pauses, seen.events()) == ([], ["watch.listed"])


async def test_a_bookmark_is_where_the_next_watch_begins(server: FakeApi) -> None:
    async with following(server) as seen:
        await seen.watching()
        server.put(pod("x", "other"))
        server.bookmark()
        await seen.until(lambda: seen.count("events_total", type="BOOKMARK"))
        server.cut()
        await seen.until(lambda: len(server.asked("WATCH", NODES)) > 1)

        nothing_missed(seen, since=server.version)


@pytest.mark.parametrize("half_line", [False, True], ids=["between lines", "inside a line"])
async def test_a_watch_that_breaks_off_loses_nothing(server: FakeApi, half_line: bool) -> None:  # noqa: FBT001  a parameter of pytest
    async with following(server) as seen:
        await seen.watching()
        since = server.version
        server.put(node("c"))
        server.delete(f"{NODES}/a")
        server.cut(half_line=half_line)
        await seen.sees("b c")

        nothing_missed(seen, since=since)
        assert seen.said("watch.unreachable")[0]["level"] == "warning"


async def test_a_server_that_restarts_is_found_again_without_a_new_list(server: FakeApi) -> None:
    async with following(server) as seen:
        await seen.watching()
        since = server.version
        await server.stop()
        server.delete(f"{NODES}/a")
        await seen.until(lambda: len(seen.pauses) > 5)
        assert "cannot be reached" in (seen.reflector.trouble or "")
        assert seen.shelf.names == "a b"
        await server.start()
        await seen.sees("b")

        nothing_missed(seen, since=since)
        server.put(node("c"))
        await seen.sees("b c")
        await seen.until(lambda: seen.reflector.trouble is None)
        assert len(seen.said("watch.recovered")) == 1


async def test_a_watch_that_falls_silent_is_left(server: FakeApi) -> None:
    async with following(server, silence=0.1) as seen:
        await seen.watching()
        server.silent, since = True, server.version
        seen.on_pause = lambda: setattr(server, "silent", False)
        server.put(node("c"))
        await seen.sees("a b c")

        nothing_missed(seen, since=since)
        assert len(seen.said("watch.silent")) == 1


async def test_two_watches_without_a_word_are_followed_by_a_list(server: FakeApi) -> None:
    """A store that was restored may accept a version of its future, and wait for it for ever."""
    async with following(server, silence=0.02) as seen:
        await seen.until(lambda: len(server.asked("LIST", NODES)) > 1)

    verbs = [verb(request) for request in server.requests]
    assert verbs[:4] == ["LIST", "WATCH", "WATCH", "LIST"]


async def test_watches_that_are_refused_now_and_then_are_not_followed_by_a_list(server: FakeApi) -> None:
    async with following(server) as seen:
        seen.on_pause = server.failures.clear
        for times in range(1, 4):
            await seen.watching()
            server.bookmark()
            await seen.until(functools.partial(seen.has_counted, times, "events_total", type="BOOKMARK"))
            seen.now += informer.WATCH_SECONDS
            server.failures["WATCH", NODES] = HTTPStatus.SERVICE_UNAVAILABLE
            server.end()
            await seen.until(functools.partial(seen.has_counted, times, "failures_total", reason="refused"))

        assert len(server.asked("LIST", NODES)) == 1


# What cannot be taken up is listed anew.


@pytest.mark.parametrize("as_event", [False, True], ids=["as a status", "as an event"])
async def test_history_that_is_gone_is_made_up_for_by_a_list(server: FakeApi, as_event: bool) -> None:  # noqa: FBT001  a parameter of pytest
    server.gone_as_event = as_event
    async with following(server) as seen:
        await seen.watching()
        server.put(node("c"))
        server.delete(f"{NODES}/a")
        server.compact()
        server.cut()
        await seen.sees("b c")

        assert len(server.asked("LIST", NODES)) == 2
        assert [line["level"] for line in seen.said("watch.expired")] == ["info"]


async def test_a_store_that_was_restored_is_listed(server: FakeApi) -> None:
    for index in range(9):
        server.put(node("a", at=str(index)))
    async with following(server) as seen:
        await seen.watching()
        server.rewind()
        server.delete(f"{NODES}/b")
        await seen.sees("a")

        assert "Too large resource version" in seen.said("watch.refused")[0]["error"]


async def test_what_is_known_stays_known_until_a_new_list_is_complete(server: FakeApi) -> None:
    async with following(server) as seen:
        await seen.watching()
        server.compact()
        server.delete(f"{NODES}/a")
        server.compact()
        server.failures["LIST", NODES] = HTTPStatus.SERVICE_UNAVAILABLE
        server.cut()
        await seen.until(lambda: seen.count("failures_total", reason="refused") > 3)
        assert (seen.shelf.names, seen.reflector.synced) == ("a b", True)
        server.failures.clear()
        await seen.sees("b")


ODD_EVENTS = {
    "no JSON": b"what?\n",
    "half a line that looks whole": b'{"type":"ADDED","object":{"kind":"No\n',
    "a number": b"1\n",
    "null": b"null\n",
    "a list": b"[]\n",
    "no type": b'{"object":{"metadata":{"name":"x","resourceVersion":"9"}}}\n',
    "a type that is a number": b'{"type":1,"object":{}}\n',
    "a type that is a list": b'{"type":["ADDED"],"object":{}}\n',
    "a type of tomorrow": b'{"type":"RENAMED","object":{"metadata":{"name":"x","resourceVersion":"9"}}}\n',
    "no object": b'{"type":"ADDED"}\n',
    "an object that is none": b'{"type":"ADDED","object":"x"}\n',
    "no metadata": b'{"type":"ADDED","object":{}}\n',
    "metadata that is none": b'{"type":"ADDED","object":{"metadata":[]}}\n',
    "no name": b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"9"}}}\n',
    "a name that is a number": b'{"type":"ADDED","object":{"metadata":{"name":1,"resourceVersion":"9"}}}\n',
    "no version": b'{"type":"ADDED","object":{"metadata":{"name":"x"}}}\n',
    "a version that is a number": (
        b'{"type":"ADDED","object":{"metadata":{"name":"x","resourceVersion":9}}}\n'
    ),
    "a deletion of nothing": b'{"type":"DELETED","object":{"metadata":{"resourceVersion":"9"}}}\n',
    "a deletion without a version": b'{"type":"DELETED","object":{"metadata":{"name":"a"}}}\n',
    "a bookmark without a version": b'{"type":"BOOKMARK","object":{"metadata":{}}}\n',
    "a namespace that is a number": (
        b'{"type":"ADDED","object":{"metadata":{"name":"x","namespace":1,"resourceVersion":"9"}}}\n'
    ),
    "no text": b"\xff\xfe\x00\n",
    "very deep": b'{"type":"ADDED","object":' + b"[" * 5000 + b"\n",
}


@pytest.mark.parametrize("odd", ODD_EVENTS.values(), ids=ODD_EVENTS)
async def test_an_event_that_makes_no_sense_leads_to_a_list(server: FakeApi, odd: bytes) -> None:
    async with following(server) as seen:
        await seen.watching()
        server.say("Node", odd)
        await seen.until(lambda: len(server.asked("LIST", NODES)) > 1)
        await seen.watching()
        server.put(node("c"))
        await seen.sees("a b c")

        assert [line["level"] for line in seen.said("watch.unreadable")] == ["warning"]
        assert ("drop", "a") not in seen.shelf.told


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({"code": 500, "message": "unable to decode"}, "unable to decode (500)"),
        ({}, "no reason given (None)"),
        ("x", "no reason given (None)"),
    ],
    ids=["with a reason", "without", "that is no Status"],
)
async def test_an_error_event_leads_to_a_list(server: FakeApi, status: object, message: str) -> None:
    async with following(server) as seen:
        await seen.watching()
        server.say("Node", orjson.dumps({"type": "ERROR", "object": status}) + b"\n")
        await seen.until(lambda: len(server.asked("LIST", NODES)) > 1)

        said = seen.said("watch.failed")[0]["error"]
        assert said == f"the API server ended the watch of nodes: {message}"


async def test_an_empty_line_is_a_sign_of_life_and_no_event(server: FakeApi) -> None:
    async with following(server) as seen:
        await seen.watching()
        seen.now += 50
        server.say("Node", b"\n")
        await seen.until(lambda: seen.reflector.age() == 0)

        assert len(server.asked("LIST", NODES)) == 1


async def test_a_watch_that_is_refused_twice_is_followed_by_a_list(server: FakeApi) -> None:
    server.failures["WATCH", NODES] = HTTPStatus.BAD_REQUEST
    async with following(server) as seen:
        await seen.until(lambda: len(server.asked("LIST", NODES)) > 1)

        # Watches that come after the second list are another matter.
        asked = [verb(each) for each in server.requests if each.path == NODES]
        assert asked[: asked.index("LIST", 1) + 1] == ["LIST", "WATCH", "WATCH", "LIST"]


# Lists that break.


async def test_a_list_whose_pages_expire_is_begun_again_and_then_taken_whole(server: FakeApi) -> None:
    server.page, server.expire_pages_after = 1, 1

    async with following(server) as seen:
        await seen.sees("a b")
        await seen.watching()

    asked = [dict(each.query).keys() for each in server.asked("LIST", NODES)]
    assert asked == [{"limit"}, {"limit", "continue"}] * 3 + [set()]
    assert seen.shelf.told[-1] == ("keep", {"a", "b"})


class Crowds:
    """How many things a shelf is told between two turns of somebody else."""

    def __init__(self) -> None:
        self._counts = [0]

    async def watch(self, seen: Following) -> None:
        """Look whenever others pass."""
        while True:
            self._counts.append(len(seen.shelf.told))
            await asyncio.sleep(0)

    @property
    def largest(self) -> int:
        """The largest of them."""
        return max(after - before for before, after in itertools.pairwise(self._counts))


async def test_a_list_that_is_taken_whole_lets_others_pass(
    server: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cooperative, "SECONDS", -1.0)
    server.page, server.expire_pages_after = 1, 1
    for number in range(200):
        server.put(node(f"n{number}"))
    crowds = Crowds()

    async with following(server) as seen:
        watching = asyncio.create_task(crowds.watch(seen))
        await seen.watching()
        watching.cancel()

    assert len(seen.shelf.objects) > 200
    assert crowds.largest < 10


def _added(name: str) -> bytes:
    made = node(name)
    return line("ADDED", {**made, "metadata": {**made["metadata"], "resourceVersion": "2000"}})


async def test_a_crowd_of_events_lets_others_pass(server: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooperative, "SECONDS", -1.0)
    crowds = Crowds()

    async with following(server) as seen:
        await seen.watching()
        watching = asyncio.create_task(crowds.watch(seen))
        server.say("Node", b"".join(_added(f"n{number}") for number in range(200)))
        await seen.until(lambda: len(seen.shelf.objects) > 200)
        watching.cancel()

    assert crowds.largest < 10


ODD_LISTS = {
    "no JSON": b"<html>",
    "a text": b'"x"',
    "null": b"null",
    "items that are none": b'{"metadata":{"resourceVersion":"9"},"items":{}}',
    "no version": b'{"metadata":{},"items":[]}',
    "no metadata": b'{"items":[]}',
    "a version that is a number": b'{"metadata":{"resourceVersion":9},"items":[]}',
    "a next page that is a number": b'{"metadata":{"resourceVersion":"9","continue":1},"items":[]}',
    "a next page that is this one": b'{"metadata":{"resourceVersion":"9","continue":"x"},"items":[]}',
}


@pytest.mark.parametrize("odd", ODD_LISTS.values(), ids=ODD_LISTS)
async def test_a_list_that_makes_no_sense_is_asked_for_again(server: FakeApi, odd: bytes) -> None:
    server.oddities[NODES] = odd
    async with following(server) as seen:
        await seen.until(lambda: seen.pauses)
        assert not seen.reflector.synced
        assert seen.reflector.trouble
        server.oddities.clear()
        await seen.sees("a b")

        assert len(seen.said("watch.unreadable")) == 1


async def test_items_without_names_are_skipped_and_told(server: FakeApi) -> None:
    items: list[object] = [
        1,
        None,
        [],
        "x",
        {},
        {"metadata": {"name": ""}},
        {"metadata": 1},
        {"metadata": {"name": "z"}},
    ]
    page = {"metadata": {"resourceVersion": str(server.version)}, "items": items}
    server.oddities[NODES] = orjson.dumps(page)

    async with following(server) as seen:
        await seen.sees("z")
        await seen.until(lambda: seen.reflector.synced)

        assert seen.count("failures_total", reason="unreadable") >= 7
        first = seen.said("watch.unreadable")[0]
        assert first["error"] == "items[0] of the list of nodes has no name"


async def test_null_for_items_is_an_empty_list(server: FakeApi) -> None:
    server.oddities[NODES] = b'{"metadata":{"resourceVersion":"9"},"items":null}'
    async with following(server) as seen:
        await seen.until(lambda: seen.reflector.synced)

    assert seen.shelf.told[0] == ("keep", set())


async def test_an_object_that_trips_a_decoder_is_told_and_the_others_are_taken(server: FakeApi) -> None:
    async with following(server, shelf=Shelf(poison="a")) as seen:
        await seen.watching()
        assert seen.shelf.names == "b"
        server.put(node("a", again="x"))
        server.put(node("c"))
        await seen.sees("b c")

        assert ("keep", {"a", "b"}) in seen.shelf.told
        assert [line["object"] for line in seen.said("watch.object_failed")] == ["a", "a"]
        assert len(server.asked("LIST", NODES)) == 1


class MuteApi(Api):
    """Takes every call, and is given up every time before it has answered."""

    def __init__(self) -> None:
        self.asked = 0

    async def get(self, *_: object, **__: object) -> object:
        """Nothing, for longer than anybody waits."""
        self.asked += 1
        raise Unreachable("it does not answer") from aiohttp.SocketTimeoutError()


async def test_a_list_that_never_comes_is_asked_for_less_and_less() -> None:
    api, seen = MuteApi(), Following(FakeApi())
    task = asyncio.create_task(seen.made(api, (kinds.NODES,), silence=PATIENCE).run())
    await seen.until(lambda: len(seen.pauses) > 7)
    task.cancel()

    assert seen.pauses[:7] == [0.5, 1, 2, 4, 8, 16, 30]
    assert seen.reflector.trouble == "it does not answer"
    assert not seen.reflector.synced
    assert seen.said("watch.silent")


# Kinds that are not there, and doors that are closed.


async def test_the_newest_version_that_is_served_is_followed() -> None:
    async with FakeApi(not_served={NEWER}) as server:
        server.put(topology("a", version="v1alpha1"))
        async with following(server, *kinds.TOPOLOGIES) as seen:
            await seen.sees("a")

            assert seen.shelf.objects["", "a"]["apiVersion"] == "topology.node.k8s.io/v1alpha1"
            # A list is counted once all of it was handed on.
            await seen.until(lambda: seen.count("lists_total") == 1)


async def test_a_version_that_vanishes_is_followed_by_the_next() -> None:
    async with FakeApi() as server:
        server.put(topology("a"))
        server.put(topology("b", version="v1alpha1"))
        async with following(server, *kinds.TOPOLOGIES) as seen:
            await seen.sees("a")
            await seen.watching()
            server.not_served.add(NEWER)
            server.cut()
            await seen.sees("b")

            assert seen.said("watch.vanished")


async def test_nodes_are_never_believed_to_be_a_kind_that_is_not_served(server: FakeApi) -> None:
    async with following(server) as seen:
        await seen.watching()
        server.failures[NODES] = HTTPStatus.NOT_FOUND
        server.cut()
        await seen.until(lambda: seen.count("failures_total", reason="vanished") > 4)

        assert seen.shelf.names == "a b"
        assert "is not an API server" in (seen.reflector.trouble or "")
        server.failures.clear()
        server.put(node("c"))
        await seen.sees("a b c")


async def test_a_kind_that_is_not_served_is_empty_and_asked_for_again() -> None:
    async with FakeApi(not_served={NEWER, OLDER}) as server:
        server.put(topology("a"))
        async with following(server, *kinds.TOPOLOGIES) as seen:
            await seen.until(lambda: len(seen.pauses) > 3)
            assert (seen.shelf.names, seen.reflector.synced) == ("", True)
            assert seen.reflector.trouble == (
                "the cluster does not serve noderesourcetopologies.topology.node.k8s.io: until it does,"
                " none are known"
            )
            assert (set(seen.pauses), len(seen.said("watch.not_served"))) == ({30.0}, 1)
            # In the older version it would have no objects here, were it served first.
            server.not_served.remove(NEWER)
            await seen.sees("a")

            assert seen.reflector.trouble is None


async def test_a_kind_that_was_there_is_believed_gone_only_when_told_twice() -> None:
    async with FakeApi() as server:
        server.put(topology("a"))
        async with following(server, *kinds.TOPOLOGIES) as seen:
            await vanished(seen)
            assert seen.shelf.names == "a"
            await seen.sees("")

            assert seen.pauses[-1] == 30


async def vanished(seen: Following) -> None:
    """No version of the kind is served any more, and that was told once."""
    await seen.watching()
    before = seen.count("failures_total", reason="not_served")
    seen.server.not_served |= {NEWER, OLDER}
    seen.server.cut()
    await seen.until(lambda: seen.count("failures_total", reason="not_served") > before)


async def test_a_kind_that_comes_and_goes_is_doubted_each_time() -> None:
    async with FakeApi() as server:
        server.put(topology("a"))
        async with following(server, *kinds.TOPOLOGIES) as seen:
            for _ in range(2):
                await vanished(seen)
                assert seen.shelf.names == "a"
                server.not_served.remove(NEWER)


@pytest.mark.parametrize("verb", ["LIST", "WATCH"])
async def test_a_closed_door_is_told_once_with_what_to_grant(server: FakeApi, verb: str) -> None:
    server.failures[verb, NODES] = HTTPStatus.FORBIDDEN
    async with following(server) as seen:
        await seen.until(lambda: len(seen.pauses) > 5)
        assert seen.reflector.synced is (verb == "WATCH")
        assert seen.reflector.trouble == (
            "not allowed to list or watch nodes: a ClusterRole must allow the verbs list and watch on nodes"
        )
        assert len(seen.said("watch.forbidden")) == 1
        assert [pause for pause in seen.pauses if pause][:6] == [0.5, 1, 2, 4, 5, 5]
        server.failures.clear()
        server.put(node("c"))
        await seen.sees("a b c")


async def closed_for_a_while(seen: Following) -> None:
    """Watches are forbidden, again and again, and then they are not."""
    await seen.watching()
    seen.server.failures["WATCH", NODES] = HTTPStatus.FORBIDDEN
    seen.server.cut()
    before = seen.count("failures_total", reason="forbidden")
    await seen.until(lambda: seen.count("failures_total", reason="forbidden") > before + 2)
    seen.server.failures.clear()
    seen.server.put(node("c", at=str(before)))
    await seen.until(lambda: seen.reflector.trouble is None)


async def test_a_door_that_closes_again_is_told_again(server: FakeApi) -> None:
    async with following(server) as seen:
        await closed_for_a_while(seen)
        await closed_for_a_while(seen)

        assert len(seen.said("watch.forbidden")) == 2


async def test_credentials_that_are_refused_are_told(server: FakeApi) -> None:
    server.failures[NODES] = HTTPStatus.UNAUTHORIZED
    async with following(server) as seen:
        await seen.until(lambda: seen.said("watch.unauthorized"))

        assert seen.said("watch.unauthorized")[0]["level"] == "error"


# Time.


async def test_pauses_grow_by_chance_and_stay_short_where_nobody_hears(server: FakeApi) -> None:
    await server.stop()
    async with following(server) as seen:
        await seen.until(lambda: len(seen.pauses) > 8)

        assert seen.pauses[:9] == [0.5, 1, 2, 4, 5, 5, 5, 5, 5]
    async with following(server, chance=0.25) as seen:
        await seen.until(lambda: len(seen.pauses) > 2)

        assert seen.pauses[:3] == [0.125, 0.25, 0.5]


async def test_after_a_long_absence_a_list_is_taken_without_a_long_pause(server: FakeApi) -> None:
    async with following(server) as seen:
        await seen.watching()
        await server.stop()
        await seen.until(lambda: sum(seen.pauses) > informer.LASTING_SECONDS)
        server.put(node("c"))
        server.compact()
        await server.start()
        await seen.sees("a b c")

        assert seen.pauses[-1] == 0.5


async def test_a_server_that_is_back_is_asked_again_soon_however_long_nobody_was_there(
    server: FakeApi,
) -> None:
    """One that starts says for a moment that it has yet to read what it stores."""
    async with following(server) as seen:
        await seen.watching()
        await server.stop()
        await seen.until(lambda: len(seen.pauses) > 8)
        server.failures["WATCH", NODES] = HTTPStatus.TOO_MANY_REQUESTS
        await server.start()
        await seen.until(lambda: seen.count("failures_total", reason="refused") > 3)

        unheard = [informer.CHEAP_PAUSE] * seen.pauses.count(informer.CHEAP_PAUSE)
        assert [0.5, 1, 2, 4, *unheard, 0.5, 1, 2] == seen.pauses[: len(unheard) + 7]


async def test_history_that_is_always_too_old_is_not_listed_all_the_time(server: FakeApi) -> None:
    server.failures["WATCH", NODES] = HTTPStatus.GONE
    async with following(server) as seen:
        await seen.until(lambda: len(seen.pauses) > 8)

        assert sum(seen.pauses) / seen.count("lists_total") > 5


ENDS: dict[str, tuple[Callable[[FakeApi], None], str]] = {
    "ends at once": (FakeApi.end, "watch.short"),
    "breaks off": (FakeApi.cut, "watch.unreachable"),
}


@pytest.mark.parametrize(("end", "event"), ENDS.values(), ids=ENDS)
async def test_a_watch_is_taken_up_later_and_later_until_one_was_good_if_it(
    server: FakeApi, end: Callable[[FakeApi], None], event: str
) -> None:
    async with following(server) as seen:
        for times in range(1, 4):
            await seen.watching()
            end(server)
            await seen.paused(times)
        await seen.watching()
        assert (seen.pauses, len(seen.said(event))) == ([0.5, 1, 2], 1)
        seen.now += informer.LASTING_SECONDS
        server.cut()
        await seen.paused(4)

        assert seen.pauses == [0.5, 1, 2, 0.5]


async def test_a_cause_is_logged_once_a_minute_and_counted_always(server: FakeApi) -> None:
    await server.stop()
    async with following(server) as seen:
        await seen.until(lambda: len(seen.pauses) > 10)

        passed = sum(seen.pauses)
        assert len(seen.said("watch.unreachable")) <= passed // informer.LOG_AGAIN_SECONDS + 1
        assert seen.count("failures_total", reason="unreachable") > 10


async def test_the_age_is_the_time_since_anything_was_heard(server: FakeApi) -> None:
    server.failures[NODES] = HTTPStatus.SERVICE_UNAVAILABLE
    async with following(server) as seen:
        await seen.until(lambda: seen.pauses)
        assert (seen.reflector.age(), seen.count("age_seconds")) == (math.inf, math.inf)
        server.failures.clear()
        await seen.watching()
        seen.now += 40
        assert (seen.reflector.age(), seen.count("age_seconds")) == (40, 40)
        server.bookmark()
        await seen.until(lambda: seen.reflector.age() == 0)


async def test_before_the_first_list_it_is_what_is_waited_for(server: FakeApi) -> None:
    async with server.client() as api:
        made = Following(server).made(api, (kinds.NODES,), silence=1)

    assert (made.synced, made.trouble, made.age()) == (False, "a first list of nodes", math.inf)


# Memory.


class Page(dict[str, Any]):
    """A page that can be seen to be thrown away."""


class PagedApi(Api):
    """Three pages of large objects; a page is only given out when the one before it is gone."""

    def __init__(self) -> None:
        self.left: list[weakref.ref[Page]] = []

    async def get(self, path: str, query: Query = (), *, what: str, most: int | None = None) -> object:
        """The next page."""
        assert (path, len(query), what, most) == (NODES, 2 if self.left else 1, "the list of nodes", None)
        assert [page() for page in self.left] == [None] * len(self.left)
        number = len(self.left)
        metadata = {"resourceVersion": "7", "continue": str(number) if number < 2 else ""}
        raw = {**node(f"n{number}"), "spec": {"ballast": "x" * 2**20}}
        page = Page(metadata=metadata, items=[raw])
        self.left.append(weakref.ref(page))
        return page

    async def lines(self, *_: object, **__: object) -> AsyncGenerator[bytes, None]:
        """Nothing at all."""
        await asyncio.sleep(PATIENCE)
        yield b""


async def test_neither_pages_nor_what_nobody_reads_are_held() -> None:
    seen = Following(FakeApi())
    task = asyncio.create_task(seen.made(api := PagedApi(), (kinds.NODES,), silence=1).run())
    await seen.until(lambda: seen.reflector.synced)
    task.cancel()

    assert (seen.shelf.names, [page() for page in api.left]) == ("n0 n1 n2", [None] * 3)
    assert max(len(orjson.dumps(found)) for found in seen.shelf.objects.values()) < 200


# The law.

STEPS: dict[str, Callable[[FakeApi, random.Random], None]] = {
    "put": lambda server, draw: _ignore(server.put(node(draw.choice("abcd"), at=str(draw.random())))),
    "delete": lambda server, draw: server.delete(f"{NODES}/{draw.choice('abcd')}"),
    "another kind": lambda server, draw: _ignore(server.put(pod("x", draw.choice("ab")))),
    "cut": lambda server, _: server.cut(),
    "half a line": lambda server, _: server.cut(half_line=True),
    "compact": lambda server, _: server.compact(),
    "bookmark": lambda server, _: server.bookmark(),
    "end": lambda server, _: server.end(),
    "garbage": lambda server, draw: server.say("Node", draw.choice([*ODD_EVENTS.values()])),
    "smaller pages": lambda server, draw: setattr(server, "page", draw.randint(1, 3)),
    "another way to say gone": lambda server, draw: setattr(server, "gone_as_event", draw.random() < 0.5),
}
LONG_STEPS = ("look", "stop", "start")


def _ignore(_: object) -> None:
    """What is stored is of no interest."""


async def lived_through(steps: Sequence[str], draw: random.Random) -> tuple[dict[Key, Json], list[Json]]:
    """What is known, and what there is, when everything has come to rest after some steps."""
    async with FakeApi() as server, following(server, WHOLE) as seen:
        for step in steps:
            await taken(step, server, draw)
        await taken("start", server, draw)
        server.put(node("last"))
        await seen.until(lambda: "last" in seen.shelf.names)
        return seen.shelf.objects, server.all(NODES)


async def taken(step: str, server: FakeApi, draw: random.Random) -> None:
    if step in STEPS:
        STEPS[step](server, draw)
    elif step == "look":
        await asyncio.sleep(draw.choice([0, 0.001, 0.005]))
    elif step == "stop":
        await server.stop()
    elif not server.running:
        await server.start()


@given(st.lists(st.sampled_from([*STEPS, *LONG_STEPS, "look", "put", "delete"]), max_size=25), st.randoms())
def test_once_it_is_quiet_what_is_known_is_what_there_is(steps: list[str], draw: random.Random) -> None:
    known, there = asyncio.run(lived_through(steps, draw))

    assert known == {("", each["metadata"]["name"]): each for each in there}
