"""The dashboard of the chart, deploy/chart/files/dashboard.json, from the panels of dashboard.yaml.

`python -m tools.generate dashboard` writes it; tests hold it against the schema of Grafana.
"""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import yaml

from tools.generate.manifests import CHART, Object

FILE = CHART / "files" / "dashboard.json"
COMMAND = "python -m tools.generate dashboard"

WIDTH = 24
"""Of the grid, and of panels in its units."""

# Of all programs in the namespaces that are chosen.
_OURS = 'namespace=~"$namespace"'


def text() -> str:
    """The file as it is to be."""
    read = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
    return json.dumps(read["dashboard"] | {"panels": [*_panels(read)]}, indent=2) + "\n"


def _panels(read: Object) -> Iterator[Object]:
    ids, top = count(1), 0
    for row in read["rows"]:
        place = {"x": 0, "y": top, "w": WIDTH, "h": 1}
        yield {
            "id": next(ids),
            "type": "row",
            "title": row["title"],
            "collapsed": False,
            "gridPos": place,
            "panels": [],
        }
        top += 1
        columns = row.get("columns", 3)
        width, height = WIDTH // columns, read["kinds"][row["panels"][0].get("kind", "timeseries")]["height"]
        for at, panel in enumerate(row["panels"]):
            line, column = divmod(at, columns)
            place = {"x": column * width, "y": top + line * height, "w": width, "h": height}
            yield _panel(read, panel, next(ids), place)
        top += -(-len(row["panels"]) // columns) * height


def _panel(read: Object, panel: Object, number: int, place: Object) -> Object:
    """What is shown, with its unit as Grafana names it; a `stat` is a number, others are lines over time."""
    name, source = panel.get("kind", "timeseries"), read["source"]
    kind = read["kinds"][name]
    targets = [
        {
            "refId": chr(ord("A") + at),
            "datasource": source,
            "expr": expression.replace("{}", f"{{{_OURS}}}").replace("{,", f"{{{_OURS},"),
            "legendFormat": legend[0] if legend else panel["title"],
            "range": True,
        }
        for at, (expression, *legend) in enumerate(panel["queries"])
    ]
    defaults = {"unit": panel.get("unit", "short"), **kind["defaults"], **_colours(panel)}
    return {
        "id": number,
        "type": name,
        "title": panel["title"],
        "description": panel["description"],
        "datasource": source,
        "gridPos": place,
        "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": kind["options"],
    }


def _colours(panel: Object) -> Object:
    """Red where somebody should look, by the thresholds of a panel; nothing where it has none."""
    if "warn_below" in panel:
        steps = [("red", None), ("green", panel["warn_below"])]
    elif "warn_above" in panel:
        steps = [("green", None), ("red", panel["warn_above"])]
    else:
        return {}
    listed = [{"color": colour, "value": value} for colour, value in steps]
    return {"thresholds": {"mode": "absolute", "steps": listed}, "color": {"mode": "thresholds"}}
