"""What all nodes answer to one question: worked out once, and again where something changed."""

import gc
import tracemalloc
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from numalign.cache import ClusterCache, Question, batch_admission, evaluation
from numalign.cache.arrays import Bools, Ints, Rows
from numalign.cache.batch_admission import BatchAdmission
from numalign.cache.column_state import ColumnState
from numalign.cache.evaluation import Evaluation, RefusalCodes, Workspace
from numalign.cache.layout import Unfit
from numalign.cache.node_table import NodeTable
from numalign.cache.plan import Undecided
from numalign.decision.evaluate import NO_INTENT, evaluate, evaluating
from numalign.decision.scoring import Strategy
from numalign.decision.verdict import Cause
from numalign.model import demand
from numalign.model.attributes import Attributes
from numalign.model.intent import Intent, Policy
from numalign.model.node import Node
from numalign.model.options import Options
from numalign.model.resources import MEMORY, Resources
from numalign.scheduling.reasons import reason
from tests.worlds.batches import differences
from tests.worlds.in_columns import left, named
from tests.worlds.notation import GPU, asks, machine, means, node, options, pod, table

ZONE = "cpu=8 mem=8Gi gpu=2"
ROOMY = node(ZONE, ZONE, policy="single-numa-node")
BUSY = left(ROOMY, "gpu=1", "gpu=0")
NONE = replace(ROOMY, policy=Policy.NONE)
SMALL = node("cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy="single-numa-node")


def odd(devices: str, policy: str = "single-numa-node") -> Node:
    """A node whose kubelet chooses CPUs by more than counts."""
    chosen = options("align-by-socket")
    return machine("cpu=0-7 mem=8Gi", "cpu=8-15 mem=8Gi", devices=devices, policy=policy, options=chosen)


ODD, ODD_BUSY, ODD_SMALL = map(odd, ("gpu=0,0,1", "gpu=0*,0,1", "gpu=0,1"))

MOST, FEWEST = Strategy.MOST_ALLOCATED, Strategy.LEAST_NUMA_NODES

MOST_VERDICTS = 4096
"""So many verdicts are kept."""


class Watched(NodeTable):
    """Tables that remember which nodes somebody looked at."""

    def __init__(self, *nodes: Node) -> None:
        super().__init__()
        self.looked_at: list[str] = []
        for one in nodes:
            self.put(one)

    def node(self, row: int) -> Node:
        """As it is."""
        answer = super().node(row)
        self.looked_at.append(answer.name)
        return answer

    def looked(self) -> list[str]:
        """At which nodes somebody looked since the last time."""
        answer, self.looked_at = self.looked_at, []
        return answer


def evaluation_of(
    nodes: NodeTable, pod: str = "cpu=1 mem=1Gi gpu=2", intent: Intent = NO_INTENT
) -> Evaluation:
    return Evaluation(nodes, Question(asks(pod), intent))


def permanent(answer: Evaluation) -> Bools:
    """Which nodes, all of them here, refuse for good."""
    refused: Bools = ~(answer.admitted() | answer.able())
    return refused


def watched(*nodes: Node) -> tuple[Watched, Evaluation]:
    tables = Watched(*named(nodes))
    return tables, evaluation_of(tables)


# What it says.


def test_of_every_node_it_is_told() -> None:
    _, answer = watched(ROOMY, BUSY, SMALL, ODD, ODD_BUSY, ODD_SMALL)

    assert answer.admitted().tolist() == [True, False, False, True, False, False]
    assert answer.able().tolist() == [True, True, False, True, True, False]
    assert permanent(answer).tolist() == [False, False, True, False, False, True]
    assert answer.aligned().tolist() == [True, False, False, True, False, False]
    assert answer.zones().tolist() == [1, -1, -1, 1, -1, -1]
    assert answer.scores(FEWEST).tolist() == [94, -1, -1, 94, -1, -1]
    assert (answer.refusals() >= 0).tolist() == [False, True, True, False, True, True]


def test_the_kinds_of_numbers_are_as_announced() -> None:
    _, answer = watched(ROOMY, ODD)
    numbers = (answer.zones(), answer.scores(MOST), answer.refusals())

    assert answer.admitted().dtype == permanent(answer).dtype == np.bool_
    assert [each.dtype.name for each in numbers] == ["int16", "int16", "int32"]


def test_rows_of_nodes_that_are_gone_say_no() -> None:
    tables, answer = watched(ROOMY, ODD, ROOMY)
    assert answer.admitted().all()
    for name in ("n0", "n1"):
        tables.drop(name)

    for bools in (answer.admitted(), answer.able(), answer.aligned()):
        assert bools.tolist() == [False, False, True]
    for numbers in (answer.zones(), answer.scores(FEWEST)):
        assert (numbers >= 0).tolist() == [False, False, True]
    assert answer.refusals().tolist() == [-1] * 3


def test_without_nodes_there_is_nothing_to_say() -> None:
    _, answer = watched()

    arrays = (
        answer.admitted(),
        answer.able(),
        permanent(answer),
        answer.aligned(),
        answer.zones(),
        answer.refusals(),
    )
    assert [len(each) for each in (*arrays, answer.scores(MOST))] == [0] * 7


# Why nodes refuse.


def test_who_refuses_alike_has_one_code_whether_columns_say_so_or_rules() -> None:
    tables, answer = watched(BUSY, BUSY, SMALL, ODD_BUSY, ODD_BUSY, ROOMY, ODD_SMALL)
    refusals = answer.refusals().tolist()

    assert refusals[0] == refusals[1] == refusals[3] == refusals[4]
    assert refusals[2] == refusals[6] != refusals[0]
    assert refusals[5] == -1
    assert tables.in_columns == 4


def test_the_refusal_behind_a_code_is_that_of_its_nodes() -> None:
    _, answer = watched(BUSY, SMALL, ODD_BUSY, ODD_SMALL)

    for row, code in enumerate(answer.refusals().tolist()):
        told, own = answer.refusal(code), answer.verdict(row)
        assert told.permanent is own.permanent
        assert reason(told) == reason(own)


def test_what_a_node_would_refuse_for_good_has_a_code_too_where_nothing_is_refused_now() -> None:
    _, answer = watched(ROOMY, BUSY, SMALL, ODD, ODD_SMALL)
    never, refusals = answer.never().tolist(), answer.refusals().tolist()

    assert [code >= 0 for code in never] == [False, False, True, False, True]
    assert (never[2], never[4]) == (refusals[2], refusals[4])
    assert answer.refusal(never[2]).permanent


def test_codes_of_equal_refusals_are_one_code() -> None:
    codes, demand = RefusalCodes(), asks("cpu=1 mem=1Gi gpu=2")
    refused, other = (evaluate(one, demand).refusal for one in (SMALL, ODD_SMALL))
    assert refused is not None
    assert other is not None

    assert codes.code(refused, SMALL, permanent=True) == codes.code(other, ODD_SMALL, permanent=True) == 0
    assert codes.code(refused, SMALL, permanent=False) == len(codes) - 1 == 1
    assert [codes.verdict(code).permanent for code in (0, 1)] == [True, False]


def test_odd_nodes_with_the_same_words_have_one_number_and_with_others_another() -> None:
    _, answer = watched(ODD_SMALL, ODD_SMALL, odd("gpu=0,1", "restricted"), ODD_BUSY)
    refusals = answer.refusals().tolist()

    assert refusals[0] == refusals[1]
    assert refusals[3] not in refusals[:2]


def test_numbers_stay_while_nodes_come_and_go() -> None:
    tables, answer = watched(*[BUSY] * 4, *[SMALL] * 4)
    before = answer.refusals().tolist()
    tables.put(replace(SMALL, name="n0"))
    after = answer.refusals().tolist()

    assert after == [before[4], *before[1:]]


# What is worked out again.


def _alike(answer: Evaluation) -> list[int]:
    """By row the first one of which the same is said."""
    refusals = answer.refusals().tolist()
    return [refusals.index(number) for number in refusals]


LOOKS: dict[str, Callable[[Evaluation], list[Any]]] = {
    "admitted": lambda answer: answer.admitted().tolist(),
    "able": lambda answer: answer.able().tolist(),
    "aligned": lambda answer: answer.aligned().tolist(),
    "width": lambda answer: answer.zones().tolist(),
    "said": _alike,
    "scores": lambda answer: answer.scores(MOST).tolist(),
}
looks = pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)


