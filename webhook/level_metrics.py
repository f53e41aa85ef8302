"""
Count pods below the levels of their namespaces: those that exist, and those that are reviewed.

Before enforcing a level, users want to know how many pods it would deny. So the running pods are counted by
namespace and level whenever the metrics are read; nothing is done to them. Reviewed pods are counted at their
review.

A series costs memory and a line of every scrape as long as it exists. So only existing namespaces have one:
the namespace in a review is chosen by its caller.
"""

import collections
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from numalign.cache.admission import LEVELS, shortfalls
from numalign.cache.pod_question import PodQuestion
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.model.intent import NamespaceRules
from numalign.runtime.metrics import PREFIX
from webhook.snapshot_holder import SnapshotHolder


@dataclass(frozen=True, slots=True)
class PodsBelow(Collector):
    """
    Counts the pods that have not ended, by namespace and by the level that they are below.

    They count as at admission: pods that are exempt, or would be denied as invalid, are left out.

    Every namespace that sets a level is counted, even if no pod is below it.
    """

    holder: SnapshotHolder
    policy: PolicyKeeper
    reader: PodReader

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the current counts."""
        family = GaugeMetricFamily(
            f"{PREFIX}pods_below",
            "Running pods below a level of their namespace.",
            labels=["namespace", "level"],
        )
        for (namespace, level), count in sorted(self._counts().items()):
            family.add_metric([namespace, level], count)
        yield family

    def _counts(self) -> collections.Counter[tuple[str, str]]:
        counts = collections.Counter[tuple[str, str]]()
        snapshot = self.holder.snapshot
        if snapshot is None:
            return counts
        policy = EffectivePolicy.of(snapshot, self.policy.now)
        for namespace in snapshot.namespaces:
            rules = policy.rules_for(namespace)
            exempt = policy.exemption(namespace, runtime_class="") is not None
            counts.update({(namespace, name): 0 for name in LEVELS if LEVELS[name](rules) and not exempt})
        for pods in self.holder.feed.pod_counts():
            reading = self.reader.read(pods.request, pods.namespace, policy)
            below = shortfalls(reading) if isinstance(reading, PodQuestion) else ()
            counts.update({(pods.namespace, name): pods.count for name in below})
        return counts


UNKNOWN = ""
"""The label for all namespaces that do not exist in the cluster; no namespace can have this name."""


class ReviewsBelow(Collector):
    """Counts the reviewed pods below a level, by namespace."""

    def __init__(self, holder: SnapshotHolder, registry: CollectorRegistry) -> None:
        self._holder = holder
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
        namespaces = self._namespaces()
        name = namespace if namespace in namespaces else UNKNOWN
        for level in levels:
            self._named.add(name)
            self._counter.labels(name, level).inc()
        # Namespaces may be created and deleted while nobody reads the metrics.
        if len(self._named) > len(namespaces) + 1:
            self._forget()

    def describe(self) -> Iterable[Metric]:
        """Return the metric without its values."""
        return self._counter.describe()

    def collect(self) -> Iterable[Metric]:
        """Return the counts of namespaces that still exist."""
        self._forget()
        return self._counter.collect()

    def _forget(self) -> None:
        for gone in self._named - self._namespaces().keys() - {UNKNOWN}:
            self._named.discard(gone)
            for level in LEVELS:
                self._counter.remove(gone, level)

    def _namespaces(self) -> Mapping[str, NamespaceRules]:
        return self._holder.snapshot.namespaces if self._holder.snapshot else {}
