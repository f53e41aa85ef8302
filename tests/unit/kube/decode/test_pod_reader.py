"""One reader of pods: what it says of each, and that a pod that was read before says the same."""

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.pod_question import Exempt, Invalid, Pin, PinReason, PodQuestion, StatedBy
from numalign.kube.decode.pod_reader import UNASKED, PodReader, PodReading
from numalign.kube.effective_policy import DISABLED, EffectivePolicy
from numalign.kube.files.policy import ClusterPolicy, Default, Exemptions
from numalign.kube.kinds import PODS
from numalign.lru import MOST_BYTES
from numalign.model.attributes import NO_SCHEDULE
from numalign.model.constraints import ANYWHERE, Operator, Requirement, Tolerating, Toleration
from numalign.model.errors import Mistake
from numalign.model.intent import UNRULED, Intent, Match, NamespaceRules, Policy
from numalign.model.resources import EMPTY
from tests.worlds.notation import GPU, NIC, asks, means, table
from tests.worlds.webhook import POLICY, Raw, raw, with_spec

SINGLE = "single-numa-node"
GUARANTEED = "cpu=4 mem=1Gi gpu=1"
SPEAKING = raw(GUARANTEED, policy=SINGLE)
SILENT = raw(GUARANTEED)
UNREADABLE = raw(GUARANTEED)
UNREADABLE["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "-1"


def policies(rules: NamespaceRules = UNRULED, policy: ClusterPolicy | None = None) -> EffectivePolicy:
    return EffectivePolicy(policy or ClusterPolicy(), {"team": rules})


def read(readings: PodReader, made: object, rules: NamespaceRules = UNRULED) -> PodReading:
    return readings.read(made, "team", policies(rules))


def read_once(made: object, rules: NamespaceRules = UNRULED) -> PodReading:
    return read(PodReader(), made, rules)


def asked(made: object, rules: NamespaceRules = UNRULED) -> PodQuestion:
    found = read_once(made, rules)
    assert isinstance(found, PodQuestion)
    return found


def with_metadata(made: Raw, **metadata: object) -> Raw:
    return {**made, "metadata": {**made["metadata"], **metadata}}


def annotated(made: Raw, key: str, value: object) -> Raw:
    return with_metadata(made, annotations={**made["metadata"]["annotations"], key: value})


# Who asks, and for what.

DEFAULT, ENFORCED = NamespaceRules(default=Policy(SINGLE)), NamespaceRules(enforce=Policy(SINGLE))
SCOPED = annotated(SILENT, "numalign.io/scope", "pod")
OUT = raw(GUARANTEED, policy="none")

ASKED = [
    # what it shows                     the pod    the rules  intent                      by
    ("the pod asks",                    SPEAKING,  UNRULED,   means(SINGLE),              StatedBy.POD),
    ("the pod comes before a default",  OUT,       DEFAULT,   means("none"),              StatedBy.POD),
    ("a default asks",                  SILENT,    DEFAULT,   means(SINGLE),              StatedBy.NAMESPACE),
    ("a default asks, the pod how",     SCOPED,    DEFAULT,   means(SINGLE, scope="pod"), StatedBy.NAMESPACE),
    ("nobody asks",                     SILENT,    UNRULED,   means("none"),              None),
    ("nobody asks where one is enforced", SILENT,    ENFORCED,  means("none"),              None),
]  # fmt: skip


@pytest.mark.parametrize(("made", "rules", "intent", "by"), table(ASKED))
def test_of_a_pod_it_is_read_that(
    made: Raw, rules: NamespaceRules, intent: object, by: StatedBy | None
) -> None:
    found = asked(made, rules)

    assert (found.question.intent, found.by, found.rules, found.namespace) == (intent, by, rules, "team")
    assert found.question.demand == asks(GUARANTEED)


CONTAINERS = annotated(SPEAKING, "numalign.io/scope", "container")
PODS_SCOPE = annotated(SPEAKING, "numalign.io/scope", "pod")

SCOPES = [
    ("container alignment is its own matter", CONTAINERS, UNRULED, "container"),
    ("a level holds for what the kubelet aligns", CONTAINERS, ENFORCED, None),
    ("a looser level does not care", CONTAINERS, NamespaceRules(enforce=Policy.BEST_EFFORT), "container"),
    ("more than the kubelet aligns may be asked", PODS_SCOPE, ENFORCED, "pod"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "rules", "scope"), table(SCOPES))
def test_a_scope_loosens_no_level(made: Raw, rules: NamespaceRules, scope: str | None) -> None:
    intent = means(SINGLE, scope=scope)

    assert asked(made, rules).question.intent == intent
    assert PodReader().intent(PodReader().request(made), "team", policies(rules)) == intent


MEMORY_TOO = frozenset({"memory"})

LISTED = [
    # what it shows                         what it lists          unhinted       what it leaves out
    ("memory alone",                        "memory",              MEMORY_TOO,    ("cpu", GPU)),
    ("a prefix of it",                      "mem*",                MEMORY_TOO,    ("cpu", GPU)),
    ("devices alone",                       GPU,                   MEMORY_TOO,    ("cpu",)),
    ("no memory, which nobody aligns",      f"cpu,{GPU}",          MEMORY_TOO,    ()),
    ("no memory, which somebody aligns",    f"cpu,{GPU}",          frozenset(),   ("memory",)),
    ("everything",                          f"cpu,memory,{GPU}",   frozenset(),   ()),
    ("everything by one star",              "*",                   frozenset(),   ()),
    ("what nobody requests",                NIC,                   MEMORY_TOO,    ("cpu", GPU)),
    ("that where nobody aligns anything",   NIC, frozenset({"cpu", "memory", GPU}), ("cpu", "memory", GPU)),
]  # fmt: skip


@pytest.mark.parametrize(("listed", "unhinted", "left_out"), table(LISTED))
def test_a_pod_leaves_out_what_kubelets_could_align(
    listed: str, unhinted: frozenset[str], left_out: tuple[str, ...]
) -> None:
    made = annotated(SPEAKING, "numalign.io/resources", listed)
    rules, readings = EffectivePolicy(unhinted=unhinted), PodReader()

    for pod in (made, readings.request(made)):
        found = readings.read(pod, "team", rules)
        assert isinstance(found, PodQuestion)
        assert found.left_out == left_out


def test_a_pod_leaves_out_nothing_that_is_not_pinned_for_it() -> None:
    burstable = annotated(raw("cpu=1..2 mem=1Gi gpu=1", policy=SINGLE), "numalign.io/resources", GPU)

    assert asked(burstable).left_out == ()


def test_how_nodes_must_match_is_the_readers() -> None:
    found = PodReader(Match.EQUAL).read(SPEAKING, "team", policies())

    assert isinstance(found, PodQuestion)
    assert found.question.intent == means(SINGLE, match="equal")


MISSPELT = raw(GUARANTEED, policy="tight")
OFF = NamespaceRules(disabled=True)
POLICY_FILE = ClusterPolicy(
    (Default((Requirement("tier", Operator.DOES_NOT_EXIST),), DEFAULT),),
    Exemptions(("ci:*",), frozenset({"batch"}), frozenset({"kata"})),
)

EXEMPTED = [
    # what it shows                           the pod                                    reason
    ("its namespace is disabled",             SPEAKING,                                  DISABLED),
    ("it is, and nothing of it is clear",     with_spec(MISSPELT, nodeName=7),           DISABLED),
]  # fmt: skip


@pytest.mark.parametrize(("made", "reason"), table(EXEMPTED))
def test_a_pod_is_left_alone_where(made: Raw, reason: str) -> None:
    assert read_once(made, OFF) == Exempt(reason, asks(GUARANTEED))


KATA = with_spec(MISSPELT, runtimeClassName="kata")

BY_POLICY = [
    ("its user is exempt",          SPEAKING, "team",  "ci:x", "users: ci:*"),
    ("its namespace is exempt",     SPEAKING, "batch", "",     "namespaces: batch"),
    ("its runtime class is exempt", KATA,     "team",  "",     "runtimeClasses: kata"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "namespace", "user", "reason"), table(BY_POLICY))
def test_a_pod_is_left_alone_by_the_policy_where(made: Raw, namespace: str, user: str, reason: str) -> None:
    found = PodReader().read(made, namespace, policies(policy=POLICY_FILE), user=user)

    assert found == Exempt(reason, asks(GUARANTEED))


def test_a_default_of_the_policy_is_heard() -> None:
    found = PodReader().read(SILENT, "team", policies(policy=POLICY_FILE))

    assert isinstance(found, PodQuestion)
    assert (found.policy, found.by) == (Policy(SINGLE), StatedBy.NAMESPACE)


SCOPE = "metadata.annotations[numalign.io/scope]"
NO_AFFINITY = with_spec(SILENT, affinity=7)
NEGATIVE = "spec.containers[0].resources.limits.cpu"
SPEAKING_BADLY = {**UNREADABLE, "metadata": SPEAKING["metadata"]}
OUT_BADLY = {**UNREADABLE, "metadata": OUT["metadata"]}

LEFT = [
    # what cannot be read, of which nobody asks anything
    ("its amounts",                      UNREADABLE,  UNRULED, None),
    ("its affinity",                     NO_AFFINITY, UNRULED, asks(GUARANTEED)),
    ("its amounts, and it has opted out", OUT_BADLY,  DEFAULT, None),
]  # fmt: skip


@pytest.mark.parametrize(("made", "rules", "demand"), table(LEFT))
def test_nobody_is_refused_who_asks_nothing_for(made: Raw, rules: NamespaceRules, demand: object) -> None:
    found = read_once(made, rules)

    assert isinstance(found, Exempt)
    assert (found.reason, found.demand, len(found.mistakes)) == (UNASKED, demand, 1)


WRONG = [
    # what it shows                          the pod          the rules  places
    ("a policy that is none",                MISSPELT,        UNRULED,   [f"metadata.annotations[{POLICY}]"]),
    ("a scope without a policy",             SCOPED,          UNRULED,   [SCOPE]),
    ("an amount, where it asks",             SPEAKING_BADLY,  UNRULED,   [NEGATIVE]),
    ("an amount, where a default asks",      UNREADABLE,      DEFAULT,   [NEGATIVE]),
    ("an amount, where a level is enforced", UNREADABLE,      ENFORCED,  [NEGATIVE]),
    ("an affinity, where a default asks",    NO_AFFINITY,     DEFAULT,   ["spec.affinity"]),
    ("all at once, as in a manifest",
        with_spec(annotated(UNREADABLE, POLICY, 7), nodeName=7), UNRULED,
        [f"metadata.annotations[{POLICY}]", NEGATIVE, "spec.nodeName"]),
]  # fmt: skip


@pytest.mark.parametrize(("made", "rules", "places"), table(WRONG))
def test_invalid_is(made: Raw, rules: NamespaceRules, places: list[str]) -> None:
    found = read_once(made, rules)

    assert isinstance(found, Invalid)
    assert [mistake.where for mistake in found.mistakes] == places
    assert (found.demand is None) is (NEGATIVE in places)


def test_where_a_pod_may_go_and_what_it_claims_is_read_with_it() -> None:
    found = asked(
        with_spec(SPEAKING, nodeSelector={"pool": "a"}, resourceClaims=[{"name": "gpus"}], nodeName="n1")
    )

    assert found.constraints.selector == (Requirement("pool", Operator.IN, frozenset({"a"})),)
    assert (found.pin, found.claims, found.excess) == (Pin("n1", PinReason.NODE_NAME), ("gpus",), None)


def test_taints_that_are_named_like_its_devices_are_tolerated_as_admission_may_make_it() -> None:
    own = {"key": "dedicated", "operator": "Exists"}
    found = asked(with_spec(SPEAKING, tolerations=[own]))

    assert found.constraints.tolerations == (
        Toleration("dedicated", Tolerating.EXISTS),
        Toleration(GPU, Tolerating.EXISTS, effect=NO_SCHEDULE),
    )
    assert asked(raw("cpu=4 mem=1Gi", policy=SINGLE)).constraints.tolerations == ()


def test_a_pod_with_more_in_it_than_is_read_may_go_anywhere() -> None:
    found = asked(with_spec(SPEAKING, tolerations=[{"operator": "Exists"}] * 600))

    assert found.excess
    assert found.constraints is ANYWHERE


HEARD = [
    ("asked",     SPEAKING,   UNRULED),
    ("defaulted", SCOPED,     DEFAULT),
    ("invalid",   SCOPED,     UNRULED),
    ("exempt",    MISSPELT,   OFF),
    ("left",      UNREADABLE, UNRULED),
]  # fmt: skip


@pytest.mark.parametrize(("made", "rules"), table(HEARD))
def test_of_a_pod_that_runs_the_same_is_said_as_when_it_was_made(made: Raw, rules: NamespaceRules) -> None:
    heard = PodReader().read(PodReader().request(made), "team", policies(rules))

    found = read_once(made, rules)
    assert heard == (replace(found, constraints=ANYWHERE) if isinstance(found, PodQuestion) else found)


def test_to_count_pods_that_run_takes_no_room_from_those_that_come() -> None:
    readings = PodReader()

    readings.read(PodReader().request(SPEAKING), "team", policies())

    assert {len(cache) for cache in readings.caches().values()} == {0}


def test_a_pod_that_runs_in_an_exempt_runtime_class_is_left_alone() -> None:
    asked_of = policies(policy=POLICY_FILE)

    heard = PodReader().read(PodReader().request(KATA), "team", asked_of)

    assert heard == PodReader().read(KATA, "team", asked_of)
    assert isinstance(heard, Exempt)


# What is remembered.


def owned(uid: str) -> list[Raw]:
    return [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"w-{uid}", "uid": uid, "controller": True}
    ]


