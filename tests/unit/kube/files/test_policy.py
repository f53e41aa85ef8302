"""The policy file: what it says, and what is wrong in it."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.admission import Reaction, Refusals, RequestReaction
from numalign.kube.decode import shapes, templates
from numalign.kube.decode.templates import TemplatePath
from numalign.kube.files.policy import (
    NAME_LABEL,
    NO_POLICY,
    BadPolicy,
    ClusterPolicy,
    Default,
    Exemptions,
    parse,
)
from numalign.model.constraints import Operator, Requirement
from numalign.model.intent import UNRULED, NamespaceRules, Policy
from numalign.shapes import GrowablePools, KnownShape, LabelValues, Pool, shape
from numalign.shapes.growable_pools import BUILT_IN
from tests.worlds.notation import node, table

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "policy-file.md"

GPU_SHAPE = shape.of(node("cpu=32 mem=64Gi gpu=4", policy="single-numa-node"))

ZONE = "cpu=32/30 mem=128Gi/126Gi gpu=4"
SHOWN_SHAPE = shape.shape(
    shape.bare(node(ZONE, ZONE, policy="single-numa-node")),
    (),
    {"pool": LabelValues(frozenset({"gpu"}))},
    other_labels=True,
)

SINGLE, RESTRICTED, LOOSE = Policy.SINGLE_NUMA_NODE, Policy.RESTRICTED, Policy.BEST_EFFORT


LAST = NamespaceRules(warn=LOOSE, exclusive_cpus=64)
"""The last rule of the page's example."""


def written() -> str:
    """The example of the page for platform teams."""
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return str(block)


def test_the_page_for_platform_teams_shows_a_file_that_is_read() -> None:
    assert parse(written().encode()) == ClusterPolicy(
        defaults=(
            Default(
                (
                    Requirement("tier", Operator.IN, frozenset({"gold"})),
                    Requirement(NAME_LABEL, Operator.NOT_IN, frozenset({"legacy", "sandbox"})),
                ),
                NamespaceRules(default=SINGLE, enforce=RESTRICTED),
            ),
            Default((), LAST),
        ),
        exemptions=Exemptions(
            users=("system:serviceaccount:ci:*",),
            namespaces=frozenset({"batch"}),
            runtime_classes=frozenset({"kata"}),
        ),
        templates={
            ("example.com", "TrainJob"): (
                TemplatePath(("spec", "replicaSpecs", "*", "template")),
                TemplatePath(("spec", "tasks", "[*]", "template")),
            )
        },
        never=Reaction.WARN,
        unknown_resources=Reaction.DENY,
        taints=RequestReaction.DENY,
        partial=RequestReaction.DENY,
        over_quota=RequestReaction.DENY,
        shapes=(SHOWN_SHAPE,),
        pools=GrowablePools(
            BUILT_IN.labels | {"example.com/node-group"},
            frozenset({Pool("karpenter.sh/nodepool", "numa"), Pool("agentpool")}),
        ),
        unaligned=frozenset({"example.com/slots"}),
    )


@pytest.mark.parametrize(
    ("labels", "namespace", "rules"),
    table(
        [
            ("both rules", {"tier": "gold"}, "web", replace(LAST, default=SINGLE, enforce=RESTRICTED)),
            ("not where it is left out by name", {"tier": "gold"}, "legacy", LAST),
            ("the last alone", {}, "web", LAST),
        ]
    ),
)
def test_the_page_says_what_its_example_does(
    labels: Mapping[str, str], namespace: str, rules: NamespaceRules
) -> None:
    assert parse(written().encode()).rules_for(UNRULED, labels, namespace) == rules


def test_the_page_names_every_kind_that_is_looked_at() -> None:
    admission = PAGE.with_name("admission.md").read_text(encoding="utf-8")
    listed = admission.partition("switches off those of other projects:")[2].partition("\n\n")[0]
    groups = {group for group, _ in templates.TEMPLATES if group}

    assert set(re.findall(r"[A-Z][A-Za-z]+", listed)) == {kind for _, kind in templates.TEMPLATES} - {"Pod"}
    assert set(re.findall(r"`(.*?)`", listed)) == groups


