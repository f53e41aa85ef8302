"""Where a pod may go, as it is written: what is read, what a newer API may add, and what is too much."""

from collections.abc import Callable
from typing import Any

import pytest

from numalign.cache import pod_question as limits
from numalign.cache.pod_question import ExceededLimit
from numalign.kube.decode.parts import Part
from numalign.kube.decode.scheduling import REQUIRED, crowded, excess, scheduling
from numalign.model.constraints import (
    ANYWHERE,
    Constraints,
    Operator,
    Requirement,
    Term,
    Tolerating,
    Toleration,
)
from tests.worlds.notation import table
from tests.worlds.objects import Json as Raw


def pod(**spec: object) -> Raw:
    return {"spec": spec}


def affine(*terms: object) -> Raw:
    return pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [*terms]}}})


def wants(key: str, operator: str, *values: str) -> Raw:
    return {"key": key, "operator": operator, "values": [*values]}


def labelled(*wanted: Raw) -> Raw:
    return {"matchExpressions": [*wanted]}


def requirement(key: str, operator: Operator, *values: str) -> Requirement:
    return Requirement(key, operator, frozenset(values))


GPUS = {"key": "gpus", "operator": "Exists", "effect": "NoSchedule"}
AGES = wants("age", "Older", "7")
TIER = requirement("tier", Operator.IN, "gold", "lead")
ANY_A = Term((requirement("a", Operator.EXISTS),))
NAMED = requirement("metadata.name", Operator.IN, "n1")


@pytest.mark.parametrize(("made", "read"), table([
    # what is written             the pod                                              what is read
    ("nothing",                   pod(),                                               Constraints()),
    ("a node selector",           pod(nodeSelector={"a": "b"}),
        Constraints((requirement("a", Operator.IN, "b"),))),
    ("a term",                    affine(labelled(wants("tier", "In", "gold", "lead"))),
        Constraints(terms=(Term((TIER,)),))),
    ("a term about a name",       affine({"matchFields": [wants("metadata.name", "In", "n1")]}),
        Constraints(terms=(Term(fields=(NAMED,)),))),
    ("terms",                     affine(labelled(wants("a", "Exists")), labelled(wants("b", "Lt", "7"))),
        Constraints(terms=(ANY_A, Term((requirement("b", Operator.LT, "7"),))))),
    ("no term, which is nowhere", affine(),                                            Constraints(terms=())),
    ("an operating system",       pod(os={"name": "linux"}),    Constraints(os="linux")),
    ("a toleration",              pod(tolerations=[GPUS]),
        Constraints(tolerations=(Toleration("gpus", Tolerating.EXISTS, effect="NoSchedule"),))),
    ("the same one twice",        pod(tolerations=[GPUS, {**GPUS, "tolerationSeconds": 7}]),
        Constraints(tolerations=(Toleration("gpus", Tolerating.EXISTS, effect="NoSchedule"),))),
]))  # fmt: skip
def test_scheduling_fields_are_constraints(made: Raw, read: Constraints) -> None:
    result = scheduling(made)
    assert (result.constraints, result.mistakes) == (read, ())


@pytest.mark.parametrize(("made", "read"), table([
    # what is unknown                      the pod, what is read of it
    ("an operator beside another",         affine(labelled(AGES, wants("tier", "In", "gold", "lead"))),
        Constraints(terms=(Term((TIER,)),))),
    ("a field",                            affine({"matchFields": [wants("metadata.uid", "In", "7")]}),
        Constraints()),
    ("how a toleration compares",          pod(tolerations=[{"key": "a", "operator": "Lt", "value": "7"}]),
        Constraints(tolerations=(Toleration("a", None, "7"),))),
]))  # fmt: skip
def test_unknown_words_of_a_newer_api_constrain_nothing(made: Raw, read: Constraints) -> None:
    result = scheduling(made)
    assert (result.constraints, result.mistakes) == (read, ())


def test_the_first_claims_are_read() -> None:
    many = [{"name": f"c{number}"} for number in range(limits.MOST_CLAIMS + 3)]
    assert scheduling(pod(resourceClaims=many)).claims == tuple(f"c{at}" for at in range(limits.MOST_CLAIMS))
    assert scheduling(pod(resourceClaims=7)).claims == scheduling(pod()).claims == ()


PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
EXISTS = {"key": "zone", "operator": "Exists"}


def with_nodes(**affinity: object) -> Raw:
    return {"spec": {"affinity": {"nodeAffinity": affinity}}}


def terms(count: int, **term: object) -> Raw:
    return with_nodes(**{REQUIRED: {"nodeSelectorTerms": [term or {"matchExpressions": [EXISTS]}] * count}})


SEVERAL = {"key": "zone", "operator": "In"}
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
PREFERENCE = {"weight": 1, "preference": {}}

Made = Callable[[int], Raw]
MEASURED: list[tuple[str, Made, int, ExceededLimit]] = [
    # what there is, how to have so many, the most, what it is called
    ("owners", lambda count: {"metadata": {"ownerReferences": [OWNER] * count}, "spec": {}},
        limits.MOST_OWNERS, ExceededLimit.OWNERS),
    ("terms", terms, limits.MOST_TERMS, ExceededLimit.TERMS),
    ("preferences", lambda count: with_nodes(**{PREFERRED: [PREFERENCE] * count}),
        limits.MOST_TERMS, ExceededLimit.TERMS),
    ("expressions", lambda count: terms(1, matchExpressions=[EXISTS] * count),
        limits.MOST_REQUIREMENTS, ExceededLimit.REQUIREMENTS),
    ("fields", lambda count: terms(2, matchFields=[EXISTS] * (count - count // 2)),
        limits.MOST_REQUIREMENTS, ExceededLimit.REQUIREMENTS),
    ("values", lambda count: terms(2, matchExpressions=[{**SEVERAL, "values": ["z"] * (count - count // 2)}]),
        limits.MOST_VALUES, ExceededLimit.VALUES),
    ("selected", lambda count: {"spec": {"nodeSelector": dict.fromkeys(map(str, range(count)), "x")}},
        limits.MOST_SELECTED, ExceededLimit.SELECTOR),
    ("tolerations", lambda count: {"spec": {"tolerations": [{"operator": "Exists"}] * count}},
        limits.MOST_TOLERATIONS, ExceededLimit.TOLERATIONS),
]  # fmt: skip


@pytest.mark.parametrize(("made", "most", "name"), table(MEASURED))
def test_limits_of_a_pod(made: Made, most: int, name: ExceededLimit) -> None:
    assert excess(made(most)) is None
    assert excess(made(most + 1)) is name
    assert crowded(made(most + 1)) is (name is ExceededLimit.OWNERS)


@pytest.mark.parametrize(("made", "most", "name"), table(MEASURED))
def test_an_excessive_pod_is_not_read(
    monkeypatch: pytest.MonkeyPatch, made: Made, most: int, name: ExceededLimit
) -> None:
    pod, parts, begin = made(100 * most), list[object](), Part.__init__

    def counted(part: Part, value: object, *rest: Any) -> None:  # noqa: ANN401
        parts.append(value)
        begin(part, value, *rest)

    monkeypatch.setattr(Part, "__init__", counted)
    found = scheduling(pod)
    assert (found.excess, found.pin, found.mistakes) == (name, None, ())
    assert found.constraints is ANYWHERE
    assert len(parts) < 20


def test_an_excessive_daemon_pod_stays_on_its_node() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "controller": True}
    assert scheduling({**terms(limits.MOST_TERMS + 1), "metadata": {"ownerReferences": [owner]}}).pin
