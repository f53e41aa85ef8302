"""One seam, two sources: whatever a cluster is followed through, the same things are seen."""

import asyncio
import io
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Protocol

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
from numalign.kube.pod_informer import Phase, PodInfo, PodInformer
from numalign.model.intent import NamespaceRules, Policy
from numalign.model.options import NEWEST
from numalign.runtime import logs
from numalign.shapes import Declared, GrowablePools, KnownShape, RememberedShapes, ShapeHistory
from tests.worlds import objects
from tests.worlds.notation import table
from tests.worlds.objects import Json, listed, namespace, node, numatopology, reported
from tools.clusters.fake_api import FakeApi

SOON = 0.01
NRT = "topology.node.k8s.io/v1alpha2"


def nrt(name: str, *, zone: str = "node-0", **fields: object) -> Json:
    return objects.nrt(name, zone, topologyPolicies=["SingleNUMANodePodLevel"], **fields)


def pod(name: str, *, phase: str = "Running", uid: str = "") -> Json:
    """An API server gives a uid of its own."""
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "uid": uid or name},
        "spec": {"nodeName": "a", "containers": [{"name": "main", "image": "x", "resources": resources}]},
        "status": {"phase": phase},
    }


class Source(Protocol):
    """A cluster that tests can change, and a feed that follows it."""

    @property
    def feed(self) -> Feed:
        """What follows it."""

    def put(self, made: Json) -> None:
        """An object is there, or has changed."""

    def delete(self, made: Json) -> None:
        """It is gone."""


@dataclass
class File:
    """A snapshot file that is written anew for each change."""

    path: Path
    feed: FileFeed
    objects: dict[tuple[str, str], Json] = field(default_factory=dict)

    def put(self, made: Json) -> None:
        """As said at `Source`."""
        self.objects[made["kind"], made["metadata"]["name"]] = made
        self._write()

    def delete(self, made: Json) -> None:
        """As said at `Source`."""
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
        """As said at `Source`."""
        self.api.put(made)

    def delete(self, made: Json) -> None:
        """As said at `Source`."""
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
async def a_file(tmp_path: Path, log: logs.Log, pods: Sink | None = None) -> AsyncIterator[File]:
    path, registry = tmp_path / "cluster.json", CollectorRegistry()
    yield File(path, FileFeed(path, every=SOON, log=log, registry=registry, pods=pods))


@asynccontextmanager
async def an_api_server(_: Path, log: logs.Log, pods: Sink | None = None) -> AsyncIterator[Live]:
    async with FakeApi() as api, api.client() as client:
        watched, registry = live_feed.WITH_PODS, CollectorRegistry()
        feed = LiveFeed(
            client,
            watched=watched,
            optional=live_feed.OF_SOME,
            log=log,
            registry=registry,
            pods=pods,
        )
        yield Live(api, feed)


SOURCES: dict[str, Callable[[Path, logs.Log, Sink | None], AbstractAsyncContextManager[Source]]] = {
    "file": a_file,
    "API server": an_api_server,
}


@pytest.fixture
def told() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def log(told: io.StringIO) -> logs.Log:
    return logs.to(told, level="debug", form="json")


@pytest.fixture(params=SOURCES)
async def source(request: pytest.FixtureRequest, tmp_path: Path, log: logs.Log) -> AsyncIterator[Source]:
    async with SOURCES[request.param](tmp_path, log, None) as made:
        yield made


@dataclass
class Told:
    """Listens for pods."""

    pods: dict[str, PodInfo] = field(default_factory=dict)
    went: list[str] = field(default_factory=list)

    def update_pod(self, pod: PodInfo) -> None:
        """As said at `PodListener`."""
        self.pods[pod.uid] = pod

    def remove_pod(self, uid: str) -> None:
        """As said at `PodListener`."""
        self.went.append(self.pods.pop(uid).name)

    def names(self) -> list[str]:
        """Of the pods that are there."""
        return sorted(each.name for each in self.pods.values())


@pytest.fixture
def listener() -> Told:
    return Told()


@pytest.fixture
def pod_informer(listener: Told, log: logs.Log) -> PodInformer:
    return PodInformer(listener, PodReader(), log=log, registry=CollectorRegistry())


