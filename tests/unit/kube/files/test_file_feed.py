"""A snapshot file that changes or breaks: the last valid one counts."""

import asyncio
import gzip
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from numalign.kube.cluster_state import Snapshot
from numalign.kube.files.file_feed import FileFeed
from numalign.kube.informer import Sink
from tests.worlds.log import RecordedLog
from tests.worlds.notation import table
from tests.worlds.objects import listed, nrt
from tests.worlds.sinks import RecordedSink
from tests.worlds.tasks import in_background
from tools.clusters.waiting import until

SOON = 0.01


def cluster(*names: str) -> bytes:
    return json.dumps(listed(*map(nrt, names))).encode()


@dataclass
class Follower:
    """A file, the feed that follows it, its snapshots and its log."""

    path: Path
    every: float = SOON
    seconds: float = 0
    seen: list[Snapshot] = field(default_factory=list)
    log: RecordedLog = field(default_factory=RecordedLog)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    sink: Sink | None = None

    def __post_init__(self) -> None:
        self.feed = FileFeed(
            self.path,
            every=self.every,
            log=self.log.log,
            registry=self.registry,
            pods=self.sink,
            clock=lambda: self.seconds,
        )

    def write(self, content: bytes) -> None:
        new = self.path.with_suffix(".new")
        new.write_bytes(content)
        new.replace(self.path)

    def failures(self) -> float:
        return self.registry.get_sample_value("numalign_snapshot_failures_total") or 0

    def nodes(self) -> list[str]:
        return [node.name for node in self.seen[-1].nodes] if self.seen else []

    async def take(self, snapshot_: Snapshot) -> None:
        self.seen.append(snapshot_)


@pytest.fixture
def sink() -> RecordedSink:
    return RecordedSink(broken="unbearable")


@pytest.fixture
def follower(tmp_path: Path, sink: RecordedSink) -> Follower:
    return Follower(tmp_path / "cluster.json", sink=sink)


@pytest.mark.parametrize("write", table([
    ("is not there", lambda _: None),
    ("is half of a gzip file", lambda follower: follower.write(gzip.compress(b"{}" * 999)[:-9])),
    ("is a folder", lambda follower: follower.path.mkdir()),
    ("is a pipe", lambda follower: os.mkfifo(follower.path)),
]))  # fmt: skip
async def test_the_first_file_is_waited_for_if_it(
    follower: Follower, write: Callable[[Follower], object]
) -> None:
    write(follower)
    async with in_background(follower.feed.follow(follower.take)):
        await until(follower.failures)

        assert follower.seen == []
        assert follower.feed.waiting_for() == f"a valid snapshot at {follower.path}"
        assert follower.feed.age() == float("inf")
        line = follower.log.of("snapshot.failed")[0]
        assert (line["level"], line["path"]) == ("error", str(follower.path))

        if follower.path.is_dir():
            follower.path.rmdir()
        follower.write(cluster("a"))
        await until(follower.nodes)
        assert follower.feed.waiting_for() is None


BROKEN = [None, b"", b'{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403}']


@pytest.mark.parametrize("content", BROKEN)
async def test_a_broken_file_changes_nothing(follower: Follower, content: bytes | None) -> None:
    follower.write(cluster("a"))
    async with in_background(follower.feed.follow(follower.take)):
        await until(follower.nodes)
        follower.seconds = 5
        follower.path.unlink() if content is None else follower.write(content)
        await until(follower.failures)
        assert follower.nodes() == ["a"]
        assert follower.feed.waiting_for() is None
        assert follower.feed.age() == 5
        follower.write(cluster("b"))
        await until(lambda: follower.nodes() == ["b"])
        assert follower.feed.age() == 0


async def test_a_change_during_a_read_is_followed(follower: Follower) -> None:
    follower.write(cluster("a"))

    async def take(snapshot_: Snapshot) -> None:
        if not follower.seen:
            follower.write(cluster("a", "b"))
        await follower.take(snapshot_)

    async with in_background(follower.feed.follow(take)):
        await until(lambda: follower.nodes() == ["a", "b"])


@pytest.mark.parametrize("every", [SOON, 0], ids=["the file stays", "once was enough"])
async def test_a_file_is_not_read_again_if(tmp_path: Path, every: float) -> None:
    follower = Follower(tmp_path / "cluster.json", every)
    follower.write(cluster("a"))
    async with in_background(follower.feed.follow(follower.take)):
        await until(follower.nodes)
        if not every:
            follower.write(cluster("b"))
        await asyncio.sleep(5 * SOON)
    assert len(follower.seen) == 1


# The pods of a file.


def with_pods(*sink: object) -> bytes:
    cluster_ = json.loads(cluster("a"))
    spec = {"nodeName": "a"}
    made = [{"apiVersion": "v1", "kind": "Pod", "metadata": each, "spec": spec} for each in sink]
    return json.dumps({**cluster_, "items": [*cluster_["items"], *made]}).encode()


async def test_pods_are_those_of_an_api_server(follower: Follower, sink: RecordedSink) -> None:
    follower.write(
        with_pods({"name": "p", "uid": "1", "labels": {"a": "b"}}, {"name": "q", "namespace": "team"})
    )
    await follower.feed.load(follower.take)
    assert [*sink.objects] == [("default", "p"), ("team", "q")]
    assert sink.objects["default", "p"] == {"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "uid": "1", "labels": {"a": "b"}},
        "spec": {"nodeName": "a"}}  # fmt: skip
    assert [keys for call, keys in sink.calls if call == "keep"] == [{"p", "q"}]
    assert follower.seen[-1].pods == 2


@pytest.mark.parametrize("metadata", [{}, {"name": ""}, {"name": 7}, "x", None])
async def test_a_pod_without_a_name_is_a_problem(
    follower: Follower, sink: RecordedSink, metadata: object
) -> None:
    follower.write(with_pods(metadata, {"name": "p"}))
    await follower.feed.load(follower.take)
    assert [*sink.objects] == [("default", "p")]
    [problem] = follower.seen[-1].problems
    assert (problem.kind, follower.seen[-1].pods) == ("Pod", 2)


async def test_a_failing_sink_does_not_stop_other_pods(follower: Follower, sink: RecordedSink) -> None:
    follower.write(with_pods({"name": "unbearable"}, {"name": "p"}))
    await follower.feed.load(follower.take)
    [line] = follower.log.lines()
    assert (line["event"], line["object"]) == ("snapshot.object_failed", "default/unbearable")
    assert [*sink.objects] == [("default", "p")]
    assert [keys for call, keys in sink.calls if call == "keep"] == [{"p", "unbearable"}]
    assert follower.feed.waiting_for() is None


async def test_pods_stay_if_the_snapshot_is_not_taken(follower: Follower, sink: RecordedSink) -> None:
    async def refuse(_: Snapshot) -> None:
        raise ZeroDivisionError("a rule with a fault")

    follower.write(with_pods({"name": "p"}))
    await follower.feed.load(refuse)

    assert sink.calls == []
    assert follower.feed.waiting_for()
