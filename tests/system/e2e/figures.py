"""What was measured while the tests ran: said once, at the end, where everybody looks."""

from collections.abc import Sequence
from math import ceil

import pytest

FIGURES = pytest.StashKey[list[str]]()


def quantile(seconds: Sequence[float], share: float) -> float:
    """The smallest value that at least that share of all values does not exceed."""
    return sorted(seconds)[max(ceil(share * len(seconds)) - 1, 0)]


def spread(seconds: Sequence[float], *, what: str) -> str:
    return (
        f"p50 {quantile(seconds, 0.5):.2f} s, p99 {quantile(seconds, 0.99):.2f} s"
        f" (the worst of {len(seconds)} {what}: {max(seconds):.2f} s)"
    )
