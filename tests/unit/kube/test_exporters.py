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
def test_a_node_with(seen: float | None, health: ExporterHealth, *, stale: bool) -> None:
    told = of_node(Snapshot(observed_at={"a": seen}), "a", now=NOW)

    assert told == health
    assert told.stale is stale


def test_a_node_of_which_nobody_told_when_it_was_looked_at_has_no_agent() -> None:
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
def test_the_newest_word_is(seen: dict[str, float | None], at: float) -> None:
    assert newest(Snapshot(observed_at=seen), now=NOW) == at


def test_nobody_is_never_stale() -> None:
    assert not NOBODY.stale
