"""What a snapshot file alone can be wrong about: the last good one counts."""

import asyncio
import gzip
import json
import os
from collections.abc import AsyncIterator, Callable
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from numalign.kube.cluster_state import Snapshot
from numalign.kube.files.file_feed import FileFeed
from numalign.kube.informer import Sink
from tests.worlds.log import RecordedLog
from tests.worlds.notation import table
from tests.worlds.objects import listed, nrt
from tools.clusters.waiting import until

SOON = 0.01


def cluster(*names: str) -> bytes:
    return json.dumps(listed(*map(nrt, names))).encode()


@dataclass
class Followed:
    """A file, the feed that follows it, and what it gave and said."""

    path: Path
    every: float = SOON
    seconds: float = 0
    seen: list[Snapshot] = field(default_factory=list)
    told: RecordedLog = field(default_factory=RecordedLog)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    pods: Sink | None = None

    def __post_init__(self) -> None:
        self.feed = FileFeed(
            self.path,
            every=self.every,
            log=self.told.log,
            registry=self.registry,
            pods=self.pods,
            clock=lambda: self.seconds,
        )

    def write(self, content: bytes) -> None:
        """In one step, as it should be done."""
        new = self.path.with_suffix(".new")
        new.write_bytes(content)
        new.replace(self.path)

    def failures(self) -> float:
        """How often the file could not be read."""
        return self.registry.get_sample_value("numalign_snapshot_failures_total") or 0

    def nodes(self) -> list[str]:
        """Those of the last snapshot."""
        return [node.name for node in self.seen[-1].nodes] if self.seen else []

    async def take(self, found: Snapshot) -> None:
        """What the feed gives to."""
        self.seen.append(found)


@pytest.fixture
def followed(tmp_path: Path) -> Followed:
    return Followed(tmp_path / "cluster.json")


@asynccontextmanager
async def running(followed: Followed) -> AsyncIterator[None]:
    task = asyncio.create_task(followed.feed.follow(followed.take))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


UNREADABLE: list[tuple[str, Callable[[Followed], object]]] = [
    ("is not there", lambda _: None),
    ("is empty", lambda followed: followed.write(b"")),
    ("is cut off", lambda followed: followed.write(b'{"kind": "List", "items": [')),
    ("is no text", lambda followed: followed.write(b"\xff\x00\xff")),
    ("is half of a gzip file", lambda followed: followed.write(gzip.compress(b"{}" * 999)[:-9])),
    ("is a deployment", lambda followed: followed.write(b'{"apiVersion": "apps/v1", "kind": "Deployment"}')),
    ("is a folder", lambda followed: followed.path.mkdir()),
    ("is a pipe", lambda followed: os.mkfifo(followed.path)),
]


@pytest.mark.parametrize("write", table(UNREADABLE))
async def test_there_is_nothing_yet_when_the_first_file(
    followed: Followed, write: Callable[[Followed], object]
) -> None:
    write(followed)
    async with running(followed):
        await until(followed.failures)

        assert followed.seen == []
        assert followed.feed.waiting_for() == f"a valid snapshot at {followed.path}"
        assert followed.feed.age() == float("inf")
        line = followed.told.of("snapshot.failed")[0]
        assert (line["level"], line["path"]) == ("error", str(followed.path))

        if followed.path.is_dir():
            followed.path.rmdir()
        followed.write(cluster("a"))
        await until(followed.nodes)
        assert followed.feed.waiting_for() is None


FORGETFUL = [
    None,
    b"",
    b"{",
    b"\xff\x00",
    b"kind: Node\nx: !!bool foo\n",
    b'{"kind": "List", "items": null}',
    b'{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403}',
]


@pytest.mark.parametrize("content", FORGETFUL)
async def test_a_broken_file_keeps_the_old_one_and_counts(followed: Followed, content: bytes | None) -> None:
    followed.write(cluster("a"))
    async with running(followed):
        await until(followed.nodes)
        followed.seconds = 5
        followed.path.unlink() if content is None else followed.write(content)
        await until(followed.failures)

        assert followed.nodes() == ["a"]
        assert followed.feed.waiting_for() is None
        assert followed.feed.age() == 5

        followed.write(cluster("b"))
        await until(lambda: followed.nodes() == ["b"])
        assert followed.feed.age() == 0


