"""Several replays on the average, at every whole per cent, and charts of them side by side."""

from numalign.simulation.replay import Sample
from numalign.simulation.replay_charts import replay_charts
from numalign.simulation.replay_summary import mean_curve, mean_of, to_document


def test_mean_is_taken_of_every_figure() -> None:
    assert mean_of([Sample(10, 8, 1), Sample(20, 10, 4)]) == Sample(15, 9, 2.5)


def test_curve_continues_with_the_latest_sample() -> None:
    one = [Sample(0.5, 0, 9), Sample(10, 2, 8)]
    other = [Sample(0.1, 0, 7), Sample(5, 1, 6), Sample(15, 3, 5)]
    assert [(at.allocated, at.fragments) for at in mean_curve([one, other])] == [
        (0.5, 7.5),
        (1.5, 7),
        (2.5, 6.5),
    ]


def test_document_has_three_decimal_places() -> None:
    result = to_document(Sample(1 / 3, 2, 3, 4, 5))
    assert result == {"arrived": 0.333, "allocated": 2, "fragments": 3, "stranded": 4, "refusals": 5}


def test_every_figure_above_zero_has_a_chart() -> None:
    charts = replay_charts({"stock": [Sample(5, 5, 1), Sample(10, 9, 2)]}, "3 nodes")
    assert list(charts) == ["allocated", "fragments"]
    assert "GPUs allocated, 3 nodes" in charts["allocated"]
    assert list(replay_charts({"stock": [Sample(5, 5, 1, 1)]}, "")) == ["allocated", "fragments", "stranded"]


def test_lines_are_dashed_once_colours_are_used_up() -> None:
    curves = {f"s{number}": [Sample(5, 5, 1), Sample(10, 9, 2)] for number in range(8)}
    assert replay_charts(curves, "")["allocated"].count("stroke-dasharray") == 2