@looks
def test_what_is_known_is_not_asked_again(look: Callable[[Evaluation], list[Any]]) -> None:
    tables, answer = watched(*[ODD] * 4, *[ODD_SMALL] * 4, *[ODD_BUSY] * 4)
    look(answer)
    tables.looked()

    look(answer)
    assert tables.looked() == []


@looks
def test_only_nodes_that_changed_are_asked_again(look: Callable[[Evaluation], list[Any]]) -> None:
    tables, answer = watched(*[ODD] * 4, *[ODD_SMALL] * 4, *[ODD_BUSY] * 4)
    look(answer)
    tables.looked()
    for name, one in (("n3", ODD_BUSY), ("n8", ODD), ("n6", ODD_BUSY)):
        tables.put(replace(one, name=name))
    after = look(answer)

    assert {*tables.looked()} <= {"n3", "n6", "n8"}
    assert after == look(evaluation_of(tables))


@looks
def test_columns_that_changed_are_read_again(look: Callable[[Evaluation], list[Any]]) -> None:
    tables, answer = watched(*[ROOMY] * 6, *[SMALL] * 6, *[BUSY] * 6)
    look(answer)
    tables.looked()
    for name, one in (("n1", BUSY), ("n7", ROOMY), ("n14", ROOMY), ("n15", SMALL)):
        tables.put(replace(one, name=name))
    after = look(answer)

    assert tables.looked() == []
    assert after == look(evaluation_of(tables))


