"""Which resources kubelets leave out of their hints, by the shapes of their nodes."""

from collections.abc import Iterable
from itertools import chain

from numalign.model.node import Node
from numalign.model.resources import CPU, MEMORY

NOTHING_KNOWN = frozenset({MEMORY})
"""What has no hints as far as known without any node: the Memory Manager is off by default."""


def unhinted(nodes: Iterable[Node]) -> frozenset[str]:
    """Return the resources of these nodes for which none of their kubelets generates hints."""
    # Memory is one unless a Memory Manager is on; a device whose zones are uncertain is none.
    every = tuple(nodes)
    names = {*NOTHING_KNOWN, *([CPU] if every else []), *chain.from_iterable(map(listed, every))}
    return frozenset(
        name for name in names if not any(node.aligns(name) or name in node.uncertain for node in every)
    )


def listed(node: Node) -> Iterable[str]:
    """Return every resource that a node lists, with any amount."""
    bags = (bag for zone in node.zones for bag in (zone.capacity, zone.allocatable))
    return chain(chain.from_iterable(bags), node.totals or ())
