"""
What a process counts.

Every program has one registry, made here and passed to whoever counts, so that two programs in one process
(a test, the demo) never share a number. What is counted is declared where it happens; this module adds what
every process has: its build, its memory and its processor time.
"""

import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.registry import Collector

from numalign.lru import Caches
from numalign.runtime import about

PREFIX = "numalign_"


def registry(*, program: str) -> CollectorRegistry:
    """Return a registry of its own, with what every process tells: build, memory, CPU, garbage collection."""
    metrics = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=metrics)
    GCCollector(registry=metrics)
    build = Gauge(
        f"{PREFIX}build_info",
        "Always 1; the labels name the program and its version.",
        ["program", "version", "python"],
        registry=metrics,
    )
    build.labels(program, about.version(), platform.python_version()).set(1)
    return metrics


def not_answered(registry: CollectorRegistry) -> Counter:
    """Counts questions that some node could not be asked, for it would take too long."""
    return Counter(
        f"{PREFIX}questions_not_answered",
        "Pods that take too long to evaluate on some nodes.",
        registry=registry,
    )


@dataclass(frozen=True, slots=True)
class CacheSizes(Collector):
    """The size of every cache as it is when it is scraped; each has a bound, and this shows how near it is.

    Each of `caches` gives caches by name, which may be others each time.
    """

    caches: tuple[Callable[[], Caches], ...]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Bytes and entries, by cache."""
        size = GaugeMetricFamily(
            f"{PREFIX}cache_bytes", "Memory used by each cache, in bytes.", labels=["cache"]
        )
        entries = GaugeMetricFamily(f"{PREFIX}cache_entries", "Entries of each cache.", labels=["cache"])
        for caches in self.caches:
            for name, cache in caches().items():
                size.add_metric([name], cache.bytes)
                entries.add_metric([name], len(cache))
        yield from (size, entries)


@dataclass(frozen=True, slots=True)
class EvaluatedNodes(Collector):
    """How many nodes were evaluated for pods, by columns, or by the rules for some reason; only ever more."""

    counts: Callable[[], Mapping[str, int]]

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Nodes, by what answered."""
        nodes = CounterMetricFamily(
            f"{PREFIX}evaluated_nodes",
            "Nodes evaluated for pods, in columns or, by reason, one by one.",
            labels=["by"],
        )
        for by, count in self.counts().items():
            nodes.add_metric([by], count)
        yield nodes