def test_whether_a_node_could_ever_take_it_is_not_asked_again_for_what_is_free() -> None:
    tables, answer = watched(*[ODD] * 4, *[ODD_SMALL] * 4)
    assert answer.able().tolist() == [True] * 4 + [False] * 4
    tables.looked()
    tables.put(replace(ODD_BUSY, name="n0"))
    tables.put(replace(ODD_SMALL, name="n1"))

    assert answer.able().tolist() == [True, False, True, True] + [False] * 4
    assert {*tables.looked()} == {"n1"}


def test_nodes_in_columns_are_not_looked_at() -> None:
    tables, answer = watched(*[ROOMY] * 5, *[replace(ROOMY, max_zones=16)] * 5)

    assert answer.admitted().all()
    assert answer.aligned().all()
    assert (answer.zones() == 1).all()
    assert (answer.scores(MOST) > 0).all()
    assert tables.looked() == []


def test_a_layout_that_comes_later_is_planned_then() -> None:
    tables, answer = watched(*[ROOMY] * 5)
    assert answer.admitted().tolist() == [True] * 5
    tables.put(replace(ROOMY, name="n5", max_zones=16))

    assert answer.admitted().tolist() == [True] * 6
    assert answer.scores(FEWEST).tolist() == [94] * 5 + [97]


