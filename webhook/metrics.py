"""
Count reviews, and pods below the levels of their namespaces: those that exist, and those that are reviewed.

Before enforcing a level, users want to know how many pods it would deny. So the running pods are counted by
namespace and level, whenever one of them or the rules change; nothing is done to them. Reviewed pods are
counted at their review.

A series costs memory and a line of every scrape as long as it exists, and every client that reaches the port
reads it. So a limited number of namespaces is named, none by default, and only existing ones: the namespace
in a review is chosen by its caller.
"""

import asyncio
import collections
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from heapq import nsmallest

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from numalign.cache.admission import LEVELS, AdmissionState, shortfalls
from numalign.cache.pod_question import PodQuestion
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.decode.pod_request import PodRequest
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.files.policy import ClusterPolicy
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.kube.pod_counts import PodCounts
from numalign.runtime.clock import Sleep
from numalign.runtime.cooperative import patiently
from numalign.runtime.metrics import PREFIX, not_answered
from webhook.known_cluster import KnownCluster
from webhook.mutate import PLACERS

LOOK_SECONDS = 1.0  # How often to check whether the rules have changed.
SHARE = 4  # The pause as a multiple of the work: namespaces may change all the time, and all pods count.
UNNAMED = ""  # The label for all namespaces that are not named; no namespace can have this name.


_BUCKETS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1, 2.5)


class ReviewMetrics:
    """The metrics of reviews; up to `named` namespaces are named."""

    def __init__(self, known: KnownCluster, registry: CollectorRegistry, *, named: int) -> None:
        counter = partial(Counter, registry=registry)
        self.reviews = counter(f"{PREFIX}reviews", "Reviews, by decision.", ["webhook", "decision"])
        self.handed_over = counter(
            f"{PREFIX}pods_handed_over", "Pods that were given a scheduler or a scheduling gate.", ["by"]
        )
        for placer in PLACERS:
            self.handed_over.labels(placer)
        self.below = ReviewsBelow(known, registry, most=named)
        self.bad_calls = counter(
            f"{PREFIX}bad_calls", "Calls that are not a valid review, by status code.", ["webhook", "code"]
        )
        self.not_answered = not_answered(registry)
        self.decisions = counter(
            f"{PREFIX}decisions", "Decisions about pods and pod templates, by their basis.", ["state"]
        )
        for state in AdmissionState:
            self.decisions.labels(state)
        self.seconds = Histogram(
            f"{PREFIX}review_seconds",
            "Seconds from the first byte of a review to its answer.",
            ["webhook"],
            buckets=_BUCKETS,
            registry=registry,
        )


