"""Line charts: what is drawn of points and ticks."""

import re

import pytest

from numalign.curves import Axis, Chart, Line, svg


def drawn(points: list[tuple[float, float]], ticks: tuple[float, ...] = ()) -> str:
    across = Axis("pods", logarithmic=False, ticks=ticks)
    return svg(Chart("<ours>", across, Axis("%", logarithmic=False), [Line("one", points, 0)]))


@pytest.mark.parametrize(("ticks", "labels"), [((), ["10", "30"]), ((10, 20, 30), ["10", "20", "30"])])
def test_ticks_are_at_points_unless_they_are_given(ticks: tuple[float, ...], labels: list[str]) -> None:
    chart = drawn([(10, 1), (30, 2)], ticks)

    assert re.findall(r'text-anchor="middle">([\d,]+)<', chart) == labels
    assert "&lt;ours&gt;" in chart


@pytest.mark.parametrize(("count", "dots"), [(20, 20), (21, 0)])
def test_line_of_many_points_has_no_dots(count: int, dots: int) -> None:
    assert drawn([(at + 1, 1) for at in range(count)]).count("<circle") == dots
