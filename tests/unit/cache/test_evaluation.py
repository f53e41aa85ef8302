"""The answers of all nodes to one question: computed once, and again where something changed."""

import gc
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from numalign.cache import ClusterCache, Question, batch_admission, cluster_cache, evaluation
from numalign.cache.arrays import Rows
from numalign.cache.batch_admission import BatchAdmission
from numalign.cache.column_state import ColumnState
from numalign.cache.evaluation import Evaluation, Workspace
from numalign.cache.layout import Unfit
from numalign.cache.node_table import NodeTable
from numalign.cache.pace import Pace
from numalign.cache.plan import Undecided
from numalign.decision.evaluate import NO_INTENT, evaluating
from numalign.decision.scoring import Strategy
from numalign.model.intent import Intent, Policy
from numalign.model.node import Node
from numalign.model.resources import Resources
from numalign.model.steps import Steps
from numalign.scheduling.node_answers import reason
from tests.worlds.columns import numbered, with_free
from tests.worlds.notation import GPU, asks, machine, means, node, options, table

ZONE = "cpu=8 mem=8Gi gpu=2"
ROOMY = node(ZONE, ZONE, policy="single-numa-node")
BUSY = with_free(ROOMY, "gpu=1", "gpu=0")
NONE = replace(ROOMY, policy=Policy.NONE)
SMALL = node("cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy="single-numa-node")
FIRST = frozenset(ROOMY.ids[:1])


def odd(devices: str) -> Node:
    """A node whose kubelet chooses CPUs by more than counts."""
    return machine(
        "cpu=0-7 mem=8Gi",
        "cpu=8-15 mem=8Gi",
        devices=devices,
        policy="single-numa-node",
        options=options("align-by-socket"),
    )


ODD, ODD_BUSY, ODD_SMALL = map(odd, ("gpu=0,0,1", "gpu=0*,0,1", "gpu=0,1"))
ALL = (ROOMY, BUSY, SMALL, ODD, ODD_BUSY, ODD_SMALL)

MOST, FEWEST = Strategy.MOST_ALLOCATED, Strategy.LEAST_NUMA_NODES
TWO_GPUS = Question(asks("cpu=1 mem=1Gi gpu=2"), NO_INTENT)
SEVERAL = Question(asks("cpu=1 mem=1Gi gpu=1 | cpu=1 mem=1Gi"), NO_INTENT)
"""Admitted container by container, and so some rows at a time."""


class Watched(NodeTable):
    def __init__(self, *nodes: Node) -> None:
        super().__init__()
        self.read: set[str] = set()
        for one in numbered(nodes):
            self.put(one)

    def node(self, row: int) -> Node:
        result = super().node(row)
        self.read.add(result.name)
        return result


PACE = Pace()


def watched(*nodes: Node, question: Question = TWO_GPUS) -> tuple[Watched, Evaluation]:
    nodes_of = Watched(*nodes)
    return nodes_of, Evaluation(nodes_of, question, workspace=Workspace(PACE))


def in_steps(answers: Evaluation, rows: Rows | None = None) -> Steps[object]:
    """Which nodes admit the pod, and which ever could, in steps."""
    return PACE.in_steps(lambda: (answers.admitted(rows), answers.able(rows)))


def counted(*nodes: Node, question: Question) -> tuple[Evaluation, Workspace]:
    workspace = Workspace()
    return Evaluation(Watched(*nodes), question, workspace=workspace), workspace


Look = Callable[[Evaluation, Rows | None], list[Any]]
LOOKS: dict[str, Look] = {
    "admitted": lambda answers, rows: answers.admitted(rows).tolist(),
    "possible": lambda answers, rows: answers.possible(rows).tolist(),
    "able": lambda answers, rows: answers.able(rows).tolist(),
    "aligned": lambda answers, rows: answers.aligned(rows).tolist(),
    "zones": lambda answers, rows: answers.zones(rows).tolist(),
    "scores": lambda answers, rows: answers.scores(MOST, rows=rows).tolist(),
    "refusals": lambda answers, rows: _words(answers, answers.refusals(rows).tolist()),
    "never": lambda answers, rows: _words(answers, answers.never(rows).tolist()),
}
looks = pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)


