"""Labels become true and stay it, with as few writes as that takes."""

import asyncio
import math
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from controller import classes
from controller.classes import Absences, Change, Labeller, Moment, Patches, changes
from harness.fake_api import FakeApi
from numalign.kube.client import ClusterError, Forbidden, NotFound, Patch, Unreachable
from numalign.model.node import Node, node_class
from numalign.model.resources import Resources
from tests.notation import node, table
from tests.webhook.conftest import Clock, Told

SMALL, LARGE = node("cpu=8", "cpu=8"), node("cpu=64", "cpu=64")
IS_SMALL, IS_LARGE = node_class(SMALL), node_class(LARGE)


def seen(labels: Mapping[str, str | None], **nodes: Node) -> Moment:
    """The moment of these labels and topologies."""
    return Moment(labels, {name: node_class(made) for name, made in nodes.items()})


# What has to change.


@pytest.mark.parametrize(
    ("labels", "known", "expected"),
    table(
        [
            ("a new node gets its class", {"a": None}, {"a": "x"}, [Change("a", None, "x")]),
            ("a wrong one is set right", {"a": "y"}, {"a": "x"}, [Change("a", "y", "x")]),
            ("a right one is left alone", {"a": "x"}, {"a": "x"}, []),
            ("a topology without a node is skipped", {}, {"a": "x"}, []),
            ("a node without anything is left alone", {"a": None}, {}, []),
            ("a label without topology stays", {"a": "x"}, {}, []),
            (
                "they come by name",
                {"b": None, "a": "x"},
                {"a": "y", "b": "x"},
                [Change("a", "x", "y"), Change("b", None, "x")],
            ),
        ]
    ),
)
def test_what_changes(labels: dict[str, str | None], known: dict[str, str], expected: list[Change]) -> None:
    assert list(changes(labels, known)) == expected


def test_a_topology_that_is_gone_for_good_takes_its_label_along() -> None:
    labels = {"a": "x", "b": "x", "c": None}

    assert changes(labels, {"b": "x"}, gone={"a", "b", "c"}) == (Change("a", "x", None),)


NAMES = st.sampled_from("abcdef")
CLASSES = st.sampled_from("xyz")
LABELS = st.dictionaries(NAMES, st.none() | CLASSES)
KNOWN = st.dictionaries(NAMES, CLASSES)


@given(LABELS, KNOWN, st.frozensets(NAMES))
def test_what_was_changed_needs_no_change(
    labels: dict[str, str | None], known: dict[str, str], gone: frozenset[str]
) -> None:
    made = changes(labels, known, gone=gone)

    after = labels | {change.node: change.after for change in made}

    assert changes(after, known, gone=gone) == ()
    assert all(labels[change.node] == change.before != change.after for change in made)


@given(LABELS, KNOWN, st.frozensets(NAMES))
def test_no_other_node_is_touched(
    labels: dict[str, str | None], known: dict[str, str], gone: frozenset[str]
) -> None:
    touched = {change.node for change in changes(labels, known, gone=gone)}

    assert touched <= labels.keys()
    right = {name for name, label in labels.items() if label == known.get(name)}
    assert not touched & right
    assert not touched & (labels.keys() - known.keys() - gone)


def test_an_absence_ends_the_label_after_the_grace_and_a_return_begins_it_anew() -> None:
    absences = Absences(300)
    absences.seen({"a", "b"}, now=0)
    absences.seen({"a"}, now=100)
    absences.seen({"a", "b"}, now=200)

    assert absences.gone(now=299) == frozenset()
    assert absences.gone(now=300) == {"a"}
    assert absences.gone(now=500) == {"a", "b"}
    absences.forget()
    assert absences.gone(now=900) == frozenset()


# What `--dry-run` prints.


def test_a_rehearsal_lists_every_change() -> None:
    moment = seen({"dgx-1": None, "n": "old", "gone": "old"}, **{"dgx-1": SMALL, "n": LARGE})

    assert classes.rehearsal(moment).splitlines() == [
        f"dgx-1: no label -> {IS_SMALL}",
        "gone:  old      -> no label, after 300 s without topology",
        f"n:     old      -> {IS_LARGE}",
    ]


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({}, "nothing would change (0 nodes are labelled)"),
        ({"a": IS_SMALL}, "nothing would change (1 node is labelled)"),
        ({"a": IS_SMALL, "b": IS_SMALL, "c": None}, "nothing would change (2 nodes are labelled)"),
    ],
)
def test_a_rehearsal_without_a_change_says_so(labels: dict[str, str | None], said: str) -> None:
    assert classes.rehearsal(seen(labels, a=SMALL, b=SMALL)) == said