def test_scores_are_kept_by_strategy_and_weights() -> None:
    _, answer = watched(ROOMY, ROOMY)

    assert answer.scores(FEWEST).tolist() == [94, 94]
    assert answer.scores(MOST).tolist() == [(12 + 12 + 100) // 3] * 2
    assert answer.scores(MOST, {GPU: 7, MEMORY: 2}).tolist() == [(12 + 2 * 12 + 7 * 100) // 10] * 2
    assert answer.scores(MOST, {MEMORY: 2, GPU: 7}).tolist() == [73, 73]


def test_a_node_that_comes_back_as_the_only_one_of_its_make_keeps_its_plan() -> None:
    tables, answer = watched(ROOMY, NONE)
    assert answer.admitted().tolist() == [True, True]
    tables.put(replace(NONE, name="n1", totals=NONE.totals, zones=SMALL.zones))
    tables.put(replace(ROOMY, name="n2", max_zones=16))
    spread = evaluation_of(tables, "cpu=1 mem=1Gi gpu=1 | cpu=1 mem=1Gi gpu=1")

    assert answer.admitted().tolist() == [True, True, True]
    assert spread.aligned().tolist() == [True, False, True]


# Some rows, and no others.

FEW: dict[str, Callable[[Evaluation, Rows | None], list[Any]]] = {
    "admitted": lambda answer, rows: answer.admitted(rows).tolist(),
    "possible": lambda answer, rows: answer.possible(rows).tolist(),
    "able": lambda answer, rows: answer.able(rows).tolist(),
    "aligned": lambda answer, rows: answer.aligned(rows).tolist(),
    "zones": lambda answer, rows: answer.zones(rows).tolist(),
    "scores": lambda answer, rows: answer.scores(MOST, rows=rows).tolist(),
    "words": lambda answer, rows: _words(answer, answer.refusals(rows)),
    "never": lambda answer, rows: _words(answer, answer.never(rows)),
}
few = pytest.mark.parametrize("look", FEW.values(), ids=FEW)


def _words(answer: Evaluation, codes: Ints) -> list[str]:
    """What is told of each row; nothing where it refuses nothing."""
    return ["" if code < 0 else reason(answer.refusal(code)) for code in codes.tolist()]


@few
@pytest.mark.parametrize("rows", [[5], [0, 2], [4, 1, 3], [1, 1, 4, 1], [5, 4, 3, 2, 1, 0], []])
def test_some_rows_are_told_of_in_their_order(
    look: Callable[[Evaluation, Rows | None], list[Any]], rows: list[int]
) -> None:
    nodes = ROOMY, BUSY, SMALL, ODD, ODD_BUSY, ODD_SMALL
    every = look(watched(*nodes)[1], None)
    _, answer = watched(*nodes)

    assert look(answer, np.array(rows, dtype=np.intp)) == [every[row] for row in rows]
    assert look(answer, None) == every


@few
def test_of_other_rows_nothing_is_worked_out(look: Callable[[Evaluation, Rows | None], list[Any]]) -> None:
    tables, answer = watched(*[ODD] * 4, *[ODD_BUSY] * 4)
    tables.looked()
    look(answer, np.array([2, 5]))

    assert {*tables.looked()} <= {"n2", "n5"}


@few
def test_some_rows_are_told_of_as_they_are_by_now(
    look: Callable[[Evaluation, Rows | None], list[Any]],
) -> None:
    tables, answer = watched(ROOMY, BUSY, SMALL, ODD, ODD_BUSY, ODD_SMALL)
    look(answer, np.array([0, 3]))
    for name, one in (("n0", SMALL), ("n3", BUSY), ("n5", ROOMY)):
        tables.put(replace(one, name=name))
    tables.drop("n1")

    assert look(answer, np.array([0, 1, 3, 5])) == look(evaluation_of(tables), np.array([0, 1, 3, 5]))


# How often columns answer.


def test_it_is_counted_how_often_columns_answer_and_why_rules_do() -> None:
    tables, counts = NodeTable(), Workspace()
    for one in named([ROOMY, BUSY, SMALL, ODD, replace(ROOMY, options=GATED)]):
        tables.put(one)
    answer = Evaluation(tables, ONE_GPU, workspace=counts)
    answer.admitted()

    assert counts.in_columns == 3
    assert counts.by_rules == {Unfit.CPU_OPTIONS: 1, Unfit.POD_LEVEL: 1}


def test_what_was_tried_serves_everything_that_is_asked_of_the_same_rows() -> None:
    tables, counts = NodeTable(), Workspace()
    for one in named([ROOMY, BUSY, SMALL, ROOMY, ROOMY]):
        tables.put(one)
    answer, rows = Evaluation(tables, ONE_GPU, workspace=counts), np.array([0, 1])
    for look in (answer.admitted, answer.aligned, answer.zones, answer.possible):
        look(rows)

    assert counts.in_columns == 2


def test_pods_of_more_than_columns_hold_are_left_to_the_rules() -> None:
    tables, counts = NodeTable(), Workspace()
    tables.put(ROOMY)
    answer = Evaluation(tables, Question(asks(f"cpu=1 mem={2**62}"), NO_INTENT), workspace=counts)

    assert answer.admitted().tolist() == [False]
    assert (counts.in_columns, counts.by_rules) == (0, {Undecided.AMOUNTS: 1})


DEVICES_ASKED = [
    # the pod                   pairs answered in columns   by the rules
    ("cpu=1 mem=1Gi nic=1",     2,                          0),
    ("cpu=1 mem=1Gi gpu=1",     1,                          1),
    ("cpu=1 mem=1Gi gpu=0",     1,                          1),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "in_columns", "by_rules"), DEVICES_ASKED)
def test_pods_that_ask_for_devices_between_zones_are_left_to_the_rules_there(
    pod: str, in_columns: int, by_rules: int
) -> None:
    between, placed = (
        machine("cpu=0-3 mem=8Gi", "cpu=4-7 mem=8Gi", devices=devices, policy="restricted")
        for devices in ("gpu=0,01 nic=1", "gpu=0,1 nic=1")
    )
    tables, counts = NodeTable(), Workspace()
    for one in named([between, placed]):
        tables.put(one)
    answer = Evaluation(tables, Question(asks(pod), NO_INTENT), workspace=counts)

    assert answer.admitted().tolist() == [True, True]
    assert (counts.in_columns, counts.by_rules[Undecided.DEVICES]) == (in_columns, by_rules)


MEETING = [
    # what it shows                                  the intent                       columns  rules
    ("it is to be alone: wherever others are",       means("restricted", exclusive=True),  2,       2),
    ("it need not: where others are to be alone",    means("restricted"),                  3,       1),
    ("nobody asks anything of it",                   means("none"),                   4,       0),
]  # fmt: skip


@pytest.mark.parametrize(("intent", "in_columns", "by_rules"), table(MEETING))
def test_the_rules_are_asked_where_one_that_is_to_be_alone_may_meet_others(
    intent: Intent, in_columns: int, by_rules: int
) -> None:
    tables, counts = NodeTable(), Workspace()
    first, both = (frozenset(ROOMY.ids[:count]) for count in (1, 2))
    held = [replace(ROOMY, occupied=first), replace(ROOMY, occupied=both, exclusive=first)]
    for one in named([ROOMY, ROOMY, *held]):
        tables.put(one)
    answer = Evaluation(tables, Question(asks("cpu=2 mem=1Gi"), intent), workspace=counts)

    assert answer.admitted().tolist() == [True, True, not intent.exclusive, not by_rules]
    assert (counts.in_columns, counts.by_rules.total()) == (in_columns, by_rules)
    assert counts.by_rules[Undecided.NEIGHBOURS] == by_rules
    # On an empty node nobody is, and nobody has to be asked.
    assert answer.able().all()
    assert counts.in_columns == in_columns + 4


def test_no_two_reasons_to_ask_the_rules_are_counted_as_one() -> None:
    every = [why.value for why in (*Unfit, *Undecided)]

    assert len({*every, "columns"}) == len(every) + 1


@pytest.mark.parametrize(("pod", "tried"), [("cpu=1 mem=1Gi gpu=1", 7), ("gpu=1 | gpu=1", 3)])
def test_of_a_template_that_comes_again_all_nodes_are_worked_out_if_one_container_asks(
    pod: str, tried: int
) -> None:
    cluster = ClusterCache.of(named([ROOMY] * 5))
    question = Question(asks(pod), NO_INTENT)
    for name in ("n0", "n1", "n2"):
        assert cluster.ask([name], question).admitted.tolist() == [True]

    assert cluster.workspace.in_columns == tried


# What takes long, step by step.


@pytest.mark.parametrize("rows", [None, [1, 4, 5]])
def test_work_leaves_nothing_to_work_out(rows: list[int] | None) -> None:
    tables, answer = watched(ROOMY, BUSY, SMALL, ODD, ODD_BUSY, ODD_SMALL)
    some = None if rows is None else np.array(rows)
    assert len(list(answer.work(some))) > 1
    tables.looked()

    assert list(answer.work(some)) == []
    answer.admitted(some)
    answer.able(some)
    assert tables.looked() == []


@pytest.mark.parametrize("done", range(1, 6))
def test_what_changes_while_it_is_worked_out_is_answered_as_it_is(done: int) -> None:
    nodes = [ROOMY, BUSY, node(ZONE, policy="restricted"), ODD, ODD_BUSY, ODD_SMALL, NONE]
    tables, answer = watched(*nodes)
    work = answer.work(np.array([0, 2, 3, 5]))
    for _ in range(done):
        next(work)
    tables.drop("n0")
    for name, one in (("n2", ODD_BUSY), ("n3", BUSY), ("n5", ROOMY), ("n7", SMALL), ("n8", NONE)):
        tables.put(replace(one, name=name))
    deque(work, maxlen=0)

    fresh = evaluation_of(tables)
    assert answer.admitted().tolist() == fresh.admitted().tolist()
    assert answer.able().tolist() == fresh.able().tolist()


SEVERAL = "cpu=1 mem=1Gi gpu=1 | cpu=1 mem=1Gi"
"""What is admitted container by container, and so some rows at a time."""


def test_what_changes_while_it_is_worked_out_makes_no_step_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "_MOST_ROWS", 2)
    tables = Watched(*named([ROOMY] * 12))
    answer, longest = evaluation_of(tables, SEVERAL), list[int]()
    admissions = batch_admission.admissions

    def counted(state: ColumnState) -> Iterator[tuple[Rows | None, BatchAdmission]]:
        longest[-1] += state.count
        return admissions(state)

    monkeypatch.setattr(batch_admission, "admissions", counted)
    longest.append(0)
    for at, _ in enumerate(answer.work_now()):
        tables.put(replace(BUSY, name=f"n{at % 12}"))
        longest.append(0)

    assert max(longest) == 2


