"""What replays came to, as tables for a terminal, and as the page docs/simulate.md with its charts."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.figures import markdown, table
from bench.published import ARRIVED, PUBLISHED
from numalign.curves import Axis, Chart, Line, svg

Raw = dict[str, Any]

PER_CENT = 100

FIGURES: Mapping[str, str] = {"allocated": "GPUs allocated", "fragments": "Fragments"}

_HEAD = ("policy", "allocated, %", "published", "fragments, %", "published", "least and most allocated")

_TEMPLATE = Path(__file__).with_name("replay_page.md")

_DRAWN = ("Random", "BestFit", "FGD")
"""The policies of a chart; six would not be told apart."""


def text(found: Raw) -> str:
    """The tables, for a terminal."""
    return table(_HEAD, _rows(found))


def _rows(found: Raw) -> Iterator[list[str]]:
    for name, policy in found["policies"].items():
        allocated = [run["allocated"] for run in policy["runs"]]
        cells = [
            cell for figure in FIGURES for cell in (f"{policy['mean'][figure]:.2f}", _published(name, figure))
        ]
        yield [name, *cells, f"{min(allocated):.2f} to {max(allocated):.2f}"]


def _published(policy: str, figure: str) -> str:
    return f"{getattr(PUBLISHED[policy], figure)[-1]:.2f}" if policy in PUBLISHED else "-"


def page(found: Raw) -> str:
    """The page, made of these figures and of nothing else."""
    return _TEMPLATE.read_text(encoding="utf-8").format(
        **found["trace"],
        seeds=len(found["seeds"]),
        first=found["seeds"][0],
        last=found["seeds"][-1],
        asked=round(found["ratio"] * PER_CENT),
        policies="\n".join(markdown(_HEAD, _rows(found))),
        **{f"{figure}_chart": chart_file(figure) for figure in FIGURES},
    )


def charts(found: Raw) -> dict[str, str]:
    """The charts as SVG, by the figures that they show."""
    return {figure: svg(_on_nodes(found, figure)) for figure in FIGURES}


def chart_file(name: str) -> str:
    """The name of a chart's file."""
    return f"simulate-nodes-{name}.svg"


def _on_nodes(found: Raw, figure: str) -> Chart:
    lines = []
    for colour, name in enumerate(_DRAWN):
        curve = found["policies"][name]["curve"]
        ours = [(sample["arrived"], sample[figure]) for sample in curve]
        theirs = list(zip(ARRIVED, getattr(PUBLISHED[name], figure), strict=True))
        lines += [Line(name, ours, colour), Line(f"{name}, published", theirs, colour, dashed=True)]
    across = Axis("asked for, % of all GPUs", logarithmic=False, ticks=range(0, 131, 10))
    title = f"{FIGURES[figure]} by what was asked for, nodes without zones"
    return Chart(title, across, Axis("%", logarithmic=False), lines)
