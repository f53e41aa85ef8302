"""Writes the dashboard of the chart, deploy/chart/files/dashboard.json, from the table of its panels.

`python -m tools.generate.dashboard` does. The JSON is that of Grafana's schema, which tests hold it against.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.generate.manifests import CHART, Object

FILE = CHART / "files" / "dashboard.json"
COMMAND = "python -m tools.generate.dashboard"

WIDTH, HEIGHT, STAT_HEIGHT = 24, 8, 4
"""Of the grid, and of panels in its units."""

# Of all programs in the namespaces that are chosen.
_OURS = 'namespace=~"$namespace"'
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


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


def rate(metric: str, by: str = "") -> str:
    """How often a second a counter was counted, summed up by some labels."""
    name, _, matchers = metric.partition("{")
    selector = f"{{,{matchers}" if matchers else "{}"
    return f"sum by ({by}) (rate({name}{selector}[$__rate_interval]))"


def quantile(share: float, metric: str, by: str = "") -> str:
    """Below what so large a share of a histogram lies."""
    labels = f"{by}, le" if by else "le"
    return f"histogram_quantile({share}, sum by ({labels}) (rate({metric}_bucket{{}}[$__rate_interval])))"


def latency(metric: str, by: str = "") -> list[Query]:
    """The middle and the slowest hundredth."""
    legend = f"{{{{{by}}}}} " if by else ""
    return [Query(quantile(share, metric, by), f"{legend}p{share * 100:.0f}") for share in (0.5, 0.99)]


def replicas(metric: str, program: str) -> str:
    """How many replicas of a program say 1."""
    build = f'numalign_build_info{{,program="{program}"}}'
    return f"sum({metric}{{}} and on (job, instance) {build}) or vector(0)"


OVERVIEW = Row(
    "Overview",
    [
        Panel(
            "Webhook replicas ready",
            "With none, namespaces that enforce take no pods.",
            [Query(replicas("numalign_ready", "numalign-webhook"))],
            kind="stat",
            warn_below=1,
        ),
        Panel(
            "Controllers that lead",
            "One writes classes and certificates, lifts gates and heals.",
            [Query(replicas("numalign_leader", "numalign-controller"))],
            kind="stat",
            warn_below=1,
        ),
        Panel(
            "Scorers ready",
            "One leads and is ready; 0 where none is installed.",
            [Query(replicas("numalign_ready", "numalign-scorer"))],
            kind="stat",
        ),
        Panel(
            "Certificate ends in",
            "The earliest of those that are served.",
            [Query("min(numalign_tls_certificate_expiry_timestamp_seconds{}) - time()")],
            unit="s",
            kind="stat",
            warn_below=7 * 86400,
        ),
        Panel(
            "Refused pods in an hour",
            "Reviews that were denied, or that could not be read.",
            [Query('sum(increase(numalign_reviews_total{,decision=~"denied|invalid"}[1h])) or vector(0)')],
            kind="stat",
        ),
        Panel(
            "Nodes without topology",
            "Nodes of which neither an agent nor another exporter tells the zones.",
            [Query('max(numalign_topology_nodes{,source="none"})')],
            kind="stat",
            warn_above=1,
        ),
    ],
    columns=6,
)

ADMISSION = Row(
    "Admission",
    [
        Panel(
            "Reviews by decision",
            "Answers a second, by webhook and decision.",
            [Query(rate("numalign_reviews_total", "webhook, decision"), "{{webhook}} {{decision}}")],
            unit="reqps",
        ),
        Panel(
            "Review latency",
            "From the first byte of a review to its answer. API servers wait 2 seconds for a mutation and 3"
            " for a validation.",
            latency("numalign_review_seconds", "webhook"),
            unit="s",
        ),
        Panel(
            "Decisions by what they rest on",
            "`never`: no node shape could take the pod. docs/reference/admission.md explains all states.",
            [Query(rate("numalign_decisions_total", "state"), "{{state}}")],
            unit="reqps",
        ),
        Panel(
            "Pods below a level of their namespace",
            "Pods that have not ended and fall short of what their namespace asks for.",
            [
                Query(
                    "max by (exported_namespace, level) (numalign_pods_below{})",
                    "{{exported_namespace}} {{level}}",
                )
            ],
        ),
        Panel(
            "Pods handed over",
            "Pods into which was written which scheduler places them, or that a gate holds them.",
            [Query(rate("numalign_pods_handed_over_total", "by"), "{{by}}")],
            unit="reqps",
        ),
        Panel(
            "Calls by status",
            "All answers to calls; 503 is too much at once, 500 a fault of numalign.",
            [Query(rate('numalign_http_requests_total{route!="/readyz"}', "job, code"), "{{job}} {{code}}")],
            unit="reqps",
        ),
    ],
)

SCHEDULING = Row(
    "Scheduling",
    [
        Panel(
            "Calls of schedulers",
            "By verb and whether they could be answered.",
            [Query(rate("numalign_scheduler_calls_total", "verb, result"), "{{verb}} {{result}}")],
            unit="reqps",
        ),
        Panel(
            "Latency by verb",
            "From the whole call in hand to its answer.",
            latency("numalign_scheduler_call_seconds", "verb"),
            unit="s",
        ),
        Panel(
            "What nodes answer to filter",
            "Nodes a second that were asked about.",
            [Query(rate("numalign_filtered_nodes_total", "answer"), "{{answer}}")],
        ),
        Panel(
            "Binds by outcome",
            "Pods that were bound or pinned, and why others were not.",
            [Query(rate("numalign_binds_total", "outcome"), "{{outcome}}")],
            unit="reqps",
        ),
        Panel(
            "Bind latency",
            "With the time that a pod waits for others on its node.",
            latency("numalign_bind_seconds"),
            unit="s",
        ),
        Panel(
            "Reserved zones, and the basis of free amounts",
            "Pods that have zones reserved and are not seen bound yet, and nodes by the basis of their free"
            " amounts.",
            [
                Query("max(numalign_reservations{})", "reservations"),
                Query("max by (basis) (numalign_ledger_nodes{})", "nodes {{basis}}"),
            ],
        ),
    ],
)

AGENTS = Row(
    "Agents and predictions",
    [
        Panel(
            "Nodes by who tells their topology",
            "agent is numalign's own beside the kubelet, exporter another one.",
            [Query("max by (source) (numalign_topology_nodes{})", "{{source}}")],
        ),
        Panel(
            "Agents that are silent",
            "Nodes whose agent has not written for ten minutes.",
            [Query("max(numalign_topology_stale_nodes{})", "stale")],
        ),
        Panel(
            "Last look of agents at their nodes",
            "Seconds since the five that are furthest behind saw everything.",
            [Query("topk(5, max by (instance) (numalign_agent_look_age_seconds{}))", "{{instance}}")],
            unit="s",
        ),
        Panel(
            "Predictions",
            "Pods by what became of what was predicted; differed and refused are mistakes of numalign.",
            [Query("sum by (result) (increase(numalign_predictions_total{}[1h]))", "{{result}}")],
        ),
        Panel(
            "Pods that kubelets refused",
            "In an hour, by reason: those that numalign had placed, and all.",
            [
                Query(
                    "sum by (reason, known) (increase(numalign_kubelet_refusals_total{}[1h]))",
                    "{{known}} {{reason}}",
                ),
                Query("sum by (reason) (increase(numalign_refused_pods_total{}[1h]))", "all {{reason}}"),
            ],
        ),
        Panel(
            "Records in doubt",
            "Pods whose records or observations cannot be so, and are not believed.",
            [
                Query("max(numalign_doubtful_records{})", "doubtful"),
                Query("max(numalign_disbelieved_records{})", "disbelieved"),
            ],
        ),
    ],
)

HEALING = Row(
    "Gates and healing",
    [
        Panel(
            "Pods behind the gate",
            "They wait until the controller has chosen their node.",
            [Query("max(numalign_gated_pods{})", "waiting")],
        ),
        Panel(
            "Gates lifted",
            "pinned to one node, kept to those that fitted, or let go unpinned.",
            [Query(rate("numalign_gates_lifted_total", "how"), "{{how}}")],
            unit="reqps",
        ),
        Panel(
            "Time behind the gate",
            "From the creation of a pod until its gate was lifted.",
            latency("numalign_gate_seconds"),
            unit="s",
        ),
        Panel(
            "Misaligned pods",
            "Running pods that were observed not to sit as they ask for.",
            [Query("max by (exported_namespace) (numalign_misaligned_pods{})", "{{exported_namespace}}")],
        ),
        Panel(
            "Pods moved",
            "Misaligned pods in an hour, by what became of moving them.",
            [Query("sum by (outcome) (increase(numalign_healing_moves_total{}[1h]))", "{{outcome}}")],
        ),
        Panel(
            "Refused pods removed",
            "In an hour, by how the attempt ended.",
            [Query("sum by (result) (increase(numalign_refused_pod_removals_total{}[1h]))", "{{result}}")],
        ),
    ],
)

RUNTIME = Row(
    "Runtime",
    [
        Panel(
            "Age of what is known",
            "Since the API server last confirmed it.",
            [Query("max by (job, instance) (numalign_snapshot_age_seconds{})", "{{instance}}")],
            unit="s",
        ),
        Panel(
            "Event loop lag",
            "How late calls are heard, at the slowest hundredth.",
            [Query(quantile(0.99, "numalign_event_loop_lag_seconds", "instance"), "{{instance}}")],
            unit="s",
        ),
        Panel(
            "Memory",
            "Resident memory of webhook, scorer and controller.",
            [
                Query(
                    "process_resident_memory_bytes{} and on (job, instance) numalign_ready{}", "{{instance}}"
                )
            ],
            unit="bytes",
        ),
        Panel(
            "Processor time",
            "Cores in use by webhook, scorer and controller.",
            [
                Query(
                    "rate(process_cpu_seconds_total{}[$__rate_interval])"
                    " and on (job, instance) numalign_ready{}",
                    "{{instance}}",
                )
            ],
        ),
        Panel(
            "Caches",
            "What is remembered, by program and cache.",
            [Query("max by (job, cache) (numalign_cache_bytes{})", "{{job}} {{cache}}")],
            unit="bytes",
        ),
        Panel(
            "Watches that fail",
            "Lists and watches of the API server, by kind and reason.",
            [Query(rate("numalign_watch_failures_total", "kind, reason"), "{{kind}} {{reason}}")],
        ),
        Panel(
            "Calls turned away",
            "Because too much was in flight.",
            [Query(rate("numalign_http_shed_total", "job, reason"), "{{job}} {{reason}}")],
            unit="reqps",
        ),
        Panel(
            "Connections",
            "To the port for calls.",
            [Query("max by (job, instance) (numalign_http_connections{})", "{{instance}}")],
        ),
        Panel(
            "Policy that is stale",
            "1 while the policy file is wrong and the one before is in force.",
            [Query("max by (job) (numalign_policy_stale{})", "{{job}}")],
        ),
    ],
)

ROWS = (OVERVIEW, ADMISSION, SCHEDULING, AGENTS, HEALING, RUNTIME)


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
        "templating": {"list": [_datasource(), _namespace()]},
        "annotations": {"list": []},
        "links": [],
        "panels": [*_panels()],
    }


def _datasource() -> Object:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "hide": 0,
        "refresh": 1,
    }


def _namespace() -> Object:
    return {
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


if __name__ == "__main__":
    FILE.write_text(text())
