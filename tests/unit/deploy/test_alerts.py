"""Alerts and the dashboard, as promtool and Grafana read them, and what they ask of the programs."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog import encoder, plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.unit.deploy.scraped import Page, metrics, missing
from tools.generate.dashboard import COMMAND, FILE, WIDTH, text
from tools.generate.manifests import CHART, DEPLOY, HelmError, Object, made, run

# To build promtool takes minutes, once.
pytestmark = [pytest.mark.packaging, pytest.mark.timeout(1200)]

ALL = "prometheusRule.enabled=true scorer.enabled=true agent.enabled=true gates.enabled=true"
TABLE: list[dict[str, Any]] = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
RUNBOOKS = (DEPLOY.parent / "docs" / "runbooks.md").read_text()


Values = dict[str, str]
"""Values of series as promtool reads them, one a minute: `0+1x30` grows from 0 by 1, `_` is a gap."""

DAY = 86400
OF_WEBHOOK = {"job": "numalign-webhook"}
OF_SCORER = {"job": "numalign-scorer", "instance": "numalign-scorer-1"}


def series(text: str) -> str:
    """Return the series of a metric of ours, a replica such as `scorer` or `scorer-2`, and further labels."""
    metric, replica, *labels = text.split()
    program, _, number = replica.partition("-")
    own = (f'job="numalign-{program}"', f'instance="numalign-{program}-{number or 1}"')
    return f"numalign_{metric}{{{','.join((*own, *labels))}}}"


def build(*replicas: str) -> Values:
    return {f'build_info {each} program="numalign-{each.partition("-")[0]}"': "1x30" for each in replicas}


def buckets(metric: str, slow: int, fast: int) -> Values:
    """Buckets that grow by so many a minute: of what took 0.6 s, and of what took 0.001 s."""
    totals = {"0.001": fast, "0.5": fast, "1": fast + slow, "+Inf": fast + slow}
    return {f'{metric} le="{edge}"': f"0+{total}x30" for edge, total in totals.items()}


def answers(good: int, bad: int, route: str = "/validate") -> Values:
    counts = {"200": good, "503": bad}
    return {
        f'http_requests_total webhook route="{route}" code="{code}"': f"0+{count}x30"
        for code, count in counts.items()
    }


EXPIRY, LAG = "tls_certificate_expiry_timestamp_seconds webhook", "event_loop_lag_seconds_bucket scorer"
REVIEWS = 'review_seconds_bucket webhook webhook="validate"'
FAILURES = 'watch_failures_total webhook kind="Pod" reason="{}"'.format
DECISIONS, NODES = 'decisions_total webhook state="{}"'.format, 'topology_nodes scorer source="{}"'.format
REJECTED = 'refused_pods_total controller reason="TopologyAffinityError"'
REFUSED = 'kubelet_refusals_total scorer reason="TopologyAffinityError" known="reserved"'
PREDICTIONS = 'predictions_total scorer result="{}"'.format
LIFTED = 'gates_lifted_total controller how="pinned"'
DOUBTFUL, DISBELIEVED = "doubtful_records scorer", "disbelieved_records scorer"
TOPOLOGY = {"reason": "TopologyAffinityError"}
CASES: dict[str, tuple[Values, Values, Mapping[str, str], str]] = {
    # what it fires for after 30 minutes, what is much like that, its labels, and the value in its text
    # A scorer that is ready is no webhook.
    "NumalignWebhookNotReady": (
        build("webhook", "scorer") | {"ready webhook": "1x5 0x25", "ready scorer": "1x30"},
        build("webhook", "webhook-2") | {"ready webhook": "0x30", "ready webhook-2": "1x30"}, {}, ""),
    # It changes: for three minutes none leads.
    "NumalignControllerWithoutLeader": (
        build("controller", "scorer") | {"leader controller": "0x30", "leader scorer": "1x30"},
        build("controller") | {"leader controller": "1x20 0x3 1x20"}, {}, ""),
    "NumalignScorerNotReady": (build("webhook") | {"ready webhook": "1x30"},
        build("scorer") | {"ready scorer": "1x30"}, {}, ""),
    # Times are counted from 1970, as promtool's are.
    "NumalignCertificateEndsSoon": (
        {EXPIRY: f"{5 * DAY + 1800}x30"}, {EXPIRY: f"{8 * DAY}x30"}, OF_WEBHOOK, "5.0"),
    "NumalignSnapshotOld": ({"snapshot_age_seconds scorer": "0+60x30"},
        {"snapshot_age_seconds scorer": "150x30"}, OF_SCORER, "30m 0s"),
    # History that is compacted is no failure.
    "NumalignWatchFailing": ({FAILURES("forbidden"): "0+2x30"},
        {FAILURES("expired"): "0+9x30", FAILURES("silent"): "0x20 5x10"},
        OF_WEBHOOK | {"kind": "Pod", "reason": "forbidden"}, "30"),
    "NumalignPolicyStale": (
        {"policy_stale webhook": "1x30"}, {"policy_stale webhook": "1x20 0x10"}, OF_WEBHOOK, ""),
    "NumalignReviewsSlow": (
        buckets(REVIEWS, 50, 50), buckets(REVIEWS, 0, 100), {"webhook": "validate"}, "990ms"),
    "NumalignEventLoopLate": (buckets(LAG, 50, 50), buckets(LAG, 0, 100), OF_SCORER, "990ms"),
    # A replica that waits to lead says no to every probe.
    "NumalignCallsFailing": (answers(95, 5), answers(1000, 5) | answers(0, 6, "/readyz"),
        OF_WEBHOOK | {"route": "/validate"}, "5.0"),
    "NumalignPodsNeverFit": ({DECISIONS("never"): "0+3x30"},
        {DECISIONS("never"): "0x10 5x20", DECISIONS("fits"): "0+100x30"}, {}, "3.0"),
    "NumalignAgentsMissing": ({NODES("none"): "2x30"},
        {NODES("none"): "0x10 1x10 0x10", NODES("exporter"): "3x30"}, {}, "2"),
    "NumalignAgentsStale": ({"topology_stale_nodes scorer": "0x10 3x20"},
        {"topology_stale_nodes scorer": "0x30"}, {}, "3"),
    # A few, and many long ago.
    "NumalignPodsRejected": ({REJECTED: "0x20 4x10"}, {REJECTED: "0 9x20 11x10"}, TOPOLOGY, "4"),
    # Long ago.
    "NumalignKubeletRefusedPod": (
        {REFUSED: "0x20 1x10"}, {REFUSED: "0 1x40"}, TOPOLOGY | {"known": "reserved"}, "1"),
    "NumalignPredictionsWrong": (
        {PREDICTIONS("agreed"): "0+90x30", PREDICTIONS("differed"): "0+10x30"},
        {PREDICTIONS("agreed"): "0+1000x30", PREDICTIONS("differed"): "0x20 1x10"}, {}, "10.0"),
    "NumalignLedgerInDoubt": ({DOUBTFUL: "1x30", DISBELIEVED: "2x30"},
        {DOUBTFUL: "0x10 1x10 0x10", DISBELIEVED: "0x30"}, {}, "3"),
    # Many wait, and they are let go one after the other.
    "NumalignGatesStuck": ({"gated_pods controller": "4x30", LIFTED: "7x30"},
        {"gated_pods controller": "4x30", LIFTED: "0+1x30"}, {}, "4"),
}  # fmt: skip


async def rules(helm: Path, values: str = ALL, *arguments: str) -> dict[str, Object]:
    """The alerts of the chart by name."""
    rule = (await made(helm, values, *arguments))["PrometheusRule", "numalign"]
    [group] = rule["spec"]["groups"]
    return {each["alert"]: each for each in group["rules"]}


async def test_promtool_accepts_the_rules(helm: Path, promtool: Path, tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"groups": [{"name": "a", "rules": [*(await rules(helm)).values()]}]}))
    output = await run(promtool, "check", "rules", "--lint=all", "--lint-fatal", file)
    assert f"SUCCESS: {len(TABLE)} rules found" in output


@pytest.mark.parametrize("name", CASES)
async def test_alert_fires_only_in_its_case(helm: Path, promtool: Path, tmp_path: Path, name: str) -> None:
    firing, silent, labels, value = CASES[name]
    rule = (await rules(helm))[name]
    (tmp_path / "rules.json").write_text(json.dumps({"groups": [{"name": "a", "rules": [rule]}]}))
    place = re.compile(r"\{\{ \$(?:labels\.(\w+)|value[^}]*) \}\}")
    texts = {
        key: place.sub(lambda found: labels[found[1]] if found[1] else value, text)
        for key, text in rule["annotations"].items()
    }
    alert = {"exp_labels": {**rule["labels"], **labels}, "exp_annotations": texts}
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": series(each), "values": values} for each, values in scraped.items()],
            "alert_rule_test": [{"eval_time": "30m", "alertname": name, "exp_alerts": alerts}],
        }
        for scraped, alerts in ((firing, [alert]), (silent, []))
    ]
    file = tmp_path / "tests.json"
    file.write_text(json.dumps({"rule_files": ["rules.json"], "evaluation_interval": "1m", "tests": tests}))
    assert "SUCCESS" in await run(promtool, "test", "rules", file)


def test_every_alert_has_a_case() -> None:
    assert [*CASES] == [each["alert"] for each in TABLE]


async def test_expressions_use_existing_metrics(helm: Path, page: Page) -> None:
    lacking = {name: missing(rule["expr"], page) for name, rule in (await rules(helm)).items()}
    assert lacking == {name: [] for name in lacking}


async def test_disabled_parts_have_no_alerts(helm: Path) -> None:
    needs = {each["alert"]: each["needs"] for each in TABLE if "needs" in each}
    assert (await rules(helm, "prometheusRule.enabled=true")).keys() == CASES.keys() - needs.keys()
    assert {*needs.values()} == {"scorer", "agent", "gates"}
    assert ("PrometheusRule", "numalign") not in await made(helm)


async def test_values_change_an_alert_by_name(helm: Path) -> None:
    own = "prometheusRule.alerts"
    found = await rules(
        helm,
        f"{ALL} {own}.NumalignSnapshotOld.threshold=1000000 {own}.NumalignSnapshotOld.for=1h "
        f"{own}.NumalignSnapshotOld.severity=page {own}.NumalignAgentsStale.threshold=0 "
        f"{own}.NumalignPodsNeverFit.enabled=false {own}.NumalignPolicyStale.enabled=true",
        # What --set gives is no fraction.
        f"--set-json={own}.NumalignReviewsSlow.threshold=0.05",
    )
    old = found["NumalignSnapshotOld"]
    assert (old["expr"], old["for"]) == ("numalign_snapshot_age_seconds > 1000000", "1h")
    assert old["labels"] == {"severity": "page"}
    assert found["NumalignAgentsStale"]["expr"].endswith("> 0")
    assert found["NumalignReviewsSlow"]["expr"].endswith("> 0.05")
    assert CASES.keys() - found.keys() == {"NumalignPodsNeverFit"}


async def test_values_set_labels_and_runbooks_url(helm: Path) -> None:
    values = "labels.release=a alertLabels.team=b runbooks=https://example.org/runbooks"
    found = await made(helm, " ".join((ALL, *(f"prometheusRule.{each}" for each in values.split()))))
    rule = found["PrometheusRule", "numalign"]
    [alert] = [each for each in rule["spec"]["groups"][0]["rules"] if each["alert"] == "NumalignPolicyStale"]
    assert rule["metadata"]["labels"]["release"] == "a"
    assert alert["labels"] == {"severity": "warning", "team": "b"}
    assert alert["annotations"]["runbook_url"] == "https://example.org/runbooks#numalignpolicystale"


INVALID = [
    *("alerts.Nonsense.enabled=false", "alerts.NumalignPolicyStale.threshold=1", "runbooks="),
    *("alerts.NumalignSnapshotOld.threshold=many", "alerts.NumalignSnapshotOld.threshold=-1"),
    *("alerts.NumalignSnapshotOld.for=soon", "alerts.NumalignSnapshotOld.severity="),
    *("alertLabels.severity=page", "alertLabels.a-b=c"),
]


@pytest.mark.parametrize("value", INVALID)
async def test_invalid_alert_values_are_refused(helm: Path, value: str) -> None:
    with pytest.raises(HelmError, match="/prometheusRule/"):
        await made(helm, f"{ALL} prometheusRule.{value}")


# ---- the runbooks


def test_every_alert_has_a_runbook() -> None:
    sections = (part.partition("\n") for part in RUNBOOKS.split("\n## ")[1:])
    found = {head: body for head, _, body in sections if head.startswith("Numalign")}
    assert [*found] == [*CASES]
    for name, body in found.items():
        paragraphs = re.findall(r"^\*\*(\w+)\.\*\*", body, re.MULTILINE)
        assert paragraphs == ["Meaning", "Diagnosis", "Mitigation"], name


def test_table_of_runbooks_matches_the_chart() -> None:
    lines = (line for line in RUNBOOKS.splitlines() if line.startswith("| ["))
    assert [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines] == [
        [
            f"[{alert['alert']}](#{alert['alert'].lower()})",
            *(alert["severity"], alert["for"]),
            f"{alert['threshold']} {alert['unit']}" if "threshold" in alert else "",
            f"{alert['needs']}.enabled" if "needs" in alert else "",
        ]
        for alert in TABLE
    ]


def test_runbooks_name_existing_events_and_metrics() -> None:
    documented = "".join(
        (DEPLOY.parent / "docs" / "reference" / name).read_text() for name in ("logs.md", "metrics.md")
    )
    named = {*re.findall(r"`(numalign_\w+|[a-z_]+\.[a-z_]+)`", RUNBOOKS)}
    values = {"scorer.enabled", "agent.enabled", "gates.enabled", "policy.exemptions"}
    assert {name for name in named if f"`{name}`" not in documented} == values


SHOWN: Object = json.loads(FILE.read_text())
PANELS: list[Object] = [panel for panel in SHOWN["panels"] if panel["type"] != "row"]
QUERIES = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]


def test_dashboard_is_generated_from_its_panels() -> None:
    assert FILE.read_text() == text(), f"run {COMMAND}"


def lost(written: object, understood: object, where: str = "") -> Iterator[str]:
    """The places of what was written and not understood."""
    match written, understood:
        case dict(), dict():
            for name, value in written.items():
                if name in understood:
                    yield from lost(value, understood[name], f"{where}.{name}")
                else:
                    yield f"{where}.{name}"
        case list(), list() if len(written) == len(understood):
            for at, (one, other) in enumerate(zip(written, understood, strict=True)):
                yield from lost(one, other, f"{where}[{at}]")
        case _ if written != understood:
            yield where


def test_grafana_reads_all_of_the_dashboard() -> None:
    plugins.register_default_plugins()
    understood = json.loads(json.dumps(Dashboard.from_json(SHOWN), cls=encoder.JSONEncoder))
    assert [*lost(SHOWN, understood)] == []


def test_panels_have_unique_ids_and_do_not_overlap() -> None:
    places = [panel["gridPos"] for panel in SHOWN["panels"]]
    cells = Counter(
        (column, line)
        for place in places
        for column in range(place["x"], place["x"] + place["w"])
        for line in range(place["y"], place["y"] + place["h"])
    )
    assert max(Counter(panel["id"] for panel in SHOWN["panels"]).values()) == max(cells.values()) == 1
    assert max(column for column, _ in cells) < WIDTH


def test_every_panel_has_a_description() -> None:
    for panel in PANELS:
        assert panel["description"].endswith("."), panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"
        refs = [target["refId"] for target in panel["targets"]]
        assert [*dict.fromkeys(refs)] == refs


def test_queries_select_the_chosen_namespaces() -> None:
    variables = {each["name"]: each["type"] for each in SHOWN["templating"]["list"]}
    assert variables == {"datasource": "datasource", "namespace": "query"}
    for _, query in QUERIES:
        assert query.count('namespace=~"$namespace"') == len(metrics(query)), query


async def test_promtool_accepts_every_query(promtool: Path, tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    plain = [query.replace("$__rate_interval", "5m") for _, query in QUERIES]
    rules = [{"record": f"query:{at}", "expr": query} for at, query in enumerate(plain)]
    file.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    assert f"SUCCESS: {len(QUERIES)} rules found" in await run(promtool, "check", "rules", file)


def test_queries_use_existing_metrics(page: Page) -> None:
    lacking = {query: [*missing(query, page)] for _, query in QUERIES}
    assert {query: names for query, names in lacking.items() if names} == {}


async def test_chart_installs_the_dashboard_if_enabled(helm: Path) -> None:
    assert ("ConfigMap", "numalign-dashboard") not in await made(helm)
    values = "dashboard.enabled=true dashboard.annotations.grafana_folder=numa"
    found = (await made(helm, values))["ConfigMap", "numalign-dashboard"]
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert found["metadata"]["annotations"] == {"grafana_folder": "numa"}
    assert json.loads(found["data"]["numalign.json"]) == SHOWN
    with pytest.raises(HelmError, match="/dashboard/labels"):
        await made(helm, rf"{values} dashboard.labels.helm\.sh/chart=a")
