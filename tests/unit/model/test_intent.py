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
AUDIT = "numalign.io/audit"
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
def test_policies_run_from_loose_to_tight(one: Policy, other: Policy, *, least: bool) -> None:
    assert one.at_least(other) is least


ALONE = means("restricted", exclusive=True)

READ = [
    # what it shows              written                                   intent
    ("nothing is said",          "",                                       None),
    ("a policy alone",           "policy=restricted",                      means("restricted")),
    ("blanks around a word",     "policy= none ",                          means("none")),
    ("a scope",                  "policy=restricted; scope=pod",           means("restricted", scope="pod")),
    ("resources in their order", "policy=restricted; resources=rdma ,cpu", means("restricted rdma cpu")),
    ("a prefix",                 "policy=restricted; resources=rdma/*",    means("restricted rdma/*")),
    ("zones of its own",         "policy=restricted; exclusive= zone",     ALONE),
    ("volcano's word",           "volcano=single-numa-node",               means("single-numa-node")),
    ("both words agree",         "volcano=restricted; policy=restricted",  means("restricted")),
    ("what numalign writes",     "placement=[]; placement-observed=[]",    None),
]  # fmt: skip


@pytest.mark.parametrize(("written", "intent"), table(READ))
def test_annotations_mean(written: str, intent: Intent | None) -> None:
    assert parse(annotations(written)) == intent


def test_default_applies_to_pods_without_intent() -> None:
    assert parse({}, default=RESTRICTED) == means("restricted")


def test_the_pod_overrules_a_default() -> None:
    assert parse({POLICY: "none"}, default=RESTRICTED) == means("none")


def test_a_default_gives_a_scope_alone_its_policy() -> None:
    assert parse({SCOPE: "pod"}, default=RESTRICTED) == means("restricted", scope="pod")


def test_a_default_that_binds_gives_a_pod_zones_of_its_own() -> None:
    assert parse({EXCLUSIVE: "zone"}, default=RESTRICTED) == means("restricted", exclusive=True)


@pytest.mark.parametrize("default", [NONE, BEST_EFFORT])
def test_default_of_none_gives_no_own_zones(default: Policy) -> None:
    with pytest.raises(BadIntent, match=r"has no effect with the namespace's default: set numalign.io/"):
        parse({EXCLUSIVE: "zone"}, default=default)


def test_unreadable_policy_is_not_the_default() -> None:
    (mistake,) = read({POLICY: "x", EXCLUSIVE: "zone"}).wrong(BEST_EFFORT)

    assert mistake.where == f"metadata.annotations[{POLICY}]"


def test_how_a_node_must_match_comes_from_the_settings() -> None:
    assert parse({POLICY: "restricted"}, match=Match.EQUAL) == means("restricted", match="equal")


WRONG = [
    # what it shows          written                            places             a part of the answer
    ("an unknown word",      "policy=tight",                    "policy",          "one of none, best"),
    ("a slip",               "policy=restriced",                "policy",          ('did you mean'
                                                                                   ' "restricted"?')),
    ("another case",         "policy=Restricted",               "policy",          ('did you mean'
                                                                                   ' "restricted"?')),
    ("a habit",              "policy=singleNUMANode",           "policy",          '"single-numa-node"'),
    ("an empty word",        "policy=",                         "policy",          '"" is not a known value'),
    ("an unknown scope",     "policy=none; scope=pods",         "scope",           'did you mean "pod"?'),
    ("a word volcano lacks", "volcano=x",                       "volcano",         "not a known value"),
    ("two that differ",      "policy=none; volcano=restricted", "policy",          "remove one, or make"),
    ("a key that is a slip", "polcy=none",                      "polcy",           ('did you mean'
                                                                                   f' "{POLICY}"?')),
    ("a key like no other",  "x=1",                             "x",               "known keys"),
    ("a namespace's key",    "enforce=none",                    "enforce",         "unknown key"),
    ("resources, no policy", "resources=cpu",                   "resources",       "has no effect without"),
    ("a scope, no policy",   "scope=pod",                       "scope",           "has no effect without"),
    ("both, no policy",      "scope=pod; resources=cpu",        "resources scope", "has no effect without"),
    ("a comma too many",     "policy=none; resources=cpu,",     "resources",       "an empty name"),
    ("no name at all",       "policy=none; resources= ",        "resources",       "an empty name"),
    ("a name twice",         "policy=none; resources=a, a",     "resources",       "named twice"),
    ("a star in the middle", "policy=none; resources=rd*ma",    "resources",       "allowed only at the end"),
    ("two names, no comma",  "policy=none; resources=cpu gpu",  "resources",       "is not a resource name"),
    ("another script",       "policy=none; resources=gpü",      "resources",       "is not a resource name"),
    ("exclusive of what?",   "policy=restricted; exclusive=y",  "exclusive",       ("value; expected one"
                                                                                   " of zone")),
    ("exclusive of nothing", "policy=restricted; exclusive=",   "exclusive",       "not a known value"),
    ("exclusive, no policy", "exclusive=zone",                  "exclusive",       "has no effect without"),
    ("exclusive, at best",   "policy=best-effort; exclusive=zone", "exclusive",    "policy to restr"),
    ("exclusive, opted out", "policy=none; exclusive=zone",     "exclusive",       'no effect with "none"'),
    ("as volcano says it",   "volcano=none; exclusive=zone",    "exclusive",       'no effect with "none"'),
    ("exclusive and a slip", "policy=x; exclusive=zone",        "policy",          "not a known value"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "places", "said"), table(WRONG))
