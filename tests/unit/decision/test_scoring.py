"""How good a placement is, by each strategy; the formulas are those of scheduler-plugins."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.decision import scoring
from numalign.decision.evaluate import NO_INTENT, evaluate
from numalign.decision.scoring import HIGHEST, OF_AMOUNTS, Strategy, Weights, aligned, nearest, score
from numalign.kubelet.admit import admit
from numalign.model import demand
from numalign.model.intent import Policy, Scope
from numalign.model.node import Node
from tests.worlds.notation import GPU, Ids, asks, means, node, options, pod, table, zone_ids

FEW, MOST, LEAST, BALANCED = (
    Strategy.LEAST_NUMA_NODES,
    Strategy.MOST_ALLOCATED,
    Strategy.LEAST_ALLOCATED,
    Strategy.BALANCED_ALLOCATION,
)

TWO = node("cpu=16//8 mem=8Gi gpu=4", "cpu=16//8 mem=8Gi gpu=4", policy="best-effort")
FAR: dict[Ids, int] = {(0, 1): 30, (1, 0): 30, (0, 2): 20, (2, 0): 20, (1, 2): 20, (2, 1): 20}
FAR |= {(zone, zone): 10 for zone in range(3)}
THREE = node("cpu=8", "cpu=8", "cpu=8", policy="best-effort", costs=FAR)


def score_of(strategy: Strategy, host: Node, pods: str, weights: Weights | None = None) -> int:
    """The score of where this node's kubelet would put the pod."""
    wanted = asks(pods)
    return score(strategy, host, wanted, admit(host, wanted).placement, weights or {})


SCORES = [
    # what it shows                              node   pod                      few, most, least, balanced
    ("one zone",                                 TWO,   "cpu=4 mem=4Gi gpu=2",   (94, 50, 50, 100)),
    ("a zone filled to the brim",                TWO,   "cpu=8 mem=8Gi gpu=4",   (94, 100, 0, 100)),
    ("two zones",                                TWO,   "cpu=12 mem=12Gi gpu=6", (82, 75, 25, 100)),
    ("shares that differ",                       TWO,   "cpu=4 mem=8Gi",         (94, 75, 25, 87)),
    ("one resource alone is in balance",         TWO,   "gpu=1",                 (94, 25, 75, 100)),
    ("the mean of containers",                   TWO,   "gpu=1 | gpu=2",         (94, 37, 62, 100)),
    ("containers without anything do not count", TWO,   "gpu=1 | cpu=1..",       (94, 25, 75, 100)),
    ("the container on most zones counts",       TWO,   "gpu=1 | gpu=5",         (82, 43, 56, 100)),
    ("nothing to align is as good as anywhere",  TWO,   "cpu=4..",               (100, 100, 100, 100)),
    ("zones that are far apart",                 THREE, "cpu=16 mem=1Gi",        (76, 100, 0, 100)),
]  # fmt: skip


@pytest.mark.parametrize(("host", "pods", "scores"), table(SCORES))
def test_scores_of_a_placement(host: Node, pods: str, scores: tuple[int, ...]) -> None:
    assert tuple(score_of(strategy, host, pods) for strategy in (FEW, MOST, LEAST, BALANCED)) == scores


NEAREST = [
    # what it shows              zones      nearest
    ("the two that are closest", (0, 2),    True),
    ("two that are not",         (0, 1),    False),
    ("one of several alike",     (1,),      True),
    ("all of them",              (0, 1, 2), True),
]  # fmt: skip


@pytest.mark.parametrize(("zones", "expected"), table(NEAREST))
def test_nearest_zones_have_the_least_distance(zones: Ids, *, expected: bool) -> None:
    costs = tuple((zone.id, zone.costs) for zone in THREE.zones)
    assert nearest(costs, zone_ids(*zones)) is expected


