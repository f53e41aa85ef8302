"""What pins a pod stands in every term that matches anything, and nothing else of it changes."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.gates.pin import (
    HOSTNAME_LABEL,
    PinTarget,
    exclusion_patch,
    gates_of,
    pin_patch,
    term_count,
)
from numalign.kube.decode.scheduling import PREFERRED, REQUIRED, scheduling
from numalign.model.constraints import Constraints
from numalign.model.intent import NODE_LABEL, PLACEMENT_GATE
from tests.unit.controller.gates.conftest import gated
from tests.worlds.notation import table
from tests.worlds.scorer import FOUR, Raw
from tools.clusters.fake_api import merged

NAMES = ("a", "b", "c")
LABELS = {
    name: {HOSTNAME_LABEL: f"host-{name}", NODE_LABEL: name, "zone": zone}
    for name, zone in zip(NAMES, "112", strict=True)
}
PIN = {"key": "metadata.name", "operator": "In", "values": ["a"]}
IN_ONE = {"key": "zone", "operator": "In", "values": ["1"]}
NOT_C = {"key": "metadata.name", "operator": "NotIn", "values": ["c"]}

ZONED: Raw = {"matchExpressions": [IN_ONE]}
NAMELESS: Raw = {"matchExpressions": [], "matchFields": None}
AFTER, FIELD = {**ZONED, "matchFields": [PIN]}, {"matchFields": [NOT_C, PIN]}

TERMS: list[tuple[str, Any, list[Raw]]] = [
    # what it asks for                       the terms before                    and after
    ("nothing",                              None,                               [{"matchFields": [PIN]}]),
    ("one thing",                            [ZONED],                            [AFTER]),
    ("a field",                              [{"matchFields": [NOT_C]}],         [FIELD]),
    ("two terms",                            [{"matchFields": [NOT_C]}, ZONED],  [FIELD, AFTER]),
    ("a term that matches nothing, and one", [{}, ZONED],                        [{}, AFTER]),
    ("lists without anything in them",       [NAMELESS, ZONED],                  [NAMELESS, AFTER]),
]  # fmt: skip


def asking(terms: list[Raw] | None, **more: object) -> Raw:
    """A gated pod with these terms."""
    required = {} if terms is None else {REQUIRED: {"nodeSelectorTerms": terms}}
    affinity = {"podAffinity": {"kept": "as it is"}, "nodeAffinity": {**required, **more}}
    return gated(FOUR, spec={"affinity": affinity}, resourceVersion="7")


@pytest.mark.parametrize(("before", "after"), table(TERMS))
def test_every_term_that_matches_anything_names_the_node(before: Any, after: list[Raw]) -> None:  # noqa: ANN401
    pod = asking(before)
    made = merged(pod, pin_patch(pod, PinTarget("a"), {}))

    assert made["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == after
    assert made["spec"]["affinity"]["podAffinity"] == {"kept": "as it is"}


def test_a_pod_without_any_affinity_gets_one() -> None:
    pod = gated(FOUR)
    made = merged(pod, pin_patch(pod, PinTarget("a"), {"key": "text"}))

    assert scheduling(made).constraints.select("a", {})
    assert not scheduling(made).constraints.select("b", {})
    assert "schedulingGates" not in made["spec"]
    assert made["metadata"]["annotations"]["key"] == "text"
    assert made["metadata"]["annotations"] | pod["metadata"]["annotations"] == made["metadata"]["annotations"]


def test_it_is_for_this_very_pod() -> None:
    patch = pin_patch(gated(FOUR, resourceVersion="7"), PinTarget("a"), {})

    assert (patch["metadata"]["uid"], patch["metadata"]["resourceVersion"]) == ("uid-of-web", "7")


def test_other_gates_stay() -> None:
    pod = gated(FOUR, gates=("one", PLACEMENT_GATE, "two"))

    assert gates_of(merged(pod, pin_patch(pod, PinTarget("a"), {}))) == ("one", "two")


def test_it_is_kept_to_nodes_by_their_hostnames_and_the_best_is_preferred() -> None:
    wish = {"weight": 1, "preference": {"matchExpressions": [IN_ONE]}}
    pod = asking([{"matchExpressions": [IN_ONE]}, {}], **{PREFERRED: [wish]})
    made = merged(pod, pin_patch(pod, PinTarget("a", ("host-a", "host-b")), {}))

    affinity = made["spec"]["affinity"]["nodeAffinity"]
    hosts = {"key": HOSTNAME_LABEL, "operator": "In", "values": ["host-a", "host-b"]}
    assert affinity[REQUIRED]["nodeSelectorTerms"] == [{"matchExpressions": [IN_ONE, hosts]}, {}]
    assert affinity[PREFERRED] == [wish, {"weight": 100, "preference": {"matchFields": [PIN]}}]


REQUIREMENTS = st.sampled_from(
    [IN_ONE, {"key": "zone", "operator": "Exists"}, {"key": "zone", "operator": "NotIn", "values": ["2"]}]
)
FIELDS = st.sampled_from([NOT_C, PIN, {"key": "metadata.name", "operator": "In", "values": ["b"]}])
ANY_TERM = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.none() | st.lists(REQUIREMENTS, max_size=2),
        "matchFields": st.none() | st.lists(FIELDS, max_size=2),
    },
)
ANY_TERMS = st.none() | st.lists(ANY_TERM, min_size=1, max_size=4)


def may_go(pod: Raw) -> set[str]:
    """The nodes that a pod may go to."""
    constraints: Constraints = scheduling(pod).constraints
    return {name for name in NAMES if constraints.select(name, LABELS[name])}


@given(terms=ANY_TERMS, node=st.sampled_from(NAMES))
def test_after_a_pin_it_may_go_to_that_node_or_to_none(terms: list[Raw] | None, node: str) -> None:
    pod = asking(terms)

    assert may_go(merged(pod, pin_patch(pod, PinTarget(node), {}))) == may_go(pod) & {node}


@given(terms=ANY_TERMS, nodes=st.sets(st.sampled_from(NAMES), min_size=1))
def test_kept_to_nodes_it_may_go_to_those_and_no_others(terms: list[Raw] | None, nodes: set[str]) -> None:
    pod = asking(terms)
    target = PinTarget(min(nodes), tuple(f"host-{name}" for name in nodes))

    assert may_go(merged(pod, pin_patch(pod, target, {}))) == may_go(pod) & nodes


@given(terms=ANY_TERMS, nodes=st.sets(st.sampled_from(NAMES), min_size=1))
def test_kept_off_nodes_it_may_go_to_all_others_as_before(terms: list[Raw] | None, nodes: set[str]) -> None:
    pod = asking(terms)
    made = merged(pod, exclusion_patch(pod, sorted(nodes)))

    assert may_go(made) == may_go(pod) - nodes
    assert (gates_of(made), made["metadata"]["annotations"]) == ((), pod["metadata"]["annotations"])


@given(terms=ANY_TERMS)
def test_an_exclusion_stands_in_as_many_terms_as_are_counted(terms: list[Raw] | None) -> None:
    pod = asking(terms)
    [listed] = exclusion_patch(pod, ["a"])["spec"]["affinity"]["nodeAffinity"].values()
    excluding = [
        each
        for term in listed["nodeSelectorTerms"]
        for each in term.get("matchExpressions") or ()
        if each["key"] == NODE_LABEL
    ]

    assert term_count(pod) == max(1, len(excluding))


def test_an_exclusion_is_for_this_very_pod() -> None:
    patch = exclusion_patch(gated(FOUR, resourceVersion="7"), ["a"])

    assert patch["metadata"] == {"uid": "uid-of-web", "resourceVersion": "7"}


WRITES = st.sampled_from(
    [lambda pod: pin_patch(pod, PinTarget("a"), {}), lambda pod: exclusion_patch(pod, ["a"])]
)


@given(terms=ANY_TERMS, write=WRITES)
def test_terms_only_grow_as_an_api_server_lets_them(
    terms: list[Raw] | None, write: Callable[[Raw], Raw]
) -> None:
    """As `validateNodeAffinityMutation` has it: no term comes or goes, and what stood there begins each."""
    pod = asking(terms)
    made = merged(pod, write(pod))
    after = made["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]

    assert len(after) == len(terms or [{}])
    for old, new in zip(terms or [], after, strict=False):
        for key in ("matchExpressions", "matchFields"):
            had = old.get(key) or []
            assert (new.get(key) or [])[: len(had)] == had
        if not (old.get("matchExpressions") or old.get("matchFields")):
            assert old == new


ODD: list[object] = [
    None,
    [],
    "text",
    3,
    {"nodeAffinity": "text"},
    {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": 3}}},
]


@pytest.mark.parametrize("affinity", ODD)
def test_what_no_api_server_stores_breaks_nothing(affinity: object) -> None:
    pod = {"metadata": {"uid": "u"}, "spec": {"affinity": affinity, "schedulingGates": [3, {}]}}

    assert pin_patch(pod, PinTarget("a"), {})["spec"]["affinity"]
    assert gates_of(pod) == ()
