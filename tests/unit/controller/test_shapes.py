"""The shapes are kept where all replicas read them: read before they are written, and written seldom."""

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
from numalign.kube.errors import ClusterError, Conflict, Forbidden, NotFound, Unreachable
from numalign.model.node import Node
from numalign.shapes import LeftOut, ShapeHistory
from numalign.shapes.history import RememberedShapes
from numalign.shapes.identity import Identity
from tests.unit.controller.conftest import Steps
from tests.worlds.clock import Clock
from tests.worlds.notation import node, table

HOME = "/api/v1/namespaces/numalign-system/configmaps"
PATH = f"{HOME}/numalign-shapes"
SMALL, LARGE = node("cpu=8 gpu=1", "cpu=8 gpu=1"), node("cpu=8 gpu=4", "cpu=8 gpu=4")
ILL = node("cpu=8", "cpu=8")
HOUR = 3600.0
Json = dict[str, Any]


@dataclass
class ConfigMap:
    """The one object, as an API server keeps it; `broken` is raised in place of any answer.

    What is `raced` is written by somebody else right after the next read.
    """

    clock: Clock
    stored: Json | None = None
    broken: Exception | None = None
    slow: bool = False
    reads: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    raced: RememberedShapes | None = None

    async def get(self, path: str, *, what: str, most: int | None = None) -> object:
        """The object."""
        assert (path, what) == (PATH, "configmap numalign-system/numalign-shapes")
        assert most
        self.reads.append(self.clock.seconds)
        await self._answer()
        if self.stored is None:
            raise NotFound(what)
        found = copy.deepcopy(self.stored)
        if self.raced:
            self.holds(self.raced)
            self.raced = None
        return found

    async def create(self, path: str, body: Any, *, what: str) -> object:  # noqa: ANN401  JSON
        """Make it."""
        assert (path, what) == (HOME, "configmap numalign-system/numalign-shapes")
        await self._answer()
        if self.stored is not None:
            raise Conflict(what)
        return self._put(body)

    async def replace(self, path: str, body: Any, *, what: str) -> object:  # noqa: ANN401  JSON
        """Replace it, unless it was changed meanwhile."""
        assert path == PATH
        await self._answer()
        if self.stored is None or body["metadata"]["resourceVersion"] != self.version:
            raise Conflict(what)
        return self._put(body)

    def holds(self, memory: RememberedShapes) -> None:
        """Somebody else wrote this."""
        self.edited(dict(shapes.encode(memory)))

    def edited(self, data: Mapping[str, str]) -> None:
        """Somebody else wrote whatever this is."""
        version = str(int(self.version) + 1)
        metadata = {"name": "numalign-shapes", "labels": {"team": "a"}, "resourceVersion": version}
        self.stored = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}

    @property
    def version(self) -> str:
        """Of the object, as it is stored."""
        return self.stored["metadata"]["resourceVersion"] if self.stored else "1"

    @property
    def memory(self) -> RememberedShapes:
        """What whoever reads it knows."""
        memory, mistakes = shapes.decode(self.stored)
        assert mistakes == ()
        return memory

    async def _answer(self) -> None:
        if self.slow:
            raise TimeoutError
        if self.broken:
            raise self.broken

    def _put(self, body: Json) -> Json:
        self.writes.append(self.clock.seconds)
        version = str(int(self.version) + 1)
        self.stored = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
        return self.stored


