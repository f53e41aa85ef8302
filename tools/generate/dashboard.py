"""Writes the dashboard of the chart, deploy/chart/files/dashboard.json, from the panels of dashboard.yaml.

`python -m tools.generate dashboard` does. The JSON is that of Grafana's schema, which tests hold it against.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tools.generate.manifests import CHART, Object

FILE = CHART / "files" / "dashboard.json"
COMMAND = "python -m tools.generate dashboard"

WIDTH, HEIGHT, STAT_HEIGHT = 24, 8, 4
"""Of the grid, and of panels in its units."""

# Of all programs in the namespaces that are chosen.
_OURS = 'namespace=~"$namespace"'
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_DATASOURCE = {
    "name": "datasource",
    "label": "Data source",
    "type": "datasource",
    "query": "prometheus",
    "current": {},
    "hide": 0,
    "refresh": 1,
}
_NAMESPACE = {
    "name": "namespace",
    "label": "Namespace",
    "type": "query",
    "datasource": _SOURCE,
    "query": {"query": "label_values(numalign_build_info, namespace)", "refId": "namespace"},
    "multi": True,
    "includeAll": True,
    "allValue": ".*",
    "current": {"text": ["All"], "value": ["$__all"]},
    "hide": 0,
    "refresh": 2,
    "sort": 1,
}


@dataclass(frozen=True)
class Query:
    """An expression, in which `{}` stands for the chosen namespaces, and what its series are called."""

    expression: str
    legend: str = ""

    @property
    def text(self) -> str:
        """The expression as it is sent."""
        return self.expression.replace("{}", f"{{{_OURS}}}").replace("{,", f"{{{_OURS},")


@dataclass(frozen=True)
class Panel:
    """What is shown, with its unit as Grafana names it; a `stat` is a number, others are lines over time."""

    title: str
    description: str
    queries: Sequence[Query]
    unit: str = "short"
    kind: str = "timeseries"
    warn_above: float | None = None
    warn_below: float | None = None


@dataclass(frozen=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: Sequence[Panel]
    columns: int = 3


def _row(read: Object) -> Row:
    panels = [
        Panel(**{**panel, "queries": [Query(*query) for query in panel["queries"]]})
        for panel in read["panels"]
    ]
    return Row(**{**read, "panels": panels})


ROWS = tuple(map(_row, yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())))


def dashboard() -> Object:
    """The dashboard, as Grafana stores it."""
    return {
        "title": "numalign",
        "uid": "numalign",
        "description": "Admission, scheduling, agents, healing and the programs of numalign.",
        "tags": ["kubernetes", "numa", "numalign"],
        "timezone": "browser",
        "editable": True,
        "graphTooltip": 1,
        "refresh": "1m",
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_DATASOURCE, _NAMESPACE]},
        "annotations": {"list": []},
        "links": [],
        "panels": [*_panels()],
    }


def _panels() -> Iterator[Object]:
    number, top = 1, 0
    for row in ROWS:
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "gridPos": {"x": 0, "y": top, "w": WIDTH, "h": 1},
            "panels": [],
        }
        number, top = number + 1, top + 1
        width = WIDTH // row.columns
        height = STAT_HEIGHT if row.panels[0].kind == "stat" else HEIGHT
        for at, panel in enumerate(row.panels):
            line, column = divmod(at, row.columns)
            place = {"x": column * width, "y": top + line * height, "w": width, "h": height}
            yield _panel(panel, number, place)
            number += 1
        top += -(-len(row.panels) // row.columns) * height


def _panel(panel: Panel, number: int, place: Object) -> Object:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "gridPos": place,
        "targets": [*_targets(panel)],
        "fieldConfig": {
            "defaults": {"unit": panel.unit, **_SHOWN[panel.kind], **_colours(panel)},
            "overrides": [],
        },
        "options": _OPTIONS[panel.kind],
    }


def _targets(panel: Panel) -> Iterator[Object]:
    for at, query in enumerate(panel.queries):
        yield {
            "refId": chr(ord("A") + at),
            "datasource": _SOURCE,
            "expr": query.text,
            "legendFormat": query.legend or panel.title,
            "range": True,
        }


def _colours(panel: Panel) -> Object:
    """Red where somebody should look, by the thresholds of a panel; nothing where it has none."""
    if panel.warn_below is not None:
        steps = [("red", None), ("green", panel.warn_below)]
    elif panel.warn_above is not None:
        steps = [("green", None), ("red", panel.warn_above)]
    else:
        return {}
    listed = [{"color": colour, "value": value} for colour, value in steps]
    return {"thresholds": {"mode": "absolute", "steps": listed}, "color": {"mode": "thresholds"}}


_SHOWN: dict[str, Object] = {
    "stat": {},
    "timeseries": {
        "min": 0,
        "custom": {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never"},
    },
}
_OPTIONS: dict[str, Object] = {
    "stat": {
        "colorMode": "value",
        "graphMode": "area",
        "justifyMode": "auto",
        "orientation": "auto",
        "textMode": "value",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    },
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
}


def text() -> str:
    """The file as it is to be."""
    return json.dumps(dashboard(), indent=2) + "\n"
