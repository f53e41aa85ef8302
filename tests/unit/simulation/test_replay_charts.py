"""Charts of replays side by side."""

from numalign.simulation.replay import Sample
from numalign.simulation.replay_charts import replay_charts


def test_every_figure_above_zero_has_a_chart() -> None:
    charts = replay_charts({"stock": [Sample(5, 5, 1), Sample(10, 9, 2)]}, "3 nodes")
    assert list(charts) == ["allocated", "fragments"]
    assert "GPUs allocated, 3 nodes" in charts["allocated"]
    assert list(replay_charts({"stock": [Sample(5, 5, 1, 1)]}, "")) == ["allocated", "fragments", "stranded"]


def test_lines_are_dashed_once_colours_are_used_up() -> None:
    curves = {f"s{number}": [Sample(5, 5, 1), Sample(10, 9, 2)] for number in range(8)}
    assert replay_charts(curves, "")["allocated"].count("stroke-dasharray") == 2
