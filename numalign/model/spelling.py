"""Suggestions for misspelt words."""

import difflib
from collections.abc import Iterable

LONGEST = 64
"""The number of characters compared: the time is quadratic, and no known word is longer."""


def closest_word(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the closest known word, as `difflib` measures it; None if none is as close as `cutoff`."""
    close = difflib.get_close_matches(word[:LONGEST], list(known), n=1, cutoff=cutoff)
    return close[0] if close else None
