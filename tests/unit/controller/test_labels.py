"""Labels become true and stay it, with as few writes as that takes."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.labels import LabelWriter
from controller.node_classes import NodeClasses
from numalign.kube.client import Patch
from numalign.kube.errors import ClusterError
from numalign.model.intent import CLASS_LABEL, NODE_LABEL
from numalign.model.node import Node, node_class
from tests.unit.controller.conftest import Replica, classes_of
from tests.worlds.notation import node, table
from tests.worlds.write_faults import GONE, UNREACHABLE

SMALL, LARGE, TINY = (node(zone, zone) for zone in ("cpu=8", "cpu=64", "cpu=1"))
IS_SMALL, IS_LARGE, IS_TINY = map(node_class, (SMALL, LARGE, TINY))
Labels = dict[str, str | None]


@dataclass
class Labelling(Replica):
    """A label writer, and the nodes as an API server has them; each patch takes `seconds`.

    `topologies` are those of nodes. The watch shows nothing new while it is `frozen`; patches of nodes in
    `broken` raise.
    """

    topologies: dict[str, Node] = field(default_factory=dict)
    age: float = 0.0
    frozen: bool = False
    labels: Labels = field(default_factory=dict)
    names: Labels = field(default_factory=dict)
    broken: dict[str, ClusterError] = field(default_factory=dict)
    written: list[tuple[float, str, str | None]] = field(default_factory=list)
    seconds: float = 0.0
    classes: NodeClasses | None = None

    async def patch(self, path: str, body: Any, *, how: Patch, what: str) -> object:  # noqa: ANN401  JSON
        name = path.removeprefix("/api/v1/nodes/")
        assert (how, what) == (Patch.MERGE, f"node {name}")
        [(key, label)] = body["metadata"]["labels"].items()
        self.written.append((self.clock.seconds, name, label))
        self.clock.seconds += self.seconds
        if name in self.broken:
            raise self.broken[name]
        {CLASS_LABEL: self.labels, NODE_LABEL: self.names}[key][name] = label
        return {}

    def add(self, *names: str) -> None:
        """Small nodes without a label."""
        self.labels |= dict.fromkeys(names)
        self.topologies |= dict.fromkeys(names, SMALL)

    async def run(self, seconds: float) -> list[tuple[str, str | None]]:
        """Go on for so long, and return what was written meanwhile."""
        before = len(self.written)
        self._watch()
        await self.pass_by(seconds)
        return [(name, label) for _, name, label in self.written[before:]]

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        self._watch()

    def _watch(self) -> None:
        classes = replace(classes_of(dict(self.labels), **self.topologies), names=dict(self.names))
        if not self.frozen and self.classes != classes:
            self.classes = classes

    def writes(self, result: str) -> float:
        return self.count("class_writes_total", result=result)


@contextmanager
def labelling(work: Labelling, api: Any = None, **settings: Any) -> Iterator[None]:  # noqa: ANN401  theirs
    server: Any = api or work
    writer = LabelWriter(
        server,
        nodes=lambda: work.classes,
        age=lambda: work.age,
        chance=lambda: 0.5,
        **work.parts(),
        **settings,
    )
    with work.running(writer.run):
        yield


@pytest.fixture
async def work() -> AsyncIterator[Labelling]:
    """A cluster of one node that has no label yet."""
    made = Labelling()
    made.add("a")
    with labelling(made):
        yield made


async def test_node_is_labelled_once_until_it_changes(work: Labelling) -> None:
    assert await work.run(1000) == [("a", IS_SMALL)]
    work.topologies["a"] = LARGE
    assert await work.run(3) == [("a", IS_LARGE)]
    # A failed write delays no other label.
    work.broken["a"] = UNREACHABLE
    work.topologies["a"] = SMALL
    assert await work.run(1) == [("a", IS_SMALL)]
    work.broken.clear()
    work.topologies["a"] = TINY
    assert await work.run(5) == [("a", IS_TINY)]

    assert [line["new"] for line in work.log.of("node.labelled")] == [IS_SMALL, IS_LARGE, IS_TINY]
    assert (work.writes("written"), work.writes("failed"), work.log.of("class.contested")) == (3, 1, [])
    work.broken["a"] = GONE
    work.topologies["a"] = LARGE
    assert await work.run(20) == [("a", IS_LARGE)]
    del work.labels["a"]
    assert await work.run(100) == []
    assert (work.writes("gone"), len(work.log.of("class.failed"))) == (1, 1)


async def test_contested_name_delays_no_class(work: Labelling) -> None:
    """As that of another program, such as Karpenter."""
    work.names["a"] = "1227427124283375160"
    assert await work.run(100) == [("a", IS_SMALL), ("a", "a")]
    assert (work.labels, work.names) == ({"a": IS_SMALL}, {"a": "a"})
    assert [line["key"] for line in work.log.of("node.labelled")] == [CLASS_LABEL, NODE_LABEL]

    for _ in range(3):
        work.names["a"] = "other"
        await work.run(100)
    work.topologies["a"] = LARGE
    assert ("a", IS_LARGE) in await work.run(3)
    assert {line["key"] for line in work.log.of("class.contested")} == {NODE_LABEL}


async def test_another_writer_is_corrected_ever_less_often(work: Labelling) -> None:
    await work.run(3)
    # The first time at once, and after a long time again.
    for _ in range(4):
        work.labels["a"] = None
        assert await work.run(3) == [("a", IS_SMALL)]
        assert await work.run(1000) == []
    assert [line["reverted"] for line in work.log.of("class.contested")] == [1]

    del work.written[:]
    for _ in range(3600):
        work.labels["a"] = "mine"
        await work.run(1)
    assert 4 <= len(work.written) <= 12
    gaps = [late - early for (early, *_), (late, *_) in pairwise(work.written)]
    assert gaps == sorted(gaps)


async def test_label_goes_after_the_grace_without_topology(work: Labelling) -> None:
    await work.run(3)
    for _ in range(5):
        del work.topologies["a"]
        assert await work.run(290) == []
        work.topologies["a"] = SMALL
        assert await work.run(2) == []
    del work.topologies["a"]

    assert await work.run(299) == []
    assert await work.run(3) == [("a", None)]
    assert await work.run(1000) == []


@pytest.mark.parametrize(("fields", "count"), [({"leads_for": 3}, 3), ({"seconds": 0.4}, 3), ({}, 6)])
async def test_writes_of_a_second_end_with_the_lead_and_the_time(fields: dict[str, Any], count: int) -> None:
    work = Labelling(**fields)
    work.add(*"abcdef")
    with labelling(work):
        assert len(await work.run(0.1)) == count


OBSTACLES = [
    ("another replica leads", "leads", False, True),
    ("the cluster is unknown", "frozen", True, False),
    ("the watch is stale", "age", 121, 3),
]


@pytest.mark.parametrize(("what", "obstacle", "without"), table(OBSTACLES))
async def test_nothing_is_written_while(work: Labelling, what: str, obstacle: float, without: float) -> None:
    setattr(work, what, obstacle)
    assert await work.run(100) == []
    setattr(work, what, without)

    assert await work.run(2) == [("a", IS_SMALL)]


@pytest.mark.parametrize("frozen", [False, True], ids=["stale", "frozen"])
async def test_grace_starts_again_after_a_blind_time(work: Labelling, *, frozen: bool) -> None:
    await work.run(3)
    del work.topologies["a"]
    await work.run(200)
    if frozen:
        work.clock.seconds += 200
    else:
        work.age = 1000
        await work.run(200)
        work.age = 0

    assert await work.run(298) == []
    assert await work.run(5) == [("a", None)]


async def test_unobserved_write_is_repeated_after_30_s(work: Labelling) -> None:
    await work.run(0.5)
    work.frozen = True

    assert len(work.written) == 1
    assert await work.run(28) == []
    assert await work.run(4) == [("a", IS_SMALL)]


@pytest.mark.parametrize(
    ("refusing", "others", "seconds"),
    table([("two do not even end the turn", 2, 2, 0.5), ("many do in time", 20, 40, 400)]),
)
async def test_failing_nodes_do_not_delay_others(refusing: int, others: int, seconds: float) -> None:
    names = [f"n{at:02}" for at in range(refusing + others)]
    work = Labelling(broken=dict.fromkeys(names[:refusing], UNREACHABLE))
    work.add(*names)
    with labelling(work):
        await work.run(seconds)

    assert {name for name, label in work.labels.items() if label} == set(names[refusing:])


async def test_failing_server_pauses_all_nodes(work: Labelling) -> None:
    work.add(*(f"n{at}" for at in range(100)))
    work.broken = dict.fromkeys(work.labels, UNREACHABLE)

    assert len(await work.run(60)) <= 10


@given(
    st.integers(1, 15),
    st.integers(1, 40),
    st.sampled_from([0.0, 0.01, 0.3]),
    st.lists(st.sampled_from([0.3, 1, 5, 40]), max_size=3),
)
async def test_writes_never_exceed_the_rate(rate: int, count: int, seconds: float, runs: list[float]) -> None:
    work = Labelling(seconds=seconds)
    work.add(*(f"n{at}" for at in range(count)))
    with labelling(work, per_second=rate):
        for run in runs:
            await work.run(run)
            work.labels = dict.fromkeys(work.labels)
        await work.run(count)
    times = [at for at, *_ in work.written]
    assert len(times) >= min(count, rate)
    for first, beyond in zip(times, times[rate:], strict=False):
        assert beyond - first >= 1
