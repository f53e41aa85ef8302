"""A feed of a file and one of an API server report the same changes."""

import asyncio
import gzip
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import orjson
import pytest
from prometheus_client import CollectorRegistry

from numalign.kube import kinds, live_feed
from numalign.kube.cluster import Change, Cluster, NodeChanged, Settled
from numalign.kube.decode import device_classes, numatopologies, shapes
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.files import snapshot
from numalign.kube.files.file_feed import CROWD, FileFeed
from numalign.kube.live_feed import LiveFeed
from numalign.kube.pod_informer import Phase, PodInformer
from numalign.model.intent import NamespaceRules, Policy
from numalign.model.options import NEWEST
from numalign.shapes import Declared, GrowablePools, KnownShape, RememberedShapes
from tests.worlds.log import RecordedLog
from tests.worlds.notation import table
from tests.worlds.objects import Json, listed, namespace, node, numatopology
from tests.worlds.objects import nrt as topology
from tests.worlds.sinks import RecordedPods, RecordedSink
from tests.worlds.tasks import in_background
from tools.clusters.fake_api import FakeApi
from tools.clusters.waiting import until

SOON = 0.01
PATHS = {"Pod": "/api/v1/namespaces/team/pods"} | {each.kind: each.path for each in (kinds.NODES,
    kinds.TOPOLOGIES[0], device_classes.COLLECTIONS[0], numatopologies.COLLECTIONS[0])}  # fmt: skip


def nrt(name: str, *, zone: str = "node-0") -> Json:
    return topology(name, zone, topologyPolicies=["SingleNUMANodePodLevel"])


def pod(name: str, *, phase: str = "Running") -> Json:
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "team", "uid": name},
        "spec": {"nodeName": "a", "containers": [{"name": "main", "image": "x", "resources": resources}]},
        "status": {"phase": phase}}  # fmt: skip


class File:
    """A snapshot file that is written anew for each change."""

    def __init__(self, path: Path, log: RecordedLog, **options: Any) -> None:  # noqa: ANN401  those of a feed
        self.path, self.seconds, self.registry = path, 0.0, CollectorRegistry()
        self.objects: dict[tuple[str, str], Json] = {}
        usual: dict[str, Any] = {"every": SOON, "log": log.log, "registry": self.registry}
        self.cluster = Cluster()
        self.feed = FileFeed(path, self.cluster, clock=lambda: self.seconds, **usual | options)

    def put(self, *objects: Json) -> None:
        self.objects |= {(made["kind"], made["metadata"]["name"]): made for made in objects}
        self.write(orjson.dumps(listed(*self.objects.values())))

    def delete(self, made: Json) -> None:
        del self.objects[made["kind"], made["metadata"]["name"]]
        self.put()

    def write(self, content: bytes) -> None:
        new = self.path.with_suffix(".new")
        new.write_bytes(content)
        new.replace(self.path)

    def failures(self) -> float:
        return self.registry.get_sample_value("numalign_snapshot_failures_total") or 0


@dataclass
class Live:
    """An API server."""

    api: FakeApi
    cluster: Cluster
    feed: LiveFeed

    def put(self, *objects: Json) -> None:
        for made in objects:
            self.api.put(made)

    def delete(self, made: Json) -> None:
        self.api.delete(f"{PATHS[made['kind']]}/{made['metadata']['name']}")


@asynccontextmanager
async def a_file(folder: Path, log: RecordedLog, **options: Any) -> AsyncIterator[File]:  # noqa: ANN401
    yield File(folder / "cluster.json", log, **options)


@asynccontextmanager
async def an_api_server(_: Path, log: RecordedLog, **options: Any) -> AsyncIterator[Live]:  # noqa: ANN401
    watched: dict[str, Any] = {"watched": live_feed.WITH_PODS, "optional": live_feed.OF_SOME}
    async with FakeApi() as api, api.client() as client:
        cluster, usual = Cluster(), {"log": log.log, "registry": CollectorRegistry(), **watched}
        yield Live(api, cluster, LiveFeed(client, cluster, **usual | options))


Source = File | Live
"""A cluster that tests can change, and a feed that follows it."""

EACH = pytest.mark.parametrize("made_by", [a_file, an_api_server], ids=["file", "API server"])
MadeBy = Callable[..., AbstractAsyncContextManager[Source]]
CLUSTER = [node("a"), node("b"), nrt("a"), namespace("team", **{"numalign.io/warn": "restricted"})]


