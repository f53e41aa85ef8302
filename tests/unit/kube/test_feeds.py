"""A feed of a file and one of an API server have the same snapshots."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import orjson
import pytest
from prometheus_client import CollectorRegistry

from numalign.kube import live_feed
from numalign.kube.cluster_state import Snapshot
from numalign.kube.decode import shapes
from numalign.kube.decode.fingerprints import Fingerprint
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.feed import Feed
from numalign.kube.files import snapshot
from numalign.kube.files.file_feed import CROWD, FileFeed
from numalign.kube.informer import Sink
from numalign.kube.live_feed import LiveFeed
from numalign.kube.pod_informer import Phase, PodInformer
from numalign.model.intent import NamespaceRules, Policy
from numalign.model.options import NEWEST
from numalign.shapes import Declared, GrowablePools, KnownShape, RememberedShapes
from tests.worlds.log import RecordedLog
from tests.worlds.notation import table
from tests.worlds.objects import Json, listed, namespace, node, numatopology, reported
from tests.worlds.objects import nrt as topology
from tests.worlds.sinks import RecordedPods
from tests.worlds.tasks import in_background
from tools.clusters.fake_api import FakeApi
from tools.clusters.waiting import until

SOON = 0.01
NRT = "topology.node.k8s.io/v1alpha2"


def nrt(name: str, *, zone: str = "node-0", **fields: object) -> Json:
    return topology(name, zone, topologyPolicies=["SingleNUMANodePodLevel"], **fields)


def pod(name: str, *, phase: str = "Running", uid: str = "") -> Json:
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}}
    return {"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "uid": uid or name},
        "spec": {"nodeName": "a", "containers": [{"name": "main", "image": "x", "resources": resources}]},
        "status": {"phase": phase}}  # fmt: skip


@dataclass
class File:
    """A snapshot file that is written anew for each change."""

    path: Path
    feed: FileFeed
    objects: dict[tuple[str, str], Json] = field(default_factory=dict)

    def put(self, made: Json) -> None:
        self.objects[made["kind"], made["metadata"]["name"]] = made
        self._write()

    def delete(self, made: Json) -> None:
        del self.objects[made["kind"], made["metadata"]["name"]]
        self._write()

    def _write(self) -> None:
        new = self.path.with_suffix(".new")
        new.write_bytes(orjson.dumps(listed(*self.objects.values())))
        new.replace(self.path)


@dataclass
class Live:
    """An API server."""

    api: FakeApi
    feed: LiveFeed

    def put(self, made: Json) -> None:
        self.api.put(made)

    def delete(self, made: Json) -> None:
        group = "api/v1" if made["apiVersion"] == "v1" else f"apis/{made['apiVersion']}"
        where = made["metadata"].get("namespace")
        plural = {
            "NodeResourceTopology": "noderesourcetopologies",
            "Numatopology": "numatopologies",
            "DeviceClass": "deviceclasses",
        }.get(made["kind"], f"{made['kind'].lower()}s")
        middle = f"namespaces/{where}/{plural}" if where else plural
        self.api.delete(f"/{group}/{middle}/{made['metadata']['name']}")


@asynccontextmanager
async def a_file(tmp_path: Path, log: RecordedLog, pods: Sink | None = None) -> AsyncIterator[File]:
    path, registry = tmp_path / "cluster.json", CollectorRegistry()
    yield File(path, FileFeed(path, every=SOON, log=log.log, registry=registry, pods=pods))


@asynccontextmanager
async def an_api_server(
    _: Path,
    log: RecordedLog,
    pods: Sink | None = None,
    **options: Any,  # noqa: ANN401  those of a feed
) -> AsyncIterator[Live]:
    watched: dict[str, Any] = {"watched": live_feed.WITH_PODS, "optional": live_feed.OF_SOME, "pods": pods}
    async with FakeApi() as api, api.client() as client:
        yield Live(api, LiveFeed(client, log=log.log, registry=CollectorRegistry(), **watched | options))


Source = File | Live
"""A cluster that tests can change, and a feed that follows it."""

SOURCES: dict[str, Callable[[Path, RecordedLog, Sink | None], AbstractAsyncContextManager[Source]]] = {
    "file": a_file,
    "API server": an_api_server,
}


@pytest.fixture
def log() -> RecordedLog:
    return RecordedLog()


@pytest.fixture(params=SOURCES)
async def source(request: pytest.FixtureRequest, tmp_path: Path, log: RecordedLog) -> AsyncIterator[Source]:
    async with SOURCES[request.param](tmp_path, log, None) as made:
        yield made


@pytest.fixture
def listener() -> RecordedPods:
    return RecordedPods()


@pytest.fixture
def pod_informer(listener: RecordedPods, log: RecordedLog) -> PodInformer:
    return PodInformer(listener, PodReader(), log=log.log, registry=CollectorRegistry())


@pytest.fixture(params=SOURCES)
async def source_of_pods(
    request: pytest.FixtureRequest, tmp_path: Path, log: RecordedLog, pod_informer: PodInformer
) -> AsyncIterator[Source]:
    """A source whose pods are listened for, with a small cluster in it."""
    async with SOURCES[request.param](tmp_path, log, pod_informer) as made:
        for each in CLUSTER:
            made.put(each)
        yield made


@dataclass
class Seen:
    """What a feed gave."""

    snapshots: list[Snapshot] = field(default_factory=list)

    async def take(self, snapshot_: Snapshot) -> None:
        self.snapshots.append(snapshot_)

    @property
    def last(self) -> Snapshot:
        return self.snapshots[-1] if self.snapshots else Snapshot()

    def nodes(self) -> list[str]:
        return [each.name for each in self.last.nodes]


@asynccontextmanager
async def following(feed: Feed, taker: Seen | None = None) -> AsyncIterator[Seen]:
    seen = taker or Seen()
    async with in_background(feed.follow(seen.take)):
        yield seen


CLUSTER = [node("a"), node("b"), nrt("a"), namespace("team", **{"numalign.io/warn": "restricted"})]


@pytest.fixture
def filled(source: Source) -> Source:
    for made in CLUSTER:
        source.put(made)
    return source


async def test_the_first_snapshot(filled: Source) -> None:
    async with following(filled.feed) as seen:
        await until(lambda: seen.snapshots)
    [only] = seen.last.nodes
    assert (only.name, only.policy) == ("a", Policy.SINGLE_NUMA_NODE)
    assert seen.last.unknown == ("b",)
    assert seen.last.labels == {"a": None, "b": None}
    assert seen.last.namespaces["team"] == NamespaceRules(warn=Policy.RESTRICTED)
    assert seen.last.problems == ()


def accounting(fingerprint: str) -> Json:
    return {**nrt("a"), "attributes": [{"name": "nodeTopologyPodsFingerprint", "value": fingerprint}]}


def device_class(name: str, **spec: str) -> Json:
    version = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
    return {**version, "metadata": {"name": name}, "spec": spec}


def broken(seen: "Seen") -> list[tuple[str, str]]:
    return [(problem.kind, problem.name) for problem in seen.last.problems]


Step = tuple[str, Sequence[Json], Callable[["Seen"], bool]]
"""`put` or `delete`, the objects, and a condition of the snapshot."""

NO_POD, ONE_POD = "pfp0v001ef46db3751d8e999", "pfp0v0019e0420efb37746c6"
DRA = "deviceclass.resource.kubernetes.io"
ENFORCED = namespace("team", **{"numalign.io/enforce": "restricted", "tier": "gold"})


@pytest.mark.parametrize("steps", table([
    ("a node comes", [("put", [node("c"), nrt("c")], lambda seen: seen.nodes() == ["a", "c"])]),
    ("a node known by Volcano's exporter alone", [
        ("put", [node("c"), numatopology("c")], lambda seen: seen.nodes() == ["a", "c"]),
        ("delete", [numatopology("c")], lambda seen: seen.nodes() == ["a"])]),
    ("an agent comes, and looks again", [
        ("put", [reported(nrt("a"), pods={"u": {"held": []}})], lambda seen: "a" in seen.last.placements),
        ("put", [reported(nrt("a"), **{"observed-at": "2026-11-22T21:00:00Z"})],
            lambda seen: seen.last.observed_at == {"a": 1795381200.0} and not seen.last.placements)]),
    ("a topology goes and comes again", [
        ("put", [nrt("b")], lambda seen: seen.nodes() == ["a", "b"]),
        ("delete", [nrt("a")], lambda seen: seen.nodes() == ["b"]),
        ("put", [nrt("a")], lambda seen: seen.nodes() == ["a", "b"])]),
    ("a node goes, and leaves no ghost", [
        ("delete", [node("b")], lambda seen: (seen.last.unknown, [*seen.last.labels]) == ((), ["a"]))]),
    ("labels of a namespace", [
        ("put", [ENFORCED], lambda seen: seen.last.namespaces["team"].enforce is Policy.RESTRICTED
            and seen.last.namespace_labels["team"]["tier"] == "gold")]),
    ("labels of a node", [
        ("put", [node("b", pool="gpu")], lambda seen: dict(seen.last.node_labels["b"]) == {"pool": "gpu"}),
        ("put", [node("b", pool="cpu")], lambda seen: dict(seen.last.node_labels["b"]) == {"pool": "cpu"})]),
    ("a broken object leaves the others", [
        ("put", [nrt("b", zone="left")], lambda seen: broken(seen) == [("NodeResourceTopology", "b")]
            and seen.nodes() == ["a"]),
        ("put", [nrt("b")], lambda seen: seen.nodes() == ["a", "b"] and not broken(seen))]),
    ("a topology accounts for other pods", [
        ("put", [accounting(NO_POD)], lambda seen: seen.last.fingerprints == {"a": Fingerprint(NO_POD)}),
        ("put", [accounting(ONE_POD)], lambda seen: seen.last.fingerprints == {"a": Fingerprint(ONE_POD)}),
        ("put", [nrt("a")], lambda seen: seen.last.fingerprints == {})]),
    ("DRA serves resources", [
        ("put", [device_class("gpus", extendedResourceName="nvidia.com/gpu"), device_class("nics")],
            lambda seen: seen.last.served == {"nvidia.com/gpu", f"{DRA}/gpus", f"{DRA}/nics"}),
        ("delete", [device_class("gpus")], lambda seen: seen.last.served == {f"{DRA}/nics"})]),
]))  # fmt: skip
async def test_a_change_is_seen(filled: Source, steps: list[Step]) -> None:
    async with following(filled.feed) as seen:
        await until(lambda: seen.snapshots)
        for act, objects, condition in steps:
            for changed in objects:
                getattr(filled, act)(changed)
            await until(partial(condition, seen))


async def test_a_listener_receives_every_pod(source_of_pods: Source, listener: RecordedPods) -> None:
    source_of_pods.put(pod("one"))
    source_of_pods.put(pod("ended", phase="Succeeded"))
    async with following(source_of_pods.feed):
        await until(lambda: listener.names == "ended one")
        source_of_pods.put(pod("two", phase="Pending"))
        await until(lambda: listener.names == "ended one two")
        source_of_pods.put(pod("two", phase="Failed"))
        await until(lambda: Phase.FAILED in {pod.phase for pod in listener.pods.values()})
        source_of_pods.delete(pod("one"))
        await until(lambda: listener.names == "ended two")
    assert [call for call, _ in listener.calls].count("remove") == 1
    assert len(source_of_pods.feed.pod_counts()) == 0


async def test_a_feed_with_a_listener_waits_for_pods(source_of_pods: Source, listener: RecordedPods) -> None:
    for number in range(CROWD + 1):
        source_of_pods.put(pod(f"p{number}"))
    async with following(source_of_pods.feed) as seen:
        assert source_of_pods.feed.waiting_for()
        await until(lambda: source_of_pods.feed.waiting_for() is None)
        assert len(listener.pods) == CROWD + 1
        await until(lambda: seen.nodes() == ["a"])


async def test_snapshots_are_taken_one_after_another(filled: Source) -> None:
    running: list[int] = []

    class Slow(Seen):
        async def take(self, snapshot_: Snapshot) -> None:
            running.append(1)
            assert sum(running) == 1
            filled.put(node(f"n{len(running)}"))
            await asyncio.sleep(3 * SOON)
            running.append(-1)
            await super().take(snapshot_)

    async with following(filled.feed, Slow()):
        await until(lambda: len(running) >= 6)


async def test_a_failing_taker_does_not_end_the_feed(filled: Source, log: RecordedLog) -> None:
    class Choosy(Seen):
        async def take(self, snapshot_: Snapshot) -> None:
            if not any(node.name == "c" for node in snapshot_.nodes):
                raise ZeroDivisionError("a rule with a fault")
            await super().take(snapshot_)

    async with following(filled.feed, Choosy()) as seen:
        await until(lambda: log.of("snapshot.failed"))
        filled.put(node("c"))
        filled.put(nrt("c"))
        await until(lambda: seen.nodes() == ["a", "c"])

    assert "a rule with a fault" in log.stream.getvalue()


@pytest.fixture
async def live(tmp_path: Path, log: RecordedLog) -> AsyncIterator[Live]:
    async with an_api_server(tmp_path, log) as made:
        for each in CLUSTER:
            made.put(each)
        yield made


async def test_a_live_topology_without_its_node_does_not_count(live: Live) -> None:
    async with following(live.feed) as seen:
        await until(lambda: seen.nodes() == ["a"])
        live.delete(node("a"))
        await until(lambda: not seen.nodes())
    assert live.api.get(f"/apis/{NRT}/noderesourcetopologies/a")


async def test_no_snapshot_before_the_pods_of_a_listener(
    tmp_path: Path, pod_informer: PodInformer, log: RecordedLog, listener: RecordedPods
) -> None:
    async with an_api_server(tmp_path, log, pod_informer) as live:
        live.api.failures["/api/v1/pods"] = HTTPStatus.FORBIDDEN
        live.put(node("a"))
        live.put(pod("one"))
        async with following(live.feed) as seen:
            forbidden = "Pod: not allowed to list"
            await until(lambda: (live.feed.waiting_for() or "").startswith(forbidden))
            before, age = [*seen.snapshots], live.feed.age()
            live.api.failures.clear()
            await until(lambda: seen.snapshots and listener.names == "one")
            assert live.feed.age() < 60
    assert (before, age) == ([], float("inf"))


async def test_pods_are_listed_after_the_first_snapshot(live: Live) -> None:
    live.api.failures["/api/v1/namespaces"] = HTTPStatus.SERVICE_UNAVAILABLE
    async with following(live.feed) as seen:
        await until(lambda: len(live.api.asked("LIST", "/api/v1/namespaces")) > 1)
        before = live.api.asked("LIST", "/api/v1/pods")
        live.api.failures.clear()
        await until(lambda: live.api.asked("LIST", "/api/v1/pods") and seen.snapshots)
    assert before == []


async def test_the_version_of_the_api_server_is_followed(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_feed, "VERSION_SECONDS", SOON)
    live.api.documents["/version"] = {"major": "1", "minor": "36+", "gitVersion": "v1.36.4-gke.100"}
    async with following(live.feed) as seen:
        await until(lambda: seen.last.server == 36)
        live.api.documents["/version"] = {"gitVersion": "v1.38.0-beta.0"}
        await until(lambda: seen.last.server == 38)
        live.api.failures["/version"] = HTTPStatus.SERVICE_UNAVAILABLE
        live.put(node("c"))
        live.put(nrt("c"))
        await until(lambda: seen.nodes() == ["a", "c"])
        during_failure = seen.last.server
        del live.api.failures["/version"]
        live.api.documents["/version"] = {"gitVersion": ["?"]}
        await until(lambda: seen.last.server == NEWEST)

    assert during_failure == 38


# Shapes that are remembered and declared.

MEMORY = shapes.collection("numalign")
SHAPED = snapshot.of([nrt("gone", zone="node-7")]).shapes


def memory_of(*known: KnownShape, seen: float = 0.0) -> Json:
    memory = RememberedShapes(tuple(replace(each, nodes=0, seen=seen or time.time()) for each in known))
    metadata = {"name": shapes.NAME, "namespace": "numalign"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": shapes.encode(memory)}


@asynccontextmanager
async def live_with_memory(log: RecordedLog, **options: Any) -> AsyncIterator[Live]:  # noqa: ANN401
    """An API server with one node, in whose cluster shapes are remembered."""
    memory: dict[str, Any] = {"watched": live_feed.STATIC, "optional": [(MEMORY,)]}
    async with an_api_server(Path(), log, **memory, **options) as live:
        live.put(node("a"))
        live.put(nrt("a"))
        yield live


def remembered_names(snapshot_: Snapshot) -> list[str]:
    return sorted(each.shape.name for each in snapshot_.shapes if not each.nodes)


REMEMBERED = sorted(each.shape.name for each in SHAPED)


async def test_remembered_shapes_are_in_the_first_snapshot(log: RecordedLog) -> None:
    async with live_with_memory(log) as live:
        live.put(memory_of(*SHAPED))
        async with following(live.feed) as seen:
            await until(lambda: seen.snapshots)
            assert remembered_names(seen.snapshots[0]) == REMEMBERED


async def test_remembered_shapes_that_change_or_break(log: RecordedLog) -> None:
    async with live_with_memory(log) as live, following(live.feed) as seen:
        await until(lambda: seen.snapshots)
        live.put(memory_of(*SHAPED))
        await until(lambda: remembered_names(seen.last) == REMEMBERED)
        live.put({**memory_of(), "data": {"x": "{"}})
        await until(lambda: seen.last.problems)
        assert str(seen.last.problems[0]).startswith("ConfigMap numalign-shapes: data.x: is not JSON")
        # A broken ConfigMap changes nothing.
        assert remembered_names(seen.last) == REMEMBERED


async def test_only_one_config_map_is_watched(log: RecordedLog) -> None:
    async with live_with_memory(log) as live, following(live.feed) as seen:
        other = memory_of(*SHAPED)
        live.put({**other, "metadata": {**other["metadata"], "name": "other"}})
        await until(lambda: seen.snapshots)
        assert remembered_names(seen.last) == []
        selectors_ = [each.query["fieldSelector"] for each in live.api.asked("GET", MEMORY.path)]
        assert {*selectors_} == {"metadata.name=numalign-shapes"}


@pytest.mark.parametrize("code", [HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND])
async def test_snapshots_do_not_wait_for_forbidden_shapes(log: RecordedLog, code: HTTPStatus) -> None:
    async with live_with_memory(log) as live:
        live.api.failures[MEMORY.path] = code
        async with following(live.feed) as seen:
            await until(lambda: seen.snapshots)
            assert (seen.nodes(), live.feed.waiting_for()) == (["a"], None)
            del live.api.failures[MEMORY.path]
            live.put(memory_of(*SHAPED))
            await until(lambda: remembered_names(seen.last) == REMEMBERED)


async def test_snapshots_wait_a_while_for_a_hanging_server(log: RecordedLog) -> None:
    now = 0.0
    async with live_with_memory(log, clock=lambda: now) as live:
        live.api.hung.add(MEMORY.path)
        async with following(live.feed) as seen:
            await until(lambda: "ConfigMap" in (live.feed.waiting_for() or ""))
            assert not seen.snapshots
            now = live_feed.PATIENCE_SECONDS
            await until(lambda: seen.nodes() == ["a"])
        live.api.hung.clear()


async def test_declared_shapes_are_followed(file: File, log: RecordedLog) -> None:
    coming = Declared(tuple(each.shape for each in SHAPED), GrowablePools(frozenset({"pool"})))
    declared = coming
    registry = CollectorRegistry()
    from_file = FileFeed(file.path, every=SOON, log=log.log, registry=registry, declared=lambda: declared)
    async with live_with_memory(log, declared=lambda: declared) as live:
        for feed in (from_file, live.feed):
            async with following(feed) as seen:
                await until(lambda: [each for each in seen.last.shapes if each.declared])
                assert seen.last.pools == coming.pools
                declared = Declared()
                await until(lambda: not [each for each in seen.last.shapes if each.declared])
                assert seen.last.pools == declared.pools
                declared = coming


@pytest.fixture
def file(tmp_path: Path, log: RecordedLog) -> File:
    path = tmp_path / "cluster.json"
    made = File(path, FileFeed(path, every=SOON, log=log.log, registry=CollectorRegistry()))
    made.put(node("a"))
    made.put(nrt("a"))
    return made


async def test_shapes_of_earlier_files_are_remembered(file: File) -> None:
    file.put(nrt("b", zone="node-7"))
    file.put(node("b"))
    async with following(file.feed) as seen:
        await until(lambda: seen.nodes() == ["a", "b"])
        file.delete(nrt("b"))
        await until(lambda: seen.nodes() == ["a"])
        [present] = [each for each in seen.last.shapes if each.nodes]
        [gone] = [each for each in seen.last.shapes if each.seen is not None]
        assert (present.nodes, gone.shape.node.ids) == (1, (7,))