def _words(answers: Evaluation, codes: list[int]) -> list[str]:
    return ["" if code < 0 else reason(answers.refusal(code)) for code in codes]


def test_every_row_has_all_answers() -> None:
    nodes, answers = watched(*ALL)

    assert answers.admitted().tolist() == [True, False, False, True, False, False]
    assert answers.able().tolist() == [True, True, False, True, True, False]
    assert answers.aligned().tolist() == [True, False, False, True, False, False]
    assert answers.zones().tolist() == [1, -1, -1, 1, -1, -1]
    assert answers.scores(FEWEST).tolist() == [94, -1, -1, 94, -1, -1]
    assert answers.scores(MOST, {GPU: 7}).tolist() != answers.scores(MOST).tolist()
    for name in ("n0", "n3"):
        nodes.drop(name)
    assert not (answers.admitted() | answers.aligned() | (answers.zones() >= 0)).any()
    assert answers.able().tolist() == [False, True, False, False, True, False]
    assert (answers.refusals() >= 0).tolist() == [False, True, True, False, True, True]


# Why nodes refuse.


def test_columns_and_rules_share_codes_of_refusals() -> None:
    _, answers = watched(BUSY, BUSY, SMALL, ODD_BUSY, ODD_BUSY, ROOMY, ODD_SMALL)
    codes, never = answers.refusals().tolist(), answers.never().tolist()

    assert codes[0] == codes[1] == codes[3] == codes[4] != codes[2] == codes[6]
    assert codes[5] == -1
    assert [code >= 0 for code in never] == [False, False, True, False, False, False, True]
    assert (never[2], answers.refusal(never[2]).permanent) == (codes[2], True)
    for row in (0, 2, 3, 6):
        refusal, own = answers.refusal(codes[row]), answers.verdict(row)
        assert (refusal.permanent, reason(refusal)) == (own.permanent, reason(own))


# What is computed again.


@looks
def test_only_changed_nodes_are_evaluated_again(look: Look) -> None:
    nodes, answers = watched(*[ODD] * 4, *[ODD_SMALL] * 4, *[ODD_BUSY] * 4)
    look(answers, None)
    nodes.read.clear()
    look(answers, None)
    assert not nodes.read

    for name, one in (("n3", ODD_BUSY), ("n8", ODD), ("n6", ODD_BUSY)):
        nodes.put(replace(one, name=name))
    after = look(answers, None)
    assert nodes.read <= {"n3", "n6", "n8"}
    assert after == look(Evaluation(nodes, TWO_GPUS), None)


@looks
def test_changed_columns_are_read_again(look: Look) -> None:
    nodes, answers = watched(*[ROOMY] * 6, *[SMALL] * 6, *[BUSY] * 6)
    look(answers, None)
    for name, one in (("n1", BUSY), ("n7", ROOMY), ("n14", ROOMY), ("n15", SMALL)):
        nodes.put(replace(one, name=name))
    nodes.read.clear()
    after = look(answers, None)

    assert not nodes.read
    assert after == look(Evaluation(nodes, TWO_GPUS), None)


@looks
@pytest.mark.parametrize("rows", [[5], [4, 1, 3], [1, 1, 4, 1], [5, 4, 3, 2, 1, 0], []])
def test_some_rows_are_answered_in_their_order(look: Look, rows: list[int]) -> None:
    every = look(watched(*ALL)[1], None)
    _, answers = watched(*ALL)

    assert look(answers, np.array(rows, dtype=np.intp)) == [every[row] for row in rows]
    assert look(answers, None) == every


@looks
def test_some_rows_are_computed_alone_and_follow_changes(look: Look) -> None:
    nodes, answers = watched(*ALL, *[ODD] * 6)
    nodes.read.clear()
    look(answers, np.array([0, 3]))
    assert nodes.read <= {"n0", "n3"}

    for name, one in (("n0", SMALL), ("n3", BUSY), ("n5", ROOMY)):
        nodes.put(replace(one, name=name))
    nodes.drop("n1")
    some = np.array([0, 1, 3, 5])
    assert look(answers, some) == look(Evaluation(nodes, TWO_GPUS), some)


# How often columns answer.


