"""Where a pod may go, as it is written: what is read, and what a newer API may add."""

import pytest

from numalign.cache.pod_question import MOST_CLAIMS
from numalign.kube.decode.scheduling import REQUIRED, scheduling
from numalign.model.constraints import Constraints, Operator, Requirement, Term, Tolerating, Toleration
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
    many = [{"name": f"c{number}"} for number in range(MOST_CLAIMS + 3)]
    assert scheduling(pod(resourceClaims=many)).claims == tuple(f"c{at}" for at in range(MOST_CLAIMS))
    assert scheduling(pod(resourceClaims=7)).claims == scheduling(pod()).claims == ()