OF_ONE_TEMPLATE = [
    ("its name",                    with_metadata(SPEAKING, name="web-7")),
    ("where it was placed",         annotated(SPEAKING, "numalign.io/placement", "[]")),
    ("the stem of its name",        with_metadata(SPEAKING, generateName="web-x-")),
    ("its labels",                  with_metadata(SPEAKING, labels={"a": "b"})),
    ("an annotation of others",     annotated(SPEAKING, "checksum/config", "7")),
    ("what it runs",                with_spec(SPEAKING, volumes=[{"name": "token-x7"}], hostname="p")),
    ("what it wants of other pods", with_spec(SPEAKING, affinity={"podAffinity": {}})),
    ("its status",                  {**SPEAKING, "status": {"phase": "Pending"}}),
]  # fmt: skip


@pytest.mark.parametrize("other", table(OF_ONE_TEMPLATE))
def test_what_is_of_one_pod_alone_makes_no_other_template(other: Raw) -> None:
    readings = PodReader()
    first = read(readings, with_spec(SPEAKING, affinity={}))

    assert read(readings, with_spec(other, affinity={})) is first
    assert readings.request(other) is readings.request(PODS.described(other)) is readings.request(SPEAKING)
    assert len(readings.caches()["readings"]) == 1


def test_owners_differ_by_what_they_are_and_not_by_which() -> None:
    readings = PodReader()
    for uid in ("1", "2"):
        read(readings, with_metadata(SPEAKING, ownerReferences=owned(uid)))

    assert len(readings.caches()["readings"]) == 1


