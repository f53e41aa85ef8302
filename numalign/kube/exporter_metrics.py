"""How many nodes have which exporter, and how fresh the reports of agents are, as metrics."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from numalign.kube.cluster_state import Snapshot
from numalign.kube.exporters import TopologySource, of_node
from numalign.runtime.metrics import PREFIX


@dataclass(frozen=True, slots=True)
class ExporterMetrics(Collector):
    """The exporters of all nodes as they are when it is scraped.

    `snapshot` gives None before there is a first one; `wall` gives seconds since 1970.
    """

    snapshot: Callable[[], Snapshot | None]
    wall: Callable[[], float]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Nodes by source, those whose agent is stale, and the age of the oldest report of an agent."""
        nodes = GaugeMetricFamily(
            f"{PREFIX}topology_nodes", "Nodes, by the source of their topology.", labels=["source"]
        )
        stale = GaugeMetricFamily(
            f"{PREFIX}topology_stale_nodes", "Nodes whose agent has not written for ten minutes."
        )
        oldest = GaugeMetricFamily(
            f"{PREFIX}topology_oldest_seconds", "Age of the oldest agent report in use, in seconds."
        )
        if snapshot := self.snapshot():
            now = self.wall()
            told = [of_node(snapshot, node.name, now=now) for node in snapshot.nodes]
            counts = Counter(health.source for health in told)
            counts[TopologySource.NONE] = len(snapshot.unknown)
            for source in TopologySource:
                nodes.add_metric([source], counts[source])
            stale.add_metric([], sum(health.stale for health in told))
            ages = [health.age for health in told if health.age is not None]
            if ages:
                oldest.add_metric([], max(ages))
        yield from (nodes, stale, oldest)