def test_answers_of_columns_and_rules_are_counted() -> None:
    gated = replace(ROOMY, options=options("PodLevelResourceManagers"))
    answers, counts = counted(ROOMY, BUSY, SMALL, ODD, gated, question=TWO_GPUS)
    rows = np.array([0, 1])
    for look in (answers.admitted, answers.aligned, answers.zones, answers.possible):
        look(rows)
    assert counts.in_columns == 2, "trials on the same rows are shared"

    answers.admitted()
    assert (counts.in_columns, counts.by_rules) == (5, {Unfit.CPU_OPTIONS: 1, Unfit.POD_LEVEL: 1})
    every = [why.value for why in (*Unfit, *Undecided)]
    assert len({*every, "columns"}) == len(every) + 1


@pytest.mark.parametrize(("pod", "by_rules"), [("nic=1", 0), ("gpu=1", 1), ("gpu=0", 1)])
def test_devices_between_zones_are_left_to_the_rules(pod: str, by_rules: int) -> None:
    between, placed = (
        machine("cpu=0-3 mem=8Gi", "cpu=4-7 mem=8Gi", devices=devices, policy="restricted")
        for devices in ("gpu=0,01 nic=1", "gpu=0,1 nic=1")
    )
    question = Question(asks(f"cpu=1 mem=1Gi {pod}"), NO_INTENT)
    answers, counts = counted(between, placed, question=question)

    assert answers.admitted().tolist() == [True, True]
    assert (counts.in_columns, counts.by_rules[Undecided.DEVICES]) == (2 - by_rules, by_rules)


MEETING = [
    ("exclusive: wherever others are", means("restricted", exclusive=True), 2, [True, True, False, False]),
    ("not: where others are exclusive", means("restricted"), 1, [True, True, True, False]),
    ("without an intent nowhere", means("none"), 0, [True] * 4),
]


@pytest.mark.parametrize(("intent", "by_rules", "admitted"), table(MEETING))
def test_exclusive_neighbours_are_left_to_the_rules(
    intent: Intent, by_rules: int, admitted: list[bool]
) -> None:
    neighbours = (
        replace(ROOMY, occupied=FIRST),
        replace(ROOMY, occupied=frozenset(ROOMY.ids), exclusive=FIRST),
    )
    question = Question(asks("cpu=2 mem=1Gi"), intent)
    answers, counts = counted(ROOMY, ROOMY, *neighbours, question=question)

    assert answers.admitted().tolist() == admitted
    assert (counts.in_columns, counts.by_rules[Undecided.NEIGHBOURS]) == (4 - by_rules, by_rules)
    assert answers.able().all(), "an empty node has no neighbours"
    assert counts.in_columns == 8 - by_rules


@pytest.mark.parametrize(("pod", "tried"), [("cpu=1 mem=1Gi gpu=1", 7), ("gpu=1 | gpu=1", 3)])
def test_the_third_pod_of_a_template_is_tried_on_all_nodes(pod: str, tried: int) -> None:
    cluster, question = ClusterCache.of(numbered([ROOMY] * 5)), Question(asks(pod), NO_INTENT)
    for name in ("n0", "n1", "n2"):
        assert cluster.ask([name], question).admitted.tolist() == [True]

    assert cluster.workspace.in_columns == tried


# Step by step.


@pytest.mark.parametrize("rows", [None, [1, 4, 5]])
def test_work_leaves_nothing_to_compute(rows: list[int] | None) -> None:
    nodes, answers = watched(*ALL)
    some = None if rows is None else np.array(rows)
    assert len(list(in_steps(answers, some))) > 1
    nodes.read.clear()

    assert list(in_steps(answers, some)) == []
    answers.admitted(some)
    answers.able(some)
    assert not nodes.read


@pytest.mark.parametrize("done", range(1, 6))
def test_changes_between_steps_are_followed(done: int) -> None:
    nodes, answers = watched(ROOMY, BUSY, node(ZONE, policy="restricted"), ODD, ODD_BUSY, ODD_SMALL, NONE)
    work = in_steps(answers, np.array([0, 2, 3, 5]))
    for _ in range(done):
        next(work)
    nodes.drop("n0")
    for name, one in (("n2", ODD_BUSY), ("n3", BUSY), ("n5", ROOMY), ("n7", SMALL), ("n8", NONE)):
        nodes.put(replace(one, name=name))
    deque(work, maxlen=0)

    fresh = Evaluation(nodes, TWO_GPUS)
    assert answers.admitted().tolist() == fresh.admitted().tolist()
    assert answers.able().tolist() == fresh.able().tolist()


