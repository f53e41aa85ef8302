"""What owners and platform teams write, what it means, and every mistake at its place."""

import contextlib
from collections.abc import Mapping

import pytest

from numalign.model import intent
from numalign.model.errors import BadIntent
from numalign.model.intent import (
    EXCLUSIVE_CPUS,
    GATE,
    HEAL,
    SCHEDULER,
    Gate,
    Heal,
    Intent,
    Match,
    NamespaceRules,
    Policy,
    not_a_scheduler,
    parse_namespace,
    read,
)
from tests.worlds.notation import GPU, means, table

POLICY = "numalign.io/policy"
RESOURCES = "numalign.io/resources"
SCOPE = "numalign.io/scope"
EXCLUSIVE = "numalign.io/exclusive"
VOLCANO = "volcano.sh/numa-topology-policy"
DEFAULT = "numalign.io/default"
ENFORCE = "numalign.io/enforce"
WARN = "numalign.io/warn"
ADMISSION = "numalign.io/admission"

Written = Mapping[str, str]


def annotations(written: str) -> Written:
    """Annotations in the notation of the tables: `policy=none; resources=cpu, memory`."""
    pairs = (part.lstrip().partition("=") for part in written.split(";") if part)
    return {full(key): text for key, _, text in pairs}


def parse(
    written: Written, *, default: Policy | None = None, match: Match = Match.SATISFIES
) -> Intent | None:
    return read(written).intent(default, match)


def full(key: str) -> str:
    return VOLCANO if key == "volcano" else f"numalign.io/{key}"


NONE, BEST_EFFORT, RESTRICTED, SINGLE = Policy

ORDERED = [
    ("a promise keeps itself",              SINGLE,      SINGLE,     True),
    ("one zone is a smallest set of zones", SINGLE,      RESTRICTED, True),
    ("a smallest set may be several zones", RESTRICTED,  SINGLE,     False),
    ("trying is no promise",                BEST_EFFORT, RESTRICTED, False),
    ("trying is more than nothing",         BEST_EFFORT, NONE,       True),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "least"), table(ORDERED))
def test_policies_are_ordered_from_loose_to_tight(one: Policy, other: Policy, *, least: bool) -> None:
    assert one.at_least(other) is least


ALONE = means("restricted", exclusive=True)

READ = [
    # what it shows              written                                   intent
    ("no annotation",            "",                                       None),
    ("a policy alone",           "policy=restricted",                      means("restricted")),
    ("resources in their order", "policy=restricted; resources=rdma ,cpu", means("restricted rdma cpu")),
    ("a prefix",                 "policy=restricted; resources=rdma/*",    means("restricted rdma/*")),
    ("zones of its own",         "policy=restricted; exclusive= zone",     ALONE),
    ("volcano's word",           "volcano=single-numa-node",               means("single-numa-node")),
    ("both words agree",         "volcano=restricted; policy=restricted",  means("restricted")),
    ("what numalign writes",     "placement=[]; placement-observed=[]",    None),
]  # fmt: skip


@pytest.mark.parametrize(("written", "intent"), table(READ))
def test_annotations_are_read_as_an_intent(written: str, intent: Intent | None) -> None:
    assert parse(annotations(written)) == intent


DEFAULTED = [
    # what it shows       written           intent by the default restricted
    ("without an intent", "",               means("restricted")),
    ("another policy",    "policy=none",    means("none")),
    ("a scope alone",     "scope=pod",      means("restricted", scope="pod")),
    ("zones of its own",  "exclusive=zone", ALONE),
]  # fmt: skip


@pytest.mark.parametrize(("written", "intent"), table(DEFAULTED))
def test_default_completes_the_annotations(written: str, intent: Intent) -> None:
    assert parse(annotations(written), default=RESTRICTED) == intent
    assert parse({POLICY: "restricted"}, match=Match.EQUAL) == means("restricted", match="equal")


@pytest.mark.parametrize("default", [NONE, BEST_EFFORT])
def test_default_of_none_gives_no_own_zones(default: Policy) -> None:
    with pytest.raises(BadIntent, match=r"has no effect with the namespace's default: set numalign.io/"):
        parse({EXCLUSIVE: "zone"}, default=default)


def test_unreadable_policy_is_not_the_default() -> None:
    (mistake,) = read({POLICY: "x", EXCLUSIVE: "zone"}).wrong(BEST_EFFORT)
    assert mistake.where == f"metadata.annotations[{POLICY}]"


