"""Line charts."""

import itertools
import re
from xml.sax import saxutils

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import curves
from bench.curves import HEIGHT, WIDTH, Axis, Chart, Line, svg

POINTS = [(1000.0, 0.2), (15_000.0, 3.0)]


def chart(*lines: Line, logarithmic: bool = True) -> Chart:
    return Chart("Time by nodes", Axis("nodes", logarithmic), Axis("ms", logarithmic), lines)


def circles(drawn: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r'<circle cx="(\S+)" cy="(\S+)"', drawn)]


def texts(drawn: str) -> list[str]:
    return [saxutils.unescape(each) for each in re.findall(r"<text[^>]*>([^<]*)</text>", drawn)]


def test_lines_are_named_and_axes_have_their_units() -> None:
    found = texts(svg(chart(Line("a < b & c", POINTS, 0), Line("other", POINTS, 1))))
    assert {"Time by nodes", "nodes", "ms", "a < b & c", "other", "1,000", "15,000"} <= set(found)


def test_more_is_further_to_the_right_and_higher() -> None:
    [(x, y), (later, above)] = circles(svg(chart(Line("a", POINTS, 0))))
    assert later > x
    assert above < y


def test_only_what_others_are_compared_with_is_dashed() -> None:
    plain, dashed = (svg(chart(Line("a", POINTS, 0, dashed=each))) for each in (False, True))
    assert "dasharray" not in plain
    assert "dasharray" in dashed


def test_lines_without_points_are_left_out() -> None:
    assert "gone" not in svg(chart(Line("a", POINTS, 0), Line("gone", [], 1)))


def test_a_chart_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match='"Time by nodes" has no point'):
        svg(chart(Line("a", [], 0)))


def test_a_linear_axis_begins_at_zero() -> None:
    assert "0" in texts(svg(chart(Line("a", [(100, 3), (500, 7)], 0), logarithmic=False)))


AMOUNTS = st.floats(1e-4, 1e6)


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=4), st.booleans())
def test_every_point_is_inside_and_the_text_is_the_same_again(
    points: list[tuple[float, float]],
    logarithmic: bool,  # noqa: FBT001 - drawn
) -> None:
    drawn = chart(Line("a", sorted(points), 0), logarithmic=logarithmic)
    found = svg(drawn)
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in circles(found))
    assert svg(drawn) == found


@given(st.lists(st.floats(curves.TOP, HEIGHT - curves.BOTTOM), min_size=2, max_size=8))
def test_names_do_not_stand_upon_each_other(ends: list[float]) -> None:
    lines = [Line(f"line-{at}", [(1, 2), (2, 1 + end)], at) for at, end in enumerate(ends)]
    found = re.findall(r'<text x="\d+" y="(\S+)" fill="#\w+">line-', svg(chart(*lines)))
    places = sorted(map(float, found))
    assert len(places) == len(ends)
    assert all(below - above > curves.LETTER for above, below in itertools.pairwise(places))
