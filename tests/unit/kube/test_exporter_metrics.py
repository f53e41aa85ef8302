"""What is counted of the exporters."""

from dataclasses import replace

from prometheus_client import CollectorRegistry

from numalign.kube.cluster_state import Snapshot
from numalign.kube.exporter_metrics import ExporterMetrics
from tests.worlds.notation import node

NOW = 1_790_000_000.0
NODE = node("cpu=8 mem=8Gi")
FLEET = Snapshot(
    tuple(replace(NODE, name=name) for name in ("fresh", "old", "other")),
    ("bare", "hidden"),
    observed_at={"fresh": NOW - 5, "old": NOW - 700, "other": None, "gone": NOW - 9000},
)


def scraped(snapshot: Snapshot | None) -> dict[str, float]:
    registry = CollectorRegistry(auto_describe=True)
    registry.register(ExporterMetrics(lambda: snapshot, lambda: NOW))
    samples = (sample for family in registry.collect() for sample in family.samples)
    return {"/".join((sample.name, *sample.labels.values())): sample.value for sample in samples}


def test_nodes_by_source_and_the_oldest_report() -> None:
    assert scraped(FLEET) == {"numalign_topology_nodes/agent": 2, "numalign_topology_nodes/exporter": 1,
        "numalign_topology_nodes/none": 2, "numalign_topology_stale_nodes": 1,
        "numalign_topology_oldest_seconds": 700}  # fmt: skip


def test_no_age_without_agents() -> None:
    assert scraped(Snapshot((NODE,))) == {"numalign_topology_nodes/agent": 0,
        "numalign_topology_nodes/exporter": 1, "numalign_topology_nodes/none": 0,
        "numalign_topology_stale_nodes": 0}  # fmt: skip


def test_no_metrics_before_a_snapshot() -> None:
    assert scraped(None) == {}