@pytest.fixture
def log() -> RecordedLog:
    return RecordedLog()


@pytest.fixture
def listener() -> RecordedPods:
    return RecordedPods()


@pytest.fixture
def pod_informer(listener: RecordedPods, log: RecordedLog) -> PodInformer:
    return PodInformer(listener, PodReader(), log=log.log, registry=CollectorRegistry())


@pytest.fixture
async def source(
    made_by: MadeBy, tmp_path: Path, log: RecordedLog, pod_informer: PodInformer
) -> AsyncIterator[Source]:
    """A small cluster, whose pods are listened for."""
    async with made_by(tmp_path, log, pods=pod_informer) as made:
        made.put(*CLUSTER)
        yield made


class Seen:
    """A cluster as it is now, and how often it settled."""

    def __init__(self, cluster: Cluster) -> None:
        self.last, self.settled = cluster, 0
        cluster.listen(self.take)

    def take(self, change: Change) -> None:
        self.settled += isinstance(change, Settled)

    @property
    def nodes(self) -> list[str]:
        return [each.name for each in self.last.nodes]


@asynccontextmanager
async def following(source: Source, *, seen: type[Seen] = Seen) -> AsyncIterator[Seen]:
    made = seen(source.cluster)
    async with in_background(source.feed.follow()):
        yield made


@EACH
async def test_the_first_snapshot(source: Source) -> None:
    async with following(source) as seen:
        await until(lambda: seen.settled)
    [only] = seen.last.nodes
    assert (only.name, only.policy) == ("a", Policy.SINGLE_NUMA_NODE)
    assert seen.last.unknown == ("b",)
    assert all(state.classifiable for state in seen.last.states.values())
    assert seen.last.namespaces["team"] == NamespaceRules(warn=Policy.RESTRICTED)
    assert seen.last.problems == ()


def device_class(name: str, **spec: str) -> Json:
    version = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
    return {**version, "metadata": {"name": name}, "spec": spec}


Step = tuple[str, Sequence[Json], Callable[[Seen], bool]]
"""`put` or `delete`, the objects, and a condition of the snapshot."""

DRA = "deviceclass.resource.kubernetes.io"
ENFORCED = namespace("team", **{"numalign.io/enforce": "restricted", "tier": "gold"})


@EACH
@pytest.mark.parametrize("steps", table([
    ("a node known by Volcano's exporter alone", [
        ("put", [node("c"), numatopology("c")], lambda seen: seen.nodes == ["a", "c"]),
        ("delete", [numatopology("c")], lambda seen: seen.nodes == ["a"])]),
    ("a topology goes and comes again", [
        ("put", [nrt("b")], lambda seen: seen.nodes == ["a", "b"]),
        ("delete", [nrt("a")], lambda seen: seen.nodes == ["b"]),
        ("put", [nrt("a")], lambda seen: seen.nodes == ["a", "b"])]),
    ("nodes go, and leave no ghost", [
        ("delete", [node("b")], lambda seen: [*seen.last.states] == ["a"]),
        ("put", [node("c"), nrt("c")], lambda seen: seen.nodes == ["a", "c"]),
        ("delete", [node("a")], lambda seen: seen.nodes == ["c"])]),
    ("labels of a namespace", [
        ("put", [ENFORCED], lambda seen: seen.last.namespaces["team"].enforce is Policy.RESTRICTED
            and seen.last.namespace_labels["team"]["tier"] == "gold")]),
    ("DRA serves resources", [
        ("put", [device_class("gpus", extendedResourceName="nvidia.com/gpu"), device_class("nics")],
            lambda seen: seen.last.served == {"nvidia.com/gpu", f"{DRA}/gpus", f"{DRA}/nics"}),
        ("delete", [device_class("gpus")], lambda seen: seen.last.served == {f"{DRA}/nics"})]),
]))  # fmt: skip
async def test_a_change_is_seen(source: Source, steps: list[Step]) -> None:
    async with following(source) as seen:
        await until(lambda: seen.settled)
        for act, objects, condition in steps:
            for changed in objects:
                getattr(source, act)(changed)
            await until(partial(condition, seen))


@EACH
async def test_a_listener_receives_every_pod(source: Source, listener: RecordedPods) -> None:
    source.put(pod("one"), pod("ended", phase="Succeeded"))
    async with following(source):
        await until(lambda: listener.names == "ended one")
        source.put(pod("two", phase="Pending"))
        await until(lambda: listener.names == "ended one two")
        source.put(pod("two", phase="Failed"))
        await until(lambda: Phase.FAILED in {pod.phase for pod in listener.pods.values()})
        source.delete(pod("one"))
        await until(lambda: listener.names == "ended two")
    assert [call for call, _ in listener.calls].count("remove") == 1
    assert len(source.feed.pod_counts()) == 0


