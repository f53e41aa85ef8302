"""The policy file: its rules, its mistakes, and how it is followed while people edit it."""

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from numalign.cache.admission import Reaction, Refusals, RequestReaction
from numalign.kube.decode import templates
from numalign.kube.decode.templates import TemplatePath
from numalign.kube.files import policy as policy_file
from numalign.kube.files.policy import NO_POLICY, ClusterPolicy, Default, Exemptions, parse
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.model.constraints import Operator, Requirement
from numalign.model.intent import UNRULED, NamespaceRules, Policy
from numalign.shapes import GrowablePools, LabelValues, Pool, shape
from numalign.shapes.growable_pools import BUILT_IN
from tests.worlds.log import RecordedLog
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
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return str(block)


def test_the_example_of_the_page_is_valid() -> None:
    gold = Requirement("tier", Operator.IN, frozenset({"gold"}))
    others = Requirement(policy_file.NAME_LABEL, Operator.NOT_IN, frozenset({"legacy", "sandbox"}))
    policy = parse(written().encode())
    assert policy == ClusterPolicy(
        (Default((gold, others), NamespaceRules(default=SINGLE, enforce=RESTRICTED)), Default((), LAST)),
        Exemptions(("system:serviceaccount:ci:*",), frozenset({"batch"}), frozenset({"kata"})),
        {("example.com", "TrainJob"): (TemplatePath(("spec", "replicaSpecs", "*", "template")),
            TemplatePath(("spec", "tasks", "[*]", "template")))},
        never=Reaction.WARN, unknown_resources=Reaction.DENY, taints=RequestReaction.DENY,
        partial=RequestReaction.DENY, over_quota=RequestReaction.DENY, shapes=(SHOWN_SHAPE,),
        pools=GrowablePools(BUILT_IN.labels | {"example.com/node-group"},
            frozenset({Pool("karpenter.sh/nodepool", "numa"), Pool("agentpool")})),
        unaligned=frozenset({"example.com/slots"}))  # fmt: skip
    rules_for = policy.rules_for
    assert rules_for(UNRULED, {"tier": "gold"}, "web") == replace(LAST, default=SINGLE, enforce=RESTRICTED)
    assert rules_for(UNRULED, {}, "web") == LAST


def test_the_page_names_every_kind_of_workload() -> None:
    admission = PAGE.with_name("admission.md").read_text(encoding="utf-8")
    listed = admission.partition("switches off those of other projects:")[2].partition("\n\n")[0]
    groups = {group for group, _ in templates.TEMPLATES if group}
    assert set(re.findall(r"[A-Z][A-Za-z]+", listed)) == {kind for _, kind in templates.TEMPLATES} - {"Pod"}
    assert set(re.findall(r"`(.*?)`", listed)) == groups


def test_a_policy_is_logged_as_json() -> None:
    everything = ClusterPolicy(
        (Default((GOLD, TIERED, TIERLESS, NOT_GOLD), NamespaceRules(enforce=SINGLE, exclusive_cpus=0)),
            Default((), NamespaceRules(LOOSE, LOOSE, LOOSE, LOOSE))),
        Exemptions(("eve",), frozenset({"b", "a"}), frozenset({"kata"})),
        {("", "A"): (TemplatePath(("a",)),), ("x.io", "B"): (TemplatePath(("b", "[*]", "c")),)},
        never=Reaction.WARN, unknown_resources=Reaction.DENY, taints=RequestReaction.IGNORE,
        partial=RequestReaction.DENY, over_quota=RequestReaction.DENY, shapes=(GPU_SHAPE,),
        pools=GrowablePools(frozenset({"pool", "group"}), frozenset({Pool("pool", "a"), Pool("group")})),
        unaligned=frozenset({"x.io/b", "x.io/a"}))  # fmt: skip
    assert json.loads(json.dumps(everything.to_json())) == {
        "defaults": [{"namespaces": "tier in (gold,silver), tier, !tier, tier notin (gold)",
            "enforce": "single-numa-node", "exclusiveCPUs": 0},
            {"namespaces": "", **dict.fromkeys(("default", "enforce", "warn", "audit"), "best-effort")}],
        "exemptions": {"users": ["eve"], "namespaces": ["a", "b"], "runtimeClasses": ["kata"]},
        "workloads": {"A": ["a"], "B.x.io": ["b[*].c"]}, "never": "warn", "unknownResources": "deny",
        "taints": "ignore", "partial": "deny", "overQuota": "deny", "shapes": [GPU_SHAPE.name],
        "poolLabels": ["group", "pool"], "fixedPools": ["group", "pool=a"],
        "unalignedResources": ["x.io/a", "x.io/b"]}  # fmt: skip


