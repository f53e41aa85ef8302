"""The values of the chart: each is explained, has a schema, and admits what the programs read."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agent.options import Publish
from agent.settings import AgentSettings
from controller.settings import ControllerSettings
from numalign.cache.admission import Reaction, RequestReaction
from numalign.kube.decode import shapes, templates
from numalign.kube.files import policy
from numalign.model.intent import Gate, Heal, not_a_scheduler
from numalign.runtime import settings, sources
from numalign.runtime.settings import ProcessSettings
from numalign.scheduling import ranking
from scorer.settings import ReserveAt, ScorerSettings
from tools.generate.manifests import CHART, DEPLOY
from webhook.settings import WebhookSettings

VALUES: Mapping[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: Mapping[str, Any] = json.loads((CHART / "values.schema.json").read_text())


# Of what is explained below them, and how often they occur.
HEADINGS = Counter({"image:": 3, "tls:": 2, "service:": 3, "serviceAccount:": 5}) + Counter(
    f"{name}:"
    for name in (
        *("kubeletConfigs", "webhooks", "networkPolicy", "serviceMonitor", "prometheusRule"),
        *("dashboard", "tracing", "ingress"),
    )
)


def test_linked_pages_exist() -> None:
    files = [CHART / "values.yaml", CHART / "templates" / "NOTES.txt"]
    pages = {page for file in files for page in re.findall(r"docs/[\w/-]+\.md", file.read_text())}
    assert pages
    assert [page for page in pages if not (DEPLOY.parent / page).is_file()] == []


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


def test_every_value_has_a_closed_schema() -> None:
    # Helm adds `global` to every chart's values.
    old = {name.partition(".")[0] for name in RENAMED}
    assert SCHEMA["properties"].keys() - old == VALUES.keys() - old
    for where, schema in schemas(SCHEMA):
        # What a parent chart shares with all of its charts is not ours alone.
        assert where == "global" or schema["additionalProperties"] is False, where


def defined(name: str) -> Any:  # noqa: ANN401  a value of YAML
    """Return a table in YAML of the templates."""
    text = (CHART / "templates" / "_checks.tpl").read_text()
    found = re.search(rf'define "numalign.{name}" -}}}}\n(.*?){{{{- end }}}}', text, re.DOTALL)
    assert found
    return yaml.safe_load(found[1])


RENAMED: Mapping[str, str] = defined("renamed")
MANAGED: Mapping[str, Mapping[str, str]] = defined("managed")


def at(tree: Any, path: str, *, below: str = "") -> Any:  # noqa: ANN401  a value of YAML
    """Return the value at a path with dots, each step in turn below a key, or None."""
    for step in path.split("."):
        inner = tree.get(below, {}) if below else tree
        tree = inner.get(step)
        if tree is None:
            return None
    return tree


# Without an API server, without a certificate, or somewhere else: not in a cluster.
SENSELESS = {"snapshot", "snapshot_reload_seconds", "kubeconfig", "context", "namespace"}


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of a program: those that the chart sets, and those that `extraArgs` add."""

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
    def taken(self) -> set[str]:
        """The flags that the program takes in a cluster."""
        names = self.model.model_fields.keys() - SENSELESS
        return {sources.flag(name).removeprefix("--") for name in names}


PROGRAMS = {
    flags.program: flags
    for flags in (
        Flags("webhook", WebhookSettings, needed="--tls-secret=x"),
        Flags("controller", ControllerSettings, needed="--tls-secret=x"),
        Flags("scorer", ScorerSettings),
        Flags("agent", AgentSettings, needed="--node-name=x"),
    )
}
of_each_program = pytest.mark.parametrize("flags", PROGRAMS.values(), ids=PROGRAMS)


@of_each_program
def test_every_flag_is_set_by_the_chart_or_extra_args(flags: Flags) -> None:
    """A missing one belongs into values.schema.json, or with a value of its own into _checks.tpl."""
    assert flags.args.keys() == flags.taken


@pytest.mark.parametrize("program", MANAGED)
def test_managed_flag_is_refused_with_the_value_to_set(program: str) -> None:
    args = SCHEMA["properties"][program]["properties"]["extraArgs"]["properties"]
    managed = {name for name, schema in args.items() if schema == {"$ref": "#/definitions/managed"}}
    assert managed == MANAGED[program].keys()
    for value in filter(None, MANAGED[program].values()):
        assert at(VALUES, value) is not None, value


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_old_name_leads_to_a_value_that_exists(old: str, new: str) -> None:
    above = old.rpartition(".")[0]
    assert at(SCHEMA, old, below="properties") == {"$ref": "#/definitions/renamed"} or above in RENAMED
    program, added, flag = new.partition(".extraArgs.")
    if added:
        assert flag in PROGRAMS[program].settings
    elif new:
        assert at(SCHEMA, new.partition(".podSecurityContext.")[0], below="properties") is not None