def test_where_several_containers_come_to_is_known_once_they_are_admitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = evaluation_of(Watched(*named([ROOMY] * 3)), SEVERAL)
    deque(answer.work_now(), maxlen=0)
    monkeypatch.delattr(batch_admission, "admissions")

    assert answer.zones().tolist() == [1, 1, 1]
    assert answer.aligned().tolist() == [True, True, True]


# Verdicts of single nodes.


def test_a_verdict_is_kept_while_its_node_stands() -> None:
    tables, answer = watched(ODD, ROOMY)
    first = answer.verdict(0)
    assert answer.verdict(0) is first

    tables.put(replace(ODD, name="n1"))
    assert answer.verdict(0) is first
    tables.put(replace(ODD_BUSY, name="n0"))
    assert not answer.verdict(0).admitted


@pytest.mark.full
def test_only_so_many_verdicts_are_kept() -> None:
    tables = NodeTable()
    bare = node()
    for at in range(MOST_VERDICTS + 1):
        tables.put(replace(bare, name=f"n{at}"))
    answer = evaluation_of(tables)
    first = answer.verdict(0)
    for row in range(1, MOST_VERDICTS):
        answer.verdict(row)
    assert answer.verdict(0) is first

    answer.verdict(MOST_VERDICTS)
    assert answer.verdict(0) is not first
    assert answer.verdict(0) == first


BINDING = "single-numa-node"
FREE_ZONE = "cpu=8 mem=8Gi gpu=1"
BUSY_ZONE = "cpu=8//1 mem=8Gi gpu=1//0"


def called(name: str, *zones: str, policy: str = BINDING, chosen: Options | None = None) -> Node:
    return replace(node(*zones, policy=policy, options=chosen or Options()), name=name)