def test_a_policy_is_data_for_programs() -> None:
    everything = ClusterPolicy(
        (
            Default((GOLD, TIERED, TIERLESS, NOT_GOLD), NamespaceRules(enforce=SINGLE, exclusive_cpus=0)),
            ALL_LOOSE,
        ),
        Exemptions(("eve",), frozenset({"b", "a"}), frozenset({"kata"})),
        {("", "A"): (TemplatePath(("a",)),), ("x.io", "B"): (TemplatePath(("b", "[*]", "c")),)},
        never=Reaction.WARN,
        unknown_resources=Reaction.DENY,
        taints=RequestReaction.IGNORE,
        partial=RequestReaction.DENY,
        over_quota=RequestReaction.DENY,
        shapes=(GPU_SHAPE,),
        pools=GrowablePools(frozenset({"pool", "group"}), frozenset({Pool("pool", "a"), Pool("group")})),
        unaligned=frozenset({"x.io/b", "x.io/a"}),
    )

    assert json.loads(json.dumps(everything.to_json())) == {
        "defaults": [
            {
                "namespaces": "tier in (gold,silver), tier, !tier, tier notin (gold)",
                "enforce": "single-numa-node",
                "exclusiveCPUs": 0,
            },
            {"namespaces": "", **dict.fromkeys(("default", "enforce", "warn", "audit"), "best-effort")},
        ],
        "exemptions": {"users": ["eve"], "namespaces": ["a", "b"], "runtimeClasses": ["kata"]},
        "workloads": {"A": ["a"], "B.x.io": ["b[*].c"]},
        "never": "warn",
        "unknownResources": "deny",
        "taints": "ignore",
        "partial": "deny",
        "overQuota": "deny",
        "shapes": [GPU_SHAPE.name],
        "poolLabels": ["group", "pool"],
        "fixedPools": ["group", "pool=a"],
        "unalignedResources": ["x.io/a", "x.io/b"],
    }


def test_pools_that_may_grow_are_known_by_more_labels_and_some_are_fixed() -> None:
    pools = parse(b"{poolLabels: [example.com/group], fixedPools: [example.com/group=a, agentpool]}").pools

    assert pools.labels == BUILT_IN.labels | {"example.com/group"}
    assert pools.fixed == {Pool("example.com/group", "a"), Pool("agentpool")}
    assert parse(b"{}").pools == BUILT_IN


@pytest.mark.parametrize(
    ("text", "reaction"), [("{}", "warn"), *((f"overQuota: {each}", each) for each in RequestReaction)]
)
def test_what_happens_to_pods_beyond_the_quota_of_their_namespace(text: str, reaction: str) -> None:
    assert parse(text.encode()).over_quota == reaction


LIMITED = """
defaults:
- namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: large}}
  exclusiveCPUs: 40
- warn: none
- exclusiveCPUs: 20
"""

LIMITS = [
    # what counts                              namespace  label  limit
    ("the first entry with a limit",           "large",   None,  40),
    ("that of all others",                     "small",   None,  20),
    ("a label that is stricter",               "large",   8,     8),
    ("no label that is looser",                "small",   1000,  20),
    ("none at all is strictest",               "large",   0,     0),
]  # fmt: skip


@pytest.mark.parametrize("disabled", [False, True])
@pytest.mark.parametrize(("namespace", "label", "limit"), table(LIMITS))
def test_a_namespace_may_have_as_many_exclusive_cpus_as(
    namespace: str, label: int | None, limit: int, *, disabled: bool
) -> None:
    own = NamespaceRules(exclusive_cpus=label, disabled=disabled)

    assert parse(LIMITED.encode()).rules_for(own, {}, namespace).exclusive_cpus == limit


def test_resources_that_no_plugin_serves_are_named() -> None:
    assert parse(b"unalignedResources: [x.io/a, x.io/a, y.io/B_c]").unaligned == {"x.io/a", "y.io/B_c"}


def test_pods_that_nothing_could_take_may_only_be_warned_of() -> None:
    first_week = parse(b"{never: warn, unknownResources: deny}")

    assert (NO_POLICY.never, NO_POLICY.unknown_resources) == (Reaction.DENY, Reaction.WARN)
    assert (first_week.never, first_week.unknown_resources) == (Reaction.WARN, Reaction.DENY)


@pytest.mark.parametrize(
    ("text", "reaction"), [("{}", "warn"), *((f"taints: {each}", each) for each in RequestReaction)]
)
def test_what_happens_to_pods_whose_tolerations_say_otherwise(text: str, reaction: str) -> None:
    assert parse(text.encode()).taints == reaction


