"""
Many sets of zones at once: what the kubelet visits mask by mask, as one number.

Bit m of a `HintSet` is set if the mask m is in it. So the intersection of several resources is a single AND,
and the smallest mask is the lowest bit. Sixteen zones have 65,535 masks, which are 8 KiB; those that have
enough of a resource are combined from the 256 masks of each half. The empty mask is never in a `HintSet`.
"""

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import lru_cache, reduce
from itertools import accumulate, compress
from operator import mul, or_
from typing import Literal

from numalign.kubelet import bitmask
from numalign.kubelet.bitmask import Mask
from numalign.model.bitset import members

HintSet = int

NONE: HintSet = 0

Between = tuple[Mask, int]
"""An amount between the zones of a mask; it counts once for every mask with any of these zones."""

MOST_KEPT = 8
"""Hints of more zones than a kubelet aligns by default are large: few of them are cached."""

_BYTE = 3
"""This many zones have as many masks as a byte has bits."""

_DIGITS = bytes.maketrans(b"01", b"\0\1")
_LAST_BIT = bytes(ord("1") if byte & 1 else ord("0") for byte in range(256))


def of(several: Iterable[Mask]) -> HintSet:
    """Return the set of these masks."""
    return reduce(or_, (1 << mask for mask in several), 0)


def listed(hints: HintSet) -> list[Mask]:
    """Return the masks, by number."""
    # Digits as bytes leave the loop over 2^n masks to C.
    bits = f"{hints:b}".encode().translate(_DIGITS)[::-1]
    return list(compress(range(len(bits)), bits))


def lowest(hints: HintSet) -> Mask:
    """Return the mask with the smallest number; the set must not be empty."""
    # Of equally wide masks the kubelet takes the smaller number (IsLessThan of bitmask.go).
    return (hints & -hints).bit_length() - 1


def every(zones: int) -> HintSet:
    """Return all masks of `zones` zones."""
    # IterateBitMasks begins with masks of one zone, so bit 0 is never set.
    return (1 << (1 << zones)) - 2


@lru_cache(maxsize=256)
def inside(most: Mask) -> HintSet:
    """Return the subsets of this mask."""
    # Doubling takes one shift per zone, where a loop takes one step per mask.
    hints = 1
    for zone in members(most):
        hints |= hints << (1 << zone)
    return hints & ~1


@lru_cache(maxsize=256)
def around(least: Mask, zones: int) -> HintSet:
    """Return the masks of `zones` zones that contain this one."""
    hints = 1
    for zone in range(zones):
        further = hints << (1 << zone)
        hints = further if least >> zone & 1 else hints | further
    return hints & ~1


def touching(some: Mask, zones: int) -> HintSet:
    """Return the masks of `zones` zones that intersect this one."""
    # Masks that touch none of these zones are subsets of the others.
    return every(zones) & ~inside(bitmask.full(zones) & ~some)


def of_width(hints: HintSet, width: int) -> HintSet:
    """Return the masks with `width` zones."""
    by_width = _by_width(_zones(hints))
    return hints & by_width[width] if 0 < width < len(by_width) else NONE


def narrowest_width(hints: HintSet, default: int) -> int:
    """Return the width of the narrowest mask."""
    return next((width for width, alike in enumerate(_by_width(_zones(hints))) if hints & alike), default)


def narrowest(hints: HintSet) -> HintSet:
    """Return the masks with the fewest zones."""
    return next((narrow for alike in _by_width(_zones(hints)) if (narrow := hints & alike)), NONE)


def reaching(amounts: tuple[int, ...], request: int, between: tuple[Between, ...] = ()) -> HintSet:
    """Return the masks whose zones have enough together, counting what is between zones for each of them."""
    # A set is 32 bytes for the eight zones of max-allowable-numa-nodes' default, and 8 KiB for sixteen.
    find = _kept_reaching if len(amounts) <= MOST_KEPT else _few_reaching
    return find(amounts, request, between)


