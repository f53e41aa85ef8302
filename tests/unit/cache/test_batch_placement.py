"""Where a pod comes to, in columns, is where the rules see it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from numalign.cache import batch_placement
from numalign.cache.batch_placement import REFUSED
from numalign.cache.feasibility import Trial
from numalign.decision import scoring
from numalign.decision.evaluate import NO_INTENT, evaluate
from numalign.decision.scoring import EVEN, Strategy
from numalign.model.intent import Intent, Policy
from numalign.model.node import CpuManager, Node
from numalign.model.resources import CPU
from tests.worlds.in_columns import left, state
from tests.worlds.notation import GPU, Ids, asks, means, node, table

TWO = ("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2")
NONE, BEST, RESTRICTED, SINGLE = (node(*TWO, policy=policy) for policy in Policy)
POD = node(*TWO, policy="restricted", scope="pod")
ALONE = node(TWO[0])


def trial(pod: str, *nodes: Node, intent: Intent = NO_INTENT) -> Trial:
    return Trial(state(asks(pod), *nodes, intent=intent))


# How many zones.


def zones(pod: str, *nodes: Node) -> list[int]:
    """By node how many zones the pod gets, `REFUSED` where it is not taken; the rules say the same."""
    found = batch_placement.zones(trial(pod, *nodes)).tolist()
    verdicts = [evaluate(one, asks(pod)) for one in nodes]
    assert found == [len(each.placement.zones) if each.admitted else REFUSED for each in verdicts]
    return list[int](found)


def test_zones_are_counted_once_over_all_containers() -> None:
    assert zones("gpu=1 | gpu=1", RESTRICTED, left(RESTRICTED, "gpu=1", "")) == [1, 2]
    assert zones("gpu=2 | gpu=1 | cpu=1.. mem=1Gi..", RESTRICTED, left(RESTRICTED, "gpu=1", "")) == [2, 2]
    assert zones("gpu=3 | gpu=1", RESTRICTED, BEST, NONE) == [2, 2, 2]


def test_a_refused_pod_has_none() -> None:
    assert zones("gpu=2", left(RESTRICTED, "gpu=1", "gpu=1"), RESTRICTED) == [REFUSED, 1]


def test_a_pod_that_is_aligned_as_one_comes_to_one_set() -> None:
    assert zones("gpu=1 | gpu=2", POD, left(POD, "gpu=1", "")) == [2, 2]
    assert zones("gpu=1 | gpu=1", POD, left(POD, "gpu=1", "")) == [1, 1]


def test_a_pod_that_asks_for_nothing_comes_nowhere() -> None:
    assert zones("cpu=1..", RESTRICTED, NONE, SINGLE) == [0, 0, 0]


def test_on_a_single_zone_there_is_nowhere_else() -> None:
    assert zones("gpu=1 | gpu=1", ALONE, left(ALONE, "gpu=1")) == [1, REFUSED]


@pytest.mark.parametrize(
    ("pod", "ones", "found"),
    table(
        [
            ("nothing is aligned", "cpu=1 mem=1Gi gpu=1", [NONE, left(NONE, "gpu=0", "")], [1, 2]),
            ("a best effort failed", "cpu=4 mem=1Gi gpu=1", [left(BEST, "cpu=1", "gpu=0"), BEST], [2, 1]),
            ("a container left something", "init gpu=1 | gpu=1", [RESTRICTED, NONE], [1, 1]),
            ("memory lies in many zones", "cpu=1 mem=10Gi", [NONE, BEST, RESTRICTED], [2, 2, REFUSED]),
        ]
    ),
)
def test_a_pod_gets_zones_by_chance_or_best_effort_too(
    pod: str, ones: Sequence[Node], found: list[int]
) -> None:
    assert zones(pod, *ones) == found


# Whether it is aligned.


def aligned(pod: str, words: str, *nodes: Node, scope: str | None = None) -> list[bool]:
    """Whether nodes that take the pod align it; the rules say the same."""
    demand, intent = asks(pod), means(words, scope=scope)
    found = batch_placement.aligned(trial(pod, *nodes, intent=intent)).tolist()
    verdicts = [evaluate(one, demand, intent) for one in nodes]
    assert found == [
        verdict.admitted and scoring.aligned(one, demand, verdict.placement, intent)
        for one, verdict in zip(nodes, verdicts, strict=True)
    ]
    return list[bool](found)


@pytest.mark.parametrize(
    ("ones", "pod", "yes"),
    table(
        [
            ("a kubelet that aligns nothing does not", [NONE, BEST], "gpu=1", [False, True]),
            ("unless there is nowhere else", [ALONE], "gpu=1", [True]),
            ("or nothing to align", [NONE, BEST, SINGLE], "cpu=1..", [True, True, True]),
            ("a best effort that fails does not", [BEST, RESTRICTED], "cpu=9 mem=1Gi gpu=1", [False, False]),
            (
                "one that spills before another does",
                [BEST],
                "cpu=1 mem=1Gi gpu=2 | cpu=8 mem=1Gi gpu=1",
                [True],
            ),
            ("a device that is only named aligns nothing", [NONE, BEST], "gpu=0", [True, True]),
            ("each container counts", [BEST, left(BEST, "gpu=2", "gpu=1")], "gpu=1 | gpu=2", [True, False]),
            ("strict ones always do", [RESTRICTED, left(RESTRICTED, "gpu=0", "")], "gpu=3", [True, False]),
            ("even of zones alone", [SINGLE], "gpu=2", [True]),
        ]
    ),
)
def test_of_a_pod_that_states_nothing(ones: Sequence[Node], pod: str, yes: list[bool]) -> None:
    assert aligned(pod, "none", *ones) == yes


@pytest.mark.parametrize(
    ("ones", "pod", "words", "yes"),
    table(
        [
            (
                "a best effort is kept or not",
                [RESTRICTED, BEST, NONE],
                "gpu=3",
                "best-effort",
                [True, True, False],
            ),
            ("about all that it asks for", [BEST], "cpu=9 mem=1Gi gpu=1", "best-effort", [False]),
            ("about what lies well", [BEST], "cpu=9 mem=1Gi gpu=1", "best-effort gpu", [True]),
            ("about nothing that it asks for", [BEST], "cpu=9 mem=1Gi gpu=1", "best-effort nic", [True]),
            ("after a container that spilled", [BEST], "gpu=3 | gpu=1", "best-effort", [True]),
            ("on a single zone always", [ALONE, left(ALONE, "gpu=1")], "gpu=1", "best-effort", [True, True]),
            ("an intent that is kept", [RESTRICTED, NONE], "gpu=3", "restricted", [True, False]),
            (
                "a single zone",
                [BEST, left(BEST, "gpu=1", "gpu=1")],
                "gpu=2",
                "single-numa-node",
                [True, False],
            ),
        ]
    ),
)
def test_of_a_pod_that_states(ones: Sequence[Node], pod: str, words: str, yes: list[bool]) -> None:
    assert aligned(pod, words, *ones) == yes


def test_containers_that_were_to_sit_together_and_do_not_are_not_aligned() -> None:
    assert aligned("gpu=1 | gpu=1", "best-effort", BEST, left(BEST, "gpu=1", "gpu=1"), scope="pod") == [
        True,
        False,
    ]


# How good it is.


def scores(pod: str, *nodes: Node, weights: dict[str, int] | None = None) -> dict[str, list[int]]:
    """By strategy what columns say, which is what the rules say."""
    demand, asked = asks(pod), trial(pod, *nodes)
    found = {
        strategy.value: batch_placement.scores(asked, strategy, weights or EVEN).tolist()
        for strategy in Strategy
    }
    for at, one in enumerate(nodes):
        verdict, mine = evaluate(one, demand), [values[at] for values in found.values()]
        if verdict.admitted:
            rules = scoring.scores(tuple(Strategy), one, demand, verdict.placement, weights or EVEN)
            assert mine == [*rules]
        else:
            assert mine == [REFUSED] * len(Strategy)
    return found


def test_parts_of_cpus_that_are_free_count_as_whole_ones() -> None:
    assert scores("cpu=3 mem=4Gi", left(SINGLE, "cpu=3500m", "cpu=0"))["MostAllocated"] == [62]


def test_a_pod_that_asks_for_nothing_is_as_good_here_as_anywhere() -> None:
    assert scores("cpu=1..", RESTRICTED, POD, NONE) == {strategy.value: [100] * 3 for strategy in Strategy}


def test_a_node_that_does_not_take_the_pod_has_no_score() -> None:
    assert scores("gpu=2", SINGLE, left(SINGLE, "gpu=1", "gpu=1"))["LeastNUMANodes"] == [94, REFUSED]


def test_containers_that_are_aligned_as_one_are_scored_as_one() -> None:
    each = scores("cpu=4 mem=1Gi gpu=2 | cpu=4 mem=1Gi gpu=1", RESTRICTED, left(RESTRICTED, "", "gpu=1"))
    one = scores("cpu=4 mem=1Gi gpu=1 | cpu=4 mem=1Gi gpu=1", POD, left(POD, "mem=4Gi", ""))

    assert each["LeastNUMANodes"] == [94, 94]
    assert one["MostAllocated"] == [75, 83]


def test_a_node_is_scored_by_what_it_lists_and_by_its_own_distances() -> None:
    costs: dict[Ids, int] = {(0, 2): 11, (2, 0): 11, (0, 1): 30, (1, 0): 30, (1, 2): 30, (2, 1): 30}
    costs |= {(zone, zone): 10 for zone in range(3)}
    far = node(*["gpu=1"] * 3, policy="restricted", costs=costs)
    nowhere = replace(far, zones=tuple(replace(zone, costs=()) for zone in far.zones))

    near = left(far, "", "gpu=0", "")
    found = scores("gpu=2", far, near, nowhere, replace(near, max_zones=2))
    assert found["LeastNUMANodes"] == [76, 82, 82, 25]


def test_what_no_zone_lists_is_not_scored() -> None:
    bare = node("gpu=2", "gpu=2", cpu_manager=CpuManager.NONE)

    assert scores("cpu=4 mem=4Gi gpu=1", NONE, bare)["MostAllocated"] == [50, 50]


def test_weights_count() -> None:
    assert scores("cpu=4 mem=1Gi gpu=2", SINGLE, BEST, weights={GPU: 7, CPU: 2})["MostAllocated"] == [81, 81]