@pytest.mark.parametrize(
    ("text", "reaction"), [("{}", "warn"), *((f"partial: {each}", each) for each in RequestReaction)]
)
def test_what_happens_to_pods_whose_policy_applies_to_a_part(text: str, reaction: str) -> None:
    policy = parse(text.encode())

    assert policy.partial == policy.refusals(unknown_may_fit=True).partial == reaction


def test_a_policy_says_when_pods_are_refused() -> None:
    policy = parse(b"{never: warn, unknownResources: deny, taints: ignore}")

    assert policy.refusals(unknown_may_fit=False) == Refusals(
        Reaction.WARN, Reaction.DENY, unknown_may_fit=False, taints=RequestReaction.IGNORE
    )


def test_shapes_are_declared_as_they_are_exported() -> None:
    text = yaml.safe_dump({"shapes": shapes.exported([KnownShape(GPU_SHAPE, nodes=3)])})

    assert parse(text.encode()).shapes == (GPU_SHAPE,)


@pytest.mark.parametrize("nothing", ["{}", "defaults:", "{defaults: [], exemptions: {}, workloads: []}"])
def test_a_file_may_say_nothing(nothing: str) -> None:
    assert parse(nothing.encode()) == NO_POLICY


def test_json_is_understood_too() -> None:
    assert parse(b'{"exemptions": {"namespaces": ["a"]}}').exemptions.namespaces == {"a"}


# Defaults.

GOLD = Requirement("tier", Operator.IN, frozenset({"gold", "silver"}))
NOT_GOLD = Requirement("tier", Operator.NOT_IN, frozenset({"gold"}))
TIERED = Requirement("tier", Operator.EXISTS)
TIERLESS = Requirement("tier", Operator.DOES_NOT_EXIST)


def of(*defaults: Default) -> ClusterPolicy:
    return ClusterPolicy(defaults)


def named(name: str, *, warn: Policy) -> Default:
    return Default((Requirement(NAME_LABEL, Operator.IN, frozenset({name})),), NamespaceRules(warn=warn))


ALL_LOOSE = Default((), NamespaceRules(LOOSE, LOOSE, LOOSE, LOOSE))
BOTH = Default((GOLD, NOT_GOLD), NamespaceRules(enforce=SINGLE))
TIGHT, FOREIGN = named("team", warn=SINGLE), named("other", warn=SINGLE)
OFF = NamespaceRules(disabled=True)

RULED = [
    # what it shows                     the policy             its own labels ask, and what holds
    ("no policy",                       NO_POLICY,             UNRULED, UNRULED),
    ("a rule for every namespace",      of(ALL_LOOSE),         UNRULED, ALL_LOOSE.rules),
    ("its own labels first",            of(ALL_LOOSE),
        NamespaceRules(enforce=SINGLE), NamespaceRules(LOOSE, SINGLE, LOOSE, LOOSE)),
    ("its own label, if it says none",  of(ALL_LOOSE),
        NamespaceRules(enforce=Policy.NONE), NamespaceRules(LOOSE, Policy.NONE, LOOSE, LOOSE)),
    ("the first rule that says it",     of(TIGHT, ALL_LOOSE),
        UNRULED, NamespaceRules(LOOSE, LOOSE, SINGLE, LOOSE)),
    ("the order, not the tightness",    of(ALL_LOOSE, TIGHT),  UNRULED, ALL_LOOSE.rules),
    ("no rule for others",              of(FOREIGN),           UNRULED, UNRULED),
    ("no rule of which one part fails", of(BOTH),              UNRULED, UNRULED),
    ("disabled stays disabled",         of(ALL_LOOSE),         OFF,     OFF),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "own", "rules"), table(RULED))
def test_a_namespace_is_ruled_by(policy: ClusterPolicy, own: NamespaceRules, rules: NamespaceRules) -> None:
    assert policy.rules_for(own, {"tier": "gold"}, "team") == rules


def test_the_name_is_the_label_that_the_namespace_has() -> None:
    policy = of(TIGHT)

    found = [policy.rules_for(UNRULED, {NAME_LABEL: label}, "team").warn for label in ("team", "other")]

    assert found == [SINGLE, None]


maybe = st.none() | st.sampled_from(Policy)
rules_of_any = st.builds(NamespaceRules, maybe, maybe, maybe, maybe, st.booleans())
requirements = st.builds(
    Requirement, st.sampled_from("abc"), st.sampled_from(Operator), st.frozensets(st.sampled_from("xyz"))
)
defaults = st.builds(Default, st.lists(requirements, max_size=2).map(tuple), rules_of_any)


