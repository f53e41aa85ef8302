"""
An estimate of the work to predict an admission, before it is done.

Each zone doubles the sets of zones, each resource of a container has a list of hints of them, and best-effort
merges all lists of a container. So 16 zones and hundreds of containers can take minutes, and more zones all
available memory. The owner of a pod chooses the containers, so the work has a limit: beyond it there is no
answer, neither yes nor no.

A unit is about a microsecond of one CPU. The estimate is an upper bound: lists are cached, and most lists
need no merge.
"""

from math import comb
from typing import NamedTuple

from numalign.kubelet.numa_scores import ties
from numalign.kubelet.topology_manager import MOST_EQUALS, MOST_PERMUTATIONS
from numalign.model.demand import Demand, Step
from numalign.model.intent import Policy, Scope
from numalign.model.node import CpuManager, MemoryManager, Node

MOST_ZONES = 17
"""With one more zone, merging two lists of hints takes too long for one piece of work."""

LIMIT = 1_000_000
"""About a second. It is done container by container and merge by merge, none of which takes 50 ms."""

LIMIT_AT_ONCE = 50_000
"""The limit of work in one piece, during which no other request is served."""

_CONTAINER = 100
_EARLIER = 16
"""The number of containers whose blocks of memory are checked in one unit."""
_SCORED, _SCORED_AGAIN = 20, 2
"""The cost of the score of a hint, and of one that an earlier permutation had."""


class Work(NamedTuple):
    """The containers to admit, the lists of hints to build for them, and the merges.

    `looks` is how often a container checks what an earlier one was given, `choices` the units of the choices
    between equals by scores.
    """

    containers: int = 0
    lists: int = 0
    merges: int = 0
    looks: int = 0
    choices: int = 0

    def units(self, zones: int) -> int:
        """Return the total in units, on a node with `zones` zones."""
        own = _CONTAINER * self.containers + self.looks // _EARLIER + self.choices
        if not self.lists:
            return own
        # Beyond it one piece alone takes too long, however few containers there are.
        if zones > MOST_ZONES:
            return LIMIT + 1
        # `hint_sets.reaching` builds a list from the masks of each half of the zones, and
        # `hint_sets.intersections` counts the intersections of a merge.
        return own + self.lists * (1 + (1 << (zones + 1) // 2)) + self.merges * (10 + (zones << zones) // 64)


def answerable(node: Node, demand: Demand) -> bool:
    """Return whether the work is within the limit; `demand` is as the node's managers read it."""
    return units(node, demand) <= LIMIT


def units(node: Node, demand: Demand) -> int:
    """Return the estimate in units."""
    return estimate(node, demand).units(len(node.zones))


def estimate(node: Node, demand: Demand) -> Work:
    """Return an upper bound of the work to admit a pod."""
    silent = node.policy is Policy.NONE
    whole = () if silent or node.scope is Scope.CONTAINER else (demand.whole,)
    # scope_pod.go asks for hints once, and still allocates container by container.
    aligned = whole or demand.steps
    # Policy none is no exception: without an affinity the memory manager's Allocate generates hints itself.
    kept = sum(_kept(node, step) for step in (*demand.steps, *whole))
    lists = [_pieces(node, step) + _kept(node, step) for step in aligned]
    own = 0 if silent else sum(_pieces(node, step) + _between(node, step) for step in aligned)
    choices, zones = 0, len(node.zones)
    if ties(node) is not None:
        # Between equals, preferred ones and others (`topology_manager`).
        preferred = _SCORED * min(comb(zones, zones // 2), MOST_EQUALS)
        best_effort = node.policy is Policy.BEST_EFFORT
        others = [
            min(((1 << zones) - 1) ** count, MOST_PERMUTATIONS) if best_effort else 0 for count in lists
        ]
        choices = sum(
            count * (preferred + _SCORED_AGAIN * more) for count, more in zip(lists, others, strict=True)
        )
    return Work(
        containers=len(demand.steps),
        lists=own + 2 * kept,
        # The other policies need only preferred masks, which one AND of the lists finds.
        merges=sum(max(0, count - 1) for count in lists) if node.policy is Policy.BEST_EFFORT else 0,
        # Allocate goes through the blocks of init containers (updateInitContainersMemoryBlocks).
        looks=len(demand.steps) * kept,
        choices=choices,
    )


def _pieces(node: Node, step: Step) -> int:
    """Return for how many resources of a step the CPU and device managers have a list of hints."""
    devices = sum([name in node.devices for name in step.devices])
    return devices + (step.cpu > 0 and node.cpu_manager is CpuManager.STATIC)


def _kept(node: Node, step: Step) -> int:
    """Return for how many the memory manager has two lists: of allocatable and of free amounts."""
    if node.memory_manager is not MemoryManager.STATIC:
        return 0
    # It handles even a step that requests no memory.
    return max(len(step.memory), int(step.managed))


def _between(node: Node, step: Step) -> int:
    """Return how many more lists devices between zones need: for them and for all devices."""
    places = dict(node.machine.devices) if node.machine else {}
    wide = [sum(len(place.zones) > 1 for place in places.get(name, ())) for name in step.devices]
    half = 1 << (len(node.zones) + 1) // 2
    return sum([2 * (1 + count) * min(1 << count, half) for count in wide if count])