def intersections(one: HintSet, other: HintSet, zones: int) -> HintSet:
    """Return every non-empty mask that is the intersection of one mask of each set.

    An AND-convolution over the lattice of masks counts how often a mask is such an intersection; each of its
    rounds adds up all masks at once, side by side in one long number.
    """
    (code, size), counts = _field(zones), []
    for hints in (one, other):
        # A field for each mask, 1 for each of these masks.
        ones = bytearray(size << zones)
        ones[::size] = f"{hints:0{1 << zones}b}".encode().translate(_DIGITS)[::-1]
        fields = int.from_bytes(ones, "little")
        # Add to each mask all its supersets (the zeta transform over supersets). No field overflows into the
        # next one: its sum is at most the number of masks.
        for zone, without in enumerate(_without_zone(zones)):
            fields += fields >> (8 * size << zone) & without
        # Mask by mask: one product of the long numbers would mix their fields.
        counts.append(memoryview(fields.to_bytes(size << zones, sys.byteorder)).cast(code))
    ways = int.from_bytes(array(code, map(mul, *counts)).tobytes(), sys.byteorder)
    # Subtract from each mask all its supersets (the inverse); the results are counts, never below 0.
    for zone, without in enumerate(_without_zone(zones)):
        ways -= ways >> (8 * size << zone) & without
    # Fold each field into its lowest bit: shifts bring in bits of the next field only above that, and only
    # that one is read.
    for half in (8 * size >> fold for fold in range(1, (8 * size).bit_length())):
        ways |= ways >> half
    lowest_bytes = ways.to_bytes(size << zones, "little")[::size]
    # The kubelet drops a permutation whose merged mask is empty (policy.go).
    return int(lowest_bytes.translate(_LAST_BIT)[::-1], 2) & ~1


def _field(zones: int) -> tuple[Literal["I", "Q"], int]:
    """Return the array type whose fields are wide enough for the counts of masks, and its size in bytes."""
    # With 16 zones, a mask is the intersection of two others (not the empty one) less than 2^32 times.
    code: Literal["I", "Q"] = "I" if zones <= 16 else "Q"  # noqa: PLR2004  as said
    return code, array(code).itemsize


@lru_cache(maxsize=32)
def _without_zone(zones: int) -> tuple[int, ...]:
    """Return, by zone, all bits of the fields of the masks without it."""
    patterns, bits = [], 8 * _field(zones)[1]
    for zone in range(zones):
        block = (1 << (bits << zone)) - 1
        for further in range(zone + 1, zones):
            block |= block << (bits << further)
        patterns.append(block)
    return tuple(patterns)


def _zones(hints: HintSet) -> int:
    return (hints.bit_length() - 1).bit_length() if hints else 0


@lru_cache(maxsize=64)
def _by_width(zones: int) -> tuple[HintSet, ...]:
    """Return all masks of `zones` zones, the empty one included, by width."""
    if not zones:
        return (1,)
    before = (*_by_width(zones - 1), NONE)
    return tuple(
        hints | (before[width - 1] << (1 << (zones - 1)) if width else NONE)
        for width, hints in enumerate(before)
    )


def _reaching(amounts: tuple[int, ...], request: int, between: tuple[Between, ...]) -> HintSet:
    """Return the masks with enough, from tables for the first zones."""
    # Which masks of the first zones are enough depends only on what the others have and touch.
    # Masks of three zones fill a byte, so parts of three or more zones can be joined as bytes.
    first = max(_BYTE, len(amounts) // 2)
    own, last = bitmask.sums(amounts[:first]), bitmask.sums(amounts[first:])
    tables = dict[tuple[Between, ...], tuple[list[int], list[bytes]]]()
    parts = []
    for others, more in enumerate(last):
        beyond = others << first
        # What the others already touch counts once, and must not count again for the first zones.
        apart = tuple([(place, count) for place, count in between if not place & beyond])
        if apart not in tables:
            tables[apart] = _least(own, apart)
        totals, least = tables[apart]
        # A device counts if one of several zones is in the mask (AnySet of bitmask.go).
        missing = request - more - sum([count for place, count in between if place & beyond])
        parts.append(least[bisect_left(totals, missing)])
    return int.from_bytes(b"".join(parts), "little") & ~1


def _least(own: Sequence[int], between: tuple[Between, ...]) -> tuple[list[int], list[bytes]]:
    """Return ascending totals, and at each position the masks that have at least that total."""
    totals = list(own)
    for place, count in between:
        totals = [total + count if mask & place else total for mask, total in enumerate(totals)]
    order = sorted(range(len(totals)), key=totals.__getitem__)
    unions = accumulate((1 << mask for mask in reversed(order)), or_, initial=0)
    least = [hints.to_bytes(max(1, len(totals) >> _BYTE), "little") for hints in unions]
    return [totals[mask] for mask in order], least[::-1]


_kept_reaching = lru_cache(maxsize=4096)(_reaching)
_few_reaching = lru_cache(maxsize=128)(_reaching)