def test_a_rehearsal_shows_who_is_ill_and_that_its_label_stays() -> None:
    lacks = {"a": Resources({"nvidia.com/gpu": 8, "rdma/hca": 1})}
    moment = replace(seen({"a": IS_LARGE, "b": None}, a=LARGE, b=SMALL), ill=lacks)

    assert classes.rehearsal(moment).splitlines() == [
        f"b: no label -> {IS_SMALL}",
        f"a: ill, lacks 8 nvidia.com/gpu, 1 rdma/hca; in health its class is {IS_LARGE}",
    ]


# Writing.


@dataclass
class Nodes:
    """Nodes with a label, as an API server has them: `broken` ones answer with an error."""

    clock: Clock
    labels: dict[str, str | None] = field(default_factory=dict)
    broken: dict[str, ClusterError] = field(default_factory=dict)
    written: list[tuple[float, str, str | None]] = field(default_factory=list)
    seconds: float = 0.0

    async def patch(self, path: str, body: Any, *, how: Patch, what: str) -> object:  # noqa: ANN401  JSON
        """Set the label, after so many `seconds`."""
        name = path.removeprefix("/api/v1/nodes/")
        assert (how, what) == (Patch.MERGE, f"node {name}")
        [(key, label)] = body["metadata"]["labels"].items()
        assert key == "numalign.io/class"
        self.written.append((self.clock.seconds, name, label))
        self.clock.seconds += self.seconds
        if name in self.broken:
            raise self.broken[name]
        self.labels[name] = label
        return {}

    def writes(self) -> list[tuple[str, str | None]]:
        """What was written, in order."""
        return [(name, label) for _, name, label in self.written]


@dataclass
class Work:
    """A labeller that runs second by second, and the world around it.

    `known` are the topologies; `blind` is whether the watch shows nothing new. It `leads`, but only the first
    `leads_for` times that it is asked.
    """

    known: dict[str, Node] = field(default_factory=dict)
    leads: bool = True
    leads_for: float = math.inf
    age: float = 0.0
    blind: bool = False
    told: Told = field(default_factory=Told)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.nodes = Nodes(self.clock)
        self.moment: Moment | None = None
        self.until = 0.0
        self.enough = asyncio.Event()
        self.more = asyncio.Event()

    def has(self, name: str, made: Node | None, label: str | None = None) -> None:
        """There is a node, and its topology if it has one."""
        self.nodes.labels[name] = label
        if made:
            self.known[name] = made

    def leading(self) -> bool:
        """What the election says."""
        self.leads_for -= 1
        return self.leads and self.leads_for >= 0

    async def run(self, seconds: float) -> list[tuple[str, str | None]]:
        """Go on for so long, and give what was written meanwhile."""
        before = len(self.nodes.written)
        self.until = self.clock.seconds + seconds
        self._look()
        if not self.more.is_set():
            self.more.set()
        self.enough.clear()
        await asyncio.wait_for(self.enough.wait(), 10)
        return self.nodes.writes()[before:]

    async def sleep(self, seconds: float) -> None:
        """Time passes; the watch shows what there is."""
        self.clock.seconds += seconds
        if self.clock.seconds >= self.until:
            self.more.clear()
            self.enough.set()
        await self.more.wait()
        self._look()

    def _look(self) -> None:
        now = seen(dict(self.nodes.labels), **self.known)
        if not self.blind and self.moment != now:
            self.moment = now

    def count(self, result: str) -> float:
        """How many writes ended so."""
        return self.registry.get_sample_value("numalign_class_writes_total", {"result": result}) or 0