OTHERS = [
    ("another amount",     raw("cpu=5 mem=1Gi gpu=1", policy=SINGLE)),
    ("another policy",     raw(GUARANTEED, policy="restricted")),
    ("another annotation", annotated(SPEAKING, "numalign.io/scope", "pod")),
    ("a node",             with_spec(SPEAKING, nodeName="n1")),
    ("a selector",         with_spec(SPEAKING, nodeSelector={"a": "b"})),
    ("a toleration",       with_spec(SPEAKING, tolerations=[{"operator": "Exists"}])),
    ("a claim",            with_spec(SPEAKING, resourceClaims=[{"name": "gpus"}])),
]  # fmt: skip


@pytest.mark.parametrize("other", table(OTHERS))
def test_what_says_something_else_is_read_by_itself(other: Raw) -> None:
    readings = PodReader()

    assert read(readings, SPEAKING) == read_once(SPEAKING)
    assert read(readings, other) == read_once(other) != read(readings, SPEAKING)


def test_a_resource_that_no_plugin_serves_counts_for_the_node_as_a_whole_alone() -> None:
    readings, by_policy = PodReader(), policies(policy=ClusterPolicy(unaligned=frozenset({GPU})))
    before, found = asked(SPEAKING), readings.read(SPEAKING, "team", by_policy)

    assert isinstance(found, PodQuestion)
    assert (found.question.demand.whole.devices, found.question.demand.total) == (
        EMPTY,
        before.question.demand.total,
    )
    # Another policy may come at any time.
    assert read(readings, SPEAKING) == before