@pytest.fixture(params=SOURCES)
async def listened(
    request: pytest.FixtureRequest, tmp_path: Path, log: logs.Log, pod_informer: PodInformer
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

    async def take(self, found: Snapshot) -> None:
        """What a feed gives to."""
        self.snapshots.append(found)

    @property
    def last(self) -> Snapshot:
        """The latest, empty before there is one."""
        return self.snapshots[-1] if self.snapshots else Snapshot()

    def nodes(self) -> list[str]:
        """Those of known topology."""
        return [each.name for each in self.last.nodes]

    async def until(self, happened: Callable[[], object]) -> None:
        """Wait for something that can only be looked at; fails after ten seconds."""
        for _ in range(1000):
            if happened():
                return
            await asyncio.sleep(SOON)
        pytest.fail(f"it never happened; the last was {self.last}")


@asynccontextmanager
async def following(feed: Feed, taker: Seen | None = None) -> AsyncIterator[Seen]:
    seen = taker or Seen()
    task = asyncio.create_task(feed.follow(seen.take))
    try:
        yield seen
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


CLUSTER = [node("a"), node("b"), nrt("a"), namespace("team", **{"numalign.io/warn": "restricted"})]


@pytest.fixture
def filled(source: Source) -> Source:
    for made in CLUSTER:
        source.put(made)
    return source


async def test_what_is_there_is_seen_at_first(filled: Source) -> None:
    async with following(filled.feed) as seen:
        await seen.until(lambda: seen.snapshots)

    [only] = seen.last.nodes
    assert (only.name, only.policy) == ("a", Policy.SINGLE_NUMA_NODE)
    assert seen.last.unknown == ("b",)
    assert seen.last.labels == {"a": None, "b": None}
    assert seen.last.namespaces["team"] == NamespaceRules(warn=Policy.RESTRICTED)
    assert seen.last.problems == ()


async def test_it_is_waited_for_what_is_not_there_yet(filled: Source) -> None:
    before, age = filled.feed.waiting_for(), filled.feed.age()
    async with following(filled.feed) as seen:
        await seen.until(lambda: seen.snapshots)
        await seen.until(lambda: filled.feed.waiting_for() is None)

        assert before
        assert age == float("inf")
        assert filled.feed.age() < 5


async def test_pods_are_counted(filled: Source) -> None:
    def count() -> int:
        return len(filled.feed.pod_counts())

    filled.put(pod("one"))
    filled.put(pod("two"))
    filled.put(pod("ended", phase="Succeeded"))
    async with following(filled.feed) as seen:
        await seen.until(lambda: seen.snapshots)
        await seen.until(lambda: count() == 2)
        filled.delete(pod("two"))
        await seen.until(lambda: count() == 1)


def accounting(fingerprint: str) -> Json:
    return {**nrt("a"), "attributes": [{"name": "nodeTopologyPodsFingerprint", "value": fingerprint}]}


def device_class(name: str, **spec: str) -> Json:
    version = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
    return {**version, "metadata": {"name": name}, "spec": spec}


def broken(seen: "Seen") -> list[tuple[str, str]]:
    return [(problem.kind, problem.name) for problem in seen.last.problems]


Step = tuple[str, Sequence[Json], Callable[["Seen"], bool]]
"""Whether objects are put or deleted, which, and what is seen then."""

NO_POD, ONE_POD = "pfp0v001ef46db3751d8e999", "pfp0v0019e0420efb37746c6"
DRA = "deviceclass.resource.kubernetes.io"
ENFORCED = namespace("team", **{"numalign.io/enforce": "restricted", "tier": "gold"})

CHANGES: list[tuple[str, list[Step]]] = [
    ("a node comes", [("put", [node("c"), nrt("c")], lambda seen: seen.nodes() == ["a", "c"])]),
    ("Volcano's exporter tells of a node of which nobody else does", [
        ("put", [node("c"), numatopology("c")], lambda seen: seen.nodes() == ["a", "c"]),
        ("delete", [numatopology("c")], lambda seen: seen.nodes() == ["a"])]),
    ("an agent comes, and looks again", [
        ("put", [reported(nrt("a"), pods={"u": {"held": []}})], lambda seen: "a" in seen.last.placements),
        ("put", [reported(nrt("a"), **{"observed-at": "2026-11-22T21:00:00Z"})],
            lambda seen: seen.last.observed_at == {"a": 1795381200.0} and not seen.last.placements)]),
    ("a topology changes", [
        ("put", [nrt("a", available=3)], lambda seen: seen.last.nodes[0].zones[0].free["cpu"] == 3000)]),
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
    ("a broken object stops nobody", [
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
]  # fmt: skip


@pytest.mark.parametrize("steps", table(CHANGES))
async def test_a_change_is_seen(filled: Source, steps: list[Step]) -> None:
    async with following(filled.feed) as seen:
        await seen.until(lambda: seen.snapshots)
        for act, objects, condition in steps:
            for changed in objects:
                getattr(filled, act)(changed)
            await seen.until(partial(condition, seen))


async def test_who_listens_hears_of_every_pod(listened: Source, listener: Told) -> None:
    listened.put(pod("one"))
    listened.put(pod("ended", phase="Succeeded"))
    async with following(listened.feed) as seen:
        await seen.until(lambda: listener.names() == ["ended", "one"])
        listened.put(pod("two", phase="Pending"))
        await seen.until(lambda: listener.names() == ["ended", "one", "two"])
        listened.put(pod("two", phase="Failed"))
        await seen.until(lambda: [*map(phase_of, listener.pods.values())].count(Phase.FAILED) == 1)
        listened.delete(pod("one"))
        await seen.until(lambda: listener.names() == ["ended", "two"])

    assert listener.went == ["one"]
    assert len(listened.feed.pod_counts()) == 0


def phase_of(pod: PodInfo) -> Phase:
    return pod.phase


async def test_a_pod_that_is_made_anew_is_another_one(listened: Source, listener: Told) -> None:
    listened.put(pod("one", uid="first"))
    async with following(listened.feed) as seen:
        await seen.until(lambda: listener.names() == ["one"])
        [first] = listener.pods
        listened.delete(pod("one"))
        listened.put(pod("one", uid="second"))
        await seen.until(lambda: listener.went == ["one"] and listener.names() == ["one"])

    assert first not in listener.pods


async def test_whoever_listens_for_pods_is_ready_with_them(listened: Source, listener: Told) -> None:
    for number in range(CROWD + 1):
        listened.put(pod(f"p{number}"))
    async with following(listened.feed) as seen:
        assert listened.feed.waiting_for()
        await seen.until(lambda: listened.feed.waiting_for() is None)
        assert len(listener.pods) == CROWD + 1
        await seen.until(lambda: seen.nodes() == ["a"])


async def test_snapshots_come_one_after_another(filled: Source) -> None:
    running: list[int] = []

    class Slow(Seen):
        async def take(self, found: Snapshot) -> None:
            running.append(1)
            assert sum(running) == 1
            filled.put(node(f"n{len(running)}"))
            await asyncio.sleep(3 * SOON)
            running.append(-1)
            await super().take(found)

    async with following(filled.feed, Slow()) as seen:
        await seen.until(lambda: len(running) >= 6)


async def test_a_snapshot_that_cannot_be_taken_does_not_end_the_feed(
    filled: Source, told: io.StringIO
) -> None:
    class Choosy(Seen):
        async def take(self, found: Snapshot) -> None:
            if not any(node.name == "c" for node in found.nodes):
                raise ZeroDivisionError("a rule with a fault")
            await super().take(found)

    async with following(filled.feed, Choosy()) as seen:
        await seen.until(lambda: "snapshot.failed" in told.getvalue())
        filled.put(node("c"))
        filled.put(nrt("c"))
        await seen.until(lambda: seen.nodes() == ["a", "c"])

    assert "a rule with a fault" in told.getvalue()


@pytest.fixture
async def live(tmp_path: Path, log: logs.Log) -> AsyncIterator[Live]:
    async with an_api_server(tmp_path, log) as made:
        for each in CLUSTER:
            made.put(each)
        yield made


async def test_of_a_live_cluster_a_topology_without_its_node_does_not_count(live: Live) -> None:
    async with following(live.feed) as seen:
        await seen.until(lambda: seen.nodes() == ["a"])
        live.delete(node("a"))
        await seen.until(lambda: not seen.nodes())

    assert live.api.get(f"/apis/{NRT}/noderesourcetopologies/a")


async def test_where_pods_are_listened_for_nothing_is_answered_without_them(
    tmp_path: Path, pod_informer: PodInformer, log: logs.Log, listener: Told
) -> None:
    async with an_api_server(tmp_path, log, pod_informer) as live:
        live.api.failures["/api/v1/pods"] = HTTPStatus.FORBIDDEN
        live.put(node("a"))
        live.put(pod("one"))
        async with following(live.feed) as seen:
            forbidden = "Pod: not allowed to list"
            await seen.until(lambda: (live.feed.waiting_for() or "").startswith(forbidden))
            before, age = [*seen.snapshots], live.feed.age()
            live.api.failures.clear()
            await seen.until(lambda: seen.snapshots and listener.names() == ["one"])
            assert live.feed.age() < 60

    assert (before, age) == ([], float("inf"))


async def test_pods_are_read_once_there_is_something_to_answer_with(live: Live) -> None:
    live.api.failures["/api/v1/namespaces"] = HTTPStatus.SERVICE_UNAVAILABLE
    async with following(live.feed) as seen:
        await seen.until(lambda: len(live.api.asked("LIST", "/api/v1/namespaces")) > 1)
        before = live.api.asked("LIST", "/api/v1/pods")
        live.api.failures.clear()
        await seen.until(lambda: live.api.asked("LIST", "/api/v1/pods") and seen.snapshots)

    assert before == []


async def test_the_version_of_the_api_server_is_followed(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_feed, "VERSION_SECONDS", SOON)
    live.api.documents["/version"] = {"major": "1", "minor": "36+", "gitVersion": "v1.36.4-gke.100"}
    async with following(live.feed) as seen:
        await seen.until(lambda: seen.last.server == 36)
        live.api.documents["/version"] = {"gitVersion": "v1.38.0-beta.0"}
        await seen.until(lambda: seen.last.server == 38)
        live.api.failures["/version"] = HTTPStatus.SERVICE_UNAVAILABLE
        live.put(node("c"))
        live.put(nrt("c"))
        await seen.until(lambda: seen.nodes() == ["a", "c"])
        during_failure = seen.last.server
        del live.api.failures["/version"]
        live.api.documents["/version"] = {"gitVersion": ["?"]}
        await seen.until(lambda: seen.last.server == NEWEST)

    assert during_failure == 38


# Shapes that are remembered and declared.

KEPT = shapes.collection("numalign")
SHAPED = snapshot.of([nrt("gone", zone="node-7")]).shapes


def memory_of(*known: KnownShape, seen: float = 0.0) -> Json:
    memory = RememberedShapes(tuple(replace(each, nodes=0, seen=seen or time.time()) for each in known))
    metadata = {"name": shapes.NAME, "namespace": "numalign"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": shapes.encode(memory)}


@asynccontextmanager
async def remembering(
    log: logs.Log,
    *,
    clock: Callable[[], float] = time.monotonic,
    declared: Callable[[], Declared] = Declared,
) -> AsyncIterator[Live]:
    """An API server with one node, in whose cluster shapes are remembered."""
    async with FakeApi() as api, api.client() as client:
        live = Live(
            api,
            LiveFeed(
                client,
                watched=live_feed.STATIC,
                optional=[(KEPT,)],
                log=log,
                registry=CollectorRegistry(),
                clock=clock,
                declared=declared,
            ),
        )
        live.put(node("a"))
        live.put(nrt("a"))
        yield live


def names(found: Snapshot) -> list[str]:
    return sorted(each.shape.name for each in found.shapes if not each.nodes)


REMEMBERED = sorted(each.shape.name for each in SHAPED)


async def test_what_is_remembered_is_in_the_first_snapshot(log: logs.Log) -> None:
    async with remembering(log) as live:
        live.put(memory_of(*SHAPED))
        async with following(live.feed) as seen:
            await seen.until(lambda: seen.snapshots)

            assert names(seen.snapshots[0]) == REMEMBERED


async def test_what_is_remembered_later_is_heard_and_what_is_broken_is_told(log: logs.Log) -> None:
    async with remembering(log) as live, following(live.feed) as seen:
        await seen.until(lambda: seen.snapshots)
        live.put(memory_of(*SHAPED))
        await seen.until(lambda: names(seen.last) == REMEMBERED)
        live.put({**memory_of(), "data": {"x": "{"}})
        await seen.until(lambda: seen.last.problems)

        assert str(seen.last.problems[0]).startswith("ConfigMap numalign-shapes: data.x: is not JSON")
        # Who breaks what is remembered makes nobody forget.
        assert names(seen.last) == REMEMBERED


async def test_another_config_map_is_not_asked_for(log: logs.Log) -> None:
    async with remembering(log) as live, following(live.feed) as seen:
        other = memory_of(*SHAPED)
        live.put({**other, "metadata": {**other["metadata"], "name": "other"}})
        await seen.until(lambda: seen.snapshots)

        assert names(seen.last) == []
        asked = [each.query["fieldSelector"] for each in live.api.asked("GET", KEPT.path)]
        assert {*asked} == {"metadata.name=numalign-shapes"}


@pytest.mark.parametrize("code", [HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE])
async def test_answers_do_not_wait_for_what_is_denied(log: logs.Log, code: HTTPStatus) -> None:
    async with remembering(log) as live:
        live.api.failures[KEPT.path] = code
        async with following(live.feed) as seen:
            await seen.until(lambda: seen.snapshots)

            assert (seen.nodes(), live.feed.waiting_for()) == (["a"], None)
            del live.api.failures[KEPT.path]
            live.put(memory_of(*SHAPED))
            await seen.until(lambda: names(seen.last) == REMEMBERED)


async def test_answers_wait_for_a_while_where_nobody_says_anything(log: logs.Log) -> None:
    now = 0.0
    async with remembering(log, clock=lambda: now) as live:
        live.api.hung.add(KEPT.path)
        async with following(live.feed) as seen:
            await seen.until(lambda: "ConfigMap" in (live.feed.waiting_for() or ""))
            assert not seen.snapshots
            now = live_feed.PATIENCE_SECONDS
            await seen.until(lambda: seen.nodes() == ["a"])
        live.api.hung.clear()


async def test_what_is_declared_is_known_and_changes(file: File, log: logs.Log) -> None:
    coming = Declared(tuple(each.shape for each in SHAPED), GrowablePools(frozenset({"pool"})))
    declared = coming
    registry = CollectorRegistry()
    from_file = FileFeed(file.path, every=SOON, log=log, registry=registry, declared=lambda: declared)
    async with remembering(log, declared=lambda: declared) as live:
        for feed in (from_file, live.feed):
            async with following(feed) as seen:
                await seen.until(lambda: [each for each in seen.last.shapes if each.declared])
                assert seen.last.pools == coming.pools
                declared = Declared()
                await seen.until(lambda: not [each for each in seen.last.shapes if each.declared])
                assert seen.last.pools == declared.pools
                declared = coming


@pytest.fixture
def file(tmp_path: Path, log: logs.Log) -> File:
    """A snapshot file of one node, and a feed that follows it."""
    path = tmp_path / "cluster.json"
    made = File(path, FileFeed(path, every=SOON, log=log, registry=CollectorRegistry()))
    made.put(node("a"))
    made.put(nrt("a"))
    return made


async def test_what_a_later_file_remembers_is_known(file: File) -> None:
    async with following(file.feed) as seen:
        await seen.until(lambda: seen.snapshots)
        file.put(memory_of(*SHAPED))
        await seen.until(lambda: names(seen.last) == REMEMBERED)


async def test_what_earlier_files_held_is_remembered(file: File) -> None:
    file.put(nrt("b", zone="node-7"))
    file.put(node("b"))
    async with following(file.feed) as seen:
        await seen.until(lambda: seen.nodes() == ["a", "b"])
        file.delete(nrt("b"))
        await seen.until(lambda: seen.nodes() == ["a"])

        [here] = [each for each in seen.last.shapes if each.nodes]
        [gone] = [each for each in seen.last.shapes if each.seen is not None]
        assert (here.nodes, gone.shape.node.ids) == (1, (7,))


async def test_a_file_that_is_refused_makes_nobody_forget(file: File, log: logs.Log) -> None:
    history, seen = ShapeHistory(wall=time.time), Seen()
    feed = FileFeed(file.path, every=SOON, log=log, registry=CollectorRegistry(), shape_history=history)
    await feed.load(seen.take)
    file.delete(nrt("a"))
    await feed.load(seen.take)

    assert [each.nodes for each in history.shapes()] == [1]