@given(
    st.lists(defaults, max_size=4).map(tuple),
    rules_of_any,
    st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz")),
)
def test_no_default_undoes_a_label(
    given_: tuple[Default, ...], own: NamespaceRules, labels: dict[str, str]
) -> None:
    found = ClusterPolicy(given_).rules_for(own, labels, "team")

    assert found.disabled == own.disabled
    for level in ("default", "enforce", "warn", "audit"):
        said = [getattr(each.rules, level) for each in given_ if each.concerns(labels) and not own.disabled]
        wanted = next((each for each in [getattr(own, level), *said] if each is not None), None)
        assert getattr(found, level) == wanted


# Exemptions.

CI, BUILDER = "system:serviceaccount:ci:*", "system:serviceaccount:ci:builder"
SOME = ClusterPolicy(
    exemptions=Exemptions(
        users=("admin", CI),
        namespaces=frozenset({"batch"}),
        runtime_classes=frozenset({"kata"}),
    )
)

EXEMPT = [
    # what it shows               user                          namespace  runtime  why
    ("a user",                    "admin",                      "team",    "",      "users: admin"),
    ("one that begins so",        BUILDER,                      "team",    "",      f"users: {CI}"),
    ("a namespace",               "eve",                        "batch",   "",      "namespaces: batch"),
    ("a runtime class",           "eve",                        "team",    "kata",  "runtimeClasses: kata"),
    ("nobody else",               "eve",                        "team",    "runc",  None),
    ("nobody who begins so",      "administrator",              "batches", "kata2", None),
    ("nobody of another account", "system:serviceaccount:cd:b", "team",    "",      None),
    ("nobody without a name",     "",                           "",        "",      None),
]  # fmt: skip


@pytest.mark.parametrize(("user", "namespace", "runtime_class", "why"), table(EXEMPT))
def test_exempt_is(user: str, namespace: str, runtime_class: str, why: str | None) -> None:
    assert SOME.exempts(user=user, namespace=namespace, runtime_class=runtime_class) == why
    assert NO_POLICY.exempts(user=user, namespace=namespace, runtime_class=runtime_class) is None


# Mistakes.


def rule(selector: str) -> str:
    return f"defaults: [{{warn: none, namespaceSelector: {selector}}}]"


def expression(text: str) -> str:
    return rule(f"{{matchExpressions: [{text}]}}")


def train(templates: str, *, group: str = "example.com", kind: str = "TrainJob") -> str:
    return f"workloads: [{{group: {group}, kind: {kind}, templates: {templates}}}]"


AT = "defaults[0].namespaceSelector.matchExpressions[0]"