def test_endless_changes_end_in_a_step_of_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "_MOST_ROWS", 2)
    nodes, answers = watched(*[ROOMY] * 12, question=SEVERAL)
    longest, admissions = [0], batch_admission.admissions

    def measured(state: ColumnState) -> Iterator[tuple[Rows | None, BatchAdmission]]:
        longest[-1] += state.count
        return admissions(state)

    monkeypatch.setattr(batch_admission, "admissions", measured)
    for at, _ in enumerate(PACE.in_steps(answers.admitted)):
        nodes.put(replace(BUSY, name=f"n{at % 12}"))
        longest.append(0)

    assert len(longest) < 4 * 12
    assert max(longest) < 12 / 2


def test_placements_in_steps_come_from_the_admission(monkeypatch: pytest.MonkeyPatch) -> None:
    _, answers = watched(*[ROOMY] * 3, question=SEVERAL)
    answers.admitted()
    monkeypatch.delattr(batch_admission, "admissions")

    assert (answers.zones().tolist(), answers.aligned().tolist()) == ([1, 1, 1], [True, True, True])


# What is cached.


def test_a_verdict_is_cached_until_its_node_changes() -> None:
    nodes, answers = watched(ODD, ROOMY)
    first = answers.verdict(0)
    nodes.put(replace(ODD, name="n1"))
    assert answers.verdict(0) is first

    nodes.put(replace(ODD_BUSY, name="n0"))
    assert not answers.verdict(0).admitted


@pytest.mark.parametrize(("containers", "limit"), [(1, "VERDICTS"), (99, "LARGE_VERDICTS")])
def test_cached_verdicts_are_limited(monkeypatch: pytest.MonkeyPatch, containers: int, limit: str) -> None:
    monkeypatch.setattr(evaluation, limit, 2)
    pod = asks(*[f"cpu={at + 1} mem=1Gi x.io/long-name-of-a-device=1" for at in range(containers)])
    _, answers = watched(ODD, ODD, ODD, question=Question(pod, NO_INTENT))
    first, second, third = map(answers.verdict, range(3))
    assert (answers.verdict(1) is second, answers.verdict(2) is third) == (True, True)
    assert answers.verdict(0) is not first


def test_cached_answers_are_limited() -> None:
    cache = ClusterCache(remembered=2)
    first, second, third = (Question(asks(f"cpu={count} mem=1Gi"), NO_INTENT) for count in (1, 2, 3))
    cached = {one: weakref.ref(cache.ask([], one).evaluation) for one in (first, second)}

    cache.ask([], first)
    cache.ask([], third)
    gc.collect()

    assert cached[first]() is cache.ask([], first).evaluation
    assert cached[second]() is None


def test_more_nodes_leave_fewer_cached_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_cache, "MOST_ANSWERS", 300)
    monkeypatch.setattr(cluster_cache, "LEAST_EVALUATIONS", 2)
    cache = ClusterCache.of(numbered([ROOMY] * 100))
    for size in range(1, 6):
        cache.ask([], Question(asks(f"cpu=1 mem={size}Mi"), NO_INTENT))
    assert len(cache.caches()["nodes"]) == 3


def test_equal_degraded_nodes_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    def evaluated(one: Node, *facts: object) -> object:
        names.append(one.name)
        return evaluating(one, *facts)  # type: ignore[arg-type]

    monkeypatch.setattr("numalign.cache.evaluation.evaluating", evaluated)
    healthy = node(ZONE, ZONE, policy="restricted", options=options("distribute-cpus-across-numa"))
    less = (Resources({**zone.allocatable, GPU: 0}) for zone in healthy.zones)
    zones = (
        replace(zone, allocatable=some, free=some) for zone, some in zip(healthy.zones, less, strict=True)
    )
    degraded = replace(healthy, zones=tuple(zones), health=healthy)
    question = Question(asks("cpu=2 mem=1Gi gpu=1"), NO_INTENT)

    assert ClusterCache.of(numbered([degraded] * 50)).ask([], question).evaluation.able().all()
    assert len(names) == 1
