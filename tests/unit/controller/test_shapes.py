"""The shapes are in a ConfigMap that all replicas read: read before each write, and written seldom."""

import asyncio
import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest

from controller.shapes import PATIENCE_SECONDS, ShapeWriter, differs
from numalign.kube.decode import shapes
from numalign.kube.errors import Conflict, Forbidden, NotFound, Unreachable
from numalign.model.node import Node
from numalign.shapes import Identity, LeftOut, ShapeHistory
from numalign.shapes.history import RememberedShapes
from tests.unit.controller.conftest import Replica
from tests.worlds.clock import Clock
from tests.worlds.notation import node, table

HOME = "/api/v1/namespaces/numalign-system/configmaps"
PATH = f"{HOME}/numalign-shapes"
WHAT = "configmap numalign-system/numalign-shapes"
SMALL, LARGE = node("cpu=8 gpu=1", "cpu=8 gpu=1"), node("cpu=8 gpu=4", "cpu=8 gpu=4")
DEGRADED = node("cpu=8", "cpu=8")
HOUR = 3600.0
Json = dict[str, Any]


@dataclass
class ConfigMap:
    """The object on an API server; `broken` is raised by every call.

    `raced` is written by another replica right after the next read.
    """

    clock: Clock
    stored: Json | None = None
    broken: Exception | None = None
    reads: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    raced: RememberedShapes | None = None

    async def get(self, path: str, *, what: str, most: int | None = None) -> object:
        assert (path, what, bool(most)) == (PATH, WHAT, True)
        self.reads.append(self.clock.seconds)
        if self.broken or self.stored is None:
            raise self.broken or NotFound(what)
        stored = copy.deepcopy(self.stored)
        if self.raced:
            self.store(shapes.encode(self.raced))
            self.raced = None
        return stored

    async def create(self, path: str, body: Any, *, what: str) -> object:  # noqa: ANN401  JSON
        assert (path, what) == (HOME, WHAT)
        return self._written(body, what, conflict=self.stored is not None)

    async def replace(self, path: str, body: Any, *, what: str) -> object:  # noqa: ANN401  JSON
        assert path == PATH
        return self._written(body, what, conflict=body["metadata"]["resourceVersion"] != self.version)

    def store(self, data: Mapping[str, str]) -> None:
        """Another client wrote this."""
        metadata = {"name": "numalign-shapes", "labels": {"team": "a"}}
        self._put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)})

    @property
    def version(self) -> str:
        return self.stored["metadata"]["resourceVersion"] if self.stored else "1"

    @property
    def memory(self) -> RememberedShapes:
        memory, mistakes = shapes.decode(self.stored)
        assert mistakes == ()
        return memory

    def _written(self, body: Json, what: str, *, conflict: bool) -> Json:
        if self.broken:
            raise self.broken
        if conflict:
            raise Conflict(what)
        self.writes.append(self.clock.seconds)
        return self._put(body)

    def _put(self, body: Json) -> Json:
        version = str(int(self.version) + 1)
        self.stored = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
        return self.stored


@dataclass
class ShapeReplica(Replica):
    """A shape writer, its book, and the ConfigMap, which it reaches through `api` if there is one."""

    api: Any = None
    nodes_known: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.configmap = ConfigMap(self.clock)
        self.book = ShapeHistory(wall=self.clock)
        server: Any = self.api or self.configmap
        self.writer = ShapeWriter(
            server,
            namespace="numalign-system",
            book=self.book,
            nodes_known=lambda: self.nodes_known,
            wall=self.clock,
            **self.parts(),
        )

    def observe(self, name: str, made: Node) -> Node:
        """A node is like this now; return it with its health."""
        return self.book.update_node(replace(made, name=name, label=None), identity=Identity())

    async def run(self, seconds: float) -> list[float]:
        """Go on for so long; return the times of writes."""
        before = len(self.configmap.writes)
        await self.pass_by(seconds)
        return self.configmap.writes[before:]

    def writes(self, result: str) -> float:
        return self.count("shape_writes_total", result=result)


@contextmanager
def writing(*small: str, **fields: Any) -> Iterator[ShapeReplica]:  # noqa: ANN401  of a ShapeReplica
    """A replica that runs, and sees these small nodes."""
    work = ShapeReplica(**fields)
    for name in small:
        work.observe(name, SMALL)
    with work.running(work.writer.run):
        yield work


def remembered(*nodes: Node, seen: float = 1e6, losses: Mapping[str, float] = {}) -> RememberedShapes:
    """The memory of a replica that saw these nodes."""
    book = ShapeHistory(wall=lambda: seen)
    for each in nodes:
        book.update_node(each, identity=Identity())
    return RememberedShapes(book.to_remember().shapes, dict(losses))


def classes(memory: RememberedShapes) -> set[str]:
    return {each.shape.node_class for each in memory.shapes}


A, B = replace(SMALL, name="a"), replace(LARGE, name="b")
[B_CLASS] = classes(remembered(B))


async def test_changes_are_written_at_most_once_a_minute() -> None:
    with writing() as work:
        for count in range(1, 60):
            work.observe("a", node(f"cpu=8 gpu={count}", "cpu=8 gpu=1"))
            await work.run(10)

    times = work.configmap.writes
    assert len(times) >= 8
    assert min(late - early for early, late in pairwise(times)) >= 60