@contextmanager
def labelling(work: Work, api: Patches | None = None, **settings: Any) -> Iterator[None]:  # noqa: ANN401  theirs
    """The labeller runs inside the `with`."""
    labeller = Labeller(
        api or work.nodes,
        moment=lambda: work.moment,
        age=lambda: work.age,
        leading=work.leading,
        log=work.told.log,
        registry=work.registry,
        clock=work.clock,
        sleep=work.sleep,
        chance=lambda: 0.5,
        **settings,
    )
    task = asyncio.create_task(labeller.run())
    try:
        yield
    finally:
        task.cancel()


@pytest.fixture
async def work() -> AsyncIterator[Work]:
    """A cluster of one node that has no label yet."""
    made = Work()
    made.has("a", SMALL)
    with labelling(made):
        yield made
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(0)


async def test_a_node_is_labelled_once(work: Work) -> None:
    assert await work.run(1000) == [("a", IS_SMALL)]
    assert work.told.of("node.labelled")[0]["after"] == IS_SMALL
    assert work.count("written") == 1
    assert work.registry.get_sample_value("numalign_class_writes_total", {"result": "failed"}) == 0


async def test_a_node_that_changes_is_labelled_anew(work: Work) -> None:
    await work.run(3)
    work.known["a"] = LARGE

    assert await work.run(3) == [("a", IS_LARGE)]
    assert work.told.of("class.contested") == []


async def test_only_the_leader_writes(work: Work) -> None:
    work.leads = False
    assert await work.run(10) == []
    work.leads = True

    assert await work.run(2) == [("a", IS_SMALL)]


async def test_the_lead_is_asked_for_before_every_write() -> None:
    work = Work(leads_for=3)
    for name in "abcdef":
        work.has(name, SMALL)
    with labelling(work):
        written = await work.run(10)

    assert [name for name, _ in written] == ["a", "b", "c"]


async def test_before_anything_is_known_nothing_is_written(work: Work) -> None:
    work.blind = True

    assert await work.run(100) == []


async def test_what_is_known_from_long_ago_is_no_ground_to_write(work: Work) -> None:
    work.age = 121
    assert await work.run(10) == []
    work.age = 3

    assert await work.run(2) == [("a", IS_SMALL)]


async def test_a_label_goes_when_the_topology_was_missing_for_the_grace(work: Work) -> None:
    await work.run(3)
    del work.known["a"]

    assert await work.run(299) == []
    assert await work.run(3) == [("a", None)]
    assert await work.run(1000) == []


async def test_a_topology_that_comes_back_in_time_changes_nothing(work: Work) -> None:
    await work.run(3)
    for _ in range(5):
        del work.known["a"]
        assert await work.run(290) == []
        work.known["a"] = SMALL
        assert await work.run(2) == []


async def test_who_could_not_follow_gives_the_whole_grace_again(work: Work) -> None:
    await work.run(3)
    del work.known["a"]
    await work.run(200)
    work.age = 1000
    await work.run(200)
    work.age = 0

    assert await work.run(298) == []
    assert await work.run(5) == [("a", None)]


async def test_a_process_that_was_frozen_gives_the_whole_grace_again(work: Work) -> None:
    await work.run(3)
    del work.known["a"]
    await work.run(200)
    work.clock.seconds += 200

    assert await work.run(298) == []
    assert await work.run(5) == [("a", None)]


async def test_what_the_watch_has_not_shown_yet_is_not_written_again_too_soon(work: Work) -> None:
    await work.run(0.5)
    work.blind = True

    assert len(work.nodes.written) == 1
    assert await work.run(28) == []
    assert await work.run(4) == [("a", IS_SMALL)]


async def test_another_writer_is_corrected_but_not_fought(work: Work) -> None:
    await work.run(3)
    for _ in range(3600):
        work.nodes.labels["a"] = "mine"
        await work.run(1)

    assert 4 <= len(work.nodes.written) <= 12
    assert len(work.told.of("class.contested")) == len(work.nodes.written) - 1
    times = [at for at, *_ in work.nodes.written]
    gaps = [late - early for early, late in pairwise(times[1:])]
    assert gaps == sorted(gaps)


async def test_a_label_that_is_taken_away_comes_back_at_once(work: Work) -> None:
    await work.run(3)
    work.nodes.labels["a"] = None

    assert await work.run(3) == [("a", IS_SMALL)]


