"""The chart as it is written: values that explain themselves, and name nothing that is not known."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agent.publish import Publish
from agent.settings import AgentSettings
from controller.settings import ControllerSettings
from numalign.cache.admission import Reaction, TaintReaction
from numalign.kube.decode import shapes, templates
from numalign.kube.files import policy
from numalign.model.intent import Gate, Heal, not_a_scheduler
from numalign.runtime import settings, sources
from numalign.runtime.process_settings import ProcessSettings
from numalign.scheduling import ranking
from scorer.settings import ReserveAt, ScorerSettings
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
        *("  tls:", "  service:", "  ingress:"),
        "    requests: {cpu: 50m, memory: 192Mi}",
        "    limits: {memory: 512Mi}",
        "    requests: {cpu: 250m, memory: 256Mi}",
        "    limits: {memory: 768Mi}",
        "  tls:",
        "  service:",
        "    requests: {cpu: 250m, memory: 512Mi}",
        "    limits: {memory: 1Gi}",
        "  image:",
        "    requests: {cpu: 10m, memory: 48Mi}",
        "    limits: {memory: 128Mi}",
        "  image:",
        "    requests: {cpu: 100m, memory: 256Mi}",
        "    limits: {memory: 1Gi}",
        "webhooks:",
        "service:",
        "serviceAccount:",
        "  requests: {cpu: 100m, memory: 256Mi}",
        "  limits: {memory: 512Mi}",
        "networkPolicy:",
        "serviceMonitor:",
        "prometheusRule:",
        "dashboard:",
        "tracing:",
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


# Without an API server, without a certificate, or somewhere else: not in a cluster.
SENSELESS = {"snapshot", "snapshot_reload_seconds", "kubeconfig", "context", "namespace"}
PAIR = {"tls_cert", "tls_key"}


@dataclass(frozen=True, slots=True)
class Told:
    """How the chart tells a program what to do: `settings` is their schema, `own` are told otherwise.

    `others` stand among the settings, and are for another program.
    """

    model: type[ProcessSettings]
    settings: Mapping[str, Any]
    own: frozenset[str]
    heading: str
    needed: str = "--insecure-http=true"
    others: frozenset[str] = frozenset()

    @property
    def flags(self) -> set[str]:
        """What can be set by the name of a flag."""
        names = self.model.model_fields.keys() - self.own - SENSELESS
        return {sources.flag(name).removeprefix("--") for name in names}


PROGRAMS = {
    "webhook": Told(
        WebhookSettings,
        SCHEMA["properties"]["settings"]["properties"],
        frozenset(
            {
                *("port", "metrics_port", "drain_seconds", "tls_secret", *PAIR, "service", "client_ca"),
                *("otlp_endpoint", "trace_ratio"),
                *("count_pods", "kubelet_configs", "remember_shapes", "workloads", "policy", "gates"),
                # Never, in a cluster.
                "insecure_http",
            }
        ),
        heading="settings:",
        needed="--tls-secret=x",
        others=frozenset({"tls-days"}),
    ),
    "controller": Told(
        ControllerSettings,
        SCHEMA["properties"]["controller"]["properties"]["settings"]["properties"],
        frozenset(
            {
                *("metrics_port", "drain_seconds", "tls_secret", "service", "webhook_configuration"),
                *("otlp_endpoint", "trace_ratio"),
                *("label_nodes", "kubelet_configs", "remember_shapes", "policy"),
                *("gates", "gate_patience_seconds", "pin_patience_seconds", "heal", "keep_refused"),
                *("heal_per_minute", "heal_owner_seconds", "heal_node_seconds"),
                *("policy_reports", "owner_events"),
                *(
                    "map",
                    "map_port",
                    "map_bind",
                    "map_tls_cert",
                    "map_tls_key",
                    "map_plain_http",
                    "map_audience",
                ),
                # From `settings`, so that all programs judge alike.
                *("policy_match", "policy_reload_seconds", "unknown_nodes"),
                # From `settings`, so that the webhook serves what is made.
                *("tls_names", "tls_days"),
                # Never, in a cluster.
                "dry_run",
            }
        ),
        heading="  settings:",
        needed="--tls-secret=x",
    ),
    "scorer": Told(
        ScorerSettings,
        SCHEMA["properties"]["scorer"]["properties"]["settings"]["properties"],
        frozenset(
            {
                *("port", "metrics_port", "drain_seconds", *PAIR, "client_ca", "insecure_http"),
                *("otlp_endpoint", "trace_ratio"),
                *("reserve_at", "kubelet_configs", "remember_shapes", "policy", "ranking"),
                # From `settings`, so that both programs judge alike.
                *("policy_match", "unknown_nodes"),
            }
        ),
        heading="  settings:",
    ),
    "agent": Told(
        AgentSettings,
        SCHEMA["properties"]["agent"]["properties"]["settings"]["properties"],
        frozenset(
            {
                *("metrics_port", "node_name", "node_address", "kubelet_port", "podresources_socket"),
                *("kubelet_state", "kubelet_config", "publish", "annotate_pods"),
                # As they are: the container's own, and a kubelet that signs its certificate itself.
                *("sysfs", "kubelet_ca"),
                # Never, in a cluster.
                *("once", "output"),
            }
        ),
        heading="  settings:",
        needed="--node-name=x",
    ),
}
of_each_program = pytest.mark.parametrize("told", PROGRAMS.values(), ids=PROGRAMS)


@of_each_program
def test_a_setting_of_a_program_is_a_value_of_its_own_or_one_of_the_settings(told: Told) -> None:
    """What is missing belongs into values.schema.json: among `settings`, or with a value of its own here."""
    assert told.own <= told.model.model_fields.keys()
    assert told.settings.keys() - told.others == told.flags


@pytest.mark.parametrize(
    ("told", "name"), [(told, name) for told in PROGRAMS.values() for name in told.settings]
)
def test_the_choices_of_a_setting_are_those_of_the_program(told: Told, name: str) -> None:
    for choice in told.settings[name].get("enum", []):
        settings.load(told.model, argv=[told.needed, f"--{name}={choice}"], environ={})


def test_what_both_programs_follow_is_a_setting_of_both() -> None:
    both = {"policy-match", "unknown-nodes"}
    assert both <= PROGRAMS["webhook"].flags
    assert {flag.replace("-", "_") for flag in both} <= ScorerSettings.model_fields.keys()


@of_each_program
def test_the_settings_that_can_be_given_are_named_where_they_stand(told: Told) -> None:
    text = (CHART / "values.yaml").read_text()
    told_of = re.findall(rf"((?:^ *#.*\n)+)^{told.heading}", text, re.MULTILINE)
    assert any(told.settings.keys() <= set(re.findall(r"[a-z-]+", about)) for about in told_of)


def test_what_becomes_of_the_zones_of_others_can_be_chosen_as_for_the_agent() -> None:
    assert SCHEMA["properties"]["agent"]["properties"]["publish"]["enum"] == list(Publish)


def test_the_moments_of_reserving_that_can_be_chosen_are_those_of_the_scorer() -> None:
    assert SCHEMA["properties"]["scorer"]["properties"]["reserveAt"]["enum"] == list(ReserveAt)


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
DEFAULT: Mapping[str, Any] = POLICY["defaults"]["items"]["properties"]
PATH: Mapping[str, Any] = POLICY["workloads"]["items"]["properties"]["templates"]["items"]
USER: Mapping[str, Any] = POLICY["exemptions"]["properties"]["users"]["items"]
STEPS = st.sampled_from(["spec", "a_b-1", "*", "[*]", "", "x[*]", "*[*]", "a*", "é", "a" * 64])
PATHS = st.lists(STEPS, min_size=1, max_size=20).map(".".join)


@given(PATHS | st.text("as.*[]-", max_size=12))
def test_a_path_that_the_schema_lets_through_is_one_that_the_program_reads(text: str) -> None:
    if admits(PATH, text):
        assert str(templates.TemplatePath.read(text)) == text


def test_the_strategies_that_are_let_through_are_those_of_the_scorer() -> None:
    names = SCHEMA["definitions"]["strategy"]["enum"]
    assert names == list(ranking.MEASURES)
    strategies = PROGRAMS["scorer"].settings["strategies"]
    assert admits(strategies, ",".join(names))
    assert not admits(strategies, "Fastest")


@given(st.lists(st.sampled_from(["cpu=1", "nvidia.com/gpu=3", "=", "a=b", "", "a = 1"]), max_size=3))
def test_weights_that_the_scorer_reads_are_let_through(words: list[str]) -> None:
    text = ",".join(words)
    try:
        ranking.parse_weights(text)
    except ValueError:
        return
    assert admits(PROGRAMS["scorer"].settings["weights"], text)


KNOWN = sorted({str(path) for paths in templates.TEMPLATES.values() for path in paths if path.steps})


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


@given(st.text("ab1.-A", max_size=65))
def test_a_scheduler_is_let_through_exactly_if_the_program_reads_its_name(text: str) -> None:
    assert admits(DEFAULT["scheduler"], text) == (not_a_scheduler(text) is None)


@pytest.mark.parametrize(("key", "words"), [("gate", Gate), ("heal", Heal)])
def test_what_a_default_can_say_of_gates_and_healing_are_the_words_of_the_program(
    key: str, words: type[StrEnum]
) -> None:
    assert DEFAULT[key]["enum"] == list(words)


def test_the_keys_of_the_policy_are_those_of_the_program() -> None:
    assert POLICY.keys() == policy.NO_POLICY.to_json().keys()
    assert tuple(DEFAULT) == ("namespaceSelector", *policy.RULES)
    assert tuple(POLICY["shapes"]["items"]["properties"]) == shapes.FIELDS
    for key in ("never", "unknownResources"):
        name = POLICY[key]["$ref"].rpartition("/")[2]
        assert SCHEMA["definitions"][name]["enum"] == list(Reaction)
    assert POLICY["taints"]["enum"] == list(TaintReaction)


def test_kinds_of_other_projects_are_ones_whose_templates_are_known() -> None:
    rules = yaml.safe_load(foreign_rules())
    assert rules.keys() == VALUES["workloadKinds"].keys()
    known = {(group, f"{kind.lower()}s") for group, kind in templates.TEMPLATES}
    shipped = {(rule["groups"][0], resource) for rule in rules.values() for resource in rule["resources"]}
    assert shipped <= known
    assert {group for group, _ in known} - {"", "apps", "batch"} == {group for group, _ in shipped}


def foreign_rules() -> str:
    text = (CHART / "templates" / "_helpers.tpl").read_text()
    found = re.search(r'define "numalign.foreign" -}}\n(.*?){{- end }}', text, re.DOTALL)
    assert found
    return found[1]
