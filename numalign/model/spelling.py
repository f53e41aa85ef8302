"""Which known word a misspelt one may stand for."""

import difflib
from collections.abc import Iterable

LONGEST = 64
"""Characters of a word that are compared: it takes the square of the length, and no known word is longer."""


def closest_word(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known word that is most alike, as `difflib` measures it; None if none is alike by `cutoff`."""
    close = difflib.get_close_matches(word[:LONGEST], list(known), n=1, cutoff=cutoff)
    return close[0] if close else None