@dataclass
class World(Steps):
    """A shape writer that runs second by second, its book, and the ConfigMap. It `leads` if it is asked."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.configmap = ConfigMap(self.clock)
        self.book = ShapeHistory(wall=self.clock)
        self.nodes_known = True
        self.writer = ShapeWriter(
            self.configmap,
            namespace="numalign-system",
            book=self.book,
            leading=self.leading,
            nodes_known=lambda: self.nodes_known,
            log=self.told.log,
            registry=self.registry,
            wall=self.clock,
            clock=self.clock,
            sleep=self.sleep,
        )

    def has(self, name: str, made: Node, label: str | None = None) -> Node:
        """A node is seen like this; gives it with its health."""
        return self.book.update_node(replace(made, name=name, label=label), identity=Identity())

    async def run(self, seconds: float) -> list[float]:
        """Go on for so long; gives when something was written."""
        before = len(self.configmap.writes)
        await self.pass_by(seconds)
        return self.configmap.writes[before:]

    def count(self, result: str) -> float:
        """How many writes ended so."""
        return self.registry.get_sample_value("numalign_shape_writes_total", {"result": result}) or 0


@contextmanager
def keeping(work: World) -> Iterator[World]:
    """The keeper runs inside the `with`."""
    task = asyncio.create_task(work.writer.run())
    try:
        yield work
    finally:
        task.cancel()


def remembered(
    *nodes: Node, seen: float = 1e6, losses: Mapping[str, float] | None = None
) -> RememberedShapes:
    """What somebody remembers who saw these nodes."""
    book = ShapeHistory(wall=lambda: seen)
    for each in nodes:
        book.update_node(each, identity=Identity())
    return RememberedShapes(book.to_remember().shapes, dict(losses or {}))


def classes(memory: RememberedShapes) -> set[str]:
    """The classes of the shapes."""
    return {each.shape.node_class for each in memory.shapes}


A, B = replace(SMALL, name="a"), replace(LARGE, name="b")


# What is written.


async def test_what_is_here_is_written_once_and_then_only_now_and_then() -> None:
    work = World()
    work.has("a", SMALL)
    with keeping(work):
        assert len(await work.run(3)) == 1
        assert await work.run(HOUR) == []
        assert len(await work.run(4 * HOUR)) == 1

    assert classes(work.configmap.memory) == classes(remembered(A))
    assert work.count("written") == 2
    last = work.told.of("shapes.written")[-1]
    assert (last["shapes"], last["degraded"], last["left_out"]) == (1, 0, 0)
    assert last["bytes"] == work.registry.get_sample_value("numalign_shape_bytes")


async def test_where_there_is_nothing_to_keep_nothing_is_written() -> None:
    with keeping(World()) as work:
        assert await work.run(HOUR) == []


async def test_what_changes_is_written_at_most_once_a_minute() -> None:
    work = World()
    with keeping(work):
        for count in range(1, 60):
            work.has("a", node(f"cpu=8 gpu={count}", "cpu=8 gpu=1"))
            await work.run(10)

    times = work.configmap.writes
    assert len(times) >= 8
    assert min(late - early for early, late in pairwise(times)) >= 60


async def test_a_loss_is_written_and_that_it_is_over() -> None:
    work = World()
    work.has("a", SMALL)
    with keeping(work):
        await work.run(100)
        assert work.has("a", ILL).health
        began = work.clock.seconds
        await work.run(130)
        assert work.configmap.memory.losses == {"a": pytest.approx(began, abs=1)}
        work.has("a", SMALL)
        await work.run(130)

    assert work.configmap.memory.losses == {}


async def test_what_is_remembered_of_losses_stays_until_nodes_are_seen() -> None:
    work = World()
    work.configmap.holds(remembered(SMALL, losses={"a": 1e6}))
    work.nodes_known = False
    with keeping(work):
        await work.run(200)
        assert work.configmap.writes == []
        work.has("b", SMALL)
        work.nodes_known = True
        await work.run(130)

    assert work.configmap.memory.losses == {}


async def test_when_the_last_node_of_a_shape_was_here_is_written() -> None:
    work = World()
    work.has("a", SMALL)
    with keeping(work):
        await work.run(2 * HOUR)
        work.book.retain_nodes(set())
        left = work.clock.seconds
        assert len(await work.run(200)) == 1
        assert await work.run(10 * HOUR) == []

    [known] = work.configmap.memory.shapes
    assert known.seen == pytest.approx(left, abs=2)


async def test_what_others_wrote_is_taken_in_and_kept() -> None:
    work = World()
    work.configmap.holds(remembered(B, seen=9e5))
    work.has("a", SMALL)
    with keeping(work):
        await work.run(30)

    assert classes(work.configmap.memory) == classes(remembered(A, B))
    assert work.configmap.stored
    assert work.configmap.stored["metadata"]["labels"] == {"team": "a"}
    assert {each.shape.node_class: each.seen for each in work.book.shapes()}[B_CLASS] == 9e5


[B_CLASS] = classes(remembered(B))


async def test_nothing_is_written_over_what_was_not_read() -> None:
    work = World()
    work.has("a", SMALL)
    work.configmap.holds(RememberedShapes())
    work.configmap.raced = remembered(B)
    with keeping(work):
        assert await work.run(1) == []
        assert work.count("conflict") == 1
        assert len(await work.run(30)) == 1

    assert classes(work.configmap.memory) == classes(remembered(A, B))


async def test_what_was_deleted_is_written_again() -> None:
    work = World()
    work.has("a", SMALL)
    with keeping(work):
        await work.run(3)
        work.configmap.stored = None
        assert len(await work.run(130)) == 1


# Who writes.


async def test_who_does_not_lead_reads_and_writes_nothing() -> None:
    work = World(leads=False)
    work.has("a", SMALL)
    work.configmap.holds(remembered(B))
    with keeping(work):
        assert await work.run(HOUR) == []
        assert work.writer.read
        assert B_CLASS in {each.shape.node_class for each in work.book.shapes()}
        assert 50 <= len(work.configmap.reads) <= 70
        work.leads = True
        assert len(await work.run(5)) == 1


async def test_the_lead_is_asked_for_before_every_write() -> None:
    # When it is due, when it is looked at, when it was read; not any more when it would be written.
    work = World(leads_for=3)
    work.has("a", SMALL)
    with keeping(work):
        assert await work.run(10) == []
        assert work.configmap.reads


# What goes wrong.


async def test_a_broken_one_is_told_its_readable_keys_are_kept_and_it_is_written_anew() -> None:
    work = World()
    work.configmap.edited({**shapes.encode(remembered(B)), "mine": "{", "other.12345678": "[[["})
    with keeping(work):
        assert len(await work.run(3)) == 1
        assert await work.run(HOUR) == []

    assert classes(work.configmap.memory) == {B_CLASS}
    [line] = work.told.of("shapes.unreadable")
    assert len(line["errors"]) == 2


async def test_one_that_stays_broken_is_told_once() -> None:
    work = World(leads=False)
    work.configmap.edited({"mine": "{"})
    with keeping(work):
        await work.run(HOUR)

    assert len(work.told.of("shapes.unreadable")) == 1


@pytest.mark.parametrize(
    ("stored"),
    [{}, {"data": []}, {"data": {"a": 1}}, {"metadata": [], "data": None}, [], "text", None],
    ids=repr,
)
async def test_what_is_no_configmap_does_no_harm(stored: Any) -> None:  # noqa: ANN401  whatever comes
    work = World(leads=False)
    work.has("a", SMALL)
    work.configmap.stored = stored
    with keeping(work):
        await work.run(10)

    assert classes(work.book.to_remember()) == classes(remembered(A))


async def test_a_right_that_is_missing_is_said_once_and_nobody_waits_for_it() -> None:
    work = World()
    work.configmap.broken = Forbidden("not allowed to get configmaps")
    with keeping(work):
        await work.run(1)
        await asyncio.wait_for(work.writer.answered(), 1)
        await work.run(HOUR)

    assert not work.writer.read
    assert len(work.told.of("shapes.forbidden")) == 1
    assert work.count("forbidden") == len(work.configmap.reads)


FAILURES: list[tuple[str, ClusterError | None, bool]] = [
    # what happens         what is raised              whether nobody answers
    ("nobody is there",    Unreachable("no answer"),   False),
    ("nobody answers",     None,                       True),
]  # fmt: skip


@pytest.mark.parametrize(("broken", "slow"), table(FAILURES))
async def test_an_api_server_in_trouble_is_waited_for_and_not_for_ever(
    broken: ClusterError | None, *, slow: bool
) -> None:
    work = World()
    work.has("a", SMALL)
    work.configmap.broken, work.configmap.slow = broken, slow
    waiting = asyncio.create_task(work.writer.answered())
    with keeping(work):
        await work.run(PATIENCE_SECONDS - 1)
        assert not waiting.done()
        await work.run(3)
        await asyncio.wait_for(waiting, 1)
        assert not work.writer.read
        work.configmap.broken, work.configmap.slow = None, False
        assert len(await work.run(10)) == 1

    assert work.writer.read
    assert work.count("failed") == len(work.told.of("shapes.failed")) >= 5


async def test_once_it_was_read_a_failure_is_followed_by_a_minute() -> None:
    work = World(leads=False)
    with keeping(work):
        await work.run(3)
        work.configmap.broken = Unreachable("no answer")
        await work.run(600)

    assert len(work.told.of("shapes.failed")) <= 11


# When it is written anew.

NOW = 1e6
HERE = remembered(A, seen=NOW)
GONE = remembered(A, seen=NOW - 10 * HOUR)
LACKS = replace(HERE, left_out=LeftOut(NOW))
OF_ONE = replace(HERE, shapes=(replace(HERE.shapes[0], only_node="n"),))


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    table(
        [
            ("the same", HERE, HERE, False),
            ("nothing and nothing", RememberedShapes(), RememberedShapes(), False),
            ("a shape more", remembered(A, B), HERE, True),
            ("a shape less", HERE, remembered(A, B), True),
            ("here, and written an hour ago", HERE, remembered(A, seen=NOW - HOUR), False),
            ("here, and written five hours ago", HERE, remembered(A, seen=NOW - 5 * HOUR), True),
            ("gone, as is written", GONE, remembered(A, seen=NOW - 10 * HOUR - 30), False),
            ("gone later than is written", GONE, remembered(A, seen=NOW - 11 * HOUR), True),
            ("several nodes had it", HERE, OF_ONE, True),
            ("some are left out", LACKS, HERE, True),
            ("none is left out any more", HERE, LACKS, True),
            ("others are left out", LACKS, replace(HERE, left_out=LeftOut(NOW, frozenset("a"))), True),
            ("left out since an hour ago", LACKS, replace(HERE, left_out=LeftOut(NOW - HOUR)), False),
            ("left out since five hours ago", LACKS, replace(HERE, left_out=LeftOut(NOW - 5 * HOUR)), True),
            ("a node is ill", replace(HERE, losses={"a": NOW}), HERE, True),
            ("a node is well again", HERE, replace(HERE, losses={"a": NOW}), True),
            ("ill since then", replace(HERE, losses={"a": NOW}), replace(HERE, losses={"a": NOW - 1}), False),
            ("ill longer", replace(HERE, losses={"a": NOW - 9}), replace(HERE, losses={"a": NOW}), True),
        ]
    ),
)
def test_what_is_due(ours: RememberedShapes, theirs: RememberedShapes, *, expected: bool) -> None:
    assert differs(ours, theirs, now=NOW) is expected
