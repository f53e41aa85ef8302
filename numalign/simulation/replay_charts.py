"""Charts of replays side by side, as SVG."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from numalign.curves import COLOURS, Axis, Chart, Line, svg
from numalign.simulation.replay import Sample

CHARTED: Mapping[str, str] = MappingProxyType(
    {"allocated": "GPUs allocated", "fragments": "Fragments", "stranded": "Stranded by zones"}
)
"""The figures that are charted, with their titles."""

_TICKS = 10
"""Per cent between ticks."""


def replay_charts(curves: Mapping[str, Sequence[Sample]], of_what: str) -> dict[str, str]:
    """Return a chart for each figure that is not always 0; `curves` are by the names of what is compared."""
    last = max((samples[-1].arrived for samples in curves.values()), default=0)
    across = Axis("asked for, % of all GPUs", logarithmic=False, ticks=range(0, round(last) + _TICKS, _TICKS))
    return {
        figure: svg(
            Chart(f"{title}, {of_what}", across, Axis("%", logarithmic=False), _lines(curves, figure))
        )
        for figure, title in CHARTED.items()
        if any(getattr(sample, figure) > 0 for samples in curves.values() for sample in samples)
    }


def _lines(curves: Mapping[str, Sequence[Sample]], figure: str) -> list[Line]:
    """Return a line for each curve; dashed ones once the colours are used up."""
    return [
        Line(
            name,
            [(sample.arrived, getattr(sample, figure)) for sample in samples],
            number,
            dashed=number >= len(COLOURS),
        )
        for number, (name, samples) in enumerate(curves.items())
    ]