WRONG = [
    # what it shows          written                               places       a part of the answer
    ("an unknown word",      "policy=tight",                       "policy",    "one of none, best"),
    ("a habit",              "policy=singleNUMANode",              "policy",    '"single-numa-node"'),
    ("an unknown scope",     "policy=none; scope=pods",            "scope",     'did you mean "pod"?'),
    ("two that differ",      "policy=none; volcano=restricted",    "policy",    "remove one, or make"),
    ("a key that is a slip", "polcy=none",                         "polcy",     f'mean "{POLICY}"?'),
    ("a namespace's key",    "enforce=none",                       "enforce",   "unknown key"),
    ("resources, no policy", "resources=cpu",                      "resources", "has no effect without"),
    ("a comma too many",     "policy=none; resources=cpu,",        "resources", "an empty name"),
    ("a name twice",         "policy=none; resources=a, a",        "resources", "named twice"),
    ("a star in the middle", "policy=none; resources=rd*ma",       "resources", "allowed only at the end"),
    ("another script",       "policy=none; resources=gpü",         "resources", "is not a resource name"),
    ("exclusive of what?",   "policy=restricted; exclusive=y",     "exclusive", "; expected one of zone"),
    ("exclusive, opted out", "policy=none; exclusive=zone",        "exclusive", 'no effect with "none"'),
    ("exclusive, at best",   "policy=best-effort; exclusive=zone", "exclusive", "policy to restr"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "places", "text"), table(WRONG))
def test_each_mistake_has_its_place(written: str, places: str, text: str) -> None:
    with pytest.raises(BadIntent) as caught:
        parse(annotations(written))
    where = [mistake.where for mistake in caught.value.mistakes]
    assert where == [f"metadata.annotations[{full(key)}]" for key in places.split()]
    assert text in str(caught.value)


def test_all_mistakes_are_listed_at_once() -> None:
    with pytest.raises(BadIntent) as caught:
        parse(annotations("policy=x; scope=y; resources=a*b,; z="))
    keys = [mistake.where.removesuffix("]").rpartition("/")[2] for mistake in caught.value.mistakes]
    assert keys == ["z", "policy", "resources", "resources", "scope"]


def test_caret_is_under_the_mistake() -> None:
    written = {POLICY: "  strict", RESOURCES: "cpu,"}
    with pytest.raises(BadIntent) as caught:
        parse(written)
    assert [mistake.at for mistake in caught.value.mistakes] == [2, 4]


CONCERNED = [
    # what it shows                        names           resource  named  concerned
    ("nothing written: all, none by name", "",             "cpu",  False, True),
    ("a name is no prefix",                "cpu",          "cpus", False, False),
    ("a prefix",                           "nvidia.com/*", GPU,    True,  True),
    ("a name itself",                      "cpu gpu",      GPU,    True,  True),
    ("a star alone is all of them",        "*",            "cpu",  True,  True),
]  # fmt: skip


@pytest.mark.parametrize(("names", "resource", "named", "concerned"), table(CONCERNED))
def test_intent_names_and_concerns_resources(
    names: str, resource: str, *, named: bool, concerned: bool
) -> None:
    intent = means(f"restricted {names}")
    assert (intent.names(resource), intent.concerns(resource)) == (named, concerned)


def test_unmatched_names_and_prefixes_are_listed() -> None:
    intent = means("restricted cpu gpu rdma/* example.com/*")
    assert [*intent.unmatched({"cpu", "rdma/hca"})] == [GPU, "example.com/*"]


LABELS = [
    # what it shows        labels                             rules
    ("no annotation",      {},                                NamespaceRules()),
    ("a default",          {DEFAULT: "restricted"},           NamespaceRules(default=RESTRICTED)),
    ("to enforce",         {ENFORCE: "best-effort"},          NamespaceRules(enforce=BEST_EFFORT)),
    ("to audit",           {"numalign.io/audit": "none"},     NamespaceRules(audit=NONE)),
    ("admission disabled", {ADMISSION: "disabled"},           NamespaceRules(disabled=True)),
    ("a scheduler",        {SCHEDULER: "numalign-scheduler"}, NamespaceRules(scheduler="numalign-scheduler")),
    ("no scheduler",       {SCHEDULER: ""},                   NamespaceRules()),
    ("a gate",             {GATE: "enabled"},                 NamespaceRules(gate=Gate.ENABLED)),
    ("to be healed",       {HEAL: "running"},                 NamespaceRules(heal=Heal.RUNNING)),
]  # fmt: skip


@pytest.mark.parametrize(("labels", "rules"), table(LABELS))
def test_labels_of_a_namespace_are_read_as_rules(labels: Written, rules: NamespaceRules) -> None:
    assert parse_namespace(labels) == (rules, ())


def test_each_mistake_in_labels_has_its_place() -> None:
    rules, mistakes = parse_namespace(
        {
            ENFORCE: "strict",
            ADMISSION: "off",
            WARN: "restricted",
            "numalign.io/warning": "none",
            SCHEDULER: "Not a name!",
            GATE: "on",
            HEAL: "all",
            EXCLUSIVE_CPUS: "-1",
        }
    )

    assert rules == NamespaceRules(warn=Policy.RESTRICTED)
    keys = ("numalign.io/warning", ENFORCE, ADMISSION, SCHEDULER, GATE, HEAL, EXCLUSIVE_CPUS)
    assert [mistake.where for mistake in mistakes] == [f"metadata.labels[{key}]" for key in keys]