def test_what_is_asked_of_a_namespace_is_heard_anew() -> None:
    readings = PodReader()

    found = [read(readings, SILENT, rules) for rules in (UNRULED, DEFAULT, OFF, UNRULED)]

    assert found == [read_once(SILENT, rules) for rules in (UNRULED, DEFAULT, OFF, UNRULED)]
    assert len({*map(repr, found)}) == 3


def test_questions_that_are_equal_are_one() -> None:
    readings = PodReader()
    free, tied = read(readings, SPEAKING), read(readings, with_spec(SPEAKING, nodeName="n1"))

    assert isinstance(free, PodQuestion)
    assert isinstance(tied, PodQuestion)
    assert free.question is tied.question


BROKEN = [
    ("an amount",  raw("cpu=4", policy="tight")),
    ("a spec",     {**SPEAKING, "spec": []}),
    ("everything", with_spec(SPEAKING, containers=[{}], nodeName={}, tolerations=7)),
]  # fmt: skip


@pytest.mark.parametrize("made", table(BROKEN))
def test_mistakes_are_told_again_and_again(made: Raw) -> None:
    readings = PodReader()

    first = read(readings, made)

    assert isinstance(first, Invalid)
    assert read(readings, made) == first == read_once(made)


def test_no_more_is_remembered_than_may_be() -> None:
    readings = PodReader(remembered=3)
    for number in range(9):
        read(readings, raw(f"cpu={number} mem=1Gi", policy=SINGLE))

    assert len(readings.caches()["readings"]) == 3


