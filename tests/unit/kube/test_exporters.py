"""Who tells the topology of a node, and from when on an agent counts as stale."""

import pytest

from numalign.kube.cluster_state import Snapshot
from numalign.kube.exporters import NOBODY, STALE_SECONDS, ExporterHealth, TopologySource, newest, of_node
from tests.worlds.notation import table

NOW = 1_790_000_000.0
AGENT = TopologySource.AGENT


@pytest.mark.parametrize(
    ("seen", "health", "stale"),
    table(
        [
            ("no agent", None, ExporterHealth(TopologySource.EXPORTER), False),
            ("an agent that looked just now", NOW, ExporterHealth(AGENT, 0.0), False),
            ("an agent that is quiet", NOW - STALE_SECONDS, ExporterHealth(AGENT, STALE_SECONDS), False),
            ("an agent that is gone", NOW - STALE_SECONDS - 1, ExporterHealth(AGENT, 601.0), True),
            ("an agent whose clock is ahead", NOW + 3600, ExporterHealth(AGENT, 0.0), False),
        ]
    ),
)
def test_the_health_of_an_exporter(seen: float | None, health: ExporterHealth, *, stale: bool) -> None:
    found_health = of_node(Snapshot(observed_at={"a": seen}), "a", now=NOW)
    assert found_health == health
    assert found_health.stale is stale


def test_a_node_without_an_agent() -> None:
    assert of_node(Snapshot(), "a", now=NOW) == ExporterHealth(TopologySource.EXPORTER)


@pytest.mark.parametrize(
    ("seen", "at"),
    table(
        [
            ("that of the last agent", {"a": NOW - 90, "b": NOW - 80, "c": None}, NOW - 80),
            ("now where there is no agent", {"c": None}, NOW),
            ("now where a clock is ahead", {"a": NOW + 80}, NOW),
        ]
    ),
)
def test_the_newest_report(seen: dict[str, float | None], at: float) -> None:
    assert newest(Snapshot(observed_at=seen), now=NOW) == at


def test_no_exporter_is_not_stale() -> None:
    assert not NOBODY.stale