MISTAKEN = {
    # situation: (the file, every mistake in order)
    "empty": ("", ["is empty"]),
    "only a comment": ("# later", ["is empty"]),
    "no YAML": ("defaults: [", ["is not YAML: "]),
    "too deep": ("- " * 50_000, ["is nested deeper than 100 levels"]),
    "two documents": ("defaults: []\n---\ndefaults: []", ["contains 2 documents: a policy is a single one"]),
    "too large": ("# " + "x" * 2**20, ["has more than 1048576 bytes"]),
    "a list": ("[]", ["must be an object, not a list"]),
    "a text": ("none", ['must be an object, not "none"']),
    "a key in another way": (
        "default: []\nexempt: {}\nqqqq:",
        [
            'default: unknown key; did you mean "defaults"?',
            'exempt: unknown key; did you mean "exemptions"?',
            ("qqqq: unknown key; expected one of defaults, exemptions, workloads, never,"
            " unknownResources"),
        ],
    ),
    "resources that are none": ("unalignedResources: [cpu, x.io/, 7]",
        [
            'unalignedResources[0]: "cpu" is not the name of an extended resource',
            'unalignedResources[1]: "x.io/" is not the name of an extended resource',
            "unalignedResources[2]: must be a string, not a number",
        ]),
    "pools that no label names": (
        "poolLabels: [a b, 7]\nfixedPools: [pool=a, agentpool=, agentpool=a/b, '=a', 7]",
        [
            "poolLabels[0]: no label can have the key 'a b'",
            "poolLabels[1]: must be a string, not a number",
            'fixedPools[0]: "pool" is not a label of pools: list it in poolLabels, or remove it here',
            "fixedPools[1]: names no pool: write agentpool=NAME, or agentpool for all of its pools",
            "fixedPools[2]: no label can have the value 'a/b'",
            "fixedPools[3]: names no label: write LABEL=NAME, or LABEL for all of its pools",
            "fixedPools[4]: must be a string, not a number",
        ]),
    "limits that are none": (
        "defaults: [{exclusiveCPUs: -1}, {exclusiveCPUs: many}, {exclusiveCPUs: 1000000001}]",
        [
            "defaults[0].exclusiveCPUs: must be at least 0, not -1",
            'defaults[1].exclusiveCPUs: must be a whole number, not "many"',
            "defaults[2].exclusiveCPUs: must be at most 1000000000",
        ]),
    "a key that is a number": ("1: {}", ["1: the key must be a string: put it in quotes"]),
    "parts of another shape": ("defaults: {}\nexemptions: []\nworkloads: 3",
        ["defaults: must be a list, not an object",
            "exemptions: must be an object, not a list",
            "workloads: must be a list, not a number"]),
    "reactions that are none": ("never: off\nunknownResources: ''\nshapes: {}",
        ["never: must be a string, not true or false",
            "unknownResources: is empty",
            "shapes: must be a list, not an object"]),
    "a reaction that is another word": ("never: ignore\nunknownResources: allow\ntaints: off\n",
        ['never: "ignore" is not a known value: deny, warn',
            'unknownResources: "allow" is not a known value: deny, warn',
            "taints: must be a string, not true or false"]),
    "no reaction to taints": ("taints: allow",
        ['taints: "allow" is not a known value: deny, warn, ignore']),
    "a shape that is none": ("shapes: [{zone: [], taints: 3}, gpu]",
        ["shapes[0].zone: is not a known field",
            "shapes[0].zones: is missing",
            "shapes[0].taints: must be a list, not a number",
            'shapes[1]: must be an object, not "gpu"']),
    "rules of another shape": ("defaults: [restricted, null]",
        ['defaults[0]: must be an object, not "restricted"', "defaults[1]: must be an object, not null"]),
    "a rule that says nothing": ("defaults: [{}, {warn: null, namespaceSelector: {}}]",
        [f"defaults[{at}]: sets nothing: add default, enforce, warn, audit, scheduler, gate, heal or"
            " exclusiveCPUs" for at in (0, 1)]),
    "a rule with another key": ("defaults: [{enforced: restricted}]",
        ['defaults[0].enforced: unknown key; did you mean "enforce"?']),
    "another policy": ("defaults: [{warn: strict, enforce: '', audit: 'off', default: on}]",
        ["defaults[0].default: must be a string, not true or false",
            'defaults[0].enforce: "" is not a known value; expected one of none, best-effort',
            'defaults[0].warn: "strict" is not a known value; did you mean "single-numa-node"?',
            'defaults[0].audit: "off" is not a known value']),
    "a selector that is a list": (rule("[]"),
        ["defaults[0].namespaceSelector: must be an object, not a list"]),
    "a selector in short": (
        rule("{tier: gold}"),
        [("defaults[0].namespaceSelector.tier: unknown key; expected one of matchLabels,"
         " matchExpressions")],
    ),
    "labels that are none": (rule("{matchLabels: {tier: [gold], 'a b': c, d: 'e f', g: 1, h: }}"),
        ["defaults[0].namespaceSelector.matchLabels.tier: must be a string, not a list",
            "defaults[0].namespaceSelector.matchLabels[a b]: no label can have the key 'a b'",
            "defaults[0].namespaceSelector.matchLabels.d: no label can have the value 'e f'",
            "defaults[0].namespaceSelector.matchLabels.g: must be a string, not a number",
            "defaults[0].namespaceSelector.matchLabels.h: is missing"]),
    "an expression of nothing": (expression("{}"), [f"{AT}.key: is missing", f"{AT}.operator: is missing"]),
    "an expression that is none": (expression("tier"), [f'{AT}: must be an object, not "tier"']),
    "an operator that is none": (expression("{key: a, operator: in, values: [b]}"),
        [f'{AT}.operator: "in" is not a known value: In, NotIn, Exists, DoesNotExist']),
    "an empty operator": (expression("{key: a, operator: ''}"), [f"{AT}.operator: is empty"]),
    "no values": (expression("{key: a, operator: In}, {key: a, operator: NotIn, values: []}"),
        [f"{AT}.values: are missing: In requires them",
            f"{AT[:-2]}1].values: are missing: NotIn requires them"]),
    "values too many": (expression("{key: a, operator: Exists, values: [b]}"),
        [f"{AT}.values: cannot be used with Exists: remove them"]),
    "values that are none": (expression("{key: a, operator: In, values: [true, null, {}, 'e f']}"),
        [f"{AT}.values[0]: must be a string, not true or false",
            f"{AT}.values[1]: is missing",
            f"{AT}.values[2]: must be a string, not an object",
            f"{AT}: no label can have the value 'e f'"]),
    "a value alone": (expression("{key: a, operator: In, values: b}"),
        [f'{AT}.values: must be a list, not "b"']),
    "a key that is none": (expression("{key: a/b/c, operator: Exists}"),
        [f"{AT}: no label can have the key 'a/b/c'"]),
    "exemptions of another shape": ("exemptions: {users: eve, namespaces: [1], runtimeClasses: {}, user: []}",
        ['exemptions.user: unknown key; did you mean "users"?',
            'exemptions.users: must be a list, not "eve"',
            "exemptions.namespaces[0]: must be a string, not a number",
            "exemptions.runtimeClasses: must be a list, not an object"]),
    "names that nobody has": (
        "exemptions: {users: ['', 'a*b', '**'], namespaces: ['team-*', A], runtimeClasses: ['*']}",
        ["exemptions.users[0]: is empty",
            'exemptions.users[1]: "a*b" is not a user name, or a prefix that ends in *',
            'exemptions.users[2]: "**" is not a user',
            'exemptions.namespaces[0]: "team-*" is not the name of a namespace',
            'exemptions.namespaces[1]: "A" is not the name of a namespace',
            'exemptions.runtimeClasses[0]: "*" is not the name of a RuntimeClass']),
    "a workload of nothing": ("workloads: [{}]",
        ["workloads[0].kind: is missing", "workloads[0].templates: is missing"]),
    "a workload with a version": (train("[spec.template]", group="batch/v1", kind="trainjobs"),
        ['workloads[0].group: "batch/v1" is not an API group: write it without the version, like batch',
            'workloads[0].kind: "trainjobs" is not a kind, like TrainJob']),
    "no templates": (train("[]"), ["workloads[0].templates: is empty: list the paths of the pod templates"]),
    "templates that are none": (train("[7, 'spec.tasks[0]', '', 'spec.']"),
        ["workloads[0].templates[0]: must be a string, not a number",
            'workloads[0].templates[1]: "tasks[0]" is not a valid step: write names with dots',
            "workloads[0].templates[2]: is empty",
            "workloads[0].templates[3]: a name is missing: write a path like spec.tasks[*].template"]),
    "pods": (train("[spec]", group="''", kind="Pod"),
        ["workloads[0].kind: pods are always reviewed, and have no pod templates"]),
    "a kind twice": ("workloads: [{kind: A, templates: [a]}, {kind: A, templates: [b]}]",
        ["workloads[1].kind: A of the core group is listed twice: merge the entries"]),
    "mistakes in different places": (
        "defaults: [{warn: x}]\nexemptions: {namespaces: [B]}\nworkloads: [{kind: A}]\nmore: 1",
        ["more: unknown key",
            'defaults[0].warn: "x" is not a known value',
            'exemptions.namespaces[0]: "B" is not the name',
            "workloads[0].templates: is missing"]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "mistakes"), MISTAKEN.values(), ids=MISTAKEN)