def choices() -> Iterator[tuple[Flags, str, str]]:
    """Yield every choice of a flag that the schema lists."""
    for flags in PROGRAMS.values():
        for name, schema in flags.settings.items():
            yield from ((flags, name, choice) for choice in schema.get("enum", []))
    for value, flag in (("policyMatch", "policy-match"), ("unknownNodes", "unknown-nodes")):
        for choice in filter(None, SCHEMA["properties"][value]["enum"]):
            yield from ((PROGRAMS[name], flag, choice) for name in ("webhook", "controller", "scorer"))


def test_programs_read_the_choices_of_the_schema() -> None:
    for flags, name, choice in choices():
        settings.load(flags.model, argv=[flags.needed, f"--{name}={choice}"], environ={})


@of_each_program
def test_comment_of_extra_args_lists_the_flags(flags: Flags) -> None:
    text = (CHART / "values.yaml").read_text()
    block = re.split(rf"^{flags.program}:$", text, flags=re.MULTILINE)[1]
    [about] = re.findall(
        r"((?:^ *#.*\n)+)^  extraArgs:", re.split(r"^\S*[a-z]+:$", block, flags=re.MULTILINE)[0], re.MULTILINE
    )
    assert {*re.findall(r"[a-z-]{2,}", about.split("One of ")[1])} == flags.settings.keys()


# ---- what the schema admits, the program reads


def admits(schema: Mapping[str, Any], text: str) -> bool:
    """Return whether a schema of patterns admits a text, as far as the chart's own schemas go."""
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


ENUMS = [
    (SCHEMA["properties"]["agent"]["properties"]["publish"], Publish),
    (SCHEMA["properties"]["scorer"]["properties"]["reserveAt"], ReserveAt),
    (SCHEMA["definitions"]["strategy"], ranking.MEASURES),
    (DEFAULT["gate"], Gate),
    (DEFAULT["heal"], Heal),
    *((SCHEMA["definitions"][POLICY[key]["$ref"].rpartition("/")[2]], Reaction)
      for key in ("never", "unknownResources")),
    *((POLICY[key], RequestReaction) for key in ("taints", "partial", "overQuota")),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "words"), ENUMS)
def test_choices_of_the_schema_are_those_of_the_program(
    schema: Mapping[str, Any], words: Iterable[str]
) -> None:
    assert schema["enum"] == list(words)


@given(PATHS | st.text("as.*[]-", max_size=12))
def test_path_that_the_schema_admits_is_read(text: str) -> None:
    if admits(PATH, text):
        assert str(templates.TemplatePath.read(text)) == text


def test_schema_admits_paths_of_known_kinds() -> None:
    paths = {str(path) for paths in templates.TEMPLATES.values() for path in paths if path.steps}
    assert [path for path in paths if not admits(PATH, path)] == []


def test_schema_admits_strategies_of_the_scorer() -> None:
    strategies = PROGRAMS["scorer"].settings["strategies"]
    assert admits(strategies, ",".join(ranking.MEASURES))
    assert not admits(strategies, "Fastest")


@given(st.lists(st.sampled_from(["cpu=1", "nvidia.com/gpu=3", "=", "a=b", "", "a = 1"]), max_size=3))
def test_schema_admits_weights_that_the_scorer_reads(words: list[str]) -> None:
    text = ",".join(words)
    try:
        ranking.parse_weights(text)
    except ValueError:
        return
    assert admits(PROGRAMS["scorer"].settings["weights"], text)


@given(st.text("ab:*", max_size=6))
def test_schema_admits_exactly_users_that_are_read(text: str) -> None:
    written = yaml.safe_dump({"exemptions": {"users": [text]}}).encode()
    try:
        policy.parse(written)
    except policy.BadPolicy:
        assert not admits(USER, text)
    else:
        assert admits(USER, text)


@given(st.text("ab1.-A", max_size=65))
def test_schema_admits_exactly_names_of_schedulers(text: str) -> None:
    assert admits(DEFAULT["scheduler"], text) == (not_a_scheduler(text) is None)


def test_policy_has_the_keys_that_the_program_reads() -> None:
    assert POLICY.keys() == policy.NO_POLICY.to_json().keys()
    assert tuple(DEFAULT) == ("namespaceSelector", *policy.RULES, policy.EXCLUSIVE_CPUS)
    assert tuple(POLICY["shapes"]["items"]["properties"]) == shapes.FIELDS


def test_workload_kinds_are_those_with_known_templates() -> None:
    text = (CHART / "templates" / "_helpers.tpl").read_text()
    foreign = re.search(r'define "numalign.foreign" -}}\n(.*?){{- end }}', text, re.DOTALL)
    assert foreign
    rules = yaml.safe_load(foreign[1])
    assert rules.keys() == VALUES["workloadKinds"].keys()
    known = {(group, f"{kind.lower()}s") for group, kind in templates.TEMPLATES}
    shipped = {(rule["groups"][0], resource) for rule in rules.values() for resource in rule["resources"]}
    assert shipped <= known
    assert {group for group, _ in known} - {"", "apps", "batch"} == {group for group, _ in shipped}
