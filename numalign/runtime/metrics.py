"""
The metrics of a process.

Every program has one registry, created here and passed to all code with metrics, so that two programs in one
process (a test, the demo) never share a number. Metrics are declared where they are counted; this module adds
those of every process: its build, its memory and its CPU time.
"""

import asyncio
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.gc_collector import GCCollector
from prometheus_client.registry import Collector

from numalign.lru import Caches
from numalign.runtime import about

PREFIX = "numalign_"

OPEN_METRICS = "application/openmetrics-text"
# Writing a page takes milliseconds, and anyone who reaches the port can ask for it: so pages are written in a
# fifth of the time at most.
PAUSE = 4


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


@dataclass(slots=True)
class MetricsPage:
    """The page of a registry. Those who ask while another one waits get the same page, which is never old."""

    registry: CollectorRegistry
    _due: float = 0
    _coming: dict[str, "asyncio.Task[tuple[bytes, str]]"] = field(default_factory=dict)

    async def written(self, accept: str) -> tuple[bytes, str]:
        """Return the page in the text format that a scraper accepts, and its content type."""
        chosen = f"{OPEN_METRICS}; version=1.0.0" if OPEN_METRICS in accept else ""
        if chosen not in self._coming:
            self._coming[chosen] = asyncio.create_task(self._write(chosen))
        # Whoever hangs up does not take the page from the others.
        return await asyncio.shield(self._coming[chosen])

    async def _write(self, accept: str) -> tuple[bytes, str]:
        clock = asyncio.get_running_loop().time
        await asyncio.sleep(self._due - clock())
        del self._coming[accept]
        began = clock()
        encode, content_type = choose_encoder(accept)
        page = encode(self.registry)
        self._due = clock() + PAUSE * (clock() - began)
        return page, content_type


@dataclass(frozen=True, slots=True)
class CacheSizes(Collector):
    """The size of every cache at a scrape; each of `caches` returns those that exist then, by name."""

    caches: tuple[Callable[[], Caches], ...]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield entries, by cache."""
        entries = GaugeMetricFamily(f"{PREFIX}cache_entries", "Entries of each cache.", labels=["cache"])
        for caches in self.caches:
            for name, cache in caches().items():
                entries.add_metric([name], len(cache))
        yield entries


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
