"""Whether a pod gets what its intent asks for, in columns, is what the rules say of each placement."""

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
from numalign.model.intent import Intent, Policy
from numalign.model.node import Node
from numalign.model.resources import CPU, MEMORY
from tests.laws.fleets import Case, case, drawn
from tests.worlds.cases_in_columns import parts_of
from tests.worlds.in_columns import asked as asked_by
from tests.worlds.in_columns import left, state
from tests.worlds.notation import GPU, asks, means, node, table

TWO = ("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2")
NONE, BEST, RESTRICTED, SINGLE = (node(*TWO, policy=policy) for policy in Policy)
POD = node(*TWO, policy="restricted", scope="pod")

KEPT, BROKEN, UNSURE = "kept", "broken", "only in steps"


def in_steps(pod: str, intent: Intent, *nodes: Node) -> list[str]:
    """What becomes of an intent on nodes that all admit the pod; the rules say the same."""
    found = _in_steps(state(asks(pod), *nodes, intent=intent), intent)
    assert [found[row] for row in range(len(nodes))] == [_by_rules(one, pod, intent) for one in nodes]
    return [KEPT if found[row] else BROKEN for row in range(len(nodes))]


def _in_steps(every: ColumnState, intent: Intent) -> dict[int, bool]:
    """By row that admits the pod, whether its placement is what an intent asks for."""
    kept = dict[int, bool]()
    for rows, admission in admissions(every):
        some = np.arange(every.count) if rows is None else rows
        found = batch_intent.kept_in_steps(every.at(some), admission, intent)
        kept |= dict(zip(some[admission.admitted].tolist(), found[admission.admitted].tolist(), strict=True))
    return kept


def _by_rules(one: Node, pod: str, intent: Intent) -> bool:
    return keeps(one, asks(pod), intent, admit(one, asks(pod)).placement)


def alone(pod: str, intent: Intent, *nodes: Node) -> list[str]:
    """What the hint of the only container says of an intent; the rules say the same where it can tell."""
    every = state(asks(pod), *nodes, intent=intent)
    kept, doubtful = batch_intent.kept_alone(every, Trial(every).hint, asked_by(every), intent)
    for one, yes, doubt in zip(nodes, kept.tolist(), doubtful.tolist(), strict=True):
        assert doubt or yes == _by_rules(one, pod, intent)
    return [
        UNSURE if doubt else KEPT if yes else BROKEN
        for yes, doubt in zip(kept.tolist(), doubtful.tolist(), strict=True)
    ]


# Container by container.


@pytest.mark.parametrize(
    ("words", "scope", "kept"),
    table(
        [
            ("each in one zone", "single-numa-node", "container", [KEPT, KEPT, BROKEN]),
            ("all in one zone", "single-numa-node", "pod", [KEPT, BROKEN, BROKEN]),
            ("each in as few as possible", "restricted", "container", [KEPT, KEPT, BROKEN]),
            ("all in as few as possible", "restricted", "pod", [KEPT, BROKEN, BROKEN]),
            ("by the scope of the node", "restricted", None, [KEPT, KEPT, BROKEN]),
            ("about something else", "single-numa-node nic", "pod", [KEPT, KEPT, KEPT]),
            ("without binding anybody", "best-effort", "pod", [KEPT, KEPT, KEPT]),
        ]
    ),
)
def test_containers_sit_in_few_enough_zones(words: str, scope: str | None, kept: list[str]) -> None:
    together, apart = BEST, left(BEST, "gpu=1", "gpu=1")
    pod = "cpu=1 mem=1Gi gpu=1 | cpu=1 mem=1Gi gpu=1"

    assert in_steps(pod, means(words, scope=scope), together, apart) == kept[:2]
    assert (
        in_steps("cpu=2 mem=1Gi gpu=1", means(words, scope=scope), left(BEST, "cpu=1", "gpu=0")) == kept[2:]
    )


def test_a_pod_may_sit_in_as_many_zones_as_its_sum_takes() -> None:
    intent = means("restricted", scope="pod")

    assert in_steps("gpu=2 | gpu=1", intent, RESTRICTED, left(RESTRICTED, "gpu=1", "")) == [KEPT, KEPT]
    assert in_steps("gpu=2 | gpu=1", means("single-numa-node", scope="pod"), RESTRICTED) == [BROKEN]