MANY = 24
NEIGHBOURS: dict[Ids, int] = {
    (one, other): 10 if one // 12 == other // 12 else 20 for one in range(MANY) for other in range(MANY)
}
TOO_MANY = [
    # what it shows             free of zones                 score
    ("of one half are closest", [1] * 12 + [0] * 12,          100 - 12 * 4 + 2),
    ("of both halves are not",  [1] * 6 + [0] * 12 + [1] * 6, 100 - 12 * 4),
]  # fmt: skip


@pytest.mark.parametrize(("free", "value"), table(TOO_MANY))
def test_closest_zones_beyond_the_walk_limit(free: list[int], value: int) -> None:
    host = replace(node(*(f"cpu=1//{cpus}" for cpus in free), costs=NEIGHBOURS), max_zones=MANY, name="many")
    assert score_of(FEW, host, "cpu=12 mem=1Gi") == value


def test_pod_in_pod_scope_scores_as_one() -> None:
    together = replace(TWO, scope=Scope.POD)
    assert score_of(MOST, TWO, "gpu=2 | gpu=2") == 50
    assert score_of(MOST, together, "gpu=2 | gpu=2") == 100


@pytest.mark.parametrize("strategy", OF_AMOUNTS)
def test_pod_without_zone_resources_scores_in_full(strategy: Strategy) -> None:
    host = node("cpu=8", "cpu=8", policy="none", scope="pod", options=options("PodLevelResourceManagers"))
    stated = "cpu=2.75 mem=10Gi"
    wanted = demand.of(pod("cpu=1 mem=1Gi", "mem=1Gi..", requests=stated, limits=stated))
    placement = admit(host, wanted).placement
    assert placement.zones == {0}
    assert score(strategy, host, wanted, placement) == HIGHEST


# Whether the kubelet keeps together what it can, without an intent and with one.

LOOSE, SINGLE = replace(TWO, policy=Policy.NONE), replace(TWO, policy=Policy.SINGLE_NUMA_NODE)
LOST = replace(TWO, uncertain=frozenset({GPU}))
ONE = node("cpu=8 mem=8Gi gpu=4")
FREE = node("cpu=8 mem=8Gi gpu=4", "cpu=8 mem=8Gi gpu=4", policy="best-effort")
TORN = node("cpu=8 mem=8Gi gpu=4//0", "cpu=8//0 mem=8Gi gpu=4", policy="best-effort")
"""CPUs are free in one NUMA zone, and devices in the other."""

POD, PAIR, WIDE = "cpu=4 mem=4Gi gpu=1", "cpu=4 mem=4Gi | cpu=4 mem=4Gi gpu=1", "cpu=9 mem=9Gi gpu=5"

ALIGNED = [
    # what it shows                          node    pod              intent                  aligned
    ("it tries, and succeeds",               TWO,    POD,             "none",                 True),
    ("it tries, and fails",                  TORN,   POD,             "none",                 False),
    ("it fails for one container",           TORN,   PAIR,            "none",                 False),
    ("as many zones as are needed",          FREE,   WIDE,            "none",                 True),
    ("it does not try",                      LOOSE,  POD,             "none",                 False),
    ("it has nothing to align",              LOOSE,  "cpu=4..",       "none",                 True),
    ("it has one zone",                      ONE,    POD,             "none",                 True),
    ("uncertain zones",                      LOST,   POD,             "best-effort",          False),
    ("uncertain zones of another resource",  LOST,   "cpu=4 mem=4Gi", "best-effort",          True),
    ("it must",                              SINGLE, POD,             "none",                 True),
    ("what is named would be kept together", TORN,   POD,             "best-effort gpu",      True),
    ("no manager aligns what is named",      LOOSE,  POD,             "best-effort gpu",      False),
    ("an intent that a torn node keeps",     TORN,   POD,             "single-numa-node gpu", True),
]  # fmt: skip


