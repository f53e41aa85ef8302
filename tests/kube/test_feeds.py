"""One seam, two sources: whatever a cluster is followed through, the same things are seen."""

import asyncio
import io
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol

import orjson
import pytest
from prometheus_client import CollectorRegistry

from harness.fake_api import FakeApi
from numalign.kube import live_feed
from numalign.kube.cluster_state import Snapshot
from numalign.kube.decode import device_classes, shapes
from numalign.kube.decode.fingerprints import Fingerprint
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.feed import Feed
from numalign.kube.files import snapshot
from numalign.kube.files.file_feed import CROWD, FileFeed
from numalign.kube.informer import Sink
from numalign.kube.live_feed import LiveFeed
from numalign.kube.pod_informer import Phase, PodInfo, PodInformer
from numalign.model.intent import NamespaceRules, Policy
from numalign.runtime import logs
from numalign.shapes import KnownShape, RememberedShapes, Shape, ShapeHistory

Json = dict[str, Any]

SOON = 0.01
NRT = "topology.node.k8s.io/v1alpha2"


def node(name: str, **labels: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": "8"}, "images": [{"names": ["x" * 100]}]},
    }


def nrt(name: str, *, available: object = 8, zone: str = "node-0", version: str = NRT) -> Json:
    amount = {"name": "cpu", "capacity": 8, "allocatable": 8, "available": available}
    return {
        "apiVersion": version,
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "topologyPolicies": ["SingleNUMANodePodLevel"],
        "zones": [{"name": zone, "type": "Node", "resources": [amount]}],
    }