def test_reactions_of_a_policy() -> None:
    policy = parse(b"{never: warn, unknownResources: deny, taints: ignore, partial: deny, overQuota: ignore}")
    assert policy.refusals(unknown_may_fit=False) == Refusals(Reaction.WARN, Reaction.DENY,
        unknown_may_fit=False, taints=RequestReaction.IGNORE, partial=RequestReaction.DENY)  # fmt: skip


@pytest.mark.parametrize("nothing", ["{}", "defaults:", "{defaults: [], exemptions: {}, workloads: []}"])
def test_a_file_may_be_empty_of_rules(nothing: str) -> None:
    assert parse(nothing.encode()) == NO_POLICY
    assert (NO_POLICY.never, NO_POLICY.unknown_resources) == (
        Reaction.DENY,
        Reaction.WARN,
    )
    assert {
        NO_POLICY.taints,
        NO_POLICY.partial,
        NO_POLICY.over_quota,
    } == {RequestReaction.WARN}


GOLD = Requirement("tier", Operator.IN, frozenset({"gold", "silver"}))
NOT_GOLD = Requirement("tier", Operator.NOT_IN, frozenset({"gold"}))
TIERED = Requirement("tier", Operator.EXISTS)
TIERLESS = Requirement("tier", Operator.DOES_NOT_EXIST)


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
def test_labels_come_before_defaults(
    given_: tuple[Default, ...], own: NamespaceRules, labels: dict[str, str]
) -> None:
    result = ClusterPolicy(given_).rules_for(own, labels, "team")
    assert result.disabled == own.disabled
    for level in ("default", "enforce", "warn", "audit"):
        levels = [getattr(each.rules, level) for each in given_ if each.concerns(labels) and not own.disabled]
        wanted = next((each for each in [getattr(own, level), *levels] if each is not None), None)
        assert getattr(result, level) == wanted


def rule(selector: str) -> str:
    return f"defaults: [{{warn: none, namespaceSelector: {selector}}}]"


def expression(text: str) -> str:
    return rule(f"{{matchExpressions: [{text}]}}")


def train(templates: str, *, group: str = "example.com", kind: str = "TrainJob") -> str:
    return f"workloads: [{{group: {group}, kind: {kind}, templates: {templates}}}]"


AT = "defaults[0].namespaceSelector.matchExpressions[0]"