async def test_a_change_while_the_file_is_read_is_not_missed(followed: Followed) -> None:
    followed.write(cluster("a"))

    async def take(found: Snapshot) -> None:
        if not followed.seen:
            followed.write(cluster("a", "b"))
        await followed.take(found)

    task = asyncio.create_task(followed.feed.follow(take))
    await until(lambda: followed.nodes() == ["a", "b"])
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_a_file_that_does_not_change_is_not_read_again(followed: Followed) -> None:
    followed.write(cluster("a"))
    async with running(followed):
        await until(followed.nodes)
        await asyncio.sleep(5 * SOON)

    assert len(followed.seen) == 1


async def test_a_file_that_is_not_looked_at_again_is_read_once(tmp_path: Path) -> None:
    followed = Followed(tmp_path / "cluster.json", every=0)
    followed.write(cluster("a"))
    async with running(followed):
        await until(followed.nodes)
        followed.write(cluster("b"))
        await asyncio.sleep(5 * SOON)

    assert followed.nodes() == ["a"]


# The pods of a file, where somebody listens for them.


def with_pods(*pods: object) -> bytes:
    whole = json.loads(cluster("a"))
    spec = {"nodeName": "a"}
    made = [{"apiVersion": "v1", "kind": "Pod", "metadata": each, "spec": spec} for each in pods]
    return json.dumps({**whole, "items": [*whole["items"], *made]}).encode()


@dataclass
class Pods:
    """A sink that holds what it was given, and cannot bear one pod."""

    there: dict[tuple[str, str], Any] = field(default_factory=dict)
    kept: list[set[tuple[str, str]]] = field(default_factory=list)

    def put(self, found: dict[str, Any]) -> None:
        """As said at `Sink`."""
        metadata = found["metadata"]
        if metadata["name"] == "unbearable":
            raise ZeroDivisionError("a listener with a fault")
        self.there[metadata["namespace"], metadata["name"]] = found

    def drop(self, key: tuple[str, str]) -> None:
        """Never told of a file."""
        raise NotImplementedError(key)

    def keep(self, keys: AbstractSet[tuple[str, str]]) -> None:
        """As said at `Sink`."""
        self.kept.append({*keys})


@pytest.fixture
def pods() -> Pods:
    return Pods()


@pytest.fixture
def listening(tmp_path: Path, pods: Pods) -> Followed:
    return Followed(tmp_path / "cluster.json", pods=pods)


async def test_a_pod_is_given_on_as_an_api_server_has_it(listening: Followed, pods: Pods) -> None:
    listening.write(
        with_pods({"name": "p", "uid": "1", "labels": {"a": "b"}}, {"name": "q", "namespace": "team"})
    )
    await listening.feed.load(listening.take)

    assert [*pods.there] == [("default", "p"), ("team", "q")]
    assert pods.there["default", "p"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "uid": "1", "labels": {"a": "b"}},
        "spec": {"nodeName": "a"},
    }
    assert pods.kept == [{("default", "p"), ("team", "q")}]
    assert listening.seen[-1].pods == 2


@pytest.mark.parametrize("metadata", [{}, {"name": ""}, {"name": 7}, "x", None])
async def test_a_pod_without_a_name_is_told_of_and_stops_nobody(
    listening: Followed, pods: Pods, metadata: object
) -> None:
    listening.write(with_pods(metadata, {"name": "p"}))
    await listening.feed.load(listening.take)

    assert [*pods.there] == [("default", "p")]
    [problem] = listening.seen[-1].problems
    assert (problem.kind, listening.seen[-1].pods) == ("Pod", 2)


async def test_a_pod_that_cannot_be_given_on_stops_nobody(listening: Followed, pods: Pods) -> None:
    listening.write(with_pods({"name": "unbearable"}, {"name": "p"}))
    await listening.feed.load(listening.take)

    [line] = listening.told.lines()
    assert (line["event"], line["object"]) == ("snapshot.object_failed", "default/unbearable")
    assert [*pods.there] == [("default", "p")]
    assert pods.kept == [{("default", "p"), ("default", "unbearable")}]
    assert listening.feed.waiting_for() is None


async def test_a_snapshot_that_is_not_taken_leaves_the_pods_as_they_were(
    listening: Followed, pods: Pods
) -> None:
    async def refuse(_: Snapshot) -> None:
        raise ZeroDivisionError("a rule with a fault")

    listening.write(with_pods({"name": "p"}))
    await listening.feed.load(refuse)

    assert (pods.there, pods.kept) == ({}, [])
    assert listening.feed.waiting_for()