def namespace(name: str, **labels: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


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
        listed = {"apiVersion": "v1", "kind": "List", "items": list(self.objects.values())}
        new.write_bytes(orjson.dumps(listed))
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
        plural = {"NodeResourceTopology": "noderesourcetopologies", "DeviceClass": "deviceclasses"}.get(
            made["kind"], f"{made['kind'].lower()}s"
        )
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
            optional=[device_classes.COLLECTIONS],
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


@pytest.fixture(params=SOURCES)
async def source(request: pytest.FixtureRequest, tmp_path: Path, told: io.StringIO) -> AsyncIterator[Source]:
    async with SOURCES[request.param](tmp_path, logs.to(told, level="debug", form="json"), None) as made:
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
def pod_informer(listener: Told, told: io.StringIO) -> PodInformer:
    log = logs.to(told, level="debug", form="json")
    return PodInformer(listener, PodReader(), log=log, registry=CollectorRegistry())


@pytest.fixture(params=SOURCES)
async def listened(
    request: pytest.FixtureRequest, tmp_path: Path, told: io.StringIO, pod_informer: PodInformer
) -> AsyncIterator[Source]:
    """A source whose pods are listened for, with a small cluster in it."""
    log = logs.to(told, level="debug", form="json")
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
async def following(feed: Feed) -> AsyncIterator[Seen]:
    seen = Seen()
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


async def test_a_node_that_comes_is_seen(filled: Source) -> None:
    async with following(filled.feed) as seen:
        await seen.until(lambda: seen.snapshots)
        filled.put(node("c"))
        filled.put(nrt("c"))
        await seen.until(lambda: seen.nodes() == ["a", "c"])


async def test_a_topology_that_changes_is_seen(filled: Source) -> None:
    async with following(filled.feed) as seen:
        await seen.until(lambda: seen.snapshots)
        filled.put(nrt("a", available=3))
        await seen.until(lambda: seen.last.nodes[0].zones[0].free["cpu"] == 3000)


async def test_a_topology_that_goes_is_seen_and_one_that_comes_again(filled: Source) -> None:
    filled.put(nrt("b"))
    async with following(filled.feed) as seen:
        await seen.until(lambda: seen.snapshots)
        filled.delete(nrt("a"))
        await seen.until(lambda: seen.nodes() == ["b"])
        filled.put(nrt("a"))
        await seen.until(lambda: seen.nodes() == ["a", "b"])


async def test_a_node_that_goes_leaves_no_ghost(filled: Source) -> None:
    async with following(filled.feed) as seen:
        await seen.until(lambda: seen.snapshots)
        filled.delete(node("b"))
        await seen.until(lambda: seen.last.unknown == ())
        assert [*seen.last.labels] == ["a"]


async def test_a_label_of_a_namespace_is_seen(filled: Source) -> None:
    async with following(filled.feed) as seen:
        await seen.until(lambda: seen.snapshots)
        filled.put(namespace("team", **{"numalign.io/enforce": "restricted", "tier": "gold"}))
        await seen.until(lambda: seen.last.namespaces["team"].enforce is Policy.RESTRICTED)
        assert seen.last.namespace_labels["team"]["tier"] == "gold"


async def test_a_broken_object_is_told_of_and_stops_nobody(filled: Source) -> None:
    filled.put(nrt("b", zone="left"))
    async with following(filled.feed) as seen:
        await seen.until(lambda: seen.snapshots)
        [problem] = seen.last.problems
        assert (problem.kind, problem.name, seen.nodes()) == ("NodeResourceTopology", "b", ["a"])
        filled.put(nrt("b"))
        await seen.until(lambda: seen.nodes() == ["a", "b"] and not seen.last.problems)


async def test_pods_are_counted(filled: Source) -> None:
    def count() -> int:
        return sum(each.count for each in filled.feed.pod_counts())

    filled.put(pod("one"))
    filled.put(pod("two"))
    filled.put(pod("ended", phase="Succeeded"))
    async with following(filled.feed) as seen:
        await seen.until(lambda: seen.snapshots)
        await seen.until(lambda: count() == 2)
        filled.delete(pod("two"))
        await seen.until(lambda: count() == 1)


async def test_a_label_of_a_node_is_seen(filled: Source) -> None:
    filled.put(node("b", pool="gpu"))
    async with following(filled.feed) as seen:
        await seen.until(lambda: seen.snapshots)
        assert dict(seen.last.node_labels["b"]) == {"pool": "gpu"}
        filled.put(node("b", pool="cpu"))
        await seen.until(lambda: dict(seen.last.node_labels["b"]) == {"pool": "cpu"})


async def test_a_topology_that_accounts_for_other_pods_is_seen(filled: Source) -> None:
    none, one = "pfp0v001ef46db3751d8e999", "pfp0v0019e0420efb37746c6"
    filled.put({**nrt("a"), "attributes": [{"name": "nodeTopologyPodsFingerprint", "value": none}]})
    async with following(filled.feed) as seen:
        await seen.until(lambda: seen.snapshots)
        assert seen.last.fingerprints == {"a": Fingerprint(none)}
        filled.put({**nrt("a"), "attributes": [{"name": "nodeTopologyPodsFingerprint", "value": one}]})
        await seen.until(lambda: seen.last.fingerprints == {"a": Fingerprint(one)})
        filled.put(nrt("a"))
        await seen.until(lambda: seen.last.fingerprints == {})


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
    assert [*listened.feed.pod_counts()] == []


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

    async def slowly(_: Snapshot) -> None:
        running.append(1)
        assert sum(running) == 1
        filled.put(node(f"n{len(running)}"))
        await asyncio.sleep(3 * SOON)
        running.append(-1)

    task = asyncio.create_task(filled.feed.follow(slowly))
    await Seen().until(lambda: len(running) >= 6)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_a_snapshot_that_cannot_be_taken_does_not_end_the_feed(
    filled: Source, told: io.StringIO
) -> None:
    seen = Seen()

    async def choosy(found: Snapshot) -> None:
        if not any(node.name == "c" for node in found.nodes):
            raise ZeroDivisionError("a rule with a fault")
        await seen.take(found)

    task = asyncio.create_task(filled.feed.follow(choosy))
    await seen.until(lambda: "snapshot.failed" in told.getvalue())
    filled.put(node("c"))
    filled.put(nrt("c"))
    await seen.until(lambda: seen.nodes() == ["a", "c"])
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task

    assert "a rule with a fault" in told.getvalue()


@pytest.fixture
async def live(tmp_path: Path, told: io.StringIO) -> AsyncIterator[Live]:
    async with an_api_server(tmp_path, logs.to(told, level="debug", form="json")) as made:
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
    tmp_path: Path, pod_informer: PodInformer, told: io.StringIO, listener: Told
) -> None:
    log = logs.to(told, level="debug", form="json")
    async with an_api_server(tmp_path, log, pod_informer) as live:
        live.api.failures["/api/v1/pods"] = HTTPStatus.FORBIDDEN
        live.put(node("a"))
        live.put(pod("one"))
        async with following(live.feed) as seen:
            await seen.until(
                lambda: (live.feed.waiting_for() or "").startswith("Pod: the API server forbids")
            )
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