def question(
    *containers: str, policy: str = "none", match: str = "satisfies", exclusive: bool = False
) -> Question:
    return Question(asks(*containers), means(policy, match=match, exclusive=exclusive))


ONE_GPU = question("cpu=2 mem=1Gi gpu=1")
A, B, C = (
    called("a", FREE_ZONE, FREE_ZONE),
    called("b", FREE_ZONE, BUSY_ZONE),
    called("c", BUSY_ZONE, BUSY_ZONE),
)


def ask(cache: ClusterCache, pod: Question) -> Evaluation:
    """What all nodes answer."""
    return cache.ask([], pod).evaluation


# Who stands where.


@pytest.mark.parametrize("row", [-1, 0, 2, 99])
def test_a_row_without_a_node_cannot_be_asked_for_one(row: int) -> None:
    cache = ClusterCache.of([A, B])
    cache.nodes.drop("a")

    with pytest.raises(KeyError):
        cache.nodes.node(row)
    with pytest.raises(KeyError):
        ask(cache, ONE_GPU).verdict(row)


# What is kept.


def test_a_question_is_answered_once() -> None:
    cache = ClusterCache.of([A])

    assert ask(cache, ONE_GPU) is ask(cache, question("cpu=2 mem=1Gi gpu=1"))


def test_so_many_answers_are_kept_and_no_more() -> None:
    cache = ClusterCache(remembered=2)
    first, second, third = (question(f"cpu={count} mem=1Gi") for count in (1, 2, 3))
    kept = {asked: weakref.ref(ask(cache, asked)) for asked in (first, second)}

    ask(cache, first)
    ask(cache, third)
    gc.collect()

    assert kept[first]() is ask(cache, first)
    assert kept[second]() is None


@pytest.mark.full
@pytest.mark.parametrize("containers", [1, 20])
def test_an_answer_knows_what_it_takes(containers: int) -> None:
    cache = ClusterCache.of(replace(A, name=f"n{number}") for number in range(300))
    asked = [question(*[f"cpu=1 mem={size}Mi gpu=0"] * containers) for size in (1, 2)]

    def answered(question: Question) -> Evaluation:
        answer = ask(cache, question)
        for row in range(300):
            answer.verdict(row)
        assert len(answer.admitted()) == 300
        return answer

    answered(asked[0])
    gc.collect()
    tracemalloc.start()
    try:
        answer = answered(asked[1])
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken / 2 < answer.weight < 2 * taken
    ask(cache, asked[1])
    assert cache.caches()["nodes"].bytes > answer.weight


def test_what_an_answer_grew_by_is_noted_with_the_next_question() -> None:
    cache = ClusterCache.of(replace(A, name=f"n{number}") for number in range(300))
    answers = [ask(cache, question(f"cpu=1 mem={size}Mi gpu=0")) for size in (1, 2, 3)]
    for answer in answers:
        ask(cache, answer.question)
        assert answer.admitted().all()
        answer.scores(Strategy.LEAST_NUMA_NODES)
    ask(cache, answers[0].question)

    assert cache.caches()["nodes"].bytes > sum(answer.weight for answer in answers)


@pytest.mark.full
def test_more_changes_than_anybody_notes_are_not_missed() -> None:
    cache = ClusterCache.of([A, B])
    answer = ask(cache, ONE_GPU)
    assert answer.admitted().tolist() == [True, True]

    for count in range(5000):
        cache.nodes.put(called("b", *([BUSY_ZONE, BUSY_ZONE] if count % 2 else [FREE_ZONE, BUSY_ZONE])))
    assert answer.admitted().tolist() == [True, False]


# Columns and rules.


@pytest.mark.parametrize(
    ("made", "in_columns"),
    table(
        [
            ("amounts alone", A, 1),
            ("no zone", replace(A, zones=()), 0),
            ("eight zones", called("a", *[FREE_ZONE] * 8), 1),
            ("more zones than sets can be kept of", called("a", *["cpu=1"] * 9), 0),
            (
                "an option of the CPU manager",
                called("a", FREE_ZONE, FREE_ZONE, chosen=options("align-by-socket")),
                0,
            ),
            (
                "the closest zones",
                called("a", FREE_ZONE, FREE_ZONE, chosen=options("prefer-closest-numa-nodes")),
                1,
            ),
            ("a gate", called("a", FREE_ZONE, FREE_ZONE, chosen=options("PodLevelResourceManagers")), 0),
            ("cores of different size", replace(called("a", "cpu=6", "cpu=6"), threads=4), 0),
            ("zones of different size", called("a", "cpu=8", "cpu=4"), 0),
            ("a described machine", machine("cpu=0-3", "cpu=4-7", policy=BINDING), 1),
            ("more free than there is", called("a", "cpu=8//9", "cpu=8"), 0),
            ("memory in groups", node(FREE_ZONE, FREE_ZONE, policy=BINDING, blocks=[(0, 1)]), 1),
        ]
    ),
)
def test_nodes_that_amounts_describe_stand_in_columns(made: Node, in_columns: int) -> None:
    cache = ClusterCache.of([made])

    assert cache.nodes.in_columns == in_columns
    assert differences(cache, ONE_GPU, [made]) == []


