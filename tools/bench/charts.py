"""Charts of a run: time against nodes, zones, names and the rate of requests."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from numalign.curves import Axis, Chart, Line, svg
from tools.bench.sections import Raw, cell_of
from tools.bench.targets import HANDLER_MS, NAMED


def by_nodes(document: Raw) -> Chart | None:
    """Return time against nodes: the named cases, cold, and plain Go; None if it was not measured."""
    columns = document["parts"].get("columns")
    if not columns:
        return None
    sizes = sorted({cell["nodes"] for cell in columns["cells"]})
    ours, floor = [], []
    for colour, named in enumerate(NAMED):
        cells = [cell for size in sizes if (cell := cell_of(columns, named, size))]
        ours.append(Line(named.title, [_point(cell, "nodes", cell) for cell in cells], colour))
        in_go = [_point(cell, "nodes", cell["floor"]) for cell in cells if cell["floor"]]
        floor.append(Line("the same in Go", in_go, colour, dashed=True))
    return Chart("Cold verdicts by nodes", Axis("nodes"), Axis("ms"), [*ours, *floor])


def by_zones(document: Raw) -> Chart | None:
    """Return time against zones, by policy; None if it was not measured."""
    columns = document["parts"].get("columns")
    if not columns:
        return None
    here = [
        cell for cell in columns["cells"] if cell["nodes"] == columns["judged_at"] and cell["needed"] == 1
    ]
    policies = dict.fromkeys(cell["policy"] for cell in here)
    lines = [
        Line(policy, [_point(cell, "zones", cell) for cell in here if cell["policy"] == policy], colour)
        for colour, policy in enumerate(policies)
    ]
    restricted = [cell for cell in here if cell["policy"] == "restricted"]
    scored = [_point(cell, "zones", cell, "scores_ms") for cell in restricted if cell["scores_ms"]]
    in_go = [_point(cell, "zones", cell["floor"]) for cell in restricted if cell["floor"]]
    lines += [
        Line("restricted, with scores", scored, len(lines)),
        Line("restricted in Go", in_go, 2, dashed=True),
    ]
    title = f"Cold verdicts on {columns['judged_at']:,} nodes by zones"
    return Chart(title, Axis("zones"), Axis("ms"), lines)


def by_names(document: Raw) -> Chart | None:
    """Return round trips of the extender against the names sent, on the first fleet; None if not measured."""
    found = document["parts"].get("extender")
    if not found:
        return None
    fleet = next(iter(found["fleets"].values()))
    trips = {int(names): verbs for names, verbs in fleet["round_trips_ms"].items()}
    verbs = dict.fromkeys(verb for costs in trips.values() for verb in costs)
    lines = [
        Line(
            f"{verb}, {phase}",
            [(names, trips[names][verb][phase]["p50"]) for names in sorted(trips)],
            colour,
            dashed,
        )
        for colour, verb in enumerate(verbs)
        for phase, dashed in (("again", False), ("first", True))
    ]
    return Chart(f"Extender: {found['nodes']:,} nodes, by names", Axis("names"), Axis("ms"), lines)


def by_rate(document: Raw) -> Chart | None:
    """Return round trips of reviews against reviews per second; None if they were not measured."""
    found = document["parts"].get("webhook")
    if not found:
        return None
    lines = [
        Line(
            f"round trip, {key}",
            [(run["asked_per_s"], run["round_trip_ms"][key]) for run in found["runs"]],
            colour,
        )
        for colour, key in enumerate(HANDLER_MS)
    ]
    across = Axis("reviews per second", logarithmic=False)
    return Chart(f"Webhook: {found['nodes']:,} nodes, by rate", across, Axis("ms"), lines)


def _point(cell: Raw, across: str, times: Raw, key: str = "verdicts_ms") -> tuple[float, float]:
    return cell[across], times[key]["median"]


CHARTS: Mapping[str, Callable[[Raw], Chart | None]] = MappingProxyType(
    {"nodes": by_nodes, "zones": by_zones, "names": by_names, "rate": by_rate}
)
"""Charts by what the time is drawn against."""


def charts(document: Raw) -> dict[str, str]:
    """Return the charts of a run as SVG, by what the time is drawn against."""
    drawn = {name: chart(document) for name, chart in CHARTS.items()}
    return {name: svg(chart) for name, chart in drawn.items() if chart}


def chart_file(name: str) -> str:
    """Return the file name of a chart."""
    return f"speed-{name}.svg"