def test_each_mistake_has_its_place(text: str, mistakes: list[str]) -> None:
    with pytest.raises(BadPolicy) as raised:
        parse(text.encode())

    told = [str(mistake) for mistake in raised.value.mistakes]
    assert len(told) == len(mistakes), told
    for mistake, start in zip(told, mistakes, strict=True):
        assert mistake.startswith(start)


scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
keys = st.sampled_from(
    re.findall(
        r"\w+",
        "defaults exemptions workloads namespaceSelector matchLabels matchExpressions key operator values"
        " warn users namespaces runtimeClasses kind group templates",
    )
)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys | st.text(max_size=3), inner)
)


def refused(data: bytes) -> bool:
    """Whether it is refused, with a word why."""
    try:
        parse(data).rules_for(UNRULED, {}, "team")
    except BadPolicy as error:
        return bool(error.mistakes)
    return False


@given(st.dictionaries(keys, anything))
def test_any_file_is_read_or_refused(content: dict[str, object]) -> None:
    unknown = content.keys() - {"defaults", "exemptions", "workloads"}

    assert refused(json.dumps(content).encode()) >= bool(unknown)


@given(st.binary(max_size=200))
def test_bytes_of_no_sense_are_refused(data: bytes) -> None:
    assert refused(b"\xfe" + data)