SPLIT = [
    # cores that are kept in part    reserved   free     nodes in columns
    ("none",                         "",        "0-7",   1),
    ("the first ones",               "4,5",     "0-3",   1),
    ("the last ones",                "6,7",     "0-3",   0),
]  # fmt: skip


@pytest.mark.parametrize(("reserved", "free", "in_columns"), table(SPLIT))
def test_where_whole_cores_are_given_out_it_matters_which_ones_the_system_has_a_part_of(
    reserved: str, free: str, in_columns: int
) -> None:
    made = machine(
        "cpu=0-7 mem=8Gi",
        threads=2,
        reserved=reserved,
        free=free,
        policy="restricted",
        options=options("full-pcpus-only"),
    )
    cache = ClusterCache.of([made])

    assert cache.nodes.in_columns == in_columns
    # The first container takes the lowest threads that are left, of whatever cores they are.
    assert differences(cache, Question(asks("cpu=2 mem=1Gi | cpu=2 mem=1Gi"), NO_INTENT), [made]) == []


@pytest.mark.parametrize(("kinds", "in_columns"), [(32, 1), (33, 0), (80, 0)])
def test_a_node_of_more_resources_than_can_be_told_apart_is_asked_by_the_rules(
    kinds: int, in_columns: int
) -> None:
    names = [f"example.com/d{at:02}" for at in range(kinds)]
    made = called("a", " ".join(f"{name}=1" for name in names))
    asked = question(" ".join(f"{name}=2" for name in names), policy="restricted")
    cache = ClusterCache.of([made])

    assert cache.nodes.in_columns == in_columns
    assert differences(cache, asked, [made]) == []


def test_memory_that_nobody_holds_any_more_is_as_a_new_cache_would_see_it() -> None:
    zones = ["cpu=8 mem=4Gi//2Gi", "cpu=8 mem=4Gi//2Gi", "cpu=8 mem=4Gi//0"]
    before = node(*zones, policy="restricted", blocks=[(0, 1)])
    after = replace(before, zones=tuple(replace(zone, assignments=0) for zone in before.zones))
    cache = ClusterCache.of([before])
    cache.nodes.put(after)

    assert differences(cache, question("cpu=1 mem=2Gi | cpu=1 mem=2Gi"), [after]) == []


# Refusals.

HUGE_POD = question("cpu=99 mem=1Gi")
GATED = options("PodLevelResourceManagers")
CROWDED = Question(
    demand.of(pod("cpu=2 mem=1Gi", "", requests="cpu=2 mem=1Gi", limits="cpu=2 mem=1Gi")), means("none")
)


def whole(name: str, *zones: str) -> Node:
    """A node that serves pods as a whole."""
    return replace(node(FREE_ZONE, *zones, policy=BINDING, scope="pod", options=GATED), name=name)


NO_ZONE = machine("cpu=0-7 mem=8Gi", "cpu=8-15 mem=8Gi", policy=BINDING, reserved="0", devices="gpu=?,?")