# Shapes that are remembered and declared.

KEPT = shapes.collection("numalign")
SHAPED = snapshot.of([nrt("gone", zone="node-7")]).shapes


def listed_text(*items: Json) -> str:
    return orjson.dumps({"apiVersion": "v1", "kind": "List", "items": items}).decode()


@pytest.fixture
def quiet(told: io.StringIO) -> logs.Log:
    return logs.to(told, level="debug", form="json")


def device_class(name: str, **spec: str) -> Json:
    version = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
    return {**version, "metadata": {"name": name}, "spec": spec}


async def test_which_resources_dra_serves_is_heard(source: Source) -> None:
    own = "deviceclass.resource.kubernetes.io"
    source.put(node("a"))
    source.put(nrt("a"))
    async with following(source.feed) as seen:
        await seen.until(lambda: seen.snapshots)
        source.put(device_class("gpus", extendedResourceName="nvidia.com/gpu"))
        source.put(device_class("nics"))
        await seen.until(lambda: seen.last.served == {"nvidia.com/gpu", f"{own}/gpus", f"{own}/nics"})
        source.delete(device_class("gpus"))
        await seen.until(lambda: seen.last.served == {f"{own}/nics"})


def memory_of(*known: KnownShape, seen: float = 0.0) -> Json:
    memory = RememberedShapes(tuple(replace(each, nodes=0, seen=seen or time.time()) for each in known))
    metadata = {"name": shapes.NAME, "namespace": "numalign"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": shapes.encode(memory)}


@asynccontextmanager
async def remembering(
    log: logs.Log,
    *,
    clock: Callable[[], float] = time.monotonic,
    declared: Callable[[], Sequence[Shape]] = tuple,
) -> AsyncIterator[Live]:
    """An API server with one node, in whose cluster shapes are remembered."""
    async with FakeApi() as api, api.client() as client:
        api.put(node("a"))
        api.put(nrt("a"))
        watched, registry = live_feed.STATIC, CollectorRegistry()
        feed = LiveFeed(
            client,
            watched=watched,
            optional=[(KEPT,)],
            log=log,
            registry=registry,
            clock=clock,
            declared=declared,
        )
        yield Live(api, feed)


def names(found: Snapshot) -> list[str]:
    return sorted(each.shape.name for each in found.shapes if not each.nodes)


REMEMBERED = sorted(each.shape.name for each in SHAPED)


async def test_what_is_remembered_is_in_the_first_snapshot(quiet: logs.Log) -> None:
    async with remembering(quiet) as live:
        live.put(memory_of(*SHAPED))
        async with following(live.feed) as seen:
            await seen.until(lambda: seen.snapshots)

            assert names(seen.snapshots[0]) == REMEMBERED


async def test_what_is_remembered_later_is_heard_and_what_is_broken_is_told(quiet: logs.Log) -> None:
    async with remembering(quiet) as live, following(live.feed) as seen:
        await seen.until(lambda: seen.snapshots)
        live.put(memory_of(*SHAPED))
        await seen.until(lambda: names(seen.last) == REMEMBERED)
        live.put({**memory_of(), "data": {"x": "{"}})
        await seen.until(lambda: seen.last.problems)

        assert str(seen.last.problems[0]).startswith("ConfigMap numalign-shapes: data.x: is not JSON")
        # Who breaks what is remembered makes nobody forget.
        assert names(seen.last) == REMEMBERED


async def test_another_config_map_is_not_asked_for(quiet: logs.Log) -> None:
    async with remembering(quiet) as live, following(live.feed) as seen:
        other = memory_of(*SHAPED)
        live.put({**other, "metadata": {**other["metadata"], "name": "other"}})
        await seen.until(lambda: seen.snapshots)

        assert names(seen.last) == []
        asked = [each.query["fieldSelector"] for each in live.api.asked("GET", KEPT.path)]
        assert {*asked} == {"metadata.name=numalign-shapes"}


@pytest.mark.parametrize("code", [HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE])
async def test_answers_do_not_wait_for_what_is_denied(quiet: logs.Log, code: HTTPStatus) -> None:
    async with remembering(quiet) as live:
        live.api.failures[KEPT.path] = code
        async with following(live.feed) as seen:
            await seen.until(lambda: seen.snapshots)

            assert (seen.nodes(), live.feed.waiting_for()) == (["a"], None)
            del live.api.failures[KEPT.path]
            live.put(memory_of(*SHAPED))
            await seen.until(lambda: names(seen.last) == REMEMBERED)


async def test_answers_wait_for_a_while_where_nobody_says_anything(quiet: logs.Log) -> None:
    now = 0.0
    async with remembering(quiet, clock=lambda: now) as live:
        live.api.hung.add(KEPT.path)
        async with following(live.feed) as seen:
            await seen.until(lambda: "ConfigMap" in (live.feed.waiting_for() or ""))
            assert not seen.snapshots
            now = live_feed.PATIENCE_SECONDS
            await seen.until(lambda: seen.nodes() == ["a"])
        live.api.hung.clear()


async def test_what_is_declared_is_known_and_changes(quiet: logs.Log, tmp_path: Path) -> None:
    declared = [each.shape for each in SHAPED]
    path = tmp_path / "cluster.json"
    path.write_text(listed_text(node("a"), nrt("a")))
    file = FileFeed(path, every=SOON, log=quiet, registry=CollectorRegistry(), declared=lambda: declared)
    async with remembering(quiet, declared=lambda: declared) as live:
        for feed in (file, live.feed):
            async with following(feed) as seen:
                await seen.until(lambda: [each for each in seen.last.shapes if each.declared])
                declared.clear()
                await seen.until(lambda: not [each for each in seen.last.shapes if each.declared])
                declared.extend(each.shape for each in SHAPED)


async def test_what_a_later_file_remembers_is_known(quiet: logs.Log, tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    feed = FileFeed(path, every=SOON, log=quiet, registry=CollectorRegistry())
    path.write_text(listed_text(node("a"), nrt("a")))
    async with following(feed) as seen:
        await seen.until(lambda: seen.snapshots)
        path.write_text(listed_text(node("a"), nrt("a"), memory_of(*SHAPED)))
        await seen.until(lambda: names(seen.last) == REMEMBERED)


async def test_what_earlier_files_held_is_remembered(quiet: logs.Log, tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    feed = FileFeed(path, every=SOON, log=quiet, registry=CollectorRegistry())
    path.write_text(listed_text(node("a"), nrt("a"), node("b"), nrt("b", zone="node-7")))
    async with following(feed) as seen:
        await seen.until(lambda: seen.nodes() == ["a", "b"])
        path.write_text(listed_text(node("a"), nrt("a")))
        await seen.until(lambda: seen.nodes() == ["a"])

        [here] = [each for each in seen.last.shapes if each.nodes]
        [gone] = [each for each in seen.last.shapes if each.seen is not None]
        assert (here.nodes, gone.shape.node.ids) == (1, (7,))


async def test_a_file_that_is_refused_makes_nobody_forget(quiet: logs.Log, tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    book = ShapeHistory(wall=time.time)
    feed = FileFeed(path, every=SOON, log=quiet, registry=CollectorRegistry(), shape_history=book)
    seen = Seen()
    path.write_text(listed_text(node("a"), nrt("a")))
    await feed.load(seen.take)
    path.write_text(listed_text(node("a")))
    await feed.load(seen.take)

    assert [each.nodes for each in book.shapes()] == [1]