@EACH
async def test_a_feed_with_a_listener_waits_for_pods(source: Source, listener: RecordedPods) -> None:
    source.put(*(pod(f"p{number}") for number in range(CROWD + 1)))
    async with following(source) as seen:
        assert source.feed.waiting_for()
        await until(lambda: source.feed.waiting_for() is None)
        assert len(listener.pods) == CROWD + 1
        await until(lambda: seen.nodes == ["a"])


class Faulty(Seen):
    """A listener with a fault in what it does with the node b."""

    def take(self, change: Change) -> None:
        super().take(change)
        if isinstance(change, NodeChanged) and change.name == "b":
            raise ZeroDivisionError("a rule with a fault")


@EACH
async def test_a_failing_listener_keeps_nothing_from_others(source: Source, log: RecordedLog) -> None:
    async with following(source, seen=Faulty) as seen:
        other = Seen(source.cluster)
        await until(lambda: log.of("snapshot.failed"))
        source.put(node("c"), nrt("c"))
        await until(lambda: seen.nodes == ["a", "c"] and other.settled)
        assert other.last.unknown == ("b",)
    assert "a rule with a fault" in log.stream.getvalue()
    assert not isinstance(source, File) or source.failures()


@pytest.fixture
async def live(tmp_path: Path, log: RecordedLog) -> AsyncIterator[Live]:
    async with an_api_server(tmp_path, log) as made:
        made.put(*CLUSTER)
        yield made


async def test_no_snapshot_before_the_pods_of_a_listener(
    tmp_path: Path, pod_informer: PodInformer, log: RecordedLog, listener: RecordedPods
) -> None:
    async with an_api_server(tmp_path, log, pods=pod_informer) as live:
        live.api.failures["/api/v1/pods"] = HTTPStatus.FORBIDDEN
        live.put(node("a"), pod("one"))
        async with following(live) as seen:
            forbidden = "Pod: not allowed to list"
            await until(lambda: (live.feed.waiting_for() or "").startswith(forbidden))
            assert (seen.settled, live.feed.age()) == (0, float("inf"))
            live.api.failures.clear()
            await until(lambda: seen.settled and listener.names == "one")
            assert live.feed.age() < 60


async def test_pods_are_listed_after_the_first_snapshot(live: Live) -> None:
    live.api.failures["/api/v1/namespaces"] = HTTPStatus.SERVICE_UNAVAILABLE
    async with following(live) as seen:
        await until(lambda: len(live.api.received("LIST", "/api/v1/namespaces")) > 1)
        assert live.api.received("LIST", "/api/v1/pods") == []
        live.api.failures.clear()
        await until(lambda: live.api.received("LIST", "/api/v1/pods") and seen.settled)


async def test_the_version_of_the_api_server_is_followed(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_feed, "VERSION_SECONDS", SOON)
    live.api.documents["/version"] = {"major": "1", "minor": "36+", "gitVersion": "v1.36.4-gke.100"}
    async with following(live) as seen:
        await until(lambda: seen.last.server == 36)
        live.api.failures["/version"] = HTTPStatus.SERVICE_UNAVAILABLE
        live.put(node("c"), nrt("c"))
        await until(lambda: seen.nodes == ["a", "c"])
        assert seen.last.server == 36
        del live.api.failures["/version"]
        live.api.documents["/version"] = {"gitVersion": ["?"]}
        await until(lambda: seen.last.server == NEWEST)


MEMORY = shapes.collection("numalign")
SHAPED = snapshot.of([nrt("gone", zone="node-7")]).known_shapes
REMEMBERED = sorted(each.shape.name for each in SHAPED)


