"""Who tells the topology of a node, and from when on an agent counts as stale."""

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from numalign.kube.cluster import Cluster
from numalign.kube.exporter_metrics import ExporterMetrics
from numalign.kube.exporters import NOBODY, STALE_SECONDS, ExporterHealth, TopologySource, newest, of_node
from tests.worlds.clusters import a_cluster
from tests.worlds.notation import node, table

NOW = 1_790_000_000.0
AGENT = TopologySource.AGENT


@pytest.mark.parametrize(("seen", "health", "stale"), table([
    ("no agent", None, ExporterHealth(TopologySource.EXPORTER), False),
    ("an agent that looked just now", NOW, ExporterHealth(AGENT, 0.0), False),
    ("an agent that is quiet", NOW - STALE_SECONDS, ExporterHealth(AGENT, STALE_SECONDS), False),
    ("an agent that is gone", NOW - STALE_SECONDS - 1, ExporterHealth(AGENT, 601.0), True),
    ("an agent whose clock is ahead", NOW + 3600, ExporterHealth(AGENT, 0.0), False),
]))  # fmt: skip
def test_the_health_of_an_exporter(seen: float | None, health: ExporterHealth, *, stale: bool) -> None:
    found_health = of_node(Cluster({"a": seen}), "a", now=NOW)
    assert (found_health, found_health.stale) == (health, stale)


def test_a_node_without_an_agent() -> None:
    assert of_node(Cluster(), "a", now=NOW) == ExporterHealth(TopologySource.EXPORTER)
    assert not NOBODY.stale


@pytest.mark.parametrize(("seen", "at"), table([
    ("that of the last agent", {"a": NOW - 90, "b": NOW - 80, "c": None}, NOW - 80),
    ("now where there is no agent", {"c": None}, NOW),
    ("now where a clock is ahead", {"a": NOW + 80}, NOW),
]))  # fmt: skip
def test_the_newest_report(seen: dict[str, float | None], at: float) -> None:
    assert newest(Cluster(seen), now=NOW) == at


NODE = node("cpu=8 mem=8Gi")
FLEET = a_cluster([replace(NODE, name=name) for name in ("fresh", "old", "other")], ("bare", "hidden"),
    observed_at={"fresh": NOW - 5, "old": NOW - 700, "other": None, "gone": NOW - 9000})  # fmt: skip


@pytest.mark.parametrize(("cluster", "nodes", "more"), table([
    ("agents and others", FLEET, [2, 1, 2], {"stale_nodes": 1, "oldest_seconds": 700}),
    ("no agent", a_cluster([NODE]), [0, 1, 0], {"stale_nodes": 0}),
    ("nothing is known yet", Cluster(), [], {}),
]))  # fmt: skip
def test_metrics_of_exporters(cluster: Cluster, nodes: list[int], more: dict[str, int]) -> None:
    registry = CollectorRegistry(auto_describe=True)
    registry.register(ExporterMetrics(cluster, lambda: NOW))
    samples = (sample for family in registry.collect() for sample in family.samples)
    scraped = {"/".join((sample.name, *sample.labels.values())): sample.value for sample in samples}
    by_source = {f"nodes/{each}": at for each, at in zip(("agent", "exporter", "none"), nodes, strict=False)}
    assert scraped == {f"numalign_topology_{name}": value for name, value in (by_source | more).items()}
