"""
Which of the shapes without nodes are kept where not all can be, and what is known of the others.

A node's own kubelet and exporter write what its shape is made of, so one node can have as many shapes, and as
long ones, as it likes. It must not push out those of others, and what is not kept must cost no pod.
"""

from collections import Counter
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain

from numalign.model.resources import Kind, kind
from numalign.shapes.hints import listed
from numalign.shapes.shape import KnownShape

MOST_NAMES, MOST_CHARACTERS = 64, 4096
"""The limits of resources of shapes that are not kept; with more, these may list any."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Shapes that are not kept: when the last one had a node, and which devices they list.

    `seen` is in seconds since 1970; `devices` is None if they may list any.
    """

    seen: float
    devices: frozenset[str] | None = None

    def may_list(self, names: AbstractSet[str]) -> bool:
        """Return whether one of them may list all of these devices."""
        return self.devices is None or names <= self.devices

    def joined(self, other: "LeftOut | None") -> "LeftOut":
        """Return the shapes of both."""
        if other is None:
            return self
        known = None if self.devices is None or other.devices is None else self.devices | other.devices
        return LeftOut(max(self.seen, other.seen), _limited(known))


def left_out(shapes: Iterable[KnownShape], before: LeftOut | None = None) -> LeftOut | None:
    """Return what is left of shapes that are not kept, beside those of before."""
    for known in shapes:
        node = known.shape.node
        names = frozenset(name for name in chain(listed(node), node.uncertain) if kind(name) is Kind.DEVICE)
        devices = None if node.totals is None else _limited(names)
        before = LeftOut(known.seen or 0.0, devices).joined(before)
    return before


def in_turn(shapes: Iterable[KnownShape]) -> list[KnownShape]:
    """Return shapes in the order in which they are kept: those seen last first, and nodes take turns."""
    # Of the shapes that only one node had, the second comes after the first ones of all other nodes.
    turns = Counter[str]()
    latest = sorted(shapes, key=lambda known: (-(known.seen or 0.0), known.shape.name))
    ranked: list[tuple[int, KnownShape]] = []
    for known in latest:
        ranked.append((turns[known.only_node], known))
        turns[known.only_node] += bool(known.only_node)
    return [known for _, known in sorted(ranked, key=lambda pair: pair[0])]


def _limited(names: frozenset[str] | None) -> frozenset[str] | None:
    if names is None or len(names) > MOST_NAMES or sum(map(len, names)) > MOST_CHARACTERS:
        return None
    return names
