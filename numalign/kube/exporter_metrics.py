"""Metrics of nodes by exporter, and of the age of the agents' reports."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from numalign.kube.cluster import Cluster
from numalign.kube.exporters import TopologySource, of_node
from numalign.runtime.metrics import PREFIX


@dataclass(frozen=True, slots=True)
class ExporterMetrics(Collector):
    """The exporters of all nodes at the time of a scrape; `wall` returns seconds since 1970."""

    cluster: Cluster
    wall: Callable[[], float]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield nodes by source, those with a stale agent, and the age of the oldest agent's report."""
        nodes = GaugeMetricFamily(
            f"{PREFIX}topology_nodes", "Nodes, by the source of their topology.", labels=["source"]
        )
        stale = GaugeMetricFamily(
            f"{PREFIX}topology_stale_nodes", "Nodes whose agent has not written for ten minutes."
        )
        oldest = GaugeMetricFamily(
            f"{PREFIX}topology_oldest_seconds", "Age of the oldest agent report in use, in seconds."
        )
        if self.cluster.listed:
            now, states = self.wall(), self.cluster.states
            healths = [of_node(self.cluster, name, now=now) for name, state in states.items() if state.node]
            counts = Counter(health.source for health in healths)
            counts[TopologySource.NONE] = len(states) - len(healths)
            for source in TopologySource:
                nodes.add_metric([source], counts[source])
            stale.add_metric([], sum(health.stale for health in healths))
            ages = [health.age for health in healths if health.age is not None]
            if ages:
                oldest.add_metric([], max(ages))
        yield from (nodes, stale, oldest)
