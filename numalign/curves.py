"""
Line charts as SVG, without a library: nothing to install, and the same text for the same figures.

Colours have medium lightness, so that a chart is readable on a white page and on a dark one. Each line has
its name at its end. Lines for comparison are dashed.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 66, 240, 46, 52
LETTER = 12
"""The font size in pixels; names of lines are a little further apart."""

INK, FAINT = "#737b84", "#8a939c"
COLOURS = ("#3b82d6", "#d9822b", "#2da160", "#9a6dd7", "#d6564f", "#b08a1e")

_STEPS = (1, 2, 5, 10)
_TICKS = 5
_MOST_DOTS = 20


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points from left to right; lines that belong together have the same `colour`."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: int
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis: `title` is what it shows, with the unit. Values on a `logarithmic` axis are above zero.

    `ticks` are for the axis along the bottom, by default one at each point.
    """

    title: str
    logarithmic: bool = True
    ticks: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of lines; lines with few points have a dot at each."""

    title: str
    across: Axis
    up: Axis
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class _Scale:
    """A mapping of values to pixels."""

    least: float
    most: float
    start: float
    end: float
    logarithmic: bool

    def __call__(self, value: float) -> float:
        low, high, at = (self._measured(each) for each in (self.least, self.most, value))
        share = (at - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.end - self.start)

    def _measured(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value


def svg(chart: Chart) -> str:
    """Return the content of an SVG file; raise `ValueError` if no line has a point."""
    drawn = replace(chart, lines=[line for line in chart.lines if line.points])
    if not drawn.lines:
        raise ValueError(f'"{chart.title}" has no point to draw')
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"',
        f'  font-family="system-ui, sans-serif" font-size="{LETTER}" fill="{INK}">',
        f"<title>{escape(chart.title)}</title>",
        f'<text x="{LEFT}" y="24" font-size="15" font-weight="600">{escape(chart.title)}</text>',
        *_axes(drawn),
        *_lines(drawn),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _scales(chart: Chart) -> tuple[_Scale, _Scale]:
    xs, ys = ([point[at] for line in chart.lines for point in line.points] for at in (0, 1))
    ticks, xs = _ticks(ys, chart.up), [*xs, *chart.across.ticks]
    return (
        _Scale(min(xs), max(xs), LEFT, WIDTH - RIGHT, chart.across.logarithmic),
        _Scale(ticks[0], ticks[-1], HEIGHT - BOTTOM, TOP, chart.up.logarithmic),
    )


def _ticks(values: Sequence[float], axis: Axis) -> list[float]:
    """Return round numbers, the first and the last of which enclose all values."""
    least, most = min(values), max(values)
    if not axis.logarithmic:
        step = _round_up(most / _TICKS)
        return [step * at for at in range(math.ceil(most / step - 1e-9) + 1)]
    decades = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    every = [step * 10.0**decade for decade in decades for step in _STEPS[:-1]]
    first = max(at for at, tick in enumerate(every) if tick <= least * (1 + 1e-9))
    last = min(at for at, tick in enumerate(every) if tick >= most * (1 - 1e-9))
    return every[first : max(last, first + 1) + 1]


def _round_up(value: float) -> float:
    decade = 10.0 ** math.floor(math.log10(value))
    return next(step * decade for step in _STEPS if step * decade >= value * (1 - 1e-9))


def _axes(chart: Chart) -> Iterator[str]:
    x, y = _scales(chart)
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for tick in _ticks([point[1] for line in chart.lines for point in line.points], chart.up):
        at = y(tick)
        yield _stroke(f"M{LEFT} {at:.1f}H{right}", FAINT, 'stroke-width="0.5" stroke-opacity="0.5"')
        yield f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{_number(tick)}</text>'
    for tick in sorted({*chart.across.ticks} or {point[0] for line in chart.lines for point in line.points}):
        at = x(tick)
        yield _stroke(f"M{at:.1f} {bottom}v5", FAINT)
        yield f'<text x="{at:.1f}" y="{bottom + 19}" text-anchor="middle">{_number(tick)}</text>'
    yield _stroke(f"M{LEFT} {bottom}H{right}", FAINT)
    middle = (LEFT + right) / 2
    yield f'<text x="{middle:.1f}" y="{HEIGHT - 12}" text-anchor="middle">{escape(chart.across.title)}</text>'
    yield f'<text x="{LEFT - 8}" y="{TOP - 8}" text-anchor="end">{escape(chart.up.title)}</text>'


def _lines(chart: Chart) -> Iterator[str]:
    x, y = _scales(chart)
    named = _apart([y(line.points[-1][1]) for line in chart.lines])
    for line, name_at in zip(chart.lines, named, strict=True):
        colour = COLOURS[line.colour % len(COLOURS)]
        places = [(x(across), y(up)) for across, up in line.points]
        path = "M" + "L".join(f"{across:.1f} {up:.1f}" for across, up in places)
        yield _stroke(path, colour, 'stroke-width="2"' + (' stroke-dasharray="5 4"' if line.dashed else ""))
        if len(places) <= _MOST_DOTS:
            yield from (
                f'<circle cx="{across:.1f}" cy="{up:.1f}" r="3" fill="{colour}"/>' for across, up in places
            )
        end, up = places[-1]
        leader = f"M{end + 5:.1f} {up:.1f}L{WIDTH - RIGHT + 16} {name_at:.1f}"
        yield _stroke(leader, colour, 'stroke-width="0.7"')
        yield _name(line.name, name_at + 4, colour)


def _name(name: str, at: float, colour: str) -> str:
    return f'<text x="{WIDTH - RIGHT + 20}" y="{at:.1f}" fill="{colour}">{escape(name)}</text>'


def _apart(wanted: Sequence[float]) -> list[float]:
    """Return places for names, as near as possible to the wanted ones, but without overlaps."""
    room, order = LETTER + 4, sorted(range(len(wanted)), key=lambda at: wanted[at])
    placed, below = [0.0] * len(wanted), -math.inf
    for at in order:
        below = placed[at] = max(wanted[at], below + room)
    above = float(HEIGHT - BOTTOM)
    for at in reversed(order):
        above = placed[at] = min(placed[at], above)
        above -= room
    return placed


def _stroke(path: str, colour: str, more: str = "") -> str:
    return f'<path d="{path}" fill="none" stroke="{colour}" {more}'.rstrip() + "/>"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= _STEPS[-1] else f"{value:.4g}"