def test_each_mistake_has_its_place(written: str, places: str, said: str) -> None:
    with pytest.raises(BadIntent) as caught:
        parse(annotations(written))

    found = [mistake.where for mistake in caught.value.mistakes]
    assert found == [f"metadata.annotations[{full(key)}]" for key in places.split()]
    assert said in str(caught.value)


def test_all_mistakes_are_listed_at_once() -> None:
    with pytest.raises(BadIntent) as caught:
        parse(annotations("policy=x; scope=y; resources=a*b,; z="))

    found = [mistake.where.removesuffix("]").rpartition("/")[2] for mistake in caught.value.mistakes]
    assert found == ["z", "policy", "resources", "resources", "scope"]


def test_scope_without_policy_is_one_of_the_mistakes() -> None:
    with pytest.raises(BadIntent) as caught:
        parse({RESOURCES: "cpu,", SCOPE: "pod"})

    assert "an empty name" in str(caught.value)
    assert "has no effect without" in str(caught.value)


POINTED_AT = [
    # what it shows                     written                                   at
    ("the word behind its blanks",      "policy=  strict",                        2),
    ("the third name",                  "policy=none; resources=cpu, mem, rd*ma", 10),
    ("the empty name behind the comma", "policy=none; resources=cpu,",            4),
]  # fmt: skip


@pytest.mark.parametrize(("written", "at"), table(POINTED_AT))
def test_caret_is_under_the_mistake(written: str, at: int) -> None:
    with pytest.raises(BadIntent) as caught:
        parse(annotations(written))

    assert [mistake.at for mistake in caught.value.mistakes] == [at]


CONCERNED = [
    # what it shows                        names           resource  named  concerned
    ("nothing written: all, none by name", "",             "cpu",    False, True),
    ("a name itself",                      "cpu gpu",      GPU,      True,  True),
    ("another name",                       "cpu gpu",      "memory", False, False),
    ("a name is no prefix",                "cpu",          "cpus",   False, False),
    ("a prefix",                           "nvidia.com/*", GPU,      True,  True),
    ("another prefix",                     "rdma/*",       GPU,      False, False),
    ("a star alone is all of them",        "*",            "cpu",    True,  True),
]  # fmt: skip


@pytest.mark.parametrize(("names", "resource", "named", "concerned"), table(CONCERNED))
def test_an_intent_concerns(names: str, resource: str, *, named: bool, concerned: bool) -> None:
    intent = means(f"restricted {names}")

    assert (intent.names(resource), intent.concerns(resource)) == (named, concerned)


def test_names_and_prefixes_that_match_nothing() -> None:
    intent = means("restricted cpu gpu rdma/* example.com/*")

    assert [*intent.unmatched({"cpu", "rdma/hca"})] == [GPU, "example.com/*"]


LABELS = [
    # what it shows      labels                      rules
    ("nothing is said",  {},                         NamespaceRules()),
    ("a default",        {DEFAULT: "restricted"},    NamespaceRules(default=RESTRICTED)),
    ("to enforce",       {ENFORCE: "best-effort"},   NamespaceRules(enforce=BEST_EFFORT)),
    ("to warn",          {WARN: "single-numa-node"}, NamespaceRules(warn=SINGLE)),
    ("to audit",         {AUDIT: "none"},            NamespaceRules(audit=NONE)),
    ("to be left alone", {ADMISSION: "disabled"},    NamespaceRules(disabled=True)),
    ("to be looked at",  {ADMISSION: "enabled"},     NamespaceRules()),
    ("who schedules",    {SCHEDULER: "numalign-scheduler"}, NamespaceRules(scheduler="numalign-scheduler")),
    ("nobody by name",   {SCHEDULER: ""},            NamespaceRules()),
    ("a gate",           {GATE: "enabled"},          NamespaceRules(gate=Gate.ENABLED)),
    ("no gate",          {GATE: "disabled"},         NamespaceRules(gate=Gate.DISABLED)),
    ("to be healed",     {HEAL: "running"},          NamespaceRules(heal=Heal.RUNNING)),
    ("others' labels",   {"team": "a"},              NamespaceRules()),
]  # fmt: skip