def large(number: int) -> Raw:
    """A pod of many containers, each with a name as long as nobody writes."""
    made = raw(*[GUARANTEED] * 20, policy=SINGLE)
    for at, container in enumerate(made["spec"]["containers"]):
        container["name"] = f"c-{at}-{number}-{'x' * 15_000}"
    return made


def choosy(number: int) -> Raw:
    """A pod that selects its nodes by as many long labels as are read."""
    return with_spec(SPEAKING, nodeSelector={f"{at}-{number}": f"{at}{'x' * 2000}" for at in range(500)})


def test_what_is_large_is_read_once_as_well() -> None:
    readings, made = PodReader(), large(1)
    first = read(readings, made)

    assert first == read_once(made)
    assert read(readings, large(1)) is first
    assert readings.request(large(1)) is readings.request(made)


@pytest.mark.full
@pytest.mark.parametrize("made", [large, choosy])
def test_what_is_remembered_is_bounded_in_bytes(made: Any) -> None:  # noqa: ANN401  makes a pod
    readings = PodReader()
    for number in range(80):
        read(readings, made(number))

    sizes = {name: (cache.bytes <= MOST_BYTES, len(cache)) for name, cache in readings.caches().items()}
    assert sizes.keys() == {"readings", "askings", "questions"}
    assert all(small and count < 80 for small, count in sizes.values()), sizes
    assert sizes["readings"][1] > 10