async def test_shape_is_written_once_and_then_refreshed() -> None:
    with writing() as work:
        assert await work.run(HOUR) == []
        work.observe("a", SMALL)
        assert len(await work.run(3)) == 1
        assert await work.run(HOUR) == []
        assert len(await work.run(4 * HOUR)) == 1
        work.configmap.stored = None
        assert len(await work.run(130)) == 1

    assert classes(work.configmap.memory) == classes(remembered(A))
    assert work.writes("written") == 3
    last = work.log.of("shapes.written")[-1]
    assert (last["shapes"], last["degraded"], last["left_out"]) == (1, 0, 0)
    assert last["bytes"] == work.count("shape_bytes")


async def test_loss_stays_until_the_node_is_known_and_whole() -> None:
    with writing(nodes_known=False) as work:
        work.configmap.store(shapes.encode(remembered(SMALL, losses={"a": 1e6})))
        await work.run(200)
        assert work.configmap.writes == []
        work.observe("b", SMALL)
        work.nodes_known = True
        await work.run(130)
        assert work.configmap.memory.losses == {}
        assert work.observe("b", DEGRADED).health
        began = work.clock.seconds
        await work.run(130)
        assert work.configmap.memory.losses == {"b": pytest.approx(began, abs=1)}
        work.observe("b", SMALL)
        await work.run(130)

    assert work.configmap.memory.losses == {}


async def test_shapes_labels_and_writes_of_others_stay() -> None:
    with writing("a") as work:
        work.configmap.store({})
        work.configmap.raced = remembered(B, seen=9e5)
        assert await work.run(1) == []
        assert work.writes("conflict") == 1
        assert len(await work.run(30)) == 1

    assert classes(work.configmap.memory) == classes(remembered(A, B))
    assert work.configmap.stored
    assert work.configmap.stored["metadata"]["labels"] == {"team": "a"}
    assert {each.shape.node_class: each.seen for each in work.book.shapes()}[B_CLASS] == 9e5


async def test_replica_without_the_lead_only_reads() -> None:
    with writing("a", leads=False) as work:
        work.configmap.store(shapes.encode(remembered(B)))
        assert await work.run(HOUR) == []
        assert work.writer.read
        assert B_CLASS in {each.shape.node_class for each in work.book.shapes()}
        assert 50 <= len(work.configmap.reads) <= 70
        work.leads = True
        assert len(await work.run(5)) == 1
    # When it is due, when it reads, and after reading; no longer before the write.
    with writing("a", leads_for=3) as work:
        assert await work.run(10) == []
        assert work.configmap.reads


ODD: list[tuple[str, Any, int]] = [
    ("keys of others", {"data": {**shapes.encode(remembered(B)), "mine": "{", "other.12345678": "[[["}}, 2),
    ("no data", {"metadata": [], "data": None}, 0),
    ("a list", [], 0),
]


@pytest.mark.parametrize(("stored", "mistakes"), table(ODD))
async def test_odd_configmap_is_logged_once(stored: Any, mistakes: int) -> None:  # noqa: ANN401  any answer
    with writing("a", leads=False) as work:
        work.configmap.stored = stored
        await work.run(HOUR)
        if mistakes:
            work.configmap.stored = None
            work.configmap.store(stored["data"])
            work.leads = True
            assert len(await work.run(3)) == 1
            assert await work.run(HOUR) == []
            assert classes(work.configmap.memory) == {*classes(remembered(A)), B_CLASS}

    assert [len(line["errors"]) for line in work.log.of("shapes.unreadable")] == [mistakes] * bool(mistakes)


@pytest.mark.parametrize("broken", [Unreachable("no answer"), TimeoutError()], ids=["unreachable", "slow"])
async def test_wait_for_shapes_ends_after_its_patience(broken: Exception) -> None:
    with writing("a") as work:
        work.configmap.broken = broken
        waiting = asyncio.create_task(work.writer.answered())
        await work.run(PATIENCE_SECONDS - 1)
        assert not waiting.done()
        await work.run(3)
        await asyncio.wait_for(waiting, 1)
        assert not work.writer.read
        work.configmap.broken = None
        assert len(await work.run(10)) == 1

    assert work.writer.read
    assert work.writes("failed") == len(work.log.of("shapes.failed")) >= 5
    # A denied read ends it at once.
    with writing() as work:
        work.configmap.broken = Forbidden("not allowed to get configmaps")
        await work.run(1)
        await asyncio.wait_for(work.writer.answered(), 1)
        assert not work.writer.read


NOW = 1e6
HERE = remembered(A, seen=NOW)
GONE = remembered(A, seen=NOW - 10 * HOUR)
LACKS = replace(HERE, left_out=LeftOut(NOW))
OF_ONE = replace(HERE, shapes=(replace(HERE.shapes[0], only_node="n"),))


def degraded(since: float) -> RememberedShapes:
    return replace(HERE, losses={"a": since})


DUE: list[tuple[str, RememberedShapes, RememberedShapes, bool]] = [
    ("the same", HERE, HERE, False),
    ("a shape more", remembered(A, B), HERE, True),
    ("present, and written five hours ago", HERE, remembered(A, seen=NOW - 5 * HOUR), True),
    ("gone later than is written", GONE, remembered(A, seen=NOW - 11 * HOUR), True),
    ("several nodes had it", HERE, OF_ONE, True),
    ("some are left out", LACKS, HERE, True),
    ("left out since five hours ago", LACKS, replace(HERE, left_out=LeftOut(NOW - 5 * HOUR)), True),
    ("a node is degraded", degraded(NOW), HERE, True),
    ("degraded since then", degraded(NOW), degraded(NOW - 1), False),
    ("degraded longer", degraded(NOW - 9), degraded(NOW), True),
]


@pytest.mark.parametrize(("ours", "theirs", "expected"), table(DUE))
def test_write_is_due(ours: RememberedShapes, theirs: RememberedShapes, *, expected: bool) -> None:
    assert differs(ours, theirs, now=NOW) is expected
