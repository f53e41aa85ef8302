"""Alerts, as Prometheus' own promtool judges them, and what they ask of the programs."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.deploy.alert_cases import CASES, AlertCase, Values
from tests.unit.deploy.scraped import Page, missing
from tools.generate.manifests import CHART, DEPLOY, HelmError, Object, made, run

# To build promtool takes minutes, once.
pytestmark = [pytest.mark.packaging, pytest.mark.timeout(1200)]

ALL = "prometheusRule.enabled=true scorer.enabled=true agent.enabled=true gates.enabled=true"
TABLE: list[dict[str, Any]] = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
RUNBOOKS = (DEPLOY.parent / "docs" / "runbooks.md").read_text()
TEXTS = ("summary", "description")


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


@pytest.mark.parametrize("name", [each["alert"] for each in TABLE])
async def test_alert_fires_only_in_its_case(helm: Path, promtool: Path, tmp_path: Path, name: str) -> None:
    case, rule = CASES[name], (await rules(helm))[name]
    (tmp_path / "rules.json").write_text(json.dumps({"groups": [{"name": "a", "rules": [rule]}]}))
    file = tmp_path / "tests.json"
    alert = {"exp_labels": {**rule["labels"], **case.labels}, "exp_annotations": annotations(rule, case)}
    tests = [unit_test(name, case, case.firing, [alert]), unit_test(name, case, case.silent, [])]
    file.write_text(json.dumps({"rule_files": ["rules.json"], "evaluation_interval": "1m", "tests": tests}))
    assert "SUCCESS" in await run(promtool, "test", "rules", file)


def unit_test(name: str, case: AlertCase, series: Values, alerts: list[Object]) -> Object:
    """A unit test of promtool: what is given of an alert when these series were scraped."""
    return {
        "interval": "1m",
        "input_series": [{"series": each, "values": values} for each, values in series.items()],
        "alert_rule_test": [{"eval_time": f"{case.at}m", "alertname": name, "exp_alerts": alerts}],
    }


def annotations(rule: Object, case: AlertCase) -> dict[str, str]:
    """The annotations as they come out: with the labels and the value of the case in them."""

    def word(place: re.Match[str]) -> str:
        return case.labels[place[1]] if place[1] else case.value

    pattern = re.compile(r"\{\{ \$(?:labels\.(\w+)|value[^}]*) \}\}")
    return {key: pattern.sub(word, text) for key, text in rule["annotations"].items()}


def test_every_alert_is_unit_test_and_nothing_else_is() -> None:
    assert [*CASES] == [each["alert"] for each in TABLE]


async def test_expressions_use_existing_metrics(helm: Path, page: Page) -> None:
    lacking = {name: missing(rule["expr"], page) for name, rule in (await rules(helm)).items()}
    assert lacking == {name: [] for name in lacking}


async def test_no_alerts_by_default(helm: Path) -> None:
    assert ("PrometheusRule", "numalign") not in await made(helm)


async def test_disabled_parts_have_no_alerts(helm: Path) -> None:
    few = await rules(helm, "prometheusRule.enabled=true")
    needed = {each["alert"] for each in TABLE if "needs" in each}
    assert few.keys() == {*CASES} - needed
    assert {each["needs"] for each in TABLE if "needs" in each} == {"scorer", "agent", "gates"}


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
    assert {*CASES} - found.keys() == {"NumalignPodsNeverFit"}


async def test_values_set_labels_and_runbooks_url(helm: Path) -> None:
    values = "prometheusRule.labels.release=a prometheusRule.alertLabels.team=b"
    installation = await made(helm, f"{ALL} {values} prometheusRule.runbooks=https://example.org/runbooks")
    rule = installation["PrometheusRule", "numalign"]
    assert rule["metadata"]["labels"]["release"] == "a"
    alert = (await rules(helm, f"{ALL} {values} prometheusRule.runbooks=https://example.org/runbooks"))[
        "NumalignPolicyStale"
    ]
    assert alert["labels"] == {"severity": "warning", "team": "b"}
    assert alert["annotations"]["runbook_url"] == "https://example.org/runbooks#numalignpolicystale"


@pytest.mark.parametrize(
    "value",
    [
        "alerts.Nonsense.enabled=false",
        "alerts.NumalignPolicyStale.threshold=1",
        "alerts.NumalignSnapshotOld.threshold=many",
        "alerts.NumalignSnapshotOld.threshold=-1",
        "alerts.NumalignSnapshotOld.for=soon",
        "alerts.NumalignSnapshotOld.severity=",
        "alertLabels.severity=page",
        "alertLabels.a-b=c",
        "runbooks=",
    ],
)
async def test_invalid_alert_values_are_refused(helm: Path, value: str) -> None:
    with pytest.raises(HelmError, match="/prometheusRule/"):
        await made(helm, f"{ALL} prometheusRule.{value}")


# ---- the runbooks


def sections() -> dict[str, str]:
    """The sections of docs/runbooks.md by heading."""
    return {
        head: body
        for head, _, body in (part.partition("\n") for part in RUNBOOKS.split("\n## ")[1:])
        if head.startswith("Numalign")
    }


def test_every_alert_has_a_runbook() -> None:
    assert [*sections()] == [each["alert"] for each in TABLE]


def test_runbook_has_meaning_diagnosis_and_mitigation() -> None:
    for name, body in sections().items():
        assert [*bold(body)] == ["Meaning", "Diagnosis", "Mitigation"], name


def bold(text: str) -> Iterator[str]:
    """What begins paragraphs."""
    return (found[1] for found in re.finditer(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE))


def test_table_of_runbooks_matches_the_chart() -> None:
    rows = [
        [cell.strip(" `") for cell in line.strip("|").split("|")]
        for line in RUNBOOKS.splitlines()
        if line.startswith("| [")
    ]
    assert rows == [[*cells(each)] for each in TABLE]


def cells(alert: Mapping[str, Any]) -> Iterator[str]:
    """A row: the alert, its severity, for how long, its threshold and what it needs."""
    name = alert["alert"]
    yield f"[{name}](#{name.lower()})"
    yield alert["severity"]
    yield alert["for"]
    yield f"{alert['threshold']} {alert['unit']}" if "threshold" in alert else ""
    yield f"{alert['needs']}.enabled" if "needs" in alert else ""


def test_runbooks_name_existing_events_and_metrics() -> None:
    documented = "".join(
        (DEPLOY.parent / "docs" / "reference" / name).read_text() for name in ("logs.md", "metrics.md")
    )
    named = {*re.findall(r"`(numalign_\w+|[a-z_]+\.[a-z_]+)`", RUNBOOKS)}
    values = {"scorer.enabled", "agent.enabled", "gates.enabled", "policy.exemptions"}
    assert {name for name in named if f"`{name}`" not in documented} == values
