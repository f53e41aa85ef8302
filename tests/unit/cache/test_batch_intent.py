"""Whether a placement satisfies an intent, in columns, is what the rules say of each placement."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given

from numalign.cache import batch_intent
from numalign.cache.batch_admission import admissions
from numalign.cache.column_state import ColumnState
from numalign.cache.feasibility import Trial
from numalign.decision.evaluate import keeps
from numalign.kubelet.admit import admit
from numalign.model.intent import Intent
from numalign.model.node import Node
from numalign.model.resources import CPU, MEMORY
from tests.laws.fleets import Case, case, drawn
from tests.worlds.columns import only_request, parts_of, state, with_free
from tests.worlds.notation import GPU, asks, means, node, table

BEST = node(*["cpu=8 mem=8Gi gpu=2"] * 2, policy="best-effort")
APART = with_free(BEST, "gpu=1", "gpu=1")


def in_steps(state: ColumnState, intent: Intent) -> dict[int, bool]:
    """By row that admits the pod, whether its placement satisfies an intent."""
    satisfied = dict[int, bool]()
    for rows, admission in admissions(state):
        some = np.arange(state.count) if rows is None else rows
        results = batch_intent.kept_in_steps(state.at(some), admission, intent)
        satisfied |= zip(some[admission.admitted].tolist(), results[admission.admitted].tolist(), strict=True)
    return satisfied


def test_resources_may_use_as_many_zones_as_the_narrowest() -> None:
    small, large = (node(*[f"cpu=8 mem=8Gi gpu={count}"] * 2, policy="restricted") for count in (2, 4))
    every = state(asks("cpu=2 mem=9Gi gpu=3"), small, large)

    def allowed(words: str, *names: str) -> list[int]:
        zones = batch_intent.allowed_zones(every, only_request(every), frozenset(names), means(words))
        return list[int](zones.tolist())

    assert [allowed("restricted", *names) for names in ((GPU,), (GPU, MEMORY), (GPU, CPU))] == [
        [2, 1],
        [2, 1],
        [1, 1],
    ]
    assert allowed("single-numa-node", GPU, MEMORY) == [1, 1]


ALONE = [
    ("one zone", "cpu=2 mem=1Gi gpu=2", "single-numa-node", [True, False], [False, False]),
    ("two zones are not one", "gpu=3", "single-numa-node", [False, False], [False, False]),
    ("two zones that it takes", "gpu=3", "restricted", [True, True], [False, False]),
    ("a part of it", "cpu=9 mem=1Gi gpu=1", "single-numa-node gpu", [False, False], [True, True]),
    ("nothing of it", "gpu=3", "single-numa-node nic", [True, True], [False, False]),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "words", "satisfied", "doubtful"), table(ALONE))
def test_the_hint_of_one_container_satisfies(
    pod: str, words: str, satisfied: list[bool], doubtful: list[bool]
) -> None:
    every = state(asks(pod), BEST, with_free(BEST, "cpu=1 gpu=2", "gpu=1"), intent=means(words))
    results = batch_intent.kept_alone(every, Trial(every).hint, only_request(every), means(words))

    assert [rows.tolist() for rows in results] == [satisfied, doubtful]


# Laws.


def placed(case: Case) -> Iterator[tuple[ColumnState, int, Node, bool]]:
    """Rows whose kubelet admits the pod, and could satisfy its intent."""
    for every, nodes in parts_of(case):
        for row, one in enumerate(nodes):
            kind = every.plan.every[every.kinds[row]]
            if not kind.refused and not admit(one, every.plan.question.demand).refusal:
                yield every, row, one, kind.kept_by_kubelet


@given(drawn(case))
def test_an_intent_is_satisfied_in_steps_as_by_the_rules(case: Case) -> None:
    for every, row, one, _ in placed(case):
        demand, intent = every.plan.question.demand, every.plan.question.intent
        assert in_steps(every, intent)[row] == keeps(one, demand, intent, admit(one, demand).placement)


@given(drawn(case))
def test_a_hint_decides_as_the_rules_unless_it_is_doubtful(case: Case) -> None:
    for every, row, one, by_kubelet in placed(case):
        request, intent, demand = every.plan.only_step, every.plan.question.intent, every.plan.question.demand
        if request is None or by_kubelet:
            continue
        satisfied, doubtful = batch_intent.kept_alone(every, Trial(every).hint, request, intent)
        # Memory that others hold can make a best effort satisfy an intent by chance.
        if not doubtful[row] and (satisfied[row] or not every.memory_used()[row]):
            assert satisfied[row] == keeps(one, demand, intent, admit(one, demand).placement)