@pytest.mark.parametrize(("host", "pods", "intent", "expected"), table(ALIGNED))
def test_aligned_placement_is_as_tight_as_possible(
    host: Node, pods: str, intent: str, *, expected: bool
) -> None:
    wanted = asks(pods)
    assert aligned(host, wanted, admit(host, wanted).placement, means(intent)) is expected


@pytest.mark.parametrize("strategy", [MOST, LEAST, BALANCED])
def test_placement_without_room_scores_zero(strategy: Strategy) -> None:
    wanted = asks("gpu=4")
    full = node("gpu=4//1 cpu=8", "gpu=4//1 cpu=8", policy="best-effort")
    assert score(strategy, full, wanted, admit(full.emptied(), wanted).placement) == 0


EQUAL = node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi", policy="single-numa-node")
CLOSE_COSTS: dict[Ids, int] = {
    (one, other): 32 if 2 in (one, other) else 12 for one in range(3) for other in range(3)
}
CLOSE_COSTS |= {(at, at): 10 for at in range(3)}
CLOSE = node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi", "cpu=8 mem=8Gi", policy="restricted", costs=CLOSE_COSTS)
DISTANT = node("cpu=8 mem=8Gi", "cpu=8/8/1 mem=8Gi", "cpu=8 mem=8Gi", policy="restricted", costs=CLOSE_COSTS)

WORDS = [
    # what it shows       strategy  node     the pod            why
    ("one zone of two",   FEW,      EQUAL,   "cpu=4 mem=1Gi",
        "one zone of two (12 deducted for each), no closer ones exist (6 added)"),
    ("the closest two",   FEW,      CLOSE,   "cpu=12 mem=12Gi",
        "two zones of three (12 deducted for each), no closer ones exist (6 added)"),
    ("two that are far",  FEW,      DISTANT, "cpu=12 mem=12Gi",
        "two zones of three (12 deducted for each), closer ones exist"),
    ("nothing of its own", FEW,     EQUAL,   "cpu=..1",
        "it requests nothing that the NUMA zones of this node allocate"),
    ("shares",            MOST,     EQUAL,   "cpu=4 mem=2Gi",
        "more of the free amounts of its NUMA zones used is better: cpu 50%; memory 25%"),
]  # fmt: skip


@pytest.mark.parametrize(("strategy", "host", "text", "why"), table(WORDS))
def test_reason_of_a_score(strategy: Strategy, host: Node, text: str, why: str) -> None:
    demand = asks(text)
    placement = evaluate(host, demand, NO_INTENT).placement
    assert scoring.why(strategy, host, demand, placement) == why


@given(
    cpu=st.integers(1, 30),
    zones=st.lists(st.integers(0, 8), min_size=1, max_size=4),
    costs=st.lists(st.integers(11, 40), min_size=6, max_size=6),
)
def test_figures_of_a_reason_add_up_to_the_score(cpu: int, zones: list[int], costs: list[int]) -> None:
    pairs = [(one, other) for one in range(4) for other in range(one)]
    both: dict[Ids, int] = {
        pair: cost
        for (one, other), cost in zip(pairs, costs, strict=True)
        for pair in ((one, other), (other, one))
    }
    distances: dict[Ids, int] = both | {(at, at): 10 for at in range(4)}
    host = node(*(f"cpu=8/8/{free} mem=8Gi" for free in zones), policy="restricted", costs=distances)
    demand = asks(f"cpu={cpu} mem={cpu}Gi")
    verdict = evaluate(host, demand, NO_INTENT)
    if not verdict.admitted:
        return

    why = scoring.why(FEW, host, demand, verdict.placement)
    spanned = ["no", "one", "two", "three", "four"].index(why.split()[0])
    off, back = (
        int(match[1]) if (match := re.search(pattern, why)) else 0
        for pattern in (r"\((\d+) deducted", r"\((\d+) added")
    )

    assert HIGHEST - spanned * off + back == score(FEW, host, demand, verdict.placement)
