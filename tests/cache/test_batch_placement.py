"""Where a pod comes to, in columns, is where the rules see it, or the rules are to say."""

from collections.abc import Sequence

import numpy as np
import pytest

from numalign.cache import batch_placement
from numalign.cache.arrays import Bools
from numalign.cache.feasibility import Trial
from numalign.decision import scoring
from numalign.decision.evaluate import NO_INTENT, evaluate
from numalign.decision.scoring import EVEN, Strategy
from numalign.model.intent import Intent, Policy
from numalign.model.node import Node
from tests.in_columns import left, plan, state
from tests.notation import asks, means, node, table

TWO = ("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2")
NONE, BEST, RESTRICTED, SINGLE = (node(*TWO, policy=policy) for policy in Policy)
POD = node(*TWO, policy="restricted", scope="pod")
ALONE = node(TWO[0])


def masks(pod: str, *nodes: Node, intent: Intent = NO_INTENT) -> list[list[int] | str]:
    """By node the set of zones of each container; where columns tell it, the rules do too."""
    chosen, unknown = batch_placement.masks(Trial(plan(nodes[0], asks(pod), intent), state(*nodes)))
    return [
        "ask" if ask else _as_the_rules(one, pod, intent, sets)
        for one, ask, sets in zip(nodes, unknown, chosen.T.tolist(), strict=True)
    ]


def _as_the_rules(one: Node, pod: str, intent: Intent, sets: list[int]) -> list[int]:
    zones = evaluate(one, asks(pod), intent).placement.zones
    together = {at for mask in sets for at in range(8) if mask >> at & 1}
    assert {one.ids.index(zone) for zone in zones} == together
    return sets


# Sets of zones.


def test_every_container_comes_to_a_set_of_zones() -> None:
    used = left(RESTRICTED, "gpu=1", "")

    assert masks("gpu=2 | gpu=1 | cpu=1.. mem=1Gi..", RESTRICTED, used) == [[1, 2, 0], [2, 1, 0]]
    assert masks("gpu=3", RESTRICTED) == [[3]]


def test_a_refused_pod_comes_to_none() -> None:
    assert masks("gpu=2", left(RESTRICTED, "gpu=1", "gpu=1"), RESTRICTED) == [[0], [1]]


def test_a_pod_that_is_aligned_as_one_comes_to_one_set() -> None:
    assert masks("gpu=1 | gpu=2", POD) == [[3, 0]]


def test_a_pod_that_asks_for_nothing_comes_nowhere() -> None:
    assert masks("cpu=1..", RESTRICTED) == [[0]]
    assert masks("cpu=1..", NONE) == [[0]]


def test_on_a_single_zone_there_is_nowhere_else() -> None:
    assert masks("gpu=1 | gpu=1", ALONE, left(ALONE, "gpu=1")) == [[1, 1], [0, 0]]


@pytest.mark.parametrize(
    ("one", "pod"),
    table(
        [
            ("nothing is aligned", NONE, "gpu=1"),
            ("a best effort failed", BEST, "cpu=9 mem=1Gi gpu=1"),
            ("a container spilled before another", RESTRICTED, "gpu=3 | gpu=1"),
            ("columns do not know whether it is taken", RESTRICTED, "init gpu=1 | gpu=1"),
        ]
    ),
)
def test_only_the_rules_can_tell_where(one: Node, pod: str) -> None:
    assert masks(pod, one) == ["ask"]


def test_zones_are_counted_over_all_containers() -> None:
    chosen = np.array([[0b01, 0b01, 0b11, 0], [0b10, 0b01, 0b00, 0]], dtype=np.int16)

    assert batch_placement.width(chosen).tolist() == [2, 1, 2, 0]


# Whether it is aligned.


def told(found: tuple[Bools, Bools]) -> list[str]:
    yes, unknown = found
    return ["ask" if ask else "yes" if here else "no" for here, ask in zip(yes, unknown, strict=True)]


def aligned(pod: str, words: str, *nodes: Node) -> list[str]:
    """By node that takes the pod; where columns tell it, the rules do too."""
    demand, intent = asks(pod), means(words)
    found = told(batch_placement.aligned(Trial(plan(nodes[0], demand, intent), state(*nodes))))
    for one, said in zip(nodes, found, strict=True):
        verdict = evaluate(one, demand, intent)
        assert verdict.admitted
        assert said == "ask" or (said == "yes") == scoring.aligned(one, demand, verdict.placement, intent)
    return found


