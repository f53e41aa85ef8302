"""What a pod that runs would say about nodes if its owner made it anew."""

import pytest

from numalign.cache.pod_question import ExceededLimit, Pin, PinReason
from numalign.kube.decode.recreated import RecreatedScheduling, without_classes
from numalign.kube.decode.scheduling import Scheduling
from numalign.model.constraints import ANYWHERE, NAME_FIELD, Constraints, Operator, Requirement, Term
from tests.worlds.notation import table
from tests.worlds.objects import Json

DAEMON_SET = {"apiVersion": "apps/v1", "kind": "DaemonSet", "controller": True}
NODE = {"apiVersion": "v1", "kind": "Node", "controller": True}
PINNED = {"numalign.io/pinned-at": "2026-11-20T00:00:00Z"}


def pod(*terms: Json, owner: Json | None = None, annotations: Json | None = None, **spec: object) -> Json:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}
    affinity = {"affinity": {"nodeAffinity": required}} if terms else {}
    metadata = {"annotations": annotations or {}, "ownerReferences": [owner] if owner else []}
    return {"metadata": metadata, "spec": {"nodeName": "n", **affinity, **spec}}


def named(node: str) -> Json:
    return {"key": "metadata.name", "operator": "In", "values": [node]}


FAST = {"key": "disk", "operator": "In", "values": ["fast"]}
ON_N = Requirement(NAME_FIELD, Operator.IN, frozenset({"n"}))


def recreated(raw: Json) -> Scheduling:
    return RecreatedScheduling().of(raw)


ON_ITS_NODE = {"matchFields": [named("n")]}


@pytest.mark.parametrize(("raw", "pin"), table([
    ("a scheduler's choice does not count", pod(), None),
    ("nor does the controller's pin", pod(ON_ITS_NODE, annotations=PINNED), None),
    ("an owner's own affinity stays", pod(ON_ITS_NODE), Pin("n", PinReason.NODE_FIELD)),
    ("a DaemonSet's stays", pod(ON_ITS_NODE, owner=DAEMON_SET), Pin("n", PinReason.DAEMON_SET)),
    ("so does a kubelet's own pod", pod(owner=NODE), Pin("n", PinReason.NODE_NAME)),
]))  # fmt: skip
def test_the_pin_of_the_owner(raw: Json, pin: Pin | None) -> None:
    assert recreated(raw).pin == pin


def test_other_constraints_of_a_pinned_pod_stay() -> None:
    raw = pod({"matchExpressions": [FAST], "matchFields": [named("n")]}, annotations=PINNED,
        nodeSelector={"pool": "gpu"})  # fmt: skip
    constraints = recreated(raw).constraints
    assert constraints.terms == (Term((Requirement("disk", Operator.IN, frozenset({"fast"})),)),)
    assert constraints.selector == (Requirement("pool", Operator.IN, frozenset({"gpu"})),)


EXCLUDED = {"key": "numalign.io/node", "operator": "NotIn", "values": ["m"]}


@pytest.mark.parametrize("others", [[], [FAST]])
def test_nodes_excluded_with_the_gate_do_not_count(others: list[Json]) -> None:
    excluding = pod({"matchExpressions": [*others, EXCLUDED]})
    without = pod({"matchExpressions": others}) if others else pod()
    assert recreated(excluding) == recreated(without)


def test_a_node_named_by_our_label_counts() -> None:
    assert recreated(pod({"matchExpressions": [{**EXCLUDED, "operator": "In"}]})).constraints.terms


@pytest.mark.parametrize(("raw", "places"), table([
    ("no spec",       {"spec": 7},                          ["spec"]),
    ("no UTF-8",      pod(nodeSelector={"a": "\ud800"}), []),
]))  # fmt: skip
def test_mistakes_of_an_odd_pod(raw: Json, places: list[str]) -> None:
    assert [mistake.where for mistake in recreated(raw).mistakes] == places


def test_a_pin_to_another_node_is_its_owners() -> None:
    raw = pod({"matchFields": [named("m")]}, annotations=PINNED)
    assert recreated(raw).pin == Pin("m", PinReason.NODE_FIELD)


CLASS = Requirement("numalign.io/class", Operator.NOT_IN, frozenset({"small"}))
OTHER = Requirement("disk", Operator.IN, frozenset({"fast"}))


@pytest.mark.parametrize(("terms", "expected"), table([
    ("no terms",                None,                              None),
    ("ours alone",              (Term((CLASS,)),),                 None),
    ("ours in one of several",  (Term((CLASS,)), Term((OTHER,))),  None),
    ("ours and the owner's",    (Term((OTHER, CLASS), (ON_N,)),),  (Term((OTHER,), (ON_N,)),)),
    ("the owner's",             (Term((OTHER,)),),                 (Term((OTHER,)),)),
    # Such a term matches no node, and still does.
    ("a term of nothing",       (Term(),),                         (Term(),)),
]))  # fmt: skip
def test_without_classes_terms_of_the_owner_stay(terms: tuple[Term, ...] | None, expected: object) -> None:
    assert without_classes(Constraints(terms=terms)).terms == expected


def test_too_large_constraints_are_exceeded() -> None:
    terms = [
        {"matchExpressions": [{**FAST, "values": [f"{at}-{v}" for v in range(64)]}]} for at in range(100)
    ]
    assert recreated(pod(*terms)) == Scheduling(ANYWHERE, None, ExceededLimit.SIZE)
