"""
The metrics of a process.

Every program has one registry, created here and passed to all code with metrics, so that two programs in one
process (a test, the demo) never share a number. Metrics are declared where they are counted; this module adds
those of every process: its build, its memory and its CPU time.
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
    """Return a new registry with the metrics of every process: build, memory, CPU, garbage collection."""
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
    """Return the counter of questions that took too long to evaluate on some node."""
    return Counter(
        f"{PREFIX}questions_not_answered",
        "Pods that take too long to evaluate on some nodes.",
        registry=registry,
    )


@dataclass(frozen=True, slots=True)
class CacheSizes(Collector):
    """The size of every cache at the time of a scrape, which shows how close it is to its limit.

    Each of `caches` returns caches by name, which may differ each time.
    """

    caches: tuple[Callable[[], Caches], ...]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield bytes and entries, by cache."""
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
    """How many nodes were evaluated for pods, by columns, or by the rules with a reason; never decreases."""

    counts: Callable[[], Mapping[str, int]]

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield the nodes by what evaluated them."""
        nodes = CounterMetricFamily(
            f"{PREFIX}evaluated_nodes",
            "Nodes evaluated for pods, in columns or, by reason, one by one.",
            labels=["by"],
        )
        for by, count in self.counts().items():
            nodes.add_metric([by], count)
        yield nodes