@pytest.mark.parametrize("cpus", ["0", "20", "007", "1000000000"])
def test_label_limits_exclusive_cpus_of_a_namespace(cpus: str) -> None:
    assert parse_namespace({EXCLUSIVE_CPUS: cpus}) == (NamespaceRules(exclusive_cpus=int(cpus)), ())


@pytest.mark.parametrize("text", ["", " 20", "20.0", "2k", "-1", "1000000001", "9" * 5000, "²", "٢"])
def test_invalid_cpu_limit_is_a_mistake_and_no_limit(text: str) -> None:
    rules, [mistake] = parse_namespace({EXCLUSIVE_CPUS: text, WARN: "none"})
    assert rules == NamespaceRules(warn=Policy.NONE)
    assert mistake.message.endswith(
        "is not a whole number of CPUs up to 1000000000, like 20: it limits nothing"
    )
    assert len(mistake.message) < 200


def test_reaction_is_no_part_of_the_intent() -> None:
    assert not NamespaceRules(gate=Gate.ENABLED, heal=Heal.FAILED).has_policy


def test_scheduler_name_is_a_dns_label_or_several() -> None:
    valid, invalid = ("a", "my.own-scheduler", "s" * 63), ("A", "-a", "a-", "a..b", "a b", "s" * 64, "a\n")
    assert [name for name in valid if not_a_scheduler(name)] == []
    assert [name for name in invalid if "is not a scheduler name" not in str(not_a_scheduler(name))] == []


def test_resources_are_limited_in_length_and_number() -> None:
    name = f"{'d' * 253}/{'n' * 63}"
    assert parse({POLICY: "none", RESOURCES: name}) == Intent(Policy.NONE, (name,))
    with pytest.raises(BadIntent) as caught:
        parse({POLICY: "restricted", RESOURCES: ",".join(["a"] * 65)})
    [mistake] = caught.value.mistakes
    assert mistake.message == "names 65 resources: at most 64 are allowed"


def test_first_of_many_unknown_keys_are_listed() -> None:
    with pytest.raises(BadIntent) as caught:
        parse({f"numalign.io/polic{number}": "none" for number in range(1000)})
    assert len(caught.value.mistakes) == 16


MISSPELT = [
    ("restrictd", 'did you mean "restricted"?'),
    ("strict", '"single-numa-node"?'),
    ("", "one of none, "),
]


@pytest.mark.parametrize(("text", "suggestion"), MISSPELT)
def test_misspelt_policy_has_a_suggestion(text: str, suggestion: str) -> None:
    with pytest.raises(BadIntent) as raised:
        intent.policy(text, where="defaults[0].warn")
    (mistake,) = raised.value.mistakes
    assert mistake.where == "defaults[0].warn"
    assert suggestion in mistake.message
    assert [intent.policy(f" {policy} ", where="x") for policy in Policy] == [*Policy]


HUGE = "x" * 3 * 2**20

# What is written, and how the message begins.
LONG: dict[str, tuple[dict[str, str], str]] = {
    "a policy": ({POLICY: HUGE}, f'"{"x" * 77}..." is not a known value'),
    "a policy of blanks": ({POLICY: " " * len(HUGE)}, '"" is not a known value'),
    "Volcano's policy": ({VOLCANO: HUGE}, f'"{"x" * 77}..." is not a known value'),
    "a scope": ({POLICY: "none", SCOPE: HUGE}, f'"{"x" * 77}..." is not a known value'),
    "a key": ({f"numalign.io/{HUGE}": ""}, "unknown key"),
    "a resource": ({POLICY: "none", RESOURCES: f"cpu,{HUGE}"}, f'"{"x" * 77}..." is longer than any'),
    "no resource": ({POLICY: "none", RESOURCES: f"?{HUGE}"}, f'"?{"x" * 76}..." is longer than any'),
}


@pytest.mark.parametrize(("written", "text"), LONG.values(), ids=LONG)
def test_mistake_in_a_long_text_is_short(written: dict[str, str], text: str) -> None:
    with pytest.raises(BadIntent) as caught:
        parse(written)
    [mistake] = caught.value.mistakes
    assert mistake.message.startswith(text)
    assert len(str(mistake)) < 1500


def test_suggestion_compares_a_bounded_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def close(word: str, _known: object, **_options: object) -> list[str]:
        compared.append(len(word))
        return []

    monkeypatch.setattr("difflib.get_close_matches", close)
    for written, _ in LONG.values():
        with contextlib.suppress(BadIntent):
            parse(written)

    assert len(compared) == 5
    assert max(compared) <= 64