class PodsBelow(Collector):
    """Counts the pods that have not ended, by namespace and by the level that they are below.

    Up to `most` namespaces are named. Each of them that sets a level is counted, even if no pod is below it.
    Of namespaces with a limit of exclusive CPUs, the limit and its use are exported as well.
    """

    def __init__(self, known: KnownCluster, policy: PolicyKeeper, reader: PodReader, *, most: int) -> None:
        self._known, self._policy, self._reader, self._most = known, policy, reader, most
        self._counted: tuple[ClusterPolicy, int, PodCounts] | None = None
        self._levels: Mapping[tuple[str, str], int] = {}
        self._limits: Mapping[str, tuple[str, int]] = {}

    async def follow(
        self, *, sleep: Sleep = asyncio.sleep, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Count again whenever the rules change; never returns."""
        while True:
            began = clock()
            await self.update()
            await sleep(max(LOOK_SECONDS, SHARE * (clock() - began)))

    async def update(self) -> None:
        """Count by the rules as they are now, while other requests are answered."""
        cluster, counts = self._known.cluster, self._known.feed.pod_counts()
        basis = self._policy.now, cluster.rules_version, counts
        if not cluster.listed or self._counted == basis:
            return
        self._counted, policy = basis, EffectivePolicy.of(cluster, self._policy.now)
        named, found = frozenset(nsmallest(self._most, policy.rules)), dict[tuple[str, str], int]()
        limits = dict[str, tuple[str, int]]()

        def levels_below(namespace: str, request: PodRequest) -> tuple[str, ...]:
            # As at admission: pods that are exempt, or would be denied as invalid, are left out.
            reading = self._reader.read(request, namespace, policy)
            return shortfalls(reading) if isinstance(reading, PodQuestion) else ()

        def steps() -> Iterator[None]:
            for namespace in tuple(policy.rules):
                label = namespace if namespace in named else UNNAMED
                if policy.exemption(namespace, runtime_class="") is None:
                    rules = policy.rules_for(namespace)
                    found.update(((label, level), 0) for level, of in LEVELS.items() if of(rules))
                if (limit := policy.exclusive_cpus(namespace)) is not None:
                    limits[namespace] = label, limit
                yield
            yield from counts.judge_by(levels_below)

        await patiently(steps())
        self._levels, self._limits = found, limits

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the current counts."""
        below = GaugeMetricFamily(
            f"{PREFIX}pods_below",
            "Running pods below a level of their namespace.",
            labels=["namespace", "level"],
        )
        pods = self._known.feed.pod_counts()
        counts = collections.Counter(self._levels)
        for (namespace, level), count in pods.sums.items():
            counts[namespace if (namespace, level) in self._levels else UNNAMED, level] += count
        for (namespace, level), count in sorted(counts.items()):
            below.add_metric([namespace, level], count)
        yield below
        yield GaugeMetricFamily(
            f"{PREFIX}pods_too_large",
            "Running pods that request too many resources to be counted below a level.",
            value=len(pods.too_large),
        )
        used, requested, limits = (collections.Counter[str]() for _ in range(3))
        for namespace, (label, limit) in self._limits.items():
            cpus = pods.exclusive_cpus(namespace, unpinned=self._known.unpinned)
            used[label] += cpus.used
            requested[label] += sum(cpus)
            limits[label] += limit
        families = (
            GaugeMetricFamily(
                f"{PREFIX}exclusive_cpus_used",
                "Exclusive CPUs of the pods on nodes, of namespaces with a limit.",
                labels=["namespace"],
            ),
            GaugeMetricFamily(
                f"{PREFIX}exclusive_cpus_requested",
                "The same, and what pods without a node request.",
                labels=["namespace"],
            ),
            GaugeMetricFamily(
                f"{PREFIX}exclusive_cpus_limit", "Limit of exclusive CPUs.", labels=["namespace"]
            ),
        )
        for family, sums in zip(families, (used, requested, limits), strict=True):
            for label, total in sorted(sums.items()):
                family.add_metric([label], total)
        yield from families


class ReviewsBelow(Collector):
    """Counts the reviewed pods below a level, by namespace; the first `most` namespaces are named."""

    def __init__(self, known: KnownCluster, registry: CollectorRegistry, *, most: int) -> None:
        self._known, self._most = known, most
        self._named: set[str] = set()
        self._counter = Counter(
            f"{PREFIX}reviews_below",
            "Reviewed pods below a level of their namespace.",
            ["namespace", "level"],
            registry=None,
        )
        registry.register(self)

    def count(self, namespace: str, levels: Iterable[str]) -> None:
        """Count a pod in this namespace below these levels."""
        if namespace not in self._named and len(self._named) == self._most:
            # Namespaces may be created and deleted while nobody reads the metrics.
            self._forget()
        more = {namespace} & self._known.cluster.namespaces.keys() if len(self._named) < self._most else set()
        for level in levels:
            self._named |= more
            self._counter.labels(namespace if namespace in self._named else UNNAMED, level).inc()

    def describe(self) -> Iterable[Metric]:
        """Return the metric without its values."""
        return self._counter.describe()

    def collect(self) -> Iterable[Metric]:
        """Return the counts of namespaces that still exist."""
        self._forget()
        return self._counter.collect()

    def _forget(self) -> None:
        for gone in self._named - self._known.cluster.namespaces.keys():
            self._named.discard(gone)
            for level in LEVELS:
                self._counter.remove(gone, level)
