"""The replays under the options of KEP-6007, as tables and as the page docs/measurements/kep-6007.md."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from numalign.curves import Axis, Chart, Line, svg
from numalign.simulation.zone_cluster import ZoneSample
from tools.bench.figures import markdown, table
from tools.bench.replay_page import Raw

_TEMPLATE = Path(__file__).with_name("kep_6007_page.md")

_HEAD = (
    "scheduler",
    "kubelets",
    "in one zone, %",
    "turned away, %",
    "by seed",
    "rejections per 100",
    "free CPUs",
    "free GPUs",
    "stranded, %",
    "allocated, %",
)

CHARTED: Mapping[str, str] = MappingProxyType(
    {"turned-away": "Pods turned away so far, %", "free-gpus": "Largest free block of GPUs"}
)
"""The charts of each replay, with their titles."""


def text(found: Raw) -> str:
    """Return the tables, for a terminal."""
    parts = (
        f"\n{day}, {zones} zones\n{table(_HEAD, _rows(found, day, zones))}" for day, zones in _parts(found)
    )
    return "\n".join(parts)


def page(found: Raw) -> str:
    """Return the page; it depends on these figures only."""
    days = found["days"]
    return _TEMPLATE.read_text(encoding="utf-8").format(
        **found["trace"],
        one_of=found["one_of"],
        seeds=", ".join(map(str, found["seeds"])),
        filled=round(days["filling"]["ratio"] * 100),
        turned=round(days["turnover"]["ratio"] * 100),
        load=round(days["turnover"]["load"] * 100),
        cases="\n".join(_cases(found)),
        **{
            f"{day}_{zones}": "\n".join(markdown(_HEAD, _rows(found, day, zones)))
            for day, zones in _parts(found)
        },
    )


def _parts(found: Raw) -> list[tuple[str, int]]:
    return list(dict.fromkeys((each["day"], each["zones"]) for each in found["replays"]))


def _cases(found: Raw) -> Iterator[str]:
    for case in found["cases"]:
        rows = ([name, *map(_zone, zones)] for name, zones in case["zones"].items())
        yield from (f"**{case['title']}.**", "", *markdown(("kubelet", *case["pods"]), rows), "")


def _zone(zone: int | None) -> str:
    return "rejected" if zone is None else f"zone {zone}"


def _rows(found: Raw, day: str, zones: int) -> Iterator[list[str]]:
    for each in found["replays"]:
        if (each["day"], each["zones"]) == (day, zones):
            runs = each["runs"]
            mean = {name: sum(run[name] for run in runs) / len(runs) for name in runs[0]}
            yield [
                each["scheduler"],
                each["kubelet"],
                f"{mean['aligned']:.2f}",
                f"{mean['turned_away']:.2f}",
                ", ".join(f"{run['turned_away']:.2f}" for run in runs),
                f"{mean['refusals']:.1f}",
                f"{mean['free_cpus']:.1f}",
                f"{mean['free_gpus']:.2f}",
                f"{mean['stranded']:.2f}",
                f"{mean['allocated']:.2f}",
            ]


def charts(found: Raw) -> dict[str, str]:
    """Return the charts as SVG, by their file names."""
    return {
        f"kep-6007-{day}-{zones}-zones-{figure}.svg": svg(_chart(found, day, zones, figure))
        for day, zones in _parts(found)
        for figure in CHARTED
    }


def _chart(found: Raw, day: str, zones: int, figure: str) -> Chart:
    """Return a chart with a colour for each kind of kubelets, dashed without the scorer."""
    some = [each for each in found["replays"] if (each["day"], each["zones"]) == (day, zones)]
    colours = {name: at for at, name in enumerate(dict.fromkeys(each["kubelet"] for each in some))}
    lines = [
        Line(
            f"{each['kubelet']}, {each['scheduler']}",
            [(sample.arrived, _value(sample, figure)) for sample in _curve(each)],
            colours[each["kubelet"]],
            dashed=each["scheduler"] == "stock",
        )
        for each in some
    ]
    most = round(max(x for line in lines for x, _ in line.points))
    ticks = range(0, most + 1, 10 if most < 200 else 50)  # noqa: PLR2004  as many as fit below the axis
    across = Axis("asked for, % of all GPUs", logarithmic=False, ticks=ticks)
    title = f"{CHARTED[figure]}: {day}, {zones} zones"
    return Chart(title, across, Axis("", logarithmic=False), lines)


def _curve(each: Raw) -> list[ZoneSample]:
    return [ZoneSample(**sample) for sample in each["curve"]]


def _value(sample: ZoneSample, figure: str) -> float:
    return sample.free_gpus if figure == "free-gpus" else 100 * sample.turned_away / sample.pods