SCRAPS = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(["", "c0", "2", "DaemonSet"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from([
                "name", "resources", "limits", "requests", "cpu", "kind", "apiVersion", "controller",
                "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms",
                "matchFields", "matchExpressions", "key", "operator", "values", "value", "effect",
            ]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)  # fmt: skip

METADATA = st.fixed_dictionaries(
    {
        "annotations": st.just({POLICY: "restricted"})
        | st.dictionaries(st.sampled_from([POLICY, "x"]), SCRAPS)
        | SCRAPS
    },
    optional=dict.fromkeys(("name", "generateName", "namespace", "labels", "ownerReferences"), SCRAPS),
)
SPECS = st.fixed_dictionaries(
    {"containers": st.just(SPEAKING["spec"]["containers"]) | SCRAPS},
    optional=dict.fromkeys(
        (
            *("initContainers", "nodeName", "affinity", "overhead", "resources", "x"),
            *("nodeSelector", "tolerations", "resourceClaims", "runtimeClassName"),
        ),
        SCRAPS,
    ),
)
WRITTEN = st.fixed_dictionaries({"metadata": METADATA | SCRAPS, "spec": SPECS | SCRAPS}) | SCRAPS


def mistakes(found: PodReading) -> tuple[Mistake, ...]:
    return () if isinstance(found, PodQuestion) else found.mistakes


@given(
    st.lists(WRITTEN, min_size=1, max_size=4),
    st.sampled_from([UNRULED, NamespaceRules(warn=Policy(SINGLE)), OFF]),
)
def test_whatever_is_written_is_read_or_told_and_says_the_same_to_one_who_has_read_nothing_yet(
    made: list[object], rules: NamespaceRules
) -> None:
    readings = PodReader()
    for each in made * 2:
        request = readings.request(each)
        assert bool(request.unreadable) == (request.demand is None)
        assert readings.request(each) is request
        found = read(readings, orjson.loads(orjson.dumps(each)), rules)
        assert found == read_once(each, rules)
        places = [mistake.where for mistake in mistakes(found)]
        assert isinstance(found, Exempt) or len(places) == len({*places})


# What is asked of pods that are there.

ALONE = annotated(SPEAKING, "numalign.io/exclusive", "zone")
THERE = [
    # what it shows, the pod
    #     the rules of its namespace, its intent
    ("it says so itself", ALONE,
         UNRULED, means(SINGLE, exclusive=True)),
    ("its namespace says so", SILENT,
         DEFAULT, means(SINGLE)),
    ("its namespace gives it a policy", annotated(SILENT, "numalign.io/exclusive", "zone"),
         DEFAULT, means(SINGLE, exclusive=True)),
    ("nobody says anything", SILENT,
         UNRULED, means("none")),
    ("what is enforced is no intent", SILENT,
         ENFORCED, means("none")),
    ("nobody looks", ALONE,
         NamespaceRules(disabled=True), means("none")),
    ("of what cannot be read the policy counts", annotated(ALONE, "numalign.io/scope", "planet"),
         UNRULED, means(SINGLE)),
    ("alone without a policy", annotated(SILENT, "numalign.io/exclusive", "zone"),
         UNRULED, means("none")),
    ("no policy that can be read", raw(GUARANTEED, policy="tight"),
         UNRULED, means("none")),
]  # fmt: skip


@pytest.mark.parametrize(("made", "rules", "intent"), table(THERE))
def test_what_is_asked_of_a_pod_that_is_there(made: Raw, rules: NamespaceRules, intent: Intent) -> None:
    reader = PodReader()
    request = reader.request(made)

    assert reader.intent(request, "team", policies(rules)) == intent
    assert reader.intent(request, "team", policies(rules)) is reader.intent(request, "team", policies(rules))


def test_of_a_pod_that_is_exempt_nothing_is_asked() -> None:
    exempt = policies(policy=ClusterPolicy(exemptions=Exemptions(namespaces=frozenset({"team"}))))

    assert PodReader().intent(PodReader().request(ALONE), "team", exempt) == means("none")
