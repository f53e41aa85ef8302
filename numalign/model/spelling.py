"""Suggestions for misspelt words."""

import difflib
from collections.abc import Iterable

LONGEST = 64
"""The number of characters compared: the time is quadratic. Longer known words are not compared."""


def closest_word(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the closest known word, as `difflib` measures it; None if none is as close as `cutoff`."""
    short = [each for each in known if len(each) <= LONGEST]
    close = difflib.get_close_matches(word[:LONGEST], short, n=1, cutoff=cutoff)
    return close[0] if close else None


def closest_resource(name: str, known: Iterable[str]) -> str | None:
    """Return the known resource that a name probably means, whatever its case: gpu may be nvidia.com/gpu."""
    word, full = name[:LONGEST].lower(), {resource.lower(): resource for resource in known}
    last = {resource.rpartition("/")[2]: resource for resource in full}
    if short := closest_word(word, last, cutoff=_NEARLY):
        return full[last[short]]
    close = closest_word(word, full)
    return full[close] if close else None


_NEARLY = 0.8
"""How close the last part of a name has to be: it is short."""