def test_on_a_single_zone_every_intent_is_kept() -> None:
    assert in_steps("gpu=1 | gpu=1", means("single-numa-node", scope="pod"), node(TWO[0])) == [KEPT]


def test_it_is_known_which_unit_lies_too_wide_and_on_which_rows() -> None:
    intent = means("single-numa-node")
    every = state(asks("gpu=1 | gpu=2"), BEST, left(BEST, "gpu=2", "gpu=1"), intent=intent)
    ((_, admission),) = admissions(every)
    wide = [
        (request.step.container, rows[too_wide].tolist())
        for _, request, rows, too_wide in batch_intent.units_too_wide(every, admission, intent)
    ]

    assert wide == [("c0", []), ("c1", [1])]


def test_resources_may_go_into_as_many_zones_as_the_narrowest_of_them_takes() -> None:
    small, large = (node(*[f"cpu=8 mem=8Gi gpu={each}"] * 2, policy="restricted") for each in (2, 4))
    every = state(asks("cpu=2 mem=9Gi gpu=3"), small, large)

    def allowed(words: str, *names: str) -> list[int]:
        found = batch_intent.allowed_zones(every, asked_by(every), frozenset(names), means(words))
        return list[int](found.tolist())

    assert allowed("restricted", GPU) == [2, 1]
    assert allowed("restricted", MEMORY) == [2, 2]
    assert allowed("restricted", GPU, MEMORY) == [2, 1]
    assert allowed("restricted", GPU, CPU) == [1, 1]
    assert allowed("single-numa-node", GPU, MEMORY) == [1, 1]


# A container alone.


@pytest.mark.parametrize(
    ("pod", "words", "kept"),
    table(
        [
            ("what lies in one zone", "cpu=2 mem=1Gi gpu=2", "single-numa-node", [KEPT, BROKEN]),
            ("two zones that it takes", "gpu=3", "restricted", [KEPT, KEPT]),
            ("two zones are not one", "gpu=3", "single-numa-node", [BROKEN, BROKEN]),
            ("nothing in common", "cpu=9 mem=1Gi gpu=3", "restricted", [BROKEN, BROKEN]),
            ("of what is named alone", "cpu=9 mem=1Gi gpu=1", "single-numa-node gpu", [UNSURE, UNSURE]),
            ("nothing that it asks for", "gpu=3", "single-numa-node nic", [KEPT, KEPT]),
        ]
    ),
)
def test_the_hint_of_a_container_tells_what_becomes_of_its_intent(
    pod: str, words: str, kept: list[str]
) -> None:
    assert alone(pod, means(words), BEST, left(BEST, "cpu=1 gpu=2", "gpu=1")) == kept


# Laws.


def placed(asked: Case) -> Iterator[tuple[ColumnState, int, Node, bool]]:
    """Rows whose kubelet admits the pod, and could keep an intent."""
    for every, nodes in parts_of(asked):
        for row, one in enumerate(nodes):
            kind = every.plan.every[every.kinds[row]]
            if not kind.refused and not admit(one, every.plan.question.demand).refusal:
                yield every, row, one, kind.kept_by_kubelet


@given(drawn(case))
def test_an_intent_is_kept_in_steps_where_the_rules_say_so(asked: Case) -> None:
    for every, row, one, _ in placed(asked):
        demand, intent = every.plan.question.demand, every.plan.question.intent
        assert _in_steps(every, intent)[row] == keeps(one, demand, intent, admit(one, demand).placement)


@given(drawn(case))
def test_a_hint_tells_what_the_rules_say_unless_it_is_doubtful(asked: Case) -> None:
    for every, row, one, by_kubelet in placed(asked):
        request, intent, demand = every.plan.only_step, every.plan.question.intent, every.plan.question.demand
        if request is None or by_kubelet:
            continue
        kept, doubtful = batch_intent.kept_alone(every, Trial(every).hint, request, intent)
        # Memory that others hold can make a best effort lie well by chance.
        if not doubtful[row] and (kept[row] or not every.memory_used()[row]):
            assert kept[row] == keeps(one, demand, intent, admit(one, demand).placement)