@pytest.mark.parametrize(("text", "mistakes"), table([
    # situation: (the file, every mistake in order)
    ("a key in another way",
        "default: []\nexempt: {}\nqqqq:",
        ['default: unknown key; did you mean "defaults"?', 'exempt: unknown key; did you mean "exemptions"?',
            "qqqq: unknown key; expected one of defaults, exemptions, workloads, never, unknownResources"]),
    ("resources that are none", "unalignedResources: [cpu, x.io/, 7]",
        ['unalignedResources[0]: "cpu" is not the name of an extended resource',
            'unalignedResources[1]: "x.io/" is not the name of an extended resource',
            "unalignedResources[2]: must be a string, not a number"]),
    ("pools that no label names",
        "poolLabels: [a b, 7]\nfixedPools: [pool=a, agentpool=, agentpool=a/b, '=a', 7]",
        ["poolLabels[0]: no label can have the key 'a b'",
            "poolLabels[1]: must be a string, not a number",
            'fixedPools[0]: "pool" is not a label of pools: list it in poolLabels, or remove it here',
            "fixedPools[1]: names no pool: write agentpool=NAME, or agentpool for all of its pools",
            "fixedPools[2]: no label can have the value 'a/b'",
            "fixedPools[3]: names no label: write LABEL=NAME, or LABEL for all of its pools",
            "fixedPools[4]: must be a string, not a number"]),
    ("limits that are none",
        "defaults: [{exclusiveCPUs: -1}, {exclusiveCPUs: many}, {exclusiveCPUs: 1000000001}]",
        ["defaults[0].exclusiveCPUs: must be at least 0, not -1",
            'defaults[1].exclusiveCPUs: must be a whole number, not "many"',
            "defaults[2].exclusiveCPUs: must be at most 1000000000"]),
    ("an empty rule", "defaults: [{}, {warn: null, namespaceSelector: {}}]",
        [f"defaults[{at}]: sets nothing: add default, enforce, warn, audit, scheduler, gate, heal or"
            " exclusiveCPUs" for at in (0, 1)]),
    ("labels that are none", rule("{matchLabels: {tier: [gold], 'a b': c, d: 'e f', g: 1, h: }}"),
        ["defaults[0].namespaceSelector.matchLabels.tier: must be a string, not a list",
            "defaults[0].namespaceSelector.matchLabels[a b]: no label can have the key 'a b'",
            "defaults[0].namespaceSelector.matchLabels.d: no label can have the value 'e f'",
            "defaults[0].namespaceSelector.matchLabels.g: must be a string, not a number",
            "defaults[0].namespaceSelector.matchLabels.h: is missing"]),
    ("no values", expression("{key: a, operator: In}, {key: a, operator: NotIn, values: []}"),
        [f"{AT}.values: are missing: In requires them",
            f"{AT[:-2]}1].values: are missing: NotIn requires them"]),
    ("values too many", expression("{key: a, operator: Exists, values: [b]}"),
        [f"{AT}.values: cannot be used with Exists: remove them"]),
    ("values that are none", expression("{key: a, operator: In, values: [true, null, {}, 'e f']}"),
        [f"{AT}.values[0]: must be a string, not true or false",
            f"{AT}.values[1]: is missing",
            f"{AT}.values[2]: must be a string, not an object",
            f"{AT}: no label can have the value 'e f'"]),
    ("names that are none",
        "exemptions: {users: ['', 'a*b', '**'], namespaces: ['team-*', A], runtimeClasses: ['*']}",
        ["exemptions.users[0]: is empty",
            'exemptions.users[1]: "a*b" is not a user name, or a prefix that ends in *',
            'exemptions.users[2]: "**" is not a user',
            'exemptions.namespaces[0]: "team-*" is not the name of a namespace',
            'exemptions.namespaces[1]: "A" is not the name of a namespace',
            'exemptions.runtimeClasses[0]: "*" is not the name of a RuntimeClass']),
    ("a workload with a version", train("[spec.template]", group="batch/v1", kind="trainjobs"),
        ['workloads[0].group: "batch/v1" is not an API group: write it without the version, like batch',
            'workloads[0].kind: "trainjobs" is not a kind, like TrainJob']),
    ("no templates", train("[]"), ["workloads[0].templates: is empty: list the paths of the pod templates"]),
    ("templates that are none", train("[7, 'spec.tasks[0]', '', 'spec.']"),
        ["workloads[0].templates[0]: must be a string, not a number",
            'workloads[0].templates[1]: "tasks[0]" is not a valid step: write names with dots',
            "workloads[0].templates[2]: is empty",
            "workloads[0].templates[3]: a name is missing: write a path like spec.tasks[*].template"]),
    ("pods", train("[spec]", group="''", kind="Pod"),
        ["workloads[0].kind: pods are always reviewed, and have no pod templates"]),
    ("a kind twice", "workloads: [{kind: A, templates: [a]}, {kind: A, templates: [b]}]",
        ["workloads[1].kind: A of the core group is listed twice: merge the entries"]),
]))  # fmt: skip
def test_mistakes_have_their_places(text: str, mistakes: list[str]) -> None:
    with pytest.raises(policy_file.BadPolicy) as raised:
        parse(text.encode())
    messages = [str(mistake) for mistake in raised.value.mistakes]
    assert len(messages) == len(mistakes), messages
    for mistake, start in zip(messages, mistakes, strict=True):
        assert mistake.startswith(start)