async def test_a_quarrel_of_long_ago_is_forgotten(work: Work) -> None:
    await work.run(3)
    for _ in range(4):
        work.nodes.labels["a"] = "mine"
        assert await work.run(1000) == [("a", IS_SMALL)]

    # Only the first time was soon after a write.
    assert [line["undone"] for line in work.told.of("class.contested")] == [1]


async def test_a_node_that_is_gone_meanwhile_is_forgotten(work: Work) -> None:
    work.nodes.broken["a"] = NotFound("node a is not there")
    assert await work.run(20) == [("a", IS_SMALL)]
    del work.nodes.labels["a"]

    assert await work.run(100) == []
    assert work.count("gone") == 1
    assert work.told.of("class.failed") == []


async def test_a_right_that_is_missing_is_said_once_and_asked_for_ever_less(work: Work) -> None:
    for name in "bcd":
        work.has(name, SMALL)
    for name in "abcd":
        work.nodes.broken[name] = Forbidden("you may not patch nodes")
    tried = await work.run(600)

    assert len(work.told.of("class.forbidden")) == 1
    assert 5 <= len(tried) <= 40
    assert work.count("forbidden") == len(tried)
    work.nodes.broken.clear()
    assert {name for name, _ in await work.run(600)} == set("abcd")


async def test_a_node_that_refuses_does_not_hold_up_the_others() -> None:
    work = Work()
    for at in range(60):
        work.has(f"n{at:02}", SMALL)
        if at < 20:
            work.nodes.broken[f"n{at:02}"] = Unreachable("denied by a webhook")
    with labelling(work):
        await work.run(400)

    assert {name for name, label in work.nodes.labels.items() if label} == {
        f"n{at:02}" for at in range(20, 60)
    }


async def test_two_nodes_that_refuse_do_not_even_end_the_turn() -> None:
    work = Work()
    for name in "abcd":
        work.has(name, SMALL)
    for name in "ab":
        work.nodes.broken[name] = Unreachable("denied by a webhook")
    with labelling(work):
        await work.run(0.5)

    assert {name for name, label in work.nodes.labels.items() if label} == {"c", "d"}


async def test_an_api_server_that_does_not_answer_is_asked_less_and_less(work: Work) -> None:
    work.nodes.broken["a"] = Unreachable("nobody answers")
    tried = await work.run(600)

    assert 3 <= len(tried) <= 10
    assert work.count("failed") == len(tried) == len(work.told.of("class.failed"))
    work.nodes.broken.clear()
    assert await work.run(700) == [("a", IS_SMALL)]
    assert work.told.of("class.contested") == []


async def test_after_a_failure_all_nodes_wait_for_a_moment(work: Work) -> None:
    for at in range(100):
        work.has(f"n{at}", SMALL)
        work.nodes.broken[f"n{at}"] = Unreachable("nobody answers")
    work.nodes.broken["a"] = Unreachable("nobody answers")

    assert len(await work.run(60)) <= 10


async def test_a_write_that_failed_does_not_hold_up_another_one(work: Work) -> None:
    work.nodes.broken["a"] = Unreachable("denied by a webhook")
    await work.run(1)
    work.nodes.broken.clear()
    work.known["a"] = LARGE

    assert await work.run(5) == [("a", IS_LARGE)]


async def test_a_plan_is_not_followed_for_longer_than_a_second() -> None:
    work = Work()
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
    work = Work()
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


async def test_at_an_api_server_other_labels_stay() -> None:
    labels = {"team": "platform", "numalign.io/class": "old"}
    async with FakeApi() as api:
        api.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "labels": labels}})
        other = Work()
        other.has("a", SMALL, "old")
        async with api.client() as client:
            with labelling(other, client):
                other.moment = seen({"a": "old"}, a=SMALL)
                for _ in range(200):
                    await asyncio.sleep(0.01)
                    if api.asked("PATCH", "/api/v1/nodes/a"):
                        break
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
    work = Work()
    async with FakeApi() as api:
        api.failures["/api/v1/nodes/a"] = status
        async with api.client() as client:
            with labelling(work, client):
                work.moment = seen({"a": None}, a=SMALL)
                for _ in range(200):
                    await asyncio.sleep(0.01)
                    if work.count(result):
                        break
    assert work.count(result) == 1
