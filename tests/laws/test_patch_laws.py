"""
Laws of the patch, for every affinity an owner may have written.

The judge is written here anew and shares nothing with the patch: a strict RFC 6902 `applied`, and `matches`,
which reads node selectors as the scheduler does (k8s.io/component-helpers, scheduling/corev1/nodeaffinity):
terms are ORed, a term that is empty or has an invalid requirement matches no node.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

import orjson
from hypothesis import event, given, settings
from hypothesis import strategies as st

from numalign.cache import ClusterCache
from numalign.cache.pod_question import PodQuestion
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.decode.scheduling import scheduling
from numalign.kube.effective_policy import EffectivePolicy
from numalign.model.constraints import Operator, Requirement
from numalign.model.errors import BadPod
from numalign.model.intent import NODE_LABEL, Gate, NamespaceRules, Policy
from numalign.model.node import node_class
from tests.worlds.json_patch import applied
from tests.worlds.manifests import pod_spec
from tests.worlds.naming import named
from tests.worlds.notation import node
from webhook.mutate import Steering, mutate
from webhook.patch import Mode, avoid, inject
from webhook.review import Allowed, Patched, ReviewedPod

Raw = dict[str, Any]

CLASS = "numalign.io/class"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

NODES = [
    (name, {key: value for key, value in ((CLASS, label), ("zone", zone)) if value is not None})
    for name, label, zone in product(("n1", "n2"), (None, "a", "b", "c", "7"), (None, "a", "9"))
]


# The judge.


def number(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def compares(requirement: Raw, labels: Mapping[str, str]) -> bool:
    actual, limit = number(labels.get(requirement["key"], "")), number(requirement["values"][0])
    if actual is None or limit is None:
        return False
    return actual > limit if requirement["operator"] == "Gt" else actual < limit


SATISFIED = {
    "In": lambda r, labels: labels.get(r["key"]) in r["values"],
    "NotIn": lambda r, labels: labels.get(r["key"]) not in r["values"],
    "Exists": lambda r, labels: r["key"] in labels,
    "DoesNotExist": lambda r, labels: r["key"] not in labels,
    "Gt": compares,
    "Lt": compares,
}


def is_valid(requirement: Raw) -> bool:
    values = requirement.get("values") or []
    if requirement["operator"] in {"In", "NotIn"}:
        return bool(values)
    if requirement["operator"] in {"Gt", "Lt"}:
        return len(values) == 1 and number(values[0]) is not None
    return not values


def is_valid_field(field: Raw) -> bool:
    return field["operator"] in {"In", "NotIn"} and len(field["values"]) == 1


def term_matches(term: Raw | None, name: str, labels: Mapping[str, str]) -> bool:
    expressions = (term or {}).get("matchExpressions") or []
    fields = (term or {}).get("matchFields") or []
    if not all(map(is_valid, expressions)) or not all(map(is_valid_field, fields)):
        return False
    return bool(expressions or fields) and (
        all(SATISFIED[e["operator"]](e, labels) for e in expressions)
        and all(SATISFIED[f["operator"]](f, {"metadata.name": name}) for f in fields)
    )


def node_affinity(pod: Raw) -> Raw:
    return (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}


def terms_of(pod: Raw) -> list[Raw | None] | None:
    """The required terms; None where the pod requires nothing."""
    required = node_affinity(pod).get(REQUIRED)
    return None if required is None else required.get("nodeSelectorTerms") or []


def matches(pod: Raw, name: str, labels: Mapping[str, str]) -> bool:
    terms = terms_of(pod)
    return terms is None or any(term_matches(term, name, labels) for term in terms)


def meets(labels: Mapping[str, str], requirement: Requirement) -> bool:
    return (labels.get(requirement.key) in requirement.values) is (requirement.operator is Operator.IN)


def is_accepted(pod: Raw) -> bool:
    """Whether the API server's validation would take the pod's node affinity."""
    terms = terms_of(pod)
    wishes = node_affinity(pod).get(PREFERRED) or []
    every = [*(terms or []), *(wish["preference"] for wish in wishes)]
    return (
        terms != []
        and all(1 <= wish["weight"] <= 100 for wish in wishes)
        and all(is_valid(e) for term in every for e in (term or {}).get("matchExpressions") or [])
        and all(is_valid_field(f) for term in every for f in (term or {}).get("matchFields") or [])
    )


# What owners write.


def expression(key: str, operator: str, values: Iterable[str]) -> Raw:
    return {"key": key, "operator": operator, "values": list(values)}


SETS = [(), ("a",), ("b",), ("c",), ("b", "a"), ("a", "c"), ("c", "b"), ("c", "a", "b"), ("a", "a")]
KEYS = [CLASS, CLASS, "zone"]

EXPRESSIONS = [
    *(expression(key, operator, values) for key, operator, values in product(KEYS, ("In", "NotIn"), SETS)),
    *({"key": key, "operator": operator} for key, operator in product(KEYS, ("Exists", "DoesNotExist"))),
    *(expression(key, operator, [value]) for key, operator, value in product(KEYS, ("Gt", "Lt"), "58x")),
]
NOT_ON = [expression("metadata.name", "NotIn", [name]) for name in ("n1", "n2")]
FIELDS = [
    *NOT_ON,
    *NOT_ON,
    expression("metadata.name", "In", ["n1"]),
    expression("metadata.name", "In", ["n1", "n2"]),
]
WISHES = [
    {"weight": weight, "preference": {"matchExpressions": [expression(CLASS, operator, values)]}}
    for weight, operator, values in product((1, 100), ("In", "NotIn"), (("a",), ("a", "b")))
]


@st.composite
def objects(draw: st.DrawFn, /, **members: st.SearchStrategy[Any]) -> Raw:
    """An object in which each member may be absent, null, or drawn."""
    drawn = {
        key: draw(st.one_of(member, st.sampled_from(["absent", None]))) for key, member in members.items()
    }
    return {key: value for key, value in drawn.items() if value != "absent"}


terms = objects(
    matchExpressions=st.lists(st.sampled_from(EXPRESSIONS), max_size=3),
    matchFields=st.lists(st.sampled_from(FIELDS), max_size=1),
)
wishes = st.sampled_from(WISHES)
required_parts = objects(nodeSelectorTerms=st.lists(st.one_of(terms, st.none()), max_size=3))
affinities = objects(
    nodeAffinity=objects(**{REQUIRED: required_parts, PREFERRED: st.lists(wishes, max_size=2)}),
    podAntiAffinity=st.just({"x": [1]}),
)


def pods_of(kinds: list[str], specs: list[Raw]) -> st.SearchStrategy[Raw]:
    """Pods that these kinds own, with these specs and any affinity."""
    return st.builds(
        lambda kind, spec, affinity: {
            "metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "controller": True}]},
            "spec": {**spec, **affinity},
        },
        st.sampled_from(kinds),
        st.sampled_from(specs),
        objects(affinity=affinities),
    )


SPECS: list[Raw] = [{"nodeSelector": {"zone": "a"}}, {"containers": []}]

free = pods_of(["ReplicaSet"], SPECS).filter(lambda pod: scheduling(pod).pin is None)
placed = st.one_of(pods_of(["DaemonSet"], SPECS), pods_of(["ReplicaSet"], [{"nodeName": "n1"}]))
pods = st.one_of(pods_of(["ReplicaSet"], SPECS), pods_of(["ReplicaSet"], SPECS), placed)
some_values = st.sampled_from(SETS[1:])
asking = st.sampled_from([(Mode.EXCLUDE, Operator.NOT_IN), (Mode.INCLUDE, Operator.IN)])
wishing = st.sampled_from([(Mode.PREFER, Operator.IN), (Mode.PREFER, Operator.NOT_IN)])


@st.composite
def requests(draw: st.DrawFn, kinds: st.SearchStrategy[tuple[Mode, Operator]]) -> tuple[Mode, Requirement]:
    mode, operator = draw(kinds)
    return mode, Requirement(CLASS, operator, frozenset(draw(some_values)))


required_requests = requests(asking)
any_requests = requests(st.one_of(asking, wishing))


def patched(pod: Raw, request: tuple[Mode, Requirement]) -> Raw:
    mode, requirement = request
    return applied(pod, inject(pod, requirement, mode=mode))


def disagreements(before: Raw, after: Raw, requirement: Requirement) -> Iterator[tuple[str, Raw]]:
    """Nodes on which the patched pod is not just the pod that also meets the requirement."""
    for name, labels in NODES:
        wanted = matches(before, name, labels) and meets(labels, requirement)
        if matches(after, name, labels) is not wanted:
            yield name, dict(labels)


# The laws.


@given(pods, any_requests)
def test_a_second_pass_changes_nothing(pod: Raw, request: tuple[Mode, Requirement]) -> None:
    mode, requirement = request
    before = copy.deepcopy(pod)
    once = patched(pod, request)
    event(f"the first pass wrote {'something' if once != pod else 'nothing'}")

    assert inject(once, requirement, mode=mode) == ()
    assert pod == before


@given(pods, any_requests, any_requests)
def test_no_pass_ever_lets_a_pod_onto_another_node(
    pod: Raw, first: tuple[Mode, Requirement], second: tuple[Mode, Requirement]
) -> None:
    once = patched(pod, first)
    twice = patched(once, second)

    for name, labels in NODES:
        assert matches(pod, name, labels) >= matches(once, name, labels) >= matches(twice, name, labels)


@given(free, required_requests)
def test_a_free_pod_keeps_nodes_that_meet_the_requirement(
    pod: Raw, request: tuple[Mode, Requirement]
) -> None:
    assert list(disagreements(pod, patched(pod, request), request[1])) == []


@given(pods, requests(wishing))
def test_a_preference_changes_nothing_that_the_owner_wrote(
    pod: Raw, request: tuple[Mode, Requirement]
) -> None:
    after = patched(pod, request)
    written = node_affinity(pod).get(PREFERRED) or []

    assert terms_of(after) == terms_of(pod)
    assert (node_affinity(after).get(PREFERRED) or [])[: len(written)] == written


@given(placed, any_requests)
def test_a_pinned_pod_is_never_patched(pod: Raw, request: tuple[Mode, Requirement]) -> None:
    assert scheduling(pod).pin
    assert patched(pod, request) == pod


@given(pods, any_requests)
def test_nothing_but_the_node_affinity_is_touched(pod: Raw, request: tuple[Mode, Requirement]) -> None:
    def others(pod: Raw) -> tuple[Raw, Raw, Raw]:
        spec = {key: value for key, value in pod["spec"].items() if key != "affinity"}
        affinity = pod["spec"].get("affinity") or {}
        return pod["metadata"], spec, {key: value for key, value in affinity.items() if key != "nodeAffinity"}

    mode, requirement = request

    assert others(patched(pod, request)) == others(pod)
    assert all(
        operation.path.startswith("/spec/affinity") and operation.op in {"add", "replace"}
        for operation in inject(pod, requirement, mode=mode)
    )


@given(pods, any_requests, st.randoms(use_true_random=False))
def test_equal_pods_and_values_give_equal_bytes(
    pod: Raw,
    request: tuple[Mode, Requirement],
    order: Any,  # noqa: ANN401 - Hypothesis names no type for it
) -> None:
    mode, requirement = request
    shuffled = list(requirement.values)
    order.shuffle(shuffled)
    again = Requirement(CLASS, requirement.operator, frozenset(shuffled))
    backwards = dict(reversed(pod.items()))

    assert orjson.dumps(inject(backwards, again, mode=mode)) == orjson.dumps(
        inject(pod, requirement, mode=mode)
    )


# Nodes to avoid, in the same patch.

avoided = st.lists(st.sampled_from(["n1", "n2", "n3"]), min_size=1, max_size=3, unique=True)


LABELLED = {"n1", "n3"}


def both(pod: Raw, request: tuple[Mode, Requirement], nodes: list[str]) -> Raw:
    """The pod after one patch that keeps it from classes and from nodes, some of which have their names."""
    operations = inject(pod, request[1], mode=request[0])
    return applied(pod, [*operations, *avoid(pod, nodes, labelled=LABELLED, after=operations)])


@given(pods, any_requests, avoided)
def test_both_patches_together_are_one_after_the_other(
    pod: Raw, request: tuple[Mode, Requirement], nodes: list[str]
) -> None:
    """Also where both need parents that are missing."""
    once = patched(pod, request)

    assert both(pod, request, nodes) == applied(once, avoid(once, nodes, labelled=LABELLED))


@given(pods, any_requests, avoided)
def test_nodes_are_avoided_by_another_preference(
    pod: Raw, request: tuple[Mode, Requirement], nodes: list[str]
) -> None:
    without, after = patched(pod, request), both(pod, request, nodes)
    wishes = node_affinity(without).get(PREFERRED) or []
    [*preferences, last] = node_affinity(after).get(PREFERRED) or [None]

    assert terms_of(after) == terms_of(without)
    if scheduling(pod).pin:
        assert after == without == pod
    else:
        assert (preferences, last["weight"]) == (wishes, 100)
        labels = {name: {NODE_LABEL: name} if name in LABELLED else {} for name in ("n1", "n2", "n3")}
        avoided = [name for name, own in labels.items() if not term_matches(last["preference"], name, own)]
        assert avoided == sorted(nodes)


@given(pods, any_requests, avoided)
def test_nodes_are_avoided_once(pod: Raw, request: tuple[Mode, Requirement], nodes: list[str]) -> None:
    assert avoid(both(pod, request, nodes), nodes, labelled=LABELLED) == ()


@given(free.filter(is_accepted), any_requests, avoided)
def test_pods_with_nodes_to_avoid_are_still_valid(
    pod: Raw, request: tuple[Mode, Requirement], nodes: list[str]
) -> None:
    assert is_accepted(both(pod, request, nodes))


WORDS = [
    "affinity",
    "nodeAffinity",
    REQUIRED,
    PREFERRED,
    "nodeSelectorTerms",
    "matchExpressions",
    "matchFields",
]
WORDS += ["matchFields", "key", "operator", "values", "nodeName"]
anything = st.recursive(
    st.sampled_from([None, True, 0, 1.5, "", CLASS, "NotIn"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(WORDS), inner, max_size=3)
    ),
    max_leaves=12,
)
damaged = st.one_of(
    anything.map(lambda spec: {"spec": spec}),
    anything.map(lambda affinity: {"spec": {"affinity": affinity}}),
    anything.map(
        lambda part: {"spec": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": part}}}}}
    ),
    anything.map(lambda metadata: {"metadata": metadata, "spec": {}}),
    anything.map(lambda owner: {"metadata": {"ownerReferences": [owner]}, "spec": {}}),
)


@given(damaged, any_requests)
def test_damaged_pods_are_patched_or_refused_with_places(pod: Raw, request: tuple[Mode, Requirement]) -> None:
    mode, requirement = request
    try:
        operations = inject(pod, requirement, mode=mode)
    except BadPod as refused:
        operations, places = (), [mistake.where for mistake in refused.mistakes]
        event("refused")
    else:
        places = ["nowhere"]
        event("patched")
        assert inject(applied(pod, operations), requirement, mode=mode) == ()

    assert places
    assert all(places)


# Who places a pod is written into the same patch.


SINGLE = Policy.SINGLE_NUMA_NODE
LARGE, SMALL = (node(f"cpu=8 mem=8Gi gpu={gpus}", policy=SINGLE) for gpus in (4, 1))
CACHES = [ClusterCache.of(named(one)) for one in ([], [SMALL], [LARGE], [SMALL, LARGE])]
REAL_NODES = [(name, {CLASS: node_class(one)}) for name, one in (("n1", LARGE), ("n2", SMALL))]
OUR_GATE, OTHER_GATE = {"name": "numalign.io/placement"}, {"name": "example.com/quota"}
DEFAULT_SCHEDULERS = (None, "", "default-scheduler")

ASKING = pod_spec("cpu=2 mem=1Gi gpu=2")
rules = st.builds(
    NamespaceRules,
    default=st.sampled_from([SINGLE, None]),
    disabled=st.sampled_from([*[False] * 9, True]),
    scheduler=st.sampled_from([None, "second", "default-scheduler"]),
    gate=st.sampled_from([Gate.ENABLED, Gate.ENABLED, Gate.DISABLED, None]),
)
placeable = st.builds(
    lambda pod, annotations, placed: {
        "metadata": {**pod["metadata"], "annotations": annotations},
        "spec": {**ASKING, **pod["spec"], **placed},
    },
    pods_of(["ReplicaSet"], [{}, {}, {"nodeName": "n1"}]),
    st.sampled_from([*[{"numalign.io/policy": SINGLE.value}] * 8, {}, {"numalign.io/policy": "none"}]),
    objects(
        schedulerName=st.sampled_from([*DEFAULT_SCHEDULERS, "second", "volcano"]),
        schedulingGates=st.lists(st.sampled_from([OUR_GATE, OTHER_GATE]), max_size=2, unique_by=str),
    ),
)
steerings = st.builds(Steering, st.sampled_from(Mode), st.booleans())


@settings(max_examples=5 * settings().max_examples)
@given(placeable, rules, steerings, st.sampled_from(CACHES))
def test_only_default_schedulers_and_our_gate_are_changed(
    pod: Raw, rules: NamespaceRules, steering: Steering, cache: ClusterCache
) -> None:
    question = PodReader().read(pod, "team", EffectivePolicy(rules={"team": rules}))
    if not isinstance(question, PodQuestion):
        event("not looked at")
        return
    answer = mutate(ReviewedPod(question, pod), cache, steering)
    after = applied(pod, answer.operations if isinstance(answer, Patched) else ())
    was, now = (one["spec"].get("schedulerName") for one in (pod, after))
    gates, gates_now = (one["spec"].get("schedulingGates") or [] for one in (pod, after))
    new = gates_now[len(gates) :]
    event(f"routed: {now != was}, gated: {bool(new)}, pinned: {bool(question.pin)}")

    assert now == was or (was in DEFAULT_SCHEDULERS and now == rules.scheduler == "second")
    assert gates_now == [*gates, *new]
    assert new in ([], [OUR_GATE])
    assert not new or (now in DEFAULT_SCHEDULERS and steering.gates and rules.gate is Gate.ENABLED)
    assert gates_now.count(OUR_GATE) <= 1
    if question.pin or not question.requests_alignment or rules.disabled:
        assert after == pod
    for name, labels in (*NODES, *REAL_NODES):
        assert matches(pod, name, labels) >= matches(after, name, labels)
    again = PodReader().read(after, "team", EffectivePolicy(rules={"team": rules}))
    assert isinstance(again, PodQuestion)
    assert mutate(ReviewedPod(again, after), cache, steering) == Allowed()