class Keeper:
    """A keeper, its file, and a sleep that lets the file be changed between two looks."""

    def __init__(self, path: Path) -> None:
        self.path, self.log, self.registry = path, RecordedLog(), CollectorRegistry()
        self.policy_keeper = PolicyKeeper(path, log=self.log.log, registry=self.registry)

    def put(self, text: str | None) -> None:
        if text is None:
            self.path.unlink()
            return
        new = self.path.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.replace(self.path)

    async def follow(self, *texts: str | None) -> list[ClusterPolicy]:
        """What is in force before each of these changes, and after the last."""
        waiting = iter(texts)
        seen: list[ClusterPolicy] = []

        async def sleep(seconds: float) -> None:
            assert seconds == 10
            seen.append(self.policy_keeper.now)
            try:
                self.put(next(waiting))
            except StopIteration:
                raise asyncio.CancelledError from None

        with pytest.raises(asyncio.CancelledError):
            await self.policy_keeper.follow(every=10, sleep=sleep)
        return seen

    @property
    def figures(self) -> tuple[float | None, ...]:
        """Whether the file is stale, and the reloads taken and refused."""
        value = self.registry.get_sample_value
        reloads = (value("numalign_policy_reloads_total", {"result": each}) for each in ("taken", "refused"))
        return (value("numalign_policy_stale"), *reloads)


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    return Keeper(tmp_path / "policy.yaml")


FIRST, SECOND, WRONG = "defaults: [{warn: none}]", "defaults: [{warn: restricted}]", "defauts: [{wran: none}]"


async def test_no_file_is_no_policy() -> None:
    log = RecordedLog()
    keeper = PolicyKeeper(None, log=log.log, registry=CollectorRegistry())
    keeper.load()
    assert (keeper.now, log.stream.getvalue()) == (NO_POLICY, "")
    with pytest.raises(ValueError, match="no file"):
        await keeper.follow(every=1)


async def test_a_file_that_changes_is_read_again(keeper: Keeper) -> None:
    keeper.put(FIRST)
    keeper.policy_keeper.load()
    seen = await keeper.follow(SECOND)
    assert seen == [parse(FIRST.encode()), parse(SECOND.encode())]
    assert keeper.figures == (0, 1, 0)
    # A file that stays is not read again.
    assert (await keeper.follow())[0] is seen[1]
    assert keeper.figures == (0, 1, 0)
    assert [line["defaults"][0]["warn"] for line in keeper.log.of("policy.loaded")] == ["none", "restricted"]


@pytest.mark.parametrize("wrong", [WRONG, "", None], ids=["wrong", "empty", "gone"])
async def test_a_wrong_file_changes_nothing(keeper: Keeper, wrong: str | None) -> None:
    keeper.put(FIRST)
    keeper.policy_keeper.load()
    seen = await keeper.follow(wrong)
    assert seen == [parse(FIRST.encode())] * 2
    assert keeper.figures == (1, 0, 1)
    (line,) = keeper.log.of("policy.rejected")
    assert line["path"] == str(keeper.path)
    assert all(str(keeper.path) in mistake for mistake in line["errors"])
    seen = await keeper.follow(SECOND)
    assert seen[-1] == parse(SECOND.encode())
    assert keeper.figures == (0, 1, 1)
