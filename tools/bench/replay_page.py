"""Results of replays, as tables for a terminal and as the page docs/measurements/simulate.md with charts."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from numalign.curves import Axis, Chart, Line, svg
from numalign.simulation.replay import PER_CENT, Sample
from numalign.simulation.replay_charts import CHARTED, replay_charts
from numalign.simulation.zone_cluster import ZoneSample
from tools.bench.figures import markdown, table
from tools.bench.published import ARRIVED, PUBLISHED

Raw = dict[str, Any]

_TEMPLATE = Path(__file__).with_name("replay_page.md")

_COMPARED = ("allocated", "fragments")
"""The figures that were published."""

_DRAWN = ("Random", "BestFit", "FGD")
"""The policies of a chart; six lines could not be told apart."""

_DRAWN_WITH_ZONES = ("stock", "webhook", "scorer", "LeastNUMANodes", "MostAllocated", "FragmentationGradient")

_HEAD = ("policy", "allocated, %", "published", "fragments, %", "published", "range allocated, %")
_ZONE_HEAD = (
    "strategy",
    "allocated, %",
    "fragments, %",
    "stranded, %",
    "rejections",
    "range allocated, %",
)


def text(found: Raw) -> str:
    """Return the tables, for a terminal."""
    zoned = (
        f"\n{zones} zones\n{table(_ZONE_HEAD, _zone_rows(each))}" for zones, each in found["zoned"].items()
    )
    return "\n".join([table(_HEAD, _rows(found)), *zoned])


def _rows(found: Raw) -> Iterator[list[str]]:
    for name, policy in found["policies"].items():
        cells = [
            cell
            for figure in _COMPARED
            for cell in (f"{policy['mean'][figure]:.2f}", _published(name, figure))
        ]
        yield [name, *cells, _spread(policy)]


def _zone_rows(strategies: Raw) -> Iterator[list[str]]:
    for name, found in strategies.items():
        shares = (f"{found['mean'][figure]:.2f}" for figure in CHARTED)
        yield [name, *shares, f"{found['mean']['refusals']:,.0f}", _spread(found)]


def _spread(found: Raw) -> str:
    allocated = [run["allocated"] for run in found["runs"]]
    return f"{min(allocated):.2f} to {max(allocated):.2f}"


def _published(policy: str, figure: str) -> str:
    return f"{getattr(PUBLISHED[policy], figure)[-1]:.2f}" if policy in PUBLISHED else "-"


def page(found: Raw) -> str:
    """Return the page; it depends on these figures only."""
    return _TEMPLATE.read_text(encoding="utf-8").format(
        **found["trace"],
        seeds=len(found["seeds"]),
        first=found["seeds"][0],
        last=found["seeds"][-1],
        zone_seeds=", ".join(map(str, found["zone_seeds"])),
        asked=round(found["ratio"] * PER_CENT),
        policies="\n".join(markdown(_HEAD, _rows(found))),
        **{
            f"zones_{zones}": "\n".join(markdown(_ZONE_HEAD, _zone_rows(each)))
            for zones, each in _zoned(found)
        },
    )


def _zoned(found: Raw) -> Iterator[tuple[str, Raw]]:
    return iter(found["zoned"].items())


def charts(found: Raw) -> dict[str, str]:
    """Return the charts as SVG, by their file names without `simulate-` and `.svg`."""
    on_nodes = {f"nodes-{figure}": svg(_on_nodes(found, figure)) for figure in _COMPARED}
    on_zones = {
        f"{zones}-zones-{figure}": chart
        for zones, each in _zoned(found)
        for figure, chart in replay_charts(_curves(each), f"{zones} zones").items()
    }
    return {**on_nodes, **on_zones}


def _curves(strategies: Raw) -> Mapping[str, Sequence[Sample]]:
    return {
        name: [ZoneSample(**sample) for sample in strategies[name]["curve"]] for name in _DRAWN_WITH_ZONES
    }


def chart_file(name: str) -> str:
    """Return the file name of a chart."""
    return f"simulate-{name}.svg"


def _on_nodes(found: Raw, figure: str) -> Chart:
    lines = []
    for colour, name in enumerate(_DRAWN):
        curve = found["policies"][name]["curve"]
        ours = [(sample["arrived"], sample[figure]) for sample in curve]
        theirs = list(zip(ARRIVED, getattr(PUBLISHED[name], figure), strict=True))
        lines += [Line(name, ours, colour), Line(f"{name}, published", theirs, colour, dashed=True)]
    across = Axis("asked for, % of all GPUs", logarithmic=False, ticks=range(0, 131, 10))
    title = f"{CHARTED[figure]} by what was asked for, nodes without zones"
    return Chart(title, across, Axis("%", logarithmic=False), lines)
