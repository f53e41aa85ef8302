"""What placements are worth in columns is what the rules say of each of them, to the last digit."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.arrays import Ints
from numalign.cache.batch_scoring import Unit, nearest_sets, values
from numalign.decision import scoring
from numalign.decision.scoring import Strategy, Weights, whole
from numalign.model.demand import Demand, Step
from numalign.model.node import Node, Zone
from numalign.model.placement import Grant, Placement
from numalign.model.pod import Qos, Role
from numalign.model.resources import CPU, MEMORY, MILLI, Resources
from tests.worlds.notation import GPU, Ids, node, table

FEW, MOST, LEAST, BALANCED = (
    Strategy.LEAST_NUMA_NODES,
    Strategy.MOST_ALLOCATED,
    Strategy.LEAST_ALLOCATED,
    Strategy.BALANCED_ALLOCATION,
)
MUCH = 2**44
"""Bytes of memory: more than any zone has."""

NAMES = (CPU, MEMORY, GPU)


@dataclass(frozen=True)
class Placed:
    """Nodes, and by unit of a pod what it asks and on which zones of each node it lies, as bits."""

    nodes: tuple[Node, ...]
    requests: tuple[Resources, ...]
    masks: tuple[tuple[int, ...], ...]

    def units(self) -> list[Unit]:
        return [
            self._unit(requests, masks) for requests, masks in zip(self.requests, self.masks, strict=True)
        ]

    def _unit(self, requests: Resources, masks: Sequence[int]) -> Unit:
        costs = tuple((zone.id, zone.costs) for zone in self.nodes[0].zones)
        amounts = tuple((name, amount, self._free(name, masks)) for name, amount in requests.items())
        zones = column(mask.bit_count() for mask in masks)
        return Unit(amounts, zones, nearest_sets(costs)[np.array(masks, dtype=np.intp)])

    def _free(self, name: str, masks: Sequence[int]) -> Ints:
        return column(
            sum(whole(name, zone.free.get(name, 0)) for zone in chosen(node_of, mask))
            for node_of, mask in zip(self.nodes, masks, strict=True)
        )

    def by_columns(self, strategy: Strategy, weights: Weights) -> list[int]:
        limit = self.nodes[0].max_zones
        return list[int](values(strategy, self.units(), weights, max_zones=limit).tolist())

    def by_rules(self, strategy: Strategy, weights: Weights) -> list[int]:
        steps = tuple(_step(f"c{at}", requests) for at, requests in enumerate(self.requests))
        demand = Demand(Qos.GUARANTEED, steps, Step("", Role.APP), Resources())
        return [
            scoring.score(strategy, node_of, demand, self._placement(at), weights)
            for at, node_of in enumerate(self.nodes)
        ]

    def _placement(self, at: int) -> Placement:
        node_of = self.nodes[at]
        zones = [tuple(zone.id for zone in chosen(node_of, masks[at])) for masks in self.masks]
        held = [{here: requests} if here else {} for here, requests in zip(zones, self.requests, strict=True)]
        return Placement(
            tuple(Grant(f"c{at}", Role.APP, None, preferred=True, amounts=got) for at, got in enumerate(held))
        )


def column(numbers: Iterable[int]) -> Ints:
    return np.fromiter(numbers, dtype=np.int64)


def chosen(node_of: Node, mask: int) -> list[Zone]:
    return [zone for at, zone in enumerate(node_of.zones) if mask >> at & 1]


def _step(name: str, requests: Resources) -> Step:
    memory = {MEMORY: requests[MEMORY]} if MEMORY in requests else {}
    devices = {GPU: requests[GPU]} if GPU in requests else {}
    return Step(name, Role.APP, requests.get(CPU, 0), Resources(memory), Resources(devices))


few = st.integers(1, 12)
cpus = few.map(lambda count: count * MILLI)
memory = few.map(lambda count: count * 2**30) | st.integers(1, MUCH)
weights = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 100))
costs = st.sampled_from([10, 12, 20, 32])

requests_of_one = st.fixed_dictionaries({}, optional={CPU: cpus, MEMORY: memory, GPU: few}).map(Resources)


@st.composite
def placed_nodes(draw: st.DrawFn) -> Placed:
    """Nodes of one layout with amounts of all sizes, and units on any of their zones, or on none."""
    count = draw(st.integers(1, 4))
    distances: dict[Ids, int] = {(one, other): draw(costs) for one in range(count) for other in range(count)}
    layout = replace(
        node(*["cpu=64 mem=1Ti gpu=64"] * count, costs=distances), max_zones=draw(st.sampled_from([1, 2, 8]))
    )
    frees = st.fixed_dictionaries(
        {CPU: st.integers(0, 24_000), MEMORY: st.just(0) | memory, GPU: st.integers(0, 12)}
    )
    nodes = draw(st.lists(st.lists(frees, min_size=count, max_size=count), min_size=1, max_size=6))
    requests = draw(st.lists(requests_of_one, min_size=1, max_size=3))
    masks = [
        tuple(draw(st.integers(0, 2**count - 1)) if one_mask else 0 for _ in nodes)
        for one_mask in map(bool, requests)
    ]
    return Placed(tuple(_with_free(layout, free) for free in nodes), tuple(requests), tuple(masks))


def _with_free(node_of: Node, frees: Sequence[dict[str, int]]) -> Node:
    zones = zip(node_of.zones, frees, strict=True)
    return replace(node_of, zones=tuple(replace(zone, free=Resources(free)) for zone, free in zones))


@pytest.mark.parametrize("strategy", Strategy)
@given(placed_nodes(), weights)
def test_scores_are_those_of_the_rules(strategy: Strategy, placed: Placed, weights: Weights) -> None:
    assert placed.by_columns(strategy, weights) == placed.by_rules(strategy, weights)


# What only certain amounts show.


def one(*amounts: tuple[str, int, int]) -> list[Unit]:
    """A unit in one zone of one node, by what is asked and what is free of each resource."""
    frees = tuple((name, requests, np.array([free])) for name, requests, free in amounts)
    return [Unit(frees, np.array([1]), np.array([True]))]


def rounded(strategy: Strategy, *amounts: tuple[str, int, int], **weights: int) -> tuple[int, int]:
    (ours,) = values(strategy, one(*amounts), weights, max_zones=8).tolist()
    return ours, scoring.OF_AMOUNTS[strategy](
        [(name, whole(name, requests), free) for name, requests, free in amounts], weights
    )


PRIME = 2**46 - 21
FREE = 2**52
"""As much as zones can have free together."""

EDGES = [
    # what it shows                          strategy  amounts                                     value
    ("a hair less than a percent more",      MOST,     [(MEMORY, PRIME // 2, PRIME)],               49),
    ("a percent that floats make up",        MOST,     [(MEMORY, 170759386239848, 172484228525099)], 98),
    ("more than floats can tell apart",      MOST,     [(MEMORY, FREE - 1, FREE)],                  99),
    ("nearly all of it is left",             LEAST,    [(MEMORY, 1, FREE)],                         99),
    ("more is asked than numbers hold",      MOST,     [(MEMORY, 2**64, FREE)],                     0),
    ("nothing is free",                      MOST,     [(GPU, 1, 0)],                               0),
    ("of nothing, all is used",              BALANCED, [(GPU, 1, 0), (MEMORY, 1, 2)],               87),
    ("more is asked than is free",           BALANCED, [(GPU, 3, 2), (MEMORY, 1, 2)],               0),
    ("all shares alike",                     BALANCED, [(GPU, 1, 3), (CPU, 7000, 21), (MEMORY, 5, 15)], 100),
    ("exactly twelve percent apart",         BALANCED, [(GPU, 1, 5), (CPU, 1000, 5), (MEMORY, 4, 5)],  88),
    ("exactly two percent apart",            BALANCED, [(GPU, 1, 5), (MEMORY, 2, 5)],               98),
    ("a hair more apart than that",          BALANCED, [(GPU, 1, 5), (MEMORY, MUCH // 5 * 2 + 1, MUCH)], 97),
]  # fmt: skip


@pytest.mark.parametrize(("strategy", "amounts", "value"), table(EDGES))
def test_a_value_is_not_rounded_twice(
    strategy: Strategy, amounts: list[tuple[str, int, int]], value: int
) -> None:
    assert rounded(strategy, *amounts) == (value, value)


@pytest.mark.parametrize("strategy", [MOST, LEAST])
@given(st.integers(1, FREE), st.integers(0, 100), st.integers(-2, 2))
def test_whole_percents_are_exact_for_any_amount(
    strategy: Strategy, free: int, percent: int, beside: int
) -> None:
    requests = max(0, free * percent // 100 + beside)
    ours, theirs = rounded(strategy, (MEMORY, requests, free))

    assert ours == theirs


@given(st.data())
def test_balance_is_exact_between_two_values(data: st.DataObject) -> None:
    """Shares k/5 and (k + 1)/5 are two percent apart; a byte more or less of them decides."""
    parts, fifths = data.draw(st.integers(1, 2**41)), data.draw(st.integers(0, 4))
    requests = max(1, parts * (fifths + 1) + data.draw(st.integers(-1, 1)))
    gpus = data.draw(st.integers(1, 9))
    ours, theirs = rounded(BALANCED, (GPU, fifths * gpus, 5 * gpus), (MEMORY, requests, 5 * parts))

    assert ours == theirs


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6))
def test_many_resources_are_balanced_like_few(shares: list[tuple[int, int]]) -> None:
    ours, theirs = rounded(BALANCED, *((f"example.com/{at}", *share) for at, share in enumerate(shares)))

    assert ours == theirs


# Units and zones.


def test_a_unit_counts_where_it_has_zones() -> None:
    free = np.array([2, 2, 2])
    half = Unit(((GPU, 1, free),), np.array([1, 1, 0]), np.array([True, False, True]))
    full = Unit(((GPU, 2, free),), np.array([2, 0, 0]), np.array([True, True, True]))
    nothing = Unit((), np.array([0, 0, 0]), np.array([True, True, True]))

    assert values(MOST, [half, full, nothing], {}, max_zones=8).tolist() == [75, 50, 100]
    assert values(FEW, [half, full, nothing], {}, max_zones=8).tolist() == [82, 88, 100]
    for strategy in Strategy:
        assert values(strategy, [nothing], {}, max_zones=2).tolist() == [100, 100, 100]


FAR: dict[Ids, int] = {(0, 1): 30, (1, 0): 30, (0, 3): 20, (3, 0): 20, (1, 3): 20, (3, 1): 20}


def test_sets_are_nearest_or_not() -> None:
    node_of = node("cpu=1", "cpu=1", "cpu=1", ids=(0, 1, 3), costs=FAR | {(at, at): 10 for at in (0, 1, 3)})

    nearest = nearest_sets(tuple((zone.id, zone.costs) for zone in node_of.zones))
    assert nearest.tolist() == [True, True, True, False, True, True, True, True]
