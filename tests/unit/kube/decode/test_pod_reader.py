"""One reader of pods: questions, exemptions and mistakes, read once per template."""

import gc
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.pod_question import Exempt, Invalid, Pin, PinReason, PodQuestion, StatedBy
from numalign.kube.decode.pod_reader import UNASKED, PodReader, PodReading
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.files.policy import ClusterPolicy, Default, Exemptions
from numalign.kube.kinds import PODS
from numalign.lru import MOST_LARGE
from numalign.model.attributes import NO_SCHEDULE
from numalign.model.constraints import ANYWHERE, Operator, Requirement, Tolerating, Toleration
from numalign.model.intent import UNRULED, Intent, NamespaceRules, Policy
from numalign.model.resources import EMPTY
from tests.worlds.notation import GPU, NIC, asks, means, table
from tests.worlds.scraps import documents
from tests.worlds.webhook import POLICY, Raw, raw, with_spec

SINGLE = "single-numa-node"
GUARANTEED = "cpu=4 mem=1Gi gpu=1"
STATED = raw(GUARANTEED, policy=SINGLE)
UNSTATED = raw(GUARANTEED)
UNREADABLE = raw(GUARANTEED)
UNREADABLE["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "-1"


def policies(rules: NamespaceRules = UNRULED, policy: ClusterPolicy | None = None) -> EffectivePolicy:
    return EffectivePolicy(policy or ClusterPolicy(), {"team": rules})


def read(readings: PodReader, made: object, rules: NamespaceRules = UNRULED) -> PodReading:
    return readings.read(made, "team", policies(rules))


def read_once(made: object, rules: NamespaceRules = UNRULED) -> PodReading:
    return read(PodReader(), made, rules)


def question(made: object, rules: NamespaceRules = UNRULED) -> PodQuestion:
    reading = read_once(made, rules)
    assert isinstance(reading, PodQuestion)
    return reading


def with_metadata(made: Raw, **metadata: object) -> Raw:
    return {**made, "metadata": {**made["metadata"], **metadata}}


def annotated(made: Raw, key: str, value: object) -> Raw:
    return with_metadata(made, annotations={**made["metadata"]["annotations"], key: value})


DEFAULT, ENFORCED = NamespaceRules(default=Policy(SINGLE)), NamespaceRules(enforce=Policy(SINGLE))
SCOPED = annotated(UNSTATED, "numalign.io/scope", "pod")
OUT = raw(GUARANTEED, policy="none")


@pytest.mark.parametrize(("made", "rules", "intent", "by"), table([
    # what it shows                     the pod    the rules  intent                      by
    ("the pod asks",                    STATED,  UNRULED,   means(SINGLE),              StatedBy.POD),
    ("the pod comes before a default",  OUT,       DEFAULT,   means("none"),              StatedBy.POD),
    ("a default asks",                  UNSTATED,  DEFAULT,   means(SINGLE),              StatedBy.NAMESPACE),
    ("a default asks, the pod how",     SCOPED,    DEFAULT,   means(SINGLE, scope="pod"), StatedBy.NAMESPACE),
    ("no policy",                       UNSTATED,  UNRULED,   means("none"),              None),
    ("an enforced level is no intent",  UNSTATED,  ENFORCED,  means("none"),              None),
]))  # fmt: skip
def test_the_intent_and_its_source(made: Raw, rules: NamespaceRules, intent: object, by: object) -> None:
    reading = question(made, rules)
    assert (reading.question.intent, reading.by, reading.rules) == (intent, by, rules)
    assert (reading.namespace, reading.question.demand) == ("team", asks(GUARANTEED))


CONTAINERS = annotated(STATED, "numalign.io/scope", "container")
PODS_SCOPE = annotated(STATED, "numalign.io/scope", "pod")


@pytest.mark.parametrize(("made", "rules", "scope"), table([
    ("container alignment is its own matter", CONTAINERS, UNRULED, "container"),
    ("a level holds for what the kubelet aligns", CONTAINERS, ENFORCED, None),
    ("more than the kubelet aligns may be asked", PODS_SCOPE, ENFORCED, "pod"),
]))  # fmt: skip
def test_a_container_scope_loosens_no_level(made: Raw, rules: NamespaceRules, scope: str | None) -> None:
    intent = means(SINGLE, scope=scope)
    assert question(made, rules).question.intent == intent
    assert PodReader().intent(PodReader().request(made), "team", policies(rules)) == intent


MEMORY_TOO = frozenset({"memory"})


@pytest.mark.parametrize(("listed", "unhinted", "left_out"), table([
    # what it shows                         what it lists          unhinted       what it leaves out
    ("unaligned memory left out",      f"cpu,{GPU}",          MEMORY_TOO,    ()),
    ("aligned memory left out",    f"cpu,{GPU}",          frozenset(),   ("memory",)),
    ("everything",                          f"cpu,memory,{GPU}",   frozenset(),   ()),
    ("an unrequested resource",                NIC,                   MEMORY_TOO,    ("cpu", GPU)),
]))  # fmt: skip
def test_resources_that_are_left_out(listed: str, unhinted: frozenset[str], left_out: object) -> None:
    made = annotated(STATED, "numalign.io/resources", listed)
    rules, readings = EffectivePolicy(unhinted=unhinted), PodReader()
    for pod in (made, readings.request(made)):
        reading = readings.read(pod, "team", rules)
        assert isinstance(reading, PodQuestion)
        assert reading.left_out == left_out


def test_unpinned_resources_are_not_left_out() -> None:
    burstable = annotated(raw("cpu=1..2 mem=1Gi gpu=1", policy=SINGLE), "numalign.io/resources", GPU)
    assert question(burstable).left_out == ()


MISSPELT = raw(GUARANTEED, policy="tight")
OFF = NamespaceRules(disabled=True)
POLICY_FILE = ClusterPolicy(
    (Default((Requirement("tier", Operator.DOES_NOT_EXIST),), DEFAULT),),
    Exemptions(("ci:*",), frozenset({"batch"}), frozenset({"kata"})),
)


KATA = with_spec(MISSPELT, runtimeClassName="kata")


@pytest.mark.parametrize(("made", "namespace", "user", "reason"), table([
    ("its user is exempt",          STATED, "team",  "ci:x", "users: ci:*"),
    ("its namespace is exempt",     STATED, "batch", "",     "namespaces: batch"),
    ("its runtime class is exempt", KATA,     "team",  "",     "runtimeClasses: kata"),
]))  # fmt: skip
def test_pods_exempt_by_the_policy(made: Raw, namespace: str, user: str, reason: str) -> None:
    reading = PodReader().read(made, namespace, policies(policy=POLICY_FILE), user=user)
    assert reading == Exempt(reason, asks(GUARANTEED))


SCOPE = "metadata.annotations[numalign.io/scope]"
NO_AFFINITY = with_spec(UNSTATED, affinity=7)
NEGATIVE = "spec.containers[0].resources.limits.cpu"
OUT_BADLY = {**UNREADABLE, "metadata": OUT["metadata"]}


@pytest.mark.parametrize(("made", "rules"), table([
    # what cannot be read of a pod without a policy
    ("its amounts",                      UNREADABLE,  UNRULED),
    ("its amounts, and it has opted out", OUT_BADLY,  DEFAULT),
]))  # fmt: skip
def test_mistakes_of_a_pod_without_a_policy_are_exempt(made: Raw, rules: NamespaceRules) -> None:
    reading = read_once(made, rules)
    assert isinstance(reading, Exempt)
    assert (reading.reason, reading.demand, len(reading.mistakes)) == (UNASKED, None, 1)


@pytest.mark.parametrize(("made", "rules", "places"), table([
    # what it shows                          the pod          the rules  places
    ("a policy that is none",                MISSPELT,        UNRULED,   [f"metadata.annotations[{POLICY}]"]),
    ("a scope without a policy",             SCOPED,          UNRULED,   [SCOPE]),
    ("an amount, where a default asks",      UNREADABLE,      DEFAULT,   [NEGATIVE]),
    ("an affinity, where a default asks",    NO_AFFINITY,     DEFAULT,   ["spec.affinity"]),
    ("all at once, as in a manifest",
        with_spec(annotated(UNREADABLE, POLICY, 7), nodeName=7), UNRULED,
        [f"metadata.annotations[{POLICY}]", NEGATIVE, "spec.nodeName"]),
]))  # fmt: skip
def test_invalid_pods(made: Raw, rules: NamespaceRules, places: list[str]) -> None:
    reading = read_once(made, rules)
    assert isinstance(reading, Invalid)
    assert [mistake.where for mistake in reading.mistakes] == places
    assert (reading.demand is None) is (NEGATIVE in places)


def test_constraints_and_claims_are_read() -> None:
    reading = question(
        with_spec(STATED, nodeSelector={"pool": "a"}, resourceClaims=[{"name": "gpus"}], nodeName="n1")
    )
    assert reading.constraints.selector == (Requirement("pool", Operator.IN, frozenset({"a"})),)
    assert (reading.pin, reading.claims, reading.excess) == (Pin("n1", PinReason.NODE_NAME), ("gpus",), None)


def test_taints_named_like_devices_are_tolerated() -> None:
    own = {"key": "dedicated", "operator": "Exists"}
    reading = question(with_spec(STATED, tolerations=[own]))
    assert reading.constraints.tolerations == (
        Toleration("dedicated", Tolerating.EXISTS),
        Toleration(GPU, Tolerating.EXISTS, effect=NO_SCHEDULE),
    )
    assert question(raw("cpu=4 mem=1Gi", policy=SINGLE)).constraints.tolerations == ()


@pytest.mark.parametrize(("made", "rules"), table([
    ("stated",    STATED,   UNRULED),
    ("invalid",   SCOPED,     UNRULED),
    ("exempt",    MISSPELT,   OFF),
    ("left",      UNREADABLE, UNRULED),
]))  # fmt: skip
def test_a_running_pod_reads_as_when_it_was_created(made: Raw, rules: NamespaceRules) -> None:
    reader, reading = PodReader(), read_once(made, rules)
    running = reader.read(PodReader().request(made), "team", policies(rules))
    if isinstance(reading, PodQuestion):
        reading = replace(reading, constraints=ANYWHERE)
    assert running == reading
    assert {len(cache) for cache in reader.caches().values()} == {0}


@pytest.mark.parametrize("other", table([
    ("its name",                    with_metadata(STATED, name="web-7")),
    ("its labels",                  with_metadata(STATED, labels={"a": "b"})),
    ("what it runs",                with_spec(STATED, volumes=[{"name": "token-x7"}], hostname="p")),
    ("what it wants of other pods", with_spec(STATED, affinity={"podAffinity": {}})),
]))  # fmt: skip
def test_pods_of_one_template_share_a_reading(other: Raw) -> None:
    readings = PodReader()
    first = read(readings, with_spec(STATED, affinity={}))
    assert read(readings, with_spec(other, affinity={})) is first
    assert readings.request(other) is readings.request(PODS.described(other)) is readings.request(STATED)
    assert len(readings.caches()["readings"]) == 1


def test_an_unaligned_resource_counts_for_the_node() -> None:
    readings, by_policy = PodReader(), policies(policy=ClusterPolicy(unaligned=frozenset({GPU})))
    before, reading = question(STATED), readings.read(STATED, "team", by_policy)
    assert isinstance(reading, PodQuestion)
    assert (reading.question.demand.whole.devices, reading.question.demand.total) == (
        EMPTY,
        before.question.demand.total,
    )
    # Another policy may come at any time.
    assert read(readings, STATED) == before


def large(number: int) -> Raw:
    """A pod of many containers, each with a very long name."""
    made = raw(*[GUARANTEED] * 20, policy=SINGLE)
    for at, container in enumerate(made["spec"]["containers"]):
        container["name"] = f"c-{at}-{number}-{'x' * 15_000}"
    return made


def choosy(number: int) -> Raw:
    """A pod that selects its nodes by as many long labels as are read."""
    return with_spec(STATED, nodeSelector={f"{at}-{number}": f"{at}{'x' * 2000}" for at in range(500)})


@pytest.mark.full
@pytest.mark.parametrize("made", [large, choosy])
def test_few_large_pods_are_remembered(made: Any) -> None:  # noqa: ANN401  makes a pod
    readings = PodReader()
    for number in range(2 * MOST_LARGE):
        read(readings, made(number))
    assert len(readings.caches()["readings"]) == MOST_LARGE


@pytest.mark.full
def test_requests_are_remembered_up_to_a_limit() -> None:
    reader = PodReader(remembered=2)
    first = reader.request(raw("cpu=1m"))
    for number in range(2, 10):
        reader.request(raw(f"cpu={number}m"))
    gc.collect()
    assert len(reader.caches()["askings"]) == 2
    assert reader.request(raw("cpu=1m")) is first


def test_mistakes_of_a_request_are_limited() -> None:
    wrong = with_spec(UNSTATED, resources={"a b": []}, overhead={"b": []})
    wrong = with_metadata(wrong, annotations={f"numalign.io/{number}": "x" for number in range(9)})
    requests = [PodReader().request(wrong, most_mistakes=most) for most in (1, 100)]
    assert [len(each.written.mistakes) for each in requests] == [1, 9]


def test_a_runtime_class_that_is_no_text_is_none() -> None:
    read = [PodReader().request(with_spec(STATED, runtimeClassName=name)) for name in ("kata", 7, None)]
    assert [each.runtime_class for each in read] == ["kata", "", ""]
    assert not any(each.mistakes for each in read)


ALONE = annotated(STATED, "numalign.io/exclusive", "zone")


@pytest.mark.parametrize(("made", "rules", "intent"), table([
    # what it shows, the pod, the rules of its namespace, its intent
    ("its annotation", ALONE, UNRULED, means(SINGLE, exclusive=True)),
    ("its namespace gives it a policy", annotated(UNSTATED, "numalign.io/exclusive", "zone"),
         DEFAULT, means(SINGLE, exclusive=True)),
    ("what is enforced is no intent", UNSTATED, ENFORCED, means("none")),
    ("a disabled namespace", ALONE, OFF, means("none")),
    ("a policy beside a wrong scope", annotated(ALONE, "numalign.io/scope", "x"), UNRULED, means(SINGLE)),
]))  # fmt: skip
def test_the_intent_of_a_running_pod(made: Raw, rules: NamespaceRules, intent: Intent) -> None:
    reader = PodReader()
    first, again = (reader.intent(reader.request(made), "team", policies(rules)) for _ in range(2))
    assert first == intent
    assert again is first


WRITTEN = with_spec(
    with_metadata(annotated(STATED, "numalign.io/scope", "pod"), ownerReferences=[{"kind": "DaemonSet"}]),
    nodeName="n1",
    runtimeClassName="kata",
    overhead={"cpu": "1"},
    nodeSelector={"a": "b"},
    tolerations=[{"key": "a", "operator": "Exists"}],
    resourceClaims=[{"name": "gpus"}],
    affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
)


@given(st.lists(documents(WRITTEN), min_size=1, max_size=3), st.sampled_from([UNRULED, DEFAULT, OFF]))
def test_any_pod_reads_the_same_again(made: list[object], rules: NamespaceRules) -> None:
    readings = PodReader()
    for pod in made * 2:
        request = readings.request(pod)
        assert bool(request.unreadable) == (request.demand is None)
        assert readings.request(pod) is request
        assert read(readings, orjson.loads(orjson.dumps(pod)), rules) == read_once(pod, rules)
