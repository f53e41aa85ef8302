"""
How much work it is to say what a kubelet makes of a pod, told before any of it is done.

Each zone doubles the sets of zones, each resource of a container has a list of hints of them, and a kubelet
that aligns at best merges all lists of a container. So 16 zones and hundreds of containers can take minutes,
and more zones all memory there is. A pod's owner chooses the containers, so the work has a limit: beyond it
nobody answers, which is neither a yes nor a no.

A unit is about a microsecond of one processor. What is counted is an upper bound: a list that was made before
is not made again, and most lists need no merge.
"""

from typing import NamedTuple

from numalign.model.demand import Demand, Step
from numalign.model.intent import Policy, Scope
from numalign.model.node import CpuManager, MemoryManager, Node

MOST_ZONES = 17
"""To merge two lists of hints of one zone more takes longer than may be done in one piece."""

LIMIT = 1_000_000
"""About a second. It is done container by container and merge by merge, none of which takes 50 ms."""

LIMIT_AT_ONCE = 50_000
"""So much is done in one piece, where nobody can be let in between."""

_CONTAINER = 100
_EARLIER = 16
"""Containers whose blocks of memory one looks through in a unit."""


class Work(NamedTuple):
    """How many containers are admitted, how many lists of hints are made for them, and how many merged.

    `looks` is how often a container looks at what an earlier one was given.
    """

    containers: int = 0
    lists: int = 0
    merges: int = 0
    looks: int = 0

    def units(self, zones: int) -> int:
        """Return all of it, on a node with so many zones."""
        own = _CONTAINER * self.containers + self.looks // _EARLIER
        if not self.lists:
            return own
        # Beyond it one piece alone takes too long, however few containers there are.
        if zones > MOST_ZONES:
            return LIMIT + 1
        return own + self.lists * _list(zones) + self.merges * _merge(zones)


def answerable(node: Node, demand: Demand) -> bool:
    """Return whether this is little enough work to be done; `demand` is as the node's managers heed it."""
    return units(node, demand) <= LIMIT


def units(node: Node, demand: Demand) -> int:
    """Return the same in units."""
    return estimate(node, demand).units(len(node.zones))


def estimate(node: Node, demand: Demand) -> Work:
    """Return what it takes at the most to admit a pod."""
    silent = node.policy is Policy.NONE
    whole = () if silent or node.scope is Scope.CONTAINER else (demand.whole,)
    # scope_pod.go asks for hints once, and still allocates container by container.
    aligned = whole or demand.steps
    # Policy none is no exception: without an affinity the memory manager's Allocate makes hints itself.
    kept = [_kept(node, step) for step in (*demand.steps, *whole)]
    pieces = [0 if silent else _pieces(node, step) for step in aligned]
    between = 0 if silent else sum(_between(node, step) for step in aligned)
    merged = sum(max(0, _pieces(node, step) + _kept(node, step) - 1) for step in aligned)
    return Work(
        containers=len(demand.steps),
        lists=sum(pieces) + between + 2 * sum(kept),
        # The other policies need preferred masks alone, which one AND of the lists finds.
        merges=merged if node.policy is Policy.BEST_EFFORT else 0,
        # Allocate goes through the blocks of init containers (updateInitContainersMemoryBlocks).
        looks=len(demand.steps) * sum(kept),
    )


def _pieces(node: Node, step: Step) -> int:
    """For how many resources of a step the managers of CPUs and devices have a list of hints."""
    devices = sum([name in node.devices for name in step.devices])
    return devices + (step.cpu > 0 and node.cpu_manager is CpuManager.STATIC)


def _kept(node: Node, step: Step) -> int:
    """For how many the memory manager has two, one of what zones have and one of what is free."""
    if node.memory_manager is not MemoryManager.STATIC:
        return 0
    # At a step that asks for no memory it looks all the same.
    return max(len(step.memory), int(step.managed))


def _between(node: Node, step: Step) -> int:
    """How many more lists are made of devices between zones: of those and of all, for what zones touch."""
    places = dict(node.machine.devices) if node.machine else {}
    wide = [sum(len(place.zones) > 1 for place in places.get(name, ())) for name in step.devices]
    half = 1 << (len(node.zones) + 1) // 2
    return sum([2 * (1 + count) * min(1 << count, half) for count in wide if count])


def _list(zones: int) -> int:
    """Of the sets of zones those of either half are looked at (`hint_sets.reaching`)."""
    return 1 + (1 << (zones + 1) // 2)


def _merge(zones: int) -> int:
    """Of all sets of zones it is counted how often they are met (`hint_sets.intersections`)."""
    return 10 + (zones << zones) // 64
