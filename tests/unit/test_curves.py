"""Line charts: what is drawn of points and ticks."""

import re

import pytest

from numalign.curves import Axis, Chart, Line, svg


def drawn(points: list[tuple[float, float]], ticks: tuple[float, ...] = ()) -> str:
    across = Axis("pods", logarithmic=False, ticks=ticks)
    return svg(Chart("<ours>", across, Axis("%", logarithmic=False), [Line("one", points, 0)]))


def labels(chart: str) -> list[str]:
    return re.findall(r'text-anchor="middle">([\d,]+)<', chart)


def test_ticks_stand_where_the_points_do() -> None:
    assert labels(drawn([(10, 1), (30, 2)])) == ["10", "30"]


def test_ticks_stand_where_they_are_wanted() -> None:
    assert labels(drawn([(11, 1), (29, 2)], ticks=(10, 20, 30))) == ["10", "20", "30"]


@pytest.mark.parametrize(("count", "dots"), [(2, 2), (20, 20), (21, 0)])
def test_a_line_of_many_points_has_no_dots(count: int, dots: int) -> None:
    chart = drawn([(at + 1, 1) for at in range(count)])
    assert chart.count("<circle") == dots


def test_what_is_written_is_escaped() -> None:
    assert "&lt;ours&gt;" in drawn([(1, 1)])