def memory_of(*known: KnownShape) -> Json:
    memory = RememberedShapes(tuple(replace(each, nodes=0, seen=time.time()) for each in known))
    metadata = {"name": shapes.NAME, "namespace": "numalign"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": shapes.encode(memory)}


@asynccontextmanager
async def live_with_memory(log: RecordedLog, **options: Any) -> AsyncIterator[Live]:  # noqa: ANN401
    """An API server with one node, in whose cluster shapes are remembered."""
    memory: dict[str, Any] = {"watched": live_feed.STATIC, "optional": [(MEMORY,)]}
    async with an_api_server(Path(), log, **memory, **options) as live:
        live.put(node("a"), nrt("a"))
        yield live


def remembered_names(cluster: Cluster) -> list[str]:
    return sorted(each.shape.name for each in cluster.known_shapes if not each.nodes)


async def test_remembered_shapes_are_those_of_one_config_map(log: RecordedLog) -> None:
    async with live_with_memory(log) as live:
        other = memory_of(*snapshot.of([nrt("gone", zone="node-5")]).known_shapes)
        live.put(memory_of(*SHAPED), {**other, "metadata": {**other["metadata"], "name": "other"}})
        async with following(live) as seen:
            await until(lambda: seen.settled)
            assert remembered_names(seen.last) == REMEMBERED
            live.put({**memory_of(), "data": {"x": "{"}})
            await until(lambda: seen.last.problems)
            assert str(seen.last.problems[0]).startswith("ConfigMap numalign-shapes: data.x: is not JSON")
            # A broken ConfigMap changes nothing.
            assert remembered_names(seen.last) == REMEMBERED
        selectors_ = [each.query["fieldSelector"] for each in live.api.received("GET", MEMORY.path)]
        assert {*selectors_} == {"metadata.name=numalign-shapes"}


@pytest.mark.parametrize("code", [HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND])
async def test_snapshots_do_not_wait_for_forbidden_shapes(log: RecordedLog, code: HTTPStatus) -> None:
    async with live_with_memory(log) as live:
        live.api.failures[MEMORY.path] = code
        async with following(live) as seen:
            await until(lambda: seen.settled)
            assert (seen.nodes, live.feed.waiting_for()) == (["a"], None)
            del live.api.failures[MEMORY.path]
            live.put(memory_of(*SHAPED))
            await until(lambda: remembered_names(seen.last) == REMEMBERED)


async def test_snapshots_wait_a_while_for_a_hanging_server(log: RecordedLog) -> None:
    now = 0.0
    async with live_with_memory(log, clock=lambda: now) as live:
        live.api.hung.add(MEMORY.path)
        async with following(live) as seen:
            await until(lambda: "ConfigMap" in (live.feed.waiting_for() or ""))
            assert not seen.settled
            now = live_feed.PATIENCE_SECONDS
            await until(lambda: seen.nodes == ["a"])
        live.api.hung.clear()


@pytest.fixture
def file(tmp_path: Path, log: RecordedLog) -> File:
    return File(tmp_path / "cluster.json", log)


async def test_declared_shapes_are_followed(tmp_path: Path, log: RecordedLog) -> None:
    coming = Declared(tuple(each.shape for each in SHAPED), GrowablePools(frozenset({"pool"})))
    declared = coming
    file = File(tmp_path / "cluster.json", log, declared=lambda: declared)
    file.put(node("a"), nrt("a"))
    async with live_with_memory(log, declared=lambda: declared) as live:
        for source in (file, live):
            async with following(source) as seen:
                await until(lambda: [each for each in seen.last.known_shapes if each.declared])
                assert seen.last.pools == coming.pools
                declared = Declared()
                await until(lambda: not [each for each in seen.last.known_shapes if each.declared])
                assert seen.last.pools == declared.pools
                declared = coming


async def test_shapes_of_earlier_files_are_remembered(file: File) -> None:
    file.put(nrt("a"), nrt("b", zone="node-7"))
    async with following(file) as seen:
        await until(lambda: seen.nodes == ["a", "b"])
        file.delete(nrt("b"))
        await until(lambda: seen.nodes == ["a"])
        [present] = [each for each in seen.last.known_shapes if each.nodes]
        [gone] = [each for each in seen.last.known_shapes if each.seen is not None]
        assert (present.nodes, gone.shape.node.ids) == (1, (7,))


@pytest.mark.parametrize("write", table([
    ("is not there", lambda _: None),
    ("is half of a gzip file", lambda file: file.write(gzip.compress(b"{}" * 999)[:-9])),
    ("is a pipe", lambda file: os.mkfifo(file.path)),
]))  # fmt: skip
async def test_the_first_file_is_waited_for_if_it(
    file: File, log: RecordedLog, write: Callable[[File], object]
) -> None:
    write(file)
    async with following(file) as seen:
        await until(file.failures)
        assert (seen.settled, file.feed.age()) == (0, float("inf"))
        assert file.feed.waiting_for() == f"a valid snapshot at {file.path}"
        line = log.of("snapshot.failed")[0]
        assert (line["level"], line["path"]) == ("error", str(file.path))
        file.put(nrt("a"))
        await until(lambda: seen.nodes)
        assert file.feed.waiting_for() is None


@pytest.mark.parametrize("content", table([
    ("gone", None), ("empty", b""), ("without topologies", orjson.dumps(listed(node("a")))),
    ("an error", b'{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403}'),
]))  # fmt: skip
async def test_a_broken_file_changes_nothing(file: File, content: bytes | None) -> None:
    file.put(nrt("a"))
    async with following(file) as seen:
        await until(lambda: seen.nodes)
        file.seconds = 5
        file.path.unlink() if content is None else file.write(content)
        await until(file.failures)
        assert (seen.nodes, file.feed.waiting_for(), file.feed.age()) == (["a"], None, 5)
        file.put(nrt("b"))
        await until(lambda: seen.nodes == ["a", "b"])
        assert file.feed.age() == 0


async def test_a_change_during_a_read_is_followed(file: File) -> None:
    class Writing(Seen):
        def take(self, change: Change) -> None:
            super().take(change)
            if isinstance(change, NodeChanged) and change.name == "a":
                file.put(nrt("b"))

    file.put(nrt("a"))
    async with following(file, seen=Writing) as seen:
        await until(lambda: seen.nodes == ["a", "b"])


@pytest.mark.parametrize("every", [SOON, 0], ids=["the file stays", "once was enough"])
async def test_a_file_is_not_read_again_if(tmp_path: Path, log: RecordedLog, every: float) -> None:
    file = File(tmp_path / "cluster.json", log, every=every)
    file.put(nrt("a"))
    async with following(file) as seen:
        await until(lambda: seen.nodes)
        if not every:
            file.put(nrt("b"))
        await asyncio.sleep(5 * SOON)
    assert seen.settled == 1


@pytest.fixture
def sink() -> RecordedSink:
    return RecordedSink(broken="unbearable")


@pytest.fixture
def file_of_pods(tmp_path: Path, log: RecordedLog, sink: RecordedSink) -> File:
    return File(tmp_path / "cluster.json", log, pods=sink)


async def loaded(file: File, *pods: object) -> Cluster:
    """The cluster of a file with a topology, and with pods of this metadata."""
    made = [{"apiVersion": "v1", "kind": "Pod", "metadata": each, "spec": {"nodeName": "a"}} for each in pods]
    file.write(orjson.dumps(listed(nrt("a"), *made)))
    await file.feed.load()
    return file.cluster


def pods_on_nodes(cluster: Cluster) -> int:
    assert cluster.last_settled
    return cluster.last_settled.pods


async def test_pods_are_those_of_an_api_server(file_of_pods: File, sink: RecordedSink) -> None:
    labelled = {"name": "p", "uid": "1", "labels": {"a": "b"}}
    assert pods_on_nodes(await loaded(file_of_pods, labelled, {"name": "q", "namespace": "team"})) == 2
    assert [*sink.objects] == [("default", "p"), ("team", "q")]
    assert sink.objects["default", "p"] == {"apiVersion": "v1", "kind": "Pod",
        "metadata": {**labelled, "namespace": "default"}, "spec": {"nodeName": "a"}}  # fmt: skip
    assert [keys for call, keys in sink.calls if call == "keep"] == [{"p", "q"}]


@pytest.mark.parametrize("metadata", [{"name": ""}, {"name": 7}, "x"])
async def test_a_nameless_pod_is_a_problem(file_of_pods: File, sink: RecordedSink, metadata: object) -> None:
    seen = await loaded(file_of_pods, metadata, {"name": "p"})
    assert [*sink.objects] == [("default", "p")]
    assert ([problem.kind for problem in seen.problems], pods_on_nodes(seen)) == (["Pod"], 2)


async def test_failing_sinks_stop_no_others(file_of_pods: File, sink: RecordedSink, log: RecordedLog) -> None:
    await loaded(file_of_pods, {"name": "unbearable"}, {"name": "p"})
    assert [(line["event"], line["object"]) for line in log.lines()] == [
        ("snapshot.object_failed", "default/unbearable")
    ]
    assert [*sink.objects] == [("default", "p")]
    assert [keys for call, keys in sink.calls if call == "keep"] == [{"p", "unbearable"}]
    assert file_of_pods.feed.waiting_for() is None
