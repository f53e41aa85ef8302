"""The chart as it is written: values that explain themselves, and name nothing that is not known."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from numalign.cluster import pods, policy
from numalign.runtime import settings, sources
from tests.deploy.render import CHART, DEPLOY
from webhook.settings import WebhookSettings

VALUES: Mapping[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: Mapping[str, Any] = json.loads((CHART / "values.schema.json").read_text())
ABOUT: Mapping[str, Any] = yaml.safe_load((CHART / "Chart.yaml").read_text())


def test_the_chart_is_of_the_version_of_the_program() -> None:
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    assert (ABOUT["version"], ABOUT["appVersion"]) == (project["version"], project["version"])


def test_every_value_is_explained() -> None:
    lines = (CHART / "values.yaml").read_text().splitlines()
    unexplained = [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if re.match(r" *[A-Za-z]+:", line) and not before.lstrip().startswith("#")
    ]
    # A heading whose values are each explained, and what stands in a value.
    assert unexplained == [
        "image:",
        "kubeletConfigs:",
        "webhooks:",
        "service:",
        "serviceAccount:",
        "  requests: {cpu: 100m, memory: 256Mi}",
        "  limits: {memory: 512Mi}",
        "networkPolicy:",
        "serviceMonitor:",
    ]


def schemas(schema: Mapping[str, Any], where: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every object of the schema that names its members, with its place."""
    if "properties" in schema:
        yield where, schema
    for name, inner in schema.get("properties", {}).items():
        yield from schemas(inner, f"{where}.{name}".lstrip("."))


def test_every_value_has_a_schema_and_nothing_else_has() -> None:
    # Helm adds `global` to every chart's values.
    assert SCHEMA["properties"].keys() == VALUES.keys() | {"global"}
    for where, schema in schemas(SCHEMA):
        assert schema["additionalProperties"] is False, where


def test_a_setting_of_the_program_is_a_value_of_its_own_or_one_of_the_settings() -> None:
    """What is missing belongs into values.schema.json: among `settings`, or with a value of its own here."""
    own = {
        *("port", "drain_seconds", "tls_secret", "tls_cert", "tls_key", "service", "webhook_configuration"),
        *("label_nodes", "count_pods", "kubelet_configs", "workloads", "policy"),
    }
    # Without an API server, without a certificate, or somewhere else: not in a cluster.
    senseless = {
        *("snapshot", "snapshot_reload_seconds", "kubeconfig", "context"),
        *("dry_run", "namespace", "insecure_http"),
    }
    flags = {
        sources.flag(name).removeprefix("--")
        for name in WebhookSettings.model_fields.keys() - own - senseless
    }
    assert SCHEMA["properties"]["settings"]["properties"].keys() == flags


@pytest.mark.parametrize("name", SCHEMA["properties"]["settings"]["properties"])
def test_the_choices_of_a_setting_are_those_of_the_program(name: str) -> None:
    choices = SCHEMA["properties"]["settings"]["properties"][name].get("enum", [])
    known = ["--tls-secret=x", f"--{name}"]
    for choice in choices:
        settings.load(WebhookSettings, argv=[*known[:1], f"--{name}={choice}"], environ={})


def test_the_settings_that_can_be_given_are_named_where_they_stand() -> None:
    [about] = re.findall(r"((?:^#.*\n)+)^settings:", (CHART / "values.yaml").read_text(), re.MULTILINE)
    for name in SCHEMA["properties"]["settings"]["properties"]:
        assert name in re.findall(r"[a-z-]+", about)


# ---- what the schema lets through, the program reads


def admits(schema: Mapping[str, Any], text: str) -> bool:
    """Whether a schema of patterns lets a text through, as far as the chart's own schemas go."""
    if "$ref" in schema:
        return admits(SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]], text)
    within = len(text) <= schema.get("maxLength", len(text))
    like = re.search(schema.get("pattern", ""), text) is not None
    refused = "not" in schema and admits(schema["not"], text)
    return within and like and not refused and all(admits(each, text) for each in schema.get("allOf", ()))


POLICY: Mapping[str, Any] = SCHEMA["properties"]["policy"]["properties"]
PATH: Mapping[str, Any] = POLICY["workloads"]["items"]["properties"]["templates"]["items"]
USER: Mapping[str, Any] = POLICY["exemptions"]["properties"]["users"]["items"]
STEPS = st.sampled_from(["spec", "a_b-1", "*", "[*]", "", "x[*]", "*[*]", "a*", "é", "a" * 64])
PATHS = st.lists(STEPS, min_size=1, max_size=20).map(".".join)


@given(PATHS | st.text("as.*[]-", max_size=12))
def test_a_path_that_the_schema_lets_through_is_one_that_the_program_reads(text: str) -> None:
    if admits(PATH, text):
        assert str(pods.TemplatePath.read(text)) == text


KNOWN = sorted({str(path) for paths in pods.TEMPLATES.values() for path in paths if path.steps})


@pytest.mark.parametrize("text", KNOWN)
def test_a_path_of_a_kind_that_there_is_is_let_through(text: str) -> None:
    assert admits(PATH, text)


@given(st.text("ab:*", max_size=6))
def test_a_user_is_let_through_exactly_if_the_program_reads_it(text: str) -> None:
    written = yaml.safe_dump({"exemptions": {"users": [text]}}).encode()
    try:
        policy.parse(written)
    except policy.BadPolicy:
        assert not admits(USER, text)
    else:
        assert admits(USER, text)


def test_kinds_of_other_projects_are_ones_whose_templates_are_known() -> None:
    rules = yaml.safe_load(foreign_rules())
    assert rules.keys() == VALUES["workloadKinds"].keys()
    known = {(group, f"{kind.lower()}s") for group, kind in pods.TEMPLATES}
    shipped = {(rule["groups"][0], resource) for rule in rules.values() for resource in rule["resources"]}
    assert shipped <= known
    assert {group for group, _ in known} - {"", "apps", "batch"} == {group for group, _ in shipped}


def foreign_rules() -> str:
    text = (CHART / "templates" / "_helpers.tpl").read_text()
    found = re.search(r'define "numalign.foreign" -}}\n(.*?){{- end }}', text, re.DOTALL)
    assert found
    return found[1]
