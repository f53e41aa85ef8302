"""
What a manager has of one resource, zone by zone, while one pod is admitted.

CPUs and devices share the life of their amounts: what a container gets leaves `free`; what an init container
got is `reusable` for the pod's later containers, until a container that stays takes it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from numalign.rules.kubelet import masks
from numalign.rules.kubelet.masks import Mask
from numalign.rules.pod import Role

Amounts = tuple[int, ...]
"""One amount per zone, by position."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Per zone: all there is by hardware, what is not given out, and what this pod may use again."""

    total: Amounts
    free: Amounts
    reusable: Amounts

    @property
    def available(self) -> Amounts:
        """What a container of this pod could get."""
        return add(self.free, self.reusable)

    @property
    def anchor(self) -> Mask:
        """The zones that every later affinity must cover, for something of them is used again."""
        return masks.of(zone for zone, amount in enumerate(self.reusable) if amount)

    def serving(self, asked: int) -> list[Mask]:
        """The sets of zones that could give so much and hold all that is used again."""
        anchor, totals = self.anchor, masks.sums(self.available)
        enough = masks.reaching(masks.ascending(len(self.free)), totals, asked)
        return [mask for mask in enough if mask & anchor == anchor] if anchor else enough

    def charged(self, taken: Amounts, role: Role) -> "Pool":
        """The pool after a container; what can be used again is used before anything new."""
        again = tuple(map(min, taken, self.reusable))
        new = subtract(taken, again)
        kept = add(self.reusable, new) if role is Role.INIT else subtract(self.reusable, again)
        return replace(self, free=subtract(self.free, new), reusable=kept)


def pool(total: Iterable[int], free: Iterable[int]) -> Pool:
    """The pool before a pod's first container."""
    left = tuple(free)
    return Pool(tuple(total), left, (0,) * len(left))


def draw(amounts: Amounts, zones: Iterable[int], asked: int) -> Amounts:
    """Take what is asked from these zones in turn, as far as it goes."""
    taken = [0] * len(amounts)
    for zone in zones:
        taken[zone] = min(amounts[zone], asked)
        asked -= taken[zone]
    return tuple(taken)


def add(one: Amounts, other: Amounts) -> Amounts:
    """Zone by zone."""
    return tuple(map(int.__add__, one, other))


def subtract(one: Amounts, other: Amounts) -> Amounts:
    """Zone by zone."""
    return tuple(map(int.__sub__, one, other))
