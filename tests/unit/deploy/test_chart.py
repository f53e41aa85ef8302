"""The chart as it is written: values that explain themselves, and name nothing that is not known."""

import json
import re
import tomllib
from collections import Counter
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
from numalign.cache.admission import Reaction, RequestReaction
from numalign.kube.decode import shapes, templates
from numalign.kube.files import policy
from numalign.model.intent import Gate, Heal, not_a_scheduler
from numalign.runtime import settings, sources
from numalign.runtime.process_settings import ProcessSettings
from numalign.scheduling import ranking
from scorer.settings import ReserveAt, ScorerSettings
from tools.generate.manifests import CHART, DEPLOY
from webhook.settings import WebhookSettings

VALUES: Mapping[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: Mapping[str, Any] = json.loads((CHART / "values.schema.json").read_text())
PROJECT: Mapping[str, Any] = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
ABOUT: Mapping[str, Any] = yaml.safe_load((CHART / "Chart.yaml").read_text())


def test_the_chart_is_of_the_version_of_the_program() -> None:
    assert (ABOUT["version"], ABOUT["appVersion"]) == (PROJECT["version"], PROJECT["version"])


# Of what is explained below them, and how often they stand there.
HEADINGS = Counter(
    {
        **dict.fromkeys(
            ("kubeletConfigs:", "webhooks:", "networkPolicy:", "serviceMonitor:", "prometheusRule:"), 1
        ),
        **dict.fromkeys(("dashboard:", "tracing:", "ingress:"), 1),
        "image:": 3,
        "tls:": 2,
        "service:": 3,
        "serviceAccount:": 5,
    }
)


def test_what_the_chart_says_of_itself_is_true_and_can_be_shown() -> None:
    assert ABOUT["annotations"]["artifacthub.io/license"] == PROJECT["license"]
    changes = yaml.safe_load(ABOUT["annotations"]["artifacthub.io/changes"])
    # https://artifacthub.io/docs/topics/annotations/helm/
    assert {change["kind"] for change in changes} <= {
        "added",
        "changed",
        "deprecated",
        "removed",
        "fixed",
        "security",
    }
    assert all(change["description"] for change in changes)


def test_pages_that_are_named_are_there() -> None:
    files = [CHART / "values.yaml", CHART / "templates" / "NOTES.txt"]
    named = {page for file in files for page in re.findall(r"docs/[\w/-]+\.md", file.read_text())}
    assert named
    assert {page for page in named if not (DEPLOY.parent / page).is_file()} == set()


def test_every_value_is_explained() -> None:
    lines = (CHART / "values.yaml").read_text().splitlines()
    unexplained = [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if re.match(r" *[A-Za-z]+:", line) and not before.lstrip().startswith("#")
    ]
    # A heading whose values are each explained, and what stands in a value.
    assert Counter(line.strip() for line in unexplained if line.endswith(":")) == HEADINGS
    parts = {line.strip().partition(":")[0] for line in unexplained if not line.endswith(":")}
    assert parts == {"requests", "limits", *VALUES["podSecurityContext"], *VALUES["securityContext"]}


def schemas(schema: Mapping[str, Any], where: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every object of the schema that names its members, with its place."""
    if "properties" in schema:
        yield where, schema
    for name, inner in schema.get("properties", {}).items():
        yield from schemas(inner, f"{where}.{name}".lstrip("."))


def test_every_value_has_a_schema_and_nothing_else_has() -> None:
    # Helm adds `global` to every chart's values.
    old = {name.partition(".")[0] for name in RENAMED}
    assert SCHEMA["properties"].keys() - old == VALUES.keys() - old
    for where, schema in schemas(SCHEMA):
        # What a parent chart shares with all of its charts is not ours alone.
        assert where == "global" or schema["additionalProperties"] is False, where


def defined(name: str) -> Any:  # noqa: ANN401 whatever stands there
    """A table in YAML of the templates."""
    text = (CHART / "templates" / "_checks.tpl").read_text()
    found = re.search(rf'define "numalign.{name}" -}}}}\n(.*?){{{{- end }}}}', text, re.DOTALL)
    assert found
    return yaml.safe_load(found[1])


RENAMED: Mapping[str, str] = defined("renamed")
MANAGED: Mapping[str, Mapping[str, str]] = defined("managed")


def at(tree: Any, path: str, *, below: str = "") -> Any:  # noqa: ANN401 whatever stands there
    """What stands at a path with dots, each step in turn below a key; None where nothing does."""
    for step in path.split("."):
        inner = tree.get(below, {}) if below else tree
        tree = inner.get(step)
        if tree is None:
            return None
    return tree


# Without an API server, without a certificate, or somewhere else: not in a cluster.
SENSELESS = {"snapshot", "snapshot_reload_seconds", "kubeconfig", "context", "namespace"}


@dataclass(frozen=True, slots=True)
class Told:
    """How the chart tells a program what to do: by `managed` flags, and by those that its `extraArgs` add."""

    program: str
    model: type[ProcessSettings]
    needed: str = "--insecure-http=true"

    @property
    def args(self) -> Mapping[str, Any]:
        """The schemas of all flags, by their names."""
        args: Mapping[str, Any] = SCHEMA["properties"][self.program]["properties"]["extraArgs"]["properties"]
        return args

    @property
    def settings(self) -> Mapping[str, Any]:
        """The schemas of the flags that can be added."""
        return {name: schema for name, schema in self.args.items() if name not in MANAGED[self.program]}

    @property
    def flags(self) -> set[str]:
        """What the program takes, in a cluster."""
        names = self.model.model_fields.keys() - SENSELESS
        return {sources.flag(name).removeprefix("--") for name in names}


PROGRAMS = {
    told.program: told
    for told in (
        Told("webhook", WebhookSettings, needed="--tls-secret=x"),
        Told("controller", ControllerSettings, needed="--tls-secret=x"),
        Told("scorer", ScorerSettings),
        Told("agent", AgentSettings, needed="--node-name=x"),
    )
}
of_each_program = pytest.mark.parametrize("told", PROGRAMS.values(), ids=PROGRAMS)


@of_each_program
def test_a_flag_of_a_program_is_one_that_the_chart_sets_or_one_of_extra_args(told: Told) -> None:
    """What is missing belongs into values.schema.json, or with a value of its own into _checks.tpl."""
    assert told.args.keys() == told.flags


@pytest.mark.parametrize("program", MANAGED)
def test_a_flag_that_the_chart_sets_is_let_through_to_be_refused_with_the_value_to_set(program: str) -> None:
    args = SCHEMA["properties"][program]["properties"]["extraArgs"]["properties"]
    let_through = {name for name, schema in args.items() if schema == {"$ref": "#/definitions/managed"}}
    assert let_through == MANAGED[program].keys()
    for value in filter(None, MANAGED[program].values()):
        assert at(VALUES, value) is not None, value


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_an_old_name_is_let_through_to_be_named_and_leads_to_a_value_that_there_is(
    old: str, new: str
) -> None:
    above = old.rpartition(".")[0]
    assert at(SCHEMA, old, below="properties") == {"$ref": "#/definitions/renamed"} or above in RENAMED
    program, added, flag = new.partition(".extraArgs.")
    if added:
        assert flag in PROGRAMS[program].settings
    elif new:
        assert at(SCHEMA, new.partition(".podSecurityContext.")[0], below="properties") is not None


@pytest.mark.parametrize(
    ("told", "name"), [(told, name) for told in PROGRAMS.values() for name in told.settings]
)
def test_the_choices_of_a_flag_are_those_of_the_program(told: Told, name: str) -> None:
    for choice in told.settings[name].get("enum", []):
        settings.load(told.model, argv=[told.needed, f"--{name}={choice}"], environ={})


def test_the_choices_of_what_all_programs_follow_are_those_of_each() -> None:
    for value, flag in (("policyMatch", "policy-match"), ("unknownNodes", "unknown-nodes")):
        for choice in filter(None, SCHEMA["properties"][value]["enum"]):
            for program in ("webhook", "controller", "scorer"):
                told = PROGRAMS[program]
                settings.load(told.model, argv=[told.needed, f"--{flag}={choice}"], environ={})


@of_each_program
def test_the_flags_that_can_be_added_are_named_where_they_stand(told: Told) -> None:
    text = (CHART / "values.yaml").read_text()
    block = re.split(rf"^{told.program}:$", text, flags=re.MULTILINE)[1]
    [about] = re.findall(
        r"((?:^ *#.*\n)+)^  extraArgs:", re.split(r"^\S*[a-z]+:$", block, flags=re.MULTILINE)[0], re.MULTILINE
    )
    named = about.split("One of ")[1]
    assert {*re.findall(r"[a-z-]{2,}", named)} == told.settings.keys()


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
    assert tuple(DEFAULT) == ("namespaceSelector", *policy.RULES, policy.EXCLUSIVE_CPUS)
    assert tuple(POLICY["shapes"]["items"]["properties"]) == shapes.FIELDS
    for key in ("never", "unknownResources"):
        name = POLICY[key]["$ref"].rpartition("/")[2]
        assert SCHEMA["definitions"][name]["enum"] == list(Reaction)
    assert [POLICY[key]["enum"] for key in ("taints", "partial", "overQuota")] == [list(RequestReaction)] * 3


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