@pytest.mark.parametrize(
    ("one", "pod", "word"),
    table(
        [
            ("a kubelet that aligns nothing does not", NONE, "gpu=1", "no"),
            ("unless there is nowhere else", ALONE, "gpu=1", "yes"),
            ("or nothing to align", NONE, "cpu=1..", "yes"),
            ("a best effort that succeeds does", BEST, "gpu=3", "yes"),
            ("a best effort that fails does not", BEST, "cpu=9 mem=1Gi gpu=1", "no"),
            ("a best effort for nothing does", BEST, "cpu=1..", "yes"),
            (
                "so does one that spills before another",
                BEST,
                "cpu=1 mem=1Gi gpu=2 | cpu=8 mem=1Gi gpu=1",
                "yes",
            ),
            ("a device that is only named is the rules' matter", NONE, "gpu=0", "ask"),
            ("what comes after may be the rules to tell", BEST, "gpu=3 | gpu=1", "ask"),
            ("strict ones always do", RESTRICTED, "gpu=3", "yes"),
            ("whoever spilled before", RESTRICTED, "gpu=3 | gpu=1", "yes"),
            ("even of zones alone", SINGLE, "gpu=2", "yes"),
        ]
    ),
)
def test_of_a_pod_that_states_nothing(one: Node, pod: str, word: str) -> None:
    assert aligned(pod, "none", one) == [word]


@pytest.mark.parametrize(
    ("one", "pod", "words", "word"),
    table(
        [
            ("a best effort that would be kept", RESTRICTED, "gpu=3", "best-effort", "yes"),
            ("a best effort that would not", BEST, "cpu=9 mem=1Gi gpu=1", "best-effort", "no"),
            ("where nothing is kept", NONE, "gpu=1", "best-effort", "no"),
            ("about what lies well", BEST, "cpu=9 mem=1Gi gpu=1", "best-effort gpu", "ask"),
            ("about nothing that it asks for", BEST, "cpu=9 mem=1Gi gpu=1", "best-effort nic", "yes"),
            ("after a container that spilled", BEST, "gpu=3 | gpu=1", "best-effort", "ask"),
            ("an intent that is kept", RESTRICTED, "gpu=3", "restricted", "yes"),
            ("a single zone", BEST, "gpu=2", "single-numa-node", "yes"),
        ]
    ),
)
def test_of_a_pod_that_states(one: Node, pod: str, words: str, word: str) -> None:
    assert aligned(pod, words, one) == [word]


def test_where_it_is_not_known_whether_a_pod_is_taken_nobody_knows_how() -> None:
    four = node(*["gpu=2"] * 4, policy="best-effort")

    assert aligned("gpu=3 | gpu=1", "best-effort", four) == ["ask"]
    assert aligned("gpu=3 | gpu=1", "none", four) == ["ask"]


def test_containers_that_were_to_sit_together_and_do_not_are_not_aligned() -> None:
    demand, intent = asks("gpu=1 | gpu=1"), means("best-effort", scope="pod")
    rows = state(BEST, left(BEST, "gpu=1", "gpu=1"))

    assert told(batch_placement.aligned(Trial(plan(BEST, demand, intent), rows))) == ["yes", "no"]


# How good it is.


def scores(pod: str, nodes: Sequence[Node], weights: dict[str, int] | None = None) -> dict[str, list[int]]:
    """By strategy what columns say, which is what the rules say."""
    demand, trial = asks(pod), Trial(plan(nodes[0], asks(pod)), state(*nodes))
    chosen, unknown = batch_placement.masks(trial)
    assert not unknown.any()
    units = batch_placement.units(trial, chosen)
    found = {
        strategy.value: batch_placement.score(trial, units, strategy, weights or EVEN).tolist()
        for strategy in Strategy
    }
    for at, one in enumerate(nodes):
        placement = evaluate(one, demand).placement
        rules = scoring.scores(tuple(Strategy), one, demand, placement, weights or EVEN)
        assert [values[at] for values in found.values()] == [*rules]
    return found


def test_parts_of_cpus_that_are_free_count_as_whole_ones() -> None:
    assert scores("cpu=3 mem=4Gi", [left(SINGLE, "cpu=3500m", "cpu=0")])["MostAllocated"] == [62]


def test_a_pod_that_asks_for_nothing_is_as_good_here_as_anywhere() -> None:
    for one in (RESTRICTED, POD, NONE):
        assert scores("cpu=1..", [one]) == {strategy.value: [100] for strategy in Strategy}


def test_containers_that_are_aligned_as_one_are_scored_as_one() -> None:
    each = scores("cpu=4 mem=1Gi gpu=2 | cpu=4 mem=1Gi gpu=1", [RESTRICTED, left(RESTRICTED, "", "gpu=1")])
    one = scores("cpu=4 mem=1Gi gpu=1 | cpu=4 mem=1Gi gpu=1", [POD, left(POD, "mem=4Gi", "")])

    assert each["LeastNUMANodes"] == [94, 94]
    assert one["MostAllocated"] == [75, 83]