@pytest.mark.parametrize(("labels", "rules"), table(LABELS))
def test_labels_mean(labels: Written, rules: NamespaceRules) -> None:
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
    assert [mistake.where for mistake in mistakes] == [
        "metadata.labels[numalign.io/warning]",
        f"metadata.labels[{ENFORCE}]",
        f"metadata.labels[{ADMISSION}]",
        f"metadata.labels[{SCHEDULER}]",
        f"metadata.labels[{GATE}]",
        f"metadata.labels[{HEAL}]",
        f"metadata.labels[{EXCLUSIVE_CPUS}]",
    ]


@pytest.mark.parametrize("cpus", ["0", "20", "007", "1000000000"])
def test_a_label_limits_the_exclusive_cpus_of_a_namespace(cpus: str) -> None:
    assert parse_namespace({EXCLUSIVE_CPUS: cpus}) == (NamespaceRules(exclusive_cpus=int(cpus)), ())


@pytest.mark.parametrize("text", ["", " 20", "20.0", "2k", "-1", "1000000001", "9" * 5000, "²", "٢"])
def test_invalid_cpu_limit_is_a_mistake_and_no_limit(text: str) -> None:
    rules, [mistake] = parse_namespace({EXCLUSIVE_CPUS: text, WARN: "none"})

    assert rules == NamespaceRules(warn=Policy.NONE)
    assert mistake.message.endswith(
        "is not a whole number of CPUs up to 1000000000, like 20: it limits nothing"
    )
    assert len(mistake.message) < 200


@pytest.mark.parametrize("rules", [NamespaceRules(gate=Gate.ENABLED), NamespaceRules(heal=Heal.FAILED)])
def test_reaction_is_no_part_of_the_intent(rules: NamespaceRules) -> None:
    assert not rules.has_policy


@pytest.mark.parametrize("name", ["a", "numalign-scheduler", "my.own-scheduler", "s" * 63])
def test_a_scheduler_can_be_called(name: str) -> None:
    assert not_a_scheduler(name) is None


@pytest.mark.parametrize("name", ["A", "-a", "a-", "a..b", "a b", "s" * 64, "a\n"])
def test_no_scheduler_can_be_called(name: str) -> None:
    assert "is not a scheduler name" in str(not_a_scheduler(name))


def test_too_many_resources_are_one_mistake() -> None:
    with pytest.raises(BadIntent) as caught:
        parse({POLICY: "restricted", RESOURCES: ",".join(["a"] * 65)})

    [mistake] = caught.value.mistakes
    assert mistake.message == "names 65 resources: at most 64 are allowed"


def test_first_of_many_unknown_keys_are_listed() -> None:
    with pytest.raises(BadIntent) as caught:
        parse({f"numalign.io/polic{number}": "none" for number in range(1000)})

    assert len(caught.value.mistakes) == 16


@pytest.mark.parametrize("policy", Policy)
def test_a_policy_goes_by_its_name(policy: Policy) -> None:
    assert intent.policy(f" {policy} ", where="here") is policy


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("restrictd", 'did you mean "restricted"?'),
        ("strict", 'did you mean "single-numa-node"?'),
        ("", "one of none, "),
    ],
)
def test_misspelt_policy_has_a_suggestion(text: str, meant: str) -> None:
    with pytest.raises(BadIntent) as raised:
        intent.policy(text, where="defaults[0].warn")

    (mistake,) = raised.value.mistakes
    assert mistake.where == "defaults[0].warn"
    assert meant in mistake.message


HUGE = "x" * 3 * 2**20

# What is written, and the beginning of what is said of it.
LONG: dict[str, tuple[dict[str, str], str]] = {
    "a policy": ({POLICY: HUGE}, f'"{"x" * 77}..." is not a known value'),
    "a policy of blanks": ({POLICY: " " * len(HUGE)}, '"" is not a known value'),
    "Volcano's policy": ({VOLCANO: HUGE}, f'"{"x" * 77}..." is not a known value'),
    "a scope": ({POLICY: "none", SCOPE: HUGE}, f'"{"x" * 77}..." is not a known value'),
    "a key": ({f"numalign.io/{HUGE}": ""}, "unknown key"),
    "a resource": ({POLICY: "none", RESOURCES: f"cpu,{HUGE}"}, f'"{"x" * 77}..." is longer than any'),
    "no resource": ({POLICY: "none", RESOURCES: f"?{HUGE}"}, f'"?{"x" * 76}..." is longer than any'),
}


@pytest.mark.parametrize(("written", "said"), LONG.values(), ids=LONG)
def test_a_text_of_megabytes_is_answered_shortly(written: dict[str, str], said: str) -> None:
    with pytest.raises(BadIntent) as caught:
        parse(written)

    [mistake] = caught.value.mistakes
    assert mistake.message.startswith(said)
    assert len(str(mistake)) < 1500


def test_suggestion_compares_a_bounded_prefix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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


def test_the_longest_name_of_a_resource_is_one() -> None:
    name = f"{'d' * 253}/{'n' * 63}"

    assert parse({POLICY: "none", RESOURCES: name}) == Intent(Policy.NONE, (name,))