CAUSES: dict[Cause, tuple[Node, Node, Question]] = {
    Cause.NODE_TOO_SMALL: (A, B, HUGE_POD),
    Cause.ZONES_TOO_SMALL: (B, C, question("cpu=9 mem=1Gi", policy=BINDING)),
    Cause.NO_SUCH_ZONE: (
        replace(NO_ZONE, name="a"),
        replace(NO_ZONE, name="b", label="b"),
        ONE_GPU,
    ),
    Cause.WIDTHS_DIFFER: (
        called("a", FREE_ZONE, FREE_ZONE, policy="restricted"),
        called("b", FREE_ZONE, BUSY_ZONE, policy="restricted"),
        question("cpu=9 mem=1Gi"),
    ),
    Cause.NOT_TOGETHER: (
        called("a", "cpu=8//1 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1//0"),
        called("b", "cpu=8 mem=8Gi gpu=1//0", "cpu=8//1 mem=8Gi gpu=1"),
        ONE_GPU,
    ),
    Cause.SPREAD: (
        called("a", "cpu=8 mem=8Gi//1Gi", "cpu=8//1 mem=8Gi", policy="best-effort"),
        called("b", "cpu=8 mem=8Gi//1Gi", "cpu=8//1 mem=8Gi", policy="best-effort"),
        question("cpu=2 mem=1Gi | cpu=6 mem=1Gi", policy="restricted"),
    ),
    Cause.NOT_ALLOCATED: (
        called("a", BUSY_ZONE, BUSY_ZONE, policy="none"),
        called("b", BUSY_ZONE, BUSY_ZONE, policy="none"),
        ONE_GPU,
    ),
    Cause.NOT_WHOLE_CORES: (
        called("a", FREE_ZONE, FREE_ZONE, chosen=options("full-pcpus-only")),
        called("b", FREE_ZONE, BUSY_ZONE, chosen=options("full-pcpus-only")),
        question("cpu=3 mem=1Gi"),
    ),
    Cause.NOT_EXCLUSIVE: (A, B, question("cpu=1.. mem=1Gi..", policy=f"{BINDING} cpu")),
    Cause.NOT_ALIGNED: (
        called("a", FREE_ZONE, FREE_ZONE, policy="none"),
        called("b", FREE_ZONE, BUSY_ZONE, policy="none"),
        question("cpu=1 mem=1Gi", policy="restricted"),
    ),
    Cause.NOTHING_TO_SHARE: (whole("a", FREE_ZONE), whole("b", BUSY_ZONE), CROWDED),
    Cause.OTHER_POLICY: (A, B, question("cpu=1 mem=1Gi", policy="restricted", match="equal")),
    Cause.NOT_ALONE: (
        replace(A, occupied=frozenset(A.ids)),
        replace(B, occupied=frozenset(B.ids)),
        question("cpu=1 mem=1Gi", policy=BINDING, exclusive=True),
    ),
    Cause.NOT_SHARED: (
        replace(A, occupied=frozenset(A.ids), exclusive=frozenset(A.ids)),
        replace(B, occupied=frozenset(B.ids), exclusive=frozenset(B.ids)),
        question("cpu=1 mem=1Gi", policy=BINDING),
    ),
    Cause.NOT_ANSWERED: (
        called("a", *[FREE_ZONE] * 18, policy="restricted"),
        called("b", *[FREE_ZONE] * 17, BUSY_ZONE, policy="restricted"),
        question("cpu=1 mem=1Gi"),
    ),
}
"""Two nodes that refuse a pod for this cause."""


def test_there_is_an_example_of_every_cause() -> None:
    assert CAUSES.keys() == set(Cause)


@pytest.mark.parametrize("cause", CAUSES)
def test_nodes_that_refuse_alike_are_said_to(cause: Cause) -> None:
    one, other, asked = CAUSES[cause]
    cache = ClusterCache.of([one, other])
    numbers, verdict = ask(cache, asked).refusals().tolist(), evaluate(one, asked.demand, asked.intent)

    assert verdict.refusal is not None
    assert verdict.refusal.cause is cause
    assert numbers[0] == numbers[1] >= 0
    assert differences(cache, asked, [one, other]) == []


def test_a_refusal_for_now_is_not_one_for_ever() -> None:
    busy, small = (
        called("busy", BUSY_ZONE, BUSY_ZONE),
        called("small", "cpu=8 mem=8Gi gpu=0", "cpu=8 mem=8Gi gpu=0"),
    )
    cache = ClusterCache.of([busy, small, A])
    answer = ask(cache, ONE_GPU)

    assert permanent(answer).tolist() == [False, True, False]
    assert len({*answer.refusals().tolist()}) == 3
    assert answer.refusals().tolist()[2] == -1


# Who is ill.


def without_gpus(name: str, healthy: Node) -> Node:
    """The node while its device plugin is down."""
    zones = (
        replace(zone, allocatable=has, free=has)
        for zone in healthy.zones
        for has in [Resources({**zone.allocatable, GPU: 0})]
    )
    return replace(healthy, name=name, zones=tuple(zones), health=healthy.emptied())


def outage(count: int, healthy: Node = A) -> ClusterCache:
    return ClusterCache.of([without_gpus(f"n{at}", healthy) for at in range(count)])


def test_of_ill_nodes_that_are_alike_the_rules_are_asked_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def evaluated(told: Node, *rest: object) -> object:
        asked.append(told.name)
        return evaluating(told, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr("numalign.cache.evaluation.evaluating", evaluated)
    odd = called("odd", FREE_ZONE, FREE_ZONE, chosen=options("distribute-cpus-across-numa"))
    answer = ask(outage(50, odd), ONE_GPU)

    assert answer.able().all()
    assert len(asked) == 1


def test_who_may_go_to_a_node_makes_no_answer_stale() -> None:
    cache = ClusterCache.of([A, without_gpus("ill", A)])
    before = cache.nodes.changes.place, cache.nodes.facts.place

    for told in (A, without_gpus("ill", A)):
        cordoned = Attributes(cordoned=True)
        health = told.health and replace(told.health, attributes=cordoned)
        cache.nodes.put(replace(told, attributes=cordoned, health=health))
    assert (cache.nodes.changes.place, cache.nodes.facts.place) == before
