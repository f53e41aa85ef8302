"""Where a pod may go, as it is written: what is read, what is told, and what is left for others to say."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.pod_question import MOST_CLAIMS
from numalign.kube.decode.scheduling import REQUIRED, scheduling
from numalign.model.constraints import Constraints, Operator, Requirement, Term, Tolerating, Toleration
from tests.worlds.notation import table

Raw = dict[str, Any]


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

READ = [
    # what is written             the pod                                              what is read
    ("nothing",                   pod(),                                               Constraints()),
    ("a node selector",           pod(nodeSelector={"a": "b"}),
        Constraints((requirement("a", Operator.IN, "b"),))),
    ("null everywhere",           pod(nodeSelector=None, affinity=None, tolerations=None),
        Constraints()),
    ("a term",                    affine(labelled(wants("tier", "In", "gold", "lead"))),
        Constraints(terms=(Term((TIER,)),))),
    ("a term about a name",       affine({"matchFields": [wants("metadata.name", "In", "n1")]}),
        Constraints(terms=(Term(fields=(NAMED,)),))),
    ("terms",                     affine(labelled(wants("a", "Exists")), labelled(wants("b", "Lt", "7"))),
        Constraints(terms=(ANY_A, Term((requirement("b", Operator.LT, "7"),))))),
    ("no term, which is nowhere", affine(),                                            Constraints(terms=())),
    ("a term of nothing",         affine({}),
        Constraints(terms=(Term(),))),
    ("an operating system",       pod(os={"name": "linux"}),    Constraints(os="linux")),
    ("a toleration",              pod(tolerations=[GPUS]),
        Constraints(tolerations=(Toleration("gpus", Tolerating.EXISTS, effect="NoSchedule"),))),
    ("one without an operator",   pod(tolerations=[{"key": "a", "value": "b"}]),
        Constraints(tolerations=(Toleration("a", value="b"),))),
    ("the same one twice",        pod(tolerations=[GPUS, {**GPUS, "tolerationSeconds": 7}]),
        Constraints(tolerations=(Toleration("gpus", Tolerating.EXISTS, effect="NoSchedule"),))),
]  # fmt: skip


@pytest.mark.parametrize(("made", "read"), table(READ))
def test_a_pod_may_go_where_it_says(made: Raw, read: Constraints) -> None:
    found = scheduling(made)

    assert (found.constraints, found.mistakes) == (read, ())


NEWER = [
    # what nobody knows here               the pod, what is left of it
    ("an operator beside another",         affine(labelled(AGES, wants("tier", "In", "gold", "lead"))),
        Constraints(terms=(Term((TIER,)),))),
    ("all of a term, which may be any",    affine(labelled(AGES), labelled(wants("a", "Exists"))),
        Constraints()),
    ("a field",                            affine({"matchFields": [wants("metadata.uid", "In", "7")]}),
        Constraints()),
    ("how a toleration compares",          pod(tolerations=[{"key": "a", "operator": "Lt", "value": "7"}]),
        Constraints(tolerations=(Toleration("a", None, "7"),))),
]  # fmt: skip


@pytest.mark.parametrize(("made", "read"), table(NEWER))
def test_nobody_is_kept_away_by_the_words_of_a_newer_api(made: Raw, read: Constraints) -> None:
    found = scheduling(made)

    assert (found.constraints, found.mistakes) == (read, ())


TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
WRONG = [
    ("a selector that is a list",     pod(nodeSelector=[]),                 ["spec.nodeSelector"]),
    ("a label that is a number",      pod(nodeSelector={"a": 7}),           ["spec.nodeSelector.a"]),
    ("an operating system that is a text", pod(os="linux"),                 ["spec.os"]),
    ("tolerations that are a text",   pod(tolerations="all"),               ["spec.tolerations"]),
    ("a toleration that is a text",   pod(tolerations=["all"]),             ["spec.tolerations[0]"]),
    ("a key that is a number",        pod(tolerations=[{"key": 7}]),        ["spec.tolerations[0].key"]),
    ("an affinity that is a list",    pod(affinity=[]),                     ["spec.affinity"]),
    ("a term that is a text",         affine("a"),                          [f"{TERMS}[0]"]),
    ("an operator that is none",      affine(labelled({"operator": 7})),
        [f"{TERMS}[0].matchExpressions[0].operator"]),
    ("all of it", pod(nodeSelector=7, tolerations=7, affinity=7, nodeName=7),
        ["spec.affinity", "spec.nodeName", "spec.nodeSelector", "spec.tolerations"]),
]  # fmt: skip


@pytest.mark.parametrize(("made", "places"), table(WRONG))
def test_what_an_api_server_could_not_decode_is_told(made: Raw, places: list[str]) -> None:
    assert [mistake.where for mistake in scheduling(made).mistakes] == places


def test_the_names_of_the_first_claims_are_kept() -> None:
    many = [{"name": f"c{number}"} for number in range(MOST_CLAIMS + 3)]

    assert scheduling(pod(resourceClaims=many)).claims == tuple(f"c{at}" for at in range(MOST_CLAIMS))
    assert scheduling(pod(resourceClaims=7)).claims == scheduling(pod()).claims == ()


SCRAPS = st.recursive(
    st.none() | st.integers(0, 3) | st.sampled_from(["", "a", "In", "Exists", "metadata.name"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([
                "key", "operator", "values", "effect", "nodeAffinity", REQUIRED, "nodeSelectorTerms",
                "matchExpressions", "matchFields", "name", "kind", "controller",
            ]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)  # fmt: skip


@given(
    st.dictionaries(
        st.sampled_from(["nodeSelector", "affinity", "tolerations", "nodeName", "resourceClaims"]), SCRAPS
    )
)
def test_whatever_is_written_is_read_or_told(spec: Raw) -> None:
    found = scheduling(pod(**spec))

    assert hash(found) == hash(scheduling(pod(**spec)))
    assert len({mistake.where for mistake in found.mistakes}) == len(found.mistakes)
