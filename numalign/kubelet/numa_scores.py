"""
The choice between equally good sets of zones by how much of them is allocated, as KEP-6007 describes it.

Without one of its options a kubelet takes the lowest zones. No kubelet was released with an option yet, so
this restates texts: the scores of topologymanager/score.go in 1.38.0-beta.0 with the selection that is
proposed for them, and the first text of the KEP. Both choose only between answers that are otherwise equal,
so neither changes whether a container is admitted, but which zones it gets and so what later ones find free.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial, reduce
from operator import and_
from typing import NamedTuple

from numalign.kubelet import cpu_manager
from numalign.kubelet.bitmask import Mask, ZoneAmounts
from numalign.kubelet.managers_state import ManagersState
from numalign.kubelet.topology_manager import Permutation, TieBreak
from numalign.model.intent import Policy
from numalign.model.node import Node
from numalign.model.options import NumaStrategy, TopologyOption
from numalign.model.resources import CPU, MEMORY

USUAL_WEIGHT = 1
"""The weight of a resource that numa-score-weights does not name (defaultNUMAScoreWeight)."""

PERCENT = 100


class Use(NamedTuple):
    """What each place has of a resource, and how much of that is free; a place is a set of zones."""

    places: Sequence[Mask]
    allocatable: ZoneAmounts
    free: ZoneAmounts

    def percent(self, mask: Mask) -> int:
        """Return how much of what touches these zones is allocated, in percent, rounded down."""
        allocatable = self._touching(mask, self.allocatable)
        assigned = allocatable - self._touching(mask, self.free)
        return assigned * PERCENT // allocatable if allocatable > 0 else 0

    def score(self, mask: Mask) -> int:
        """Return the score of a hint (UtilizationScore): 1 at least, and 0 only if nothing is allocatable."""
        return max(1, self.percent(mask)) if self._touching(mask, self.allocatable) > 0 else 0

    def _touching(self, mask: Mask, amounts: ZoneAmounts) -> int:
        return sum([amount for place, amount in zip(self.places, amounts, strict=True) if place & mask])


class Ties(NamedTuple):
    """How a kubelet chooses between equals: by scores or, without a strategy, by its managers' signals."""

    strategy: NumaStrategy
    weights: tuple[tuple[str, int], ...] = ()


def ties(node: Node) -> Ties | None:
    """Return how the kubelet of a node chooses between equals; None is by number, as every kubelet so far."""
    options = node.options
    if options.strategy is not NumaStrategy.NONE and node.policy is not Policy.NONE:
        return Ties(options.strategy, options.weights)
    packs = TopologyOption.PREFER_MOST_ALLOCATED in options.topology
    return Ties(NumaStrategy.NONE) if packs and node.policy is Policy.SINGLE_NUMA_NODE else None


def tie_break(node: Node, state: ManagersState) -> TieBreak | None:
    """Return the choice between equals of a node's kubelet, with its managers in this state."""
    found = ties(node)
    if found is None:
        return None
    if found.strategy is NumaStrategy.NONE:
        return partial(_most_allocated, state)
    return partial(_by_score, state, found.strategy, dict(found.weights))


def mean(scores: Mapping[str, int], weights: Mapping[str, int]) -> int:
    """Return the weighted mean of scores, rounded down, as aggregateHintScores; 0 without any that counts."""
    counted = [(weights.get(name, USUAL_WEIGHT), score) for name, score in scores.items() if score]
    total = sum([weight for weight, _ in counted])
    return sum([weight * score for weight, score in counted]) // total if total else 0


def better(cpus: int, memory: int) -> int:
    """Return which of two zones the signals choose, if they do not differ: 1, -1, or 0 if undecided."""
    return _sign(_sign(cpus) + _sign(memory))


def _by_score(
    state: ManagersState,
    strategy: NumaStrategy,
    weights: Mapping[str, int],
    resources: Sequence[str],
    permutations: Iterable[Permutation],
) -> Mask:
    """Return the mask with the highest score or the lowest, of equals the one with the lowest number.

    A mask keeps the score of the permutation with which it won, and a score of 0 compares with no other, so
    the order of permutations can matter.
    """
    # The same few hints are in many permutations.
    scores = [cache(_use(state, name).score) for name in resources]
    sign = 1 if strategy is NumaStrategy.MOST_ALLOCATED else -1

    def merged(permutation: Permutation) -> tuple[Mask, int]:
        scored = zip(resources, scores, permutation, strict=True)
        return reduce(and_, permutation), mean({name: score(mask) for name, score, mask in scored}, weights)

    def better_of(current: tuple[Mask, int], candidate: tuple[Mask, int]) -> tuple[Mask, int]:
        (mask, score), (other, its) = current, candidate
        if mask == other:
            return current
        # Two different scores decide; else the number of the mask, as without a strategy.
        gain = sign * (its - score) if score and its else 0
        return candidate if gain > 0 or (not gain and other < mask) else current

    return reduce(better_of, map(merged, permutations))[0]


def _most_allocated(state: ManagersState, _: Sequence[str], permutations: Iterable[Permutation]) -> Mask:
    """Return the zone that is left when each is compared with the best of those before."""
    # Only what the managers have allocated matters. Of three zones each can be better than another, so the
    # order counts.
    uses = [_use(state, CPU), _use(state, MEMORY)]

    def better_of(current: Mask, candidate: Mask) -> Mask:
        signals = (use.percent(candidate) - use.percent(current) for use in uses)
        return candidate if better(*signals) > 0 else current

    return reduce(better_of, (permutation[0] for permutation in permutations))


def _use(state: ManagersState, name: str) -> Use:
    """Return the use of a resource; what init containers of this pod have left counts as allocated."""
    if name in state.devices:
        pool = state.devices[name]
        return Use(pool.devices.places, pool.devices.healthy, pool.free)
    if state.cpus and name == CPU:
        topology = state.cpus.topology
        available = topology.everything & ~state.cpus.reserved
        allocatable, free = (
            cpu_manager.cpus_per_zone(topology, cpus) for cpus in (available, state.cpus.free)
        )
    elif state.memory and name in state.memory.free:
        allocatable, free = state.memory.allocatable[name], state.memory.free[name]
    else:
        # A manager of policy none has allocated nothing of nothing, which decides nothing.
        allocatable = free = ()
    return Use([1 << zone for zone in range(len(allocatable))], allocatable, free)


def _sign(number: int) -> int:
    return min(1, max(-1, number))
