"""Labels become true and stay it, with as few writes as that takes."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.labels import LabelWriter, Patches
from controller.node_classes import NodeClasses
from numalign.kube.client import Patch
from numalign.kube.errors import ClusterError, Forbidden, NotFound, Unreachable
from numalign.model.intent import CLASS_LABEL, NODE_LABEL
from numalign.model.node import Node, node_class
from tests.unit.controller.conftest import Steps, seen
from tests.worlds.clock import Clock
from tests.worlds.notation import node, table
from tools.clusters.fake_api import FakeApi

SMALL, LARGE = node("cpu=8", "cpu=8"), node("cpu=64", "cpu=64")
IS_SMALL, IS_LARGE = node_class(SMALL), node_class(LARGE)


@dataclass
class Nodes:
    """Nodes with a label, as an API server has them: `broken` ones answer with an error."""

    clock: Clock
    labels: dict[str, str | None] = field(default_factory=dict)
    names: dict[str, str | None] = field(default_factory=dict)
    broken: dict[str, ClusterError] = field(default_factory=dict)
    written: list[tuple[float, str, str | None]] = field(default_factory=list)
    seconds: float = 0.0

    async def patch(self, path: str, body: Any, *, how: Patch, what: str) -> object:  # noqa: ANN401  JSON
        """Set the label, after so many `seconds`."""
        name = path.removeprefix("/api/v1/nodes/")
        assert (how, what) == (Patch.MERGE, f"node {name}")
        [(key, label)] = body["metadata"]["labels"].items()
        self.written.append((self.clock.seconds, name, label))
        self.clock.seconds += self.seconds
        if name in self.broken:
            raise self.broken[name]
        {CLASS_LABEL: self.labels, NODE_LABEL: self.names}[key][name] = label
        return {}


@dataclass
class World(Steps):
    """A label writer that runs second by second, and the cluster around it.

    `known` are the topologies; `blind` is whether the watch shows nothing new.
    """

    known: dict[str, Node] = field(default_factory=dict)
    age: float = 0.0
    blind: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.nodes = Nodes(self.clock)
        self.classes: NodeClasses | None = None

    def has(self, name: str, made: Node | None, label: str | None = None) -> None:
        """There is a node, and its topology if it has one."""
        self.nodes.labels[name] = label
        if made:
            self.known[name] = made

    async def run(self, seconds: float) -> list[tuple[str, str | None]]:
        """Go on for so long, and give what was written meanwhile."""
        before = len(self.nodes.written)
        self._look()
        await self.pass_by(seconds)
        return [(name, label) for _, name, label in self.nodes.written[before:]]

    async def sleep(self, seconds: float) -> None:
        """Time passes; the watch shows what there is."""
        await super().sleep(seconds)
        self._look()

    def labelled(self) -> set[str]:
        """The nodes with a label."""
        return {name for name, label in self.nodes.labels.items() if label}

    def _look(self) -> None:
        classes = replace(seen(dict(self.nodes.labels), **self.known), names=dict(self.nodes.names))
        if not self.blind and self.classes != classes:
            self.classes = classes

    def count(self, result: str) -> float:
        """How many writes ended so."""
        return self.registry.get_sample_value("numalign_class_writes_total", {"result": result}) or 0


@contextmanager
def labelling(work: World, api: Patches | None = None, **settings: Any) -> Iterator[None]:  # noqa: ANN401  theirs
    """The labeller runs inside the `with`."""
    writer = LabelWriter(
        api or work.nodes,
        nodes=lambda: work.classes,
        age=lambda: work.age,
        leading=work.leading,
        log=work.told.log,
        registry=work.registry,
        clock=work.clock,
        sleep=work.sleep,
        chance=lambda: 0.5,
        **settings,
    )
    task = asyncio.create_task(writer.run())
    try:
        yield
    finally:
        task.cancel()


@pytest.fixture
async def work() -> AsyncIterator[World]:
    """A cluster of one node that has no label yet."""
    made = World()
    made.has("a", SMALL)
    with labelling(made):
        yield made
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(0)


async def test_a_node_is_labelled_once(work: World) -> None:
    assert await work.run(1000) == [("a", IS_SMALL)]
    assert work.told.of("node.labelled")[0]["new"] == IS_SMALL
    assert work.count("written") == 1
    assert work.registry.get_sample_value("numalign_class_writes_total", {"result": "failed"}) == 0


async def test_a_node_gets_its_name_and_its_class_at_the_same_time(work: World) -> None:
    """Also if another program, such as Karpenter, has set something else."""
    work.nodes.names["a"] = "1227427124283375160"

    assert await work.run(100) == [("a", IS_SMALL), ("a", "a")]
    assert (work.nodes.labels, work.nodes.names) == ({"a": IS_SMALL}, {"a": "a"})
    assert [line["key"] for line in work.told.of("node.labelled")] == [CLASS_LABEL, NODE_LABEL]


async def test_who_insists_on_another_name_is_not_fought_and_delays_no_class(work: World) -> None:
    work.nodes.names["a"] = None
    await work.run(50)
    for _ in range(3):
        work.nodes.names["a"] = "other"
        await work.run(100)
    work.known["a"] = LARGE

    assert ("a", IS_LARGE) in await work.run(3)
    assert {line["key"] for line in work.told.of("class.contested")} == {NODE_LABEL}


async def test_a_node_that_changes_is_labelled_anew(work: World) -> None:
    await work.run(3)
    work.known["a"] = LARGE

    assert await work.run(3) == [("a", IS_LARGE)]
    assert work.told.of("class.contested") == []


async def test_only_the_leader_writes(work: World) -> None:
    work.leads = False
    assert await work.run(10) == []
    work.leads = True

    assert await work.run(2) == [("a", IS_SMALL)]


async def test_the_lead_is_asked_for_before_every_write() -> None:
    work = World(leads_for=3)
    for name in "abcdef":
        work.has(name, SMALL)
    with labelling(work):
        written = await work.run(10)

    assert [name for name, _ in written] == ["a", "b", "c"]


async def test_before_anything_is_known_nothing_is_written(work: World) -> None:
    work.blind = True

    assert await work.run(100) == []


async def test_what_is_known_from_long_ago_is_no_ground_to_write(work: World) -> None:
    work.age = 121
    assert await work.run(10) == []
    work.age = 3

    assert await work.run(2) == [("a", IS_SMALL)]


async def test_a_label_goes_when_the_topology_was_missing_for_the_grace(work: World) -> None:
    await work.run(3)
    del work.known["a"]

    assert await work.run(299) == []
    assert await work.run(3) == [("a", None)]
    assert await work.run(1000) == []


async def test_a_topology_that_comes_back_in_time_changes_nothing(work: World) -> None:
    await work.run(3)
    for _ in range(5):
        del work.known["a"]
        assert await work.run(290) == []
        work.known["a"] = SMALL
        assert await work.run(2) == []


@pytest.mark.parametrize("frozen", [False, True], ids=["stale", "frozen"])
async def test_who_could_not_follow_gives_the_whole_grace_again(work: World, *, frozen: bool) -> None:
    await work.run(3)
    del work.known["a"]
    await work.run(200)
    if frozen:
        work.clock.seconds += 200
    else:
        work.age = 1000
        await work.run(200)
        work.age = 0

    assert await work.run(298) == []
    assert await work.run(5) == [("a", None)]


async def test_what_the_watch_has_not_shown_yet_is_not_written_again_too_soon(work: World) -> None:
    await work.run(0.5)
    work.blind = True

    assert len(work.nodes.written) == 1
    assert await work.run(28) == []
    assert await work.run(4) == [("a", IS_SMALL)]


async def test_another_writer_is_corrected_but_not_fought(work: World) -> None:
    await work.run(3)
    for _ in range(3600):
        work.nodes.labels["a"] = "mine"
        await work.run(1)

    assert 4 <= len(work.nodes.written) <= 12
    assert len(work.told.of("class.contested")) == len(work.nodes.written) - 1
    times = [at for at, *_ in work.nodes.written]
    gaps = [late - early for early, late in pairwise(times[1:])]
    assert gaps == sorted(gaps)


async def test_a_label_that_is_taken_away_comes_back_at_once(work: World) -> None:
    await work.run(3)
    work.nodes.labels["a"] = None

    assert await work.run(3) == [("a", IS_SMALL)]


async def test_a_quarrel_of_long_ago_is_forgotten(work: World) -> None:
    await work.run(3)
    for _ in range(4):
        work.nodes.labels["a"] = "mine"
        assert await work.run(1000) == [("a", IS_SMALL)]

    # Only the first time was soon after a write.
    assert [line["reverted"] for line in work.told.of("class.contested")] == [1]


async def test_a_node_that_is_gone_meanwhile_is_forgotten(work: World) -> None:
    work.nodes.broken["a"] = NotFound("node a does not exist")
    assert await work.run(20) == [("a", IS_SMALL)]
    del work.nodes.labels["a"]

    assert await work.run(100) == []
    assert work.count("gone") == 1
    assert work.told.of("class.failed") == []


async def test_a_right_that_is_missing_is_said_once_and_asked_for_ever_less(work: World) -> None:
    for name in "bcd":
        work.has(name, SMALL)
    for name in "abcd":
        work.nodes.broken[name] = Forbidden("not allowed to patch nodes")
    tried = await work.run(600)

    assert len(work.told.of("class.forbidden")) == 1
    assert 5 <= len(tried) <= 40
    assert work.count("forbidden") == len(tried)
    work.nodes.broken.clear()
    assert {name for name, _ in await work.run(600)} == set("abcd")


@pytest.mark.parametrize(
    ("refusing", "others", "seconds"),
    table([("two do not even end the turn", 2, 2, 0.5), ("many do in time", 20, 40, 400)]),
)
async def test_nodes_that_refuse_do_not_hold_up_the_others(
    refusing: int, others: int, seconds: float
) -> None:
    work = World()
    names = [f"n{at:02}" for at in range(refusing + others)]
    for name in names:
        work.has(name, SMALL)
    for name in names[:refusing]:
        work.nodes.broken[name] = Unreachable("denied by a webhook")
    with labelling(work):
        await work.run(seconds)

    assert work.labelled() == set(names[refusing:])


async def test_an_api_server_that_does_not_answer_is_asked_less_and_less(work: World) -> None:
    work.nodes.broken["a"] = Unreachable("nobody answers")
    tried = await work.run(600)

    assert 3 <= len(tried) <= 10
    assert work.count("failed") == len(tried) == len(work.told.of("class.failed"))
    work.nodes.broken.clear()
    assert await work.run(700) == [("a", IS_SMALL)]
    assert work.told.of("class.contested") == []


async def test_after_a_failure_all_nodes_wait_for_a_moment(work: World) -> None:
    for at in range(100):
        work.has(f"n{at}", SMALL)
        work.nodes.broken[f"n{at}"] = Unreachable("nobody answers")
    work.nodes.broken["a"] = Unreachable("nobody answers")

    assert len(await work.run(60)) <= 10


async def test_a_write_that_failed_does_not_hold_up_another_one(work: World) -> None:
    work.nodes.broken["a"] = Unreachable("denied by a webhook")
    await work.run(1)
    work.nodes.broken.clear()
    work.known["a"] = LARGE

    assert await work.run(5) == [("a", IS_LARGE)]


async def test_a_plan_is_not_followed_for_longer_than_a_second() -> None:
    work = World()
    work.nodes.seconds = 0.4
    for name in "abcdef":
        work.has(name, SMALL)
    with labelling(work):
        assert len(await work.run(0.1)) == 3


@given(
    st.integers(1, 15),
    st.integers(1, 40),
    st.sampled_from([0.0, 0.01, 0.3]),
    st.lists(st.sampled_from([0.3, 1, 5, 40]), max_size=3),
)
def test_in_no_second_more_is_written_than_allowed(
    rate: int, count: int, seconds: float, runs: list[float]
) -> None:
    asyncio.run(_within_the_rate(rate, count, seconds, runs))


async def _within_the_rate(rate: int, count: int, seconds: float, runs: list[float]) -> None:
    work = World()
    work.nodes.seconds = seconds
    for at in range(count):
        work.has(f"n{at}", SMALL)
    with labelling(work, per_second=rate):
        for run in runs:
            await work.run(run)
            for name in work.nodes.labels:
                work.nodes.labels[name] = None
        await work.run(count)
    times = [at for at, *_ in work.nodes.written]
    assert len(times) >= min(count, rate)
    for first, beyond in zip(times, times[rate:], strict=False):
        assert beyond - first >= 1


async def asked_of_an_api_server(api: FakeApi, world: World, label: str | None, result: str) -> None:
    """A node with this label is written once, and that ends so."""
    async with api.client() as client:
        with labelling(world, client):
            world.classes = seen({"a": label}, a=SMALL)
            for _ in range(500):
                await asyncio.sleep(0.01)
                if world.count(result):
                    break


async def test_at_an_api_server_other_labels_stay() -> None:
    labels = {"team": "platform", "numalign.io/class": "old"}
    async with FakeApi() as api:
        api.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "labels": labels}})
        await asked_of_an_api_server(api, World(), "old", "written")
        stored = api.get("/api/v1/nodes/a")

    assert stored
    assert stored["metadata"]["labels"] == {"team": "platform", "numalign.io/class": IS_SMALL}


@pytest.mark.parametrize(
    ("status", "result"),
    [
        (HTTPStatus.FORBIDDEN, "forbidden"),
        (HTTPStatus.NOT_FOUND, "gone"),
        (HTTPStatus.CONFLICT, "failed"),
        (HTTPStatus.UNPROCESSABLE_ENTITY, "failed"),
        (HTTPStatus.INTERNAL_SERVER_ERROR, "failed"),
    ],
)
async def test_an_answer_that_is_none_counts(status: HTTPStatus, result: str) -> None:
    work = World()
    async with FakeApi() as api:
        api.failures["/api/v1/nodes/a"] = status
        await asked_of_an_api_server(api, work, None, result)
    assert work.count(result) == 1
