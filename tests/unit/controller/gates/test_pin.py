"""A pin is in every term that matches anything, and nothing else of the pod changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.gates.pin import HOSTNAME_LABEL, PinTarget, exclusion_patch, gates_of, pin_patch, term_count
from numalign.kube.decode.scheduling import PREFERRED, REQUIRED, scheduling
from numalign.model.intent import NODE_LABEL, PLACEMENT_GATE
from tests.unit.controller.gates.conftest import gated
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


def requiring(terms: list[Raw] | None, **more: object) -> Raw:
    required = {} if terms is None else {REQUIRED: {"nodeSelectorTerms": terms}}
    affinity = {"podAffinity": {"stays": "as it is"}, "nodeAffinity": {**required, **more}}
    return gated(FOUR, spec={"affinity": affinity}, resourceVersion="7")


def pin_of(pod: Raw, *hostnames: str, node: str = "a") -> Raw:
    """The pod after its pin."""
    made: Raw = merged(pod, pin_patch(pod, PinTarget(node, hostnames), {"key": "text"}))
    return made


def test_patches_are_for_one_version_of_one_pod() -> None:
    pod = gated(FOUR, resourceVersion="7")

    for patch in (pin_patch(pod, PinTarget("a"), {}), exclusion_patch(pod, ["a"])):
        assert (patch["metadata"]["uid"], patch["metadata"]["resourceVersion"]) == ("uid-of-web", "7")
    made = pin_of(gated(FOUR, gates=("one", PLACEMENT_GATE, "two")))
    # All else stays.
    assert (gates_of(made), made["metadata"]["annotations"]["key"]) == (("one", "two"), "text")


def test_restricted_pod_prefers_the_best_hostname() -> None:
    wish = {"weight": 1, "preference": {"matchExpressions": [IN_ONE]}}
    made = pin_of(requiring([ZONED, {}], **{PREFERRED: [wish]}), "host-a", "host-b")

    assert made["spec"]["affinity"]["podAffinity"] == {"stays": "as it is"}
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
ANY_NODES = st.sets(st.sampled_from(NAMES), min_size=1)


def allowed(pod: Raw) -> set[str]:
    """The nodes that a pod may go to."""
    constraints = scheduling(pod).constraints
    return {name for name in NAMES if constraints.select(name, LABELS[name])}


@given(terms=ANY_TERMS, nodes=ANY_NODES)
def test_patches_allow_exactly_what_was_allowed_before(terms: list[Raw] | None, nodes: set[str]) -> None:
    pod, first = requiring(terms), min(nodes)
    restricted = pin_of(pod, *(f"host-{name}" for name in nodes), node=first)
    avoiding = merged(pod, exclusion_patch(pod, sorted(nodes)))

    assert allowed(pin_of(pod, node=first)) == allowed(pod) & {first}
    assert allowed(restricted) == allowed(pod) & nodes
    assert allowed(avoiding) == allowed(pod) - nodes
    assert (gates_of(avoiding), avoiding["metadata"]["annotations"]) == ((), pod["metadata"]["annotations"])


@given(terms=ANY_TERMS)
def test_exclusion_is_in_as_many_terms_as_counted(terms: list[Raw] | None) -> None:
    pod = requiring(terms)
    [required] = exclusion_patch(pod, ["a"])["spec"]["affinity"]["nodeAffinity"].values()
    expressions = [
        each for term in required["nodeSelectorTerms"] for each in term.get("matchExpressions") or ()
    ]

    assert term_count(pod) == max(1, sum(each["key"] == NODE_LABEL for each in expressions))


@given(terms=ANY_TERMS, pin=st.booleans())
def test_terms_only_grow(terms: list[Raw] | None, *, pin: bool) -> None:
    """As `validateNodeAffinityMutation` has it: no term comes or goes, and each begins as it was."""
    pod = requiring(terms)
    made = merged(pod, pin_patch(pod, PinTarget("a"), {}) if pin else exclusion_patch(pod, ["a"]))
    after = made["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]

    assert len(after) == len(terms or [{}])
    for old, new in zip(terms or [], after, strict=False):
        for key in ("matchExpressions", "matchFields"):
            before = old.get(key) or []
            assert (new.get(key) or [])[: len(before)] == before
        if not (old.get("matchExpressions") or old.get("matchFields")):
            assert old == new


TERMS_OF_A_NUMBER = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": 3}}}


@pytest.mark.parametrize("affinity", [None, [], 3, {"nodeAffinity": "text"}, TERMS_OF_A_NUMBER])
def test_odd_affinity_breaks_no_patch(affinity: object) -> None:
    pod = {"metadata": {"uid": "u"}, "spec": {"affinity": affinity, "schedulingGates": [3, {}]}}

    assert pin_patch(pod, PinTarget("a"), {})["spec"]["affinity"]
    assert gates_of(pod) == ()
