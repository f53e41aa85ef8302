"""
Showing what is remembered.

Everything that is remembered has a bound; whoever runs a program can see here how near it is, and that what
others write does not make it grow any further.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from numalign.lru import Caches
from numalign.runtime.metrics import PREFIX

Owner = Callable[[], Caches]
"""Whoever remembers something: it may be something else each time."""


@dataclass(frozen=True, slots=True)
class CacheSizes(Collector):
    """The sizes of all that these owners remember, as they are when they are asked for."""

    owners: tuple[Owner, ...]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Bytes and entries, by cache."""
        size = GaugeMetricFamily(
            f"{PREFIX}cache_bytes", "What is remembered, in bytes of memory.", labels=["cache"]
        )
        entries = GaugeMetricFamily(
            f"{PREFIX}cache_entries", "What is remembered, in numbers.", labels=["cache"]
        )
        for owner in self.owners:
            for name, cache in owner().items():
                size.add_metric([name], cache.bytes)
                entries.add_metric([name], len(cache))
        yield from (size, entries)
