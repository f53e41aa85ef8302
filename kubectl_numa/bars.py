"""
How full something is, in a line.

A bar is read before any number, so it must not lie at its ends: only what is empty looks empty, and only what
is full looks full. Terminals that cannot show blocks get ASCII.
"""

from dataclasses import dataclass

from numalign.model.resources import Kind, kind, render

LONGEST_EXACT = 8
"""Characters; an exact amount that is longer is told in its largest unit, with one decimal."""

_UNITS = (("Ei", 2**60), ("Pi", 2**50), ("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


@dataclass(frozen=True, slots=True)
class Ink:
    """What bars are drawn with."""

    used: str
    free: str


BLOCKS = Ink("█", "░")
ASCII = Ink("#", ".")


def bar(used: int, whole: int, *, width: int, ink: Ink) -> str:
    """`used` of `whole` as `width` characters; anything used shows, and anything free does too."""
    cells = used * width // whole if whole else 0
    cells = min(max(cells, 1 if used > 0 else 0), width if used >= whole else width - 1)
    return ink.used * cells + ink.free * (width - cells)


def short(resource: str, amount: int) -> str:
    """The quantity if it is short, else the same in its largest unit, with one decimal."""
    exact = render(resource, amount)
    if len(exact) <= LONGEST_EXACT or kind(resource) is not Kind.MEMORY:
        return exact
    suffix, unit = next(((suffix, unit) for suffix, unit in _UNITS if amount >= unit), ("", 1))
    return f"{amount / unit:.1f}{suffix}"
