"""Whether several requests fit into zones, each of them into one."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

MOST_REQUESTS = 64
"""The limit of requests; for more there is no answer."""

MOST_TRIED = 4096
"""The limit of tries; with more there is no answer."""


def fit_apart(zones: Iterable[Mapping[str, int]], requests: Iterable[Mapping[str, int]]) -> bool | None:
    """Return whether each request fits into one zone beside the others; None if that takes too many tries."""
    requests = [*requests]
    if len(requests) > MOST_REQUESTS:
        return None
    # The largest first, so that an impossible division is detected early.
    asked = sorted(requests, key=lambda amounts: sorted(amounts.values()), reverse=True)
    try:
        return _fit([Counter(zone) for zone in zones], asked, iter(range(MOST_TRIED)))
    except StopIteration:
        return None


def _fit(left: Sequence[Counter[str]], asked: Sequence[Mapping[str, int]], tries: Iterator[int]) -> bool:
    if not asked:
        return True
    first, *others = asked
    for zone in left:
        next(tries)
        if all(zone[name] >= amount for name, amount in first.items()):
            zone.subtract(first)
            fits = _fit(left, others, tries)
            zone.update(first)
            if fits:
                return True
    return False
