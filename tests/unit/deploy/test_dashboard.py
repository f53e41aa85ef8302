"""The dashboard, as Grafana's own schema reads it, and what its queries ask of the programs."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from grafana_foundation_sdk.cog import encoder, plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.unit.deploy.scraped import Page, metrics, missing
from tools.generate.dashboard import COMMAND, FILE, WIDTH, text
from tools.generate.manifests import HelmError, Object, made, run

# To build promtool takes minutes, once.
pytestmark = [pytest.mark.packaging, pytest.mark.timeout(1200)]

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
