"""The words of a refusal: of one node, alike for many, and counted over all of them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.decision import wording
from numalign.decision.verdict import Cause, Need, Refusal, Refuser, Shortage, Verdict
from numalign.decision.wording import LONGEST, LONGEST_REASON, MOST_NAMED, Counted, Tally
from numalign.kubelet.admission_errors import RejectionReason
from numalign.model.constraints import Unmet
from numalign.model.intent import Intent, Policy
from numalign.model.node import Known
from numalign.model.placement import Placement
from numalign.model.pod import Role
from numalign.model.resources import ZoneId
from tests.worlds.notation import GPU, table

GIB = 2**30
SINGLE = Policy.SINGLE_NUMA_NODE


def refusal(cause: Cause, *needs: Need, detail: str = "", container: str = "main") -> Refusal:
    return Refusal(Refuser.INTENT, "reason", cause, SINGLE, container, needs=needs, detail=detail)


def verdict(refused: Refusal | None, *, permanent: bool = True) -> Verdict:
    return Verdict(refused, permanent=permanent, placement=Placement(), known=Known.COUNTS)


ONE_GPU = Need(GPU, 8, 1, 4)
NO_GPU = Need(GPU, 8, 1, 0)
CPUS = Need("cpu", 60_000, 2, 80_000)
PLENTY = Need("memory", 10 * GIB, 1, 100 * GIB)
HALF_CORE = Need("cpu", 3000, 2, 14_000)

# What it shows, the refusal, its words for one node, and alike for all that refuse so.
WORDS = [
    ("one zone is too small", refusal(Cause.ZONES_TOO_SMALL, ONE_GPU, PLENTY),
         f"has at most 4 {GPU} in one NUMA zone", f"have no NUMA zone with 8 {GPU} and 10Gi memory"),
    ("for several resources", refusal(Cause.ZONES_TOO_SMALL, ONE_GPU, Need("cpu", 2500, 1, 2000)),
         f"has at most 4 {GPU} and at most 2 cpu in one NUMA zone",
         f"have no NUMA zone with 8 {GPU} and 2500m cpu"),
    ("as many zones as each may have", refusal(Cause.ZONES_TOO_SMALL, ONE_GPU, Need("cpu", 9000, 2, 8000)),
         f"has at most 4 {GPU} in one NUMA zone and at most 8 cpu in 2 NUMA zones",
         f"have no set of 2 NUMA zones with 8 {GPU} and 9 cpu"),
    ("no zone has any", refusal(Cause.ZONES_TOO_SMALL, NO_GPU), f"has no {GPU} in any NUMA zone",
         f"have no NUMA zone with 8 {GPU}"),
    ("other containers hold the others", replace(refusal(Cause.ZONES_TOO_SMALL, ONE_GPU), beside=True),
         f"has at most 4 {GPU} in one NUMA zone after the pod's other containers",
         f"have no NUMA zone with 8 {GPU}"),
    ("a plugin reports a zone that does not exist", refusal(Cause.NO_SUCH_ZONE, NO_GPU),
         f"has no NUMA zone for {GPU}: its device plugin reports one that does not exist",
         f"have no NUMA zone for {GPU}: its device plugin reports one that does not exist"),
    ("each wants its own number of zones", refusal(Cause.WIDTHS_DIFFER, CPUS, PLENTY),
         "would use a different number of NUMA zones per resource (1 for 10Gi memory, 2 for 60 cpu)",
         "would use a different number of NUMA zones per resource for 60 cpu and 10Gi memory"),
    ("no zone has all of it", refusal(Cause.NOT_TOGETHER, PLENTY, Need(GPU, 1, 1, 1)),
         f"has no NUMA zone with 10Gi memory and 1 {GPU}", f"have no NUMA zone with 10Gi memory and 1 {GPU}"),
    ("the kubelet takes more zones than it must", refusal(Cause.SPREAD, CPUS),
         "would spread 60 cpu over more than 2 NUMA zones",
         "would spread 60 cpu over more than 2 NUMA zones"),
    ("the node has too little", refusal(Cause.NODE_TOO_SMALL, Need("cpu", 60_000, 2, 32_000), container=""),
         "has at most 32 cpu in total", "have less than 60 cpu in total"),
    ("too little for the overhead",
     refusal(Cause.NODE_TOO_SMALL, Need("cpu", 188_250, 2, 188_000, overhead=250), container=""),
     "has at most 188 cpu in total, and the pod requests 188 cpu and 250m overhead of its RuntimeClass",
     ("have less than 188250m cpu in total, and the pod requests 188 cpu and 250m overhead of its"
     " RuntimeClass")),
    ("the node has none", refusal(Cause.NODE_TOO_SMALL, Need(GPU, 1, 2, 0), container=""), f"has no {GPU}",
         f"have less than 1 {GPU} in total"),
    ("the managers cannot give it out", refusal(Cause.NOT_ALLOCATED, PLENTY), "cannot allocate 10Gi memory",
         "cannot allocate 10Gi memory"),
    ("half a core is not given out", refusal(Cause.NOT_WHOLE_CORES, HALF_CORE, detail="2"),
         "allocates whole cores of 2 CPUs, and 3 cpu is no multiple of that",
         "allocate whole cores of 2 CPUs, and 3 cpu is no multiple of that"),
    ("too few cores are whole", refusal(Cause.NOT_WHOLE_CORES, Need("cpu", 16_000, 2, 14_000)),
         "has at most 14 cpu in whole cores", "have less than 16 cpu in whole cores"),
    ("containers that share get nothing", refusal(Cause.NOTHING_TO_SHARE, HALF_CORE, PLENTY),
         "would leave no cpu and memory for the pod's other containers",
         "would leave no cpu and memory for the pod's other containers"),
    ("shared CPUs have no zone",
     refusal(Cause.NOT_EXCLUSIVE, Need("cpu", 0, 0, 0), Need("memory", 0, 0, 0), detail="it is Burstable"),
     "cannot pin cpu and memory for the pod, because it is Burstable",
     "cannot pin cpu and memory for the pod, because it is Burstable"),
    ("the kubelet does not align", refusal(Cause.NOT_ALIGNED, Need("cpu", 0, 0, 0), detail="restricted"),
         "has a kubelet that does not align cpu", "have a kubelet that does not align cpu"),
    ("the kubelet aligns nothing", refusal(Cause.NOT_ALIGNED, detail="none"),
         'has Topology Manager policy "none"', 'have Topology Manager policy "none"'),
    ("the node has another policy", refusal(Cause.OTHER_POLICY, detail="restricted"),
         'has Topology Manager policy "restricted", not "single-numa-node"',
         'have Topology Manager policy "restricted", not "single-numa-node"'),
    ("others are on its zones", replace(refusal(Cause.NOT_ALONE), zones=("node-0", "node-1")),
         "would place it in zone 0 and zone 1 with other aligned pods, and the pod is exclusive",
         "would place it with other aligned pods, and the pod is exclusive"),
    ("another has its zones", replace(refusal(Cause.NOT_SHARED), zones=("node-1",)),
         "would place it in zone 1, which an exclusive pod holds",
         "would place it in a NUMA zone that an exclusive pod holds"),
    ("it takes too long to say", refusal(Cause.NOT_ANSWERED), "has too many NUMA zones to evaluate in time",
         "have too many NUMA zones to evaluate in time"),
]  # fmt: skip


@pytest.mark.parametrize(("refused", "own", "alike"), table(WORDS))
def test_cause_has_words_for_one_node_and_for_many(refused: Refusal, own: str, alike: str) -> None:
    subject = 'container "main"' if refused.container else "the pod"
    assert wording.sentence(verdict(refused)) == f"{subject}: the node {own}"
    assert wording.reason(verdict(refused)) == alike


def test_every_cause_has_its_words() -> None:
    assert {refused.cause for _, refused, *_ in WORDS} == set(Cause)


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_has_a_text_without_amounts(cause: Cause) -> None:
    assert wording.sentence(verdict(refusal(cause)))
    assert wording.reason(verdict(refusal(cause)))


NOW = [
    # what it shows, the refusal, its words for one node now, and alike
    ("what is free in a zone",     refusal(Cause.ZONES_TOO_SMALL, ONE_GPU),
     f"has at most 4 {GPU} free in one NUMA zone",   f"have no NUMA zone with 8 {GPU} free"),
    ("what a node lacks that is degraded", refusal(Cause.NODE_TOO_SMALL, NO_GPU),
     f"has no {GPU} now",                       f"have less than 8 {GPU} now"),
    ("what cannot be given out",   refusal(Cause.NOT_ALLOCATED, PLENTY),
     "cannot allocate 10Gi memory now",         "cannot allocate 10Gi memory now"),
]  # fmt: skip


@pytest.mark.parametrize(("refused", "own", "alike"), table(NOW))
def test_temporary_cause_is_worded_as_temporary(refused: Refusal, own: str, alike: str) -> None:
    now = verdict(refused, permanent=False)
    assert wording.sentence(now) == f'container "main": the node {own}'
    assert wording.reason(now) == alike
    assert wording.refused(refused) == wording.sentence(now)


def test_refusal_by_node_policy_names_the_policy() -> None:
    refused = replace(
        refusal(Cause.ZONES_TOO_SMALL, ONE_GPU),
        refuser=Refuser.KUBELET,
        reason=RejectionReason.TOPOLOGY_AFFINITY,
    )
    assert wording.sentence(verdict(refused)).endswith(
        ' in one NUMA zone (Topology Manager policy "single-numa-node")'
    )


def test_reused_init_cpus_are_explained() -> None:
    refused = verdict(replace(refusal(Cause.SPREAD, CPUS), zones=("node-0",), reused="prep"))
    assert wording.sentence(refused) == (
        'container "main": the node would spread 60 cpu over more than 2 NUMA zones, as it must reuse the'
        ' CPUs of init container "prep" in zone 0; an init container that requests no whole number of CPUs'
        " has none to reuse"
    )
    assert wording.reason(refused) == "would spread 60 cpu over more than 2 NUMA zones"


def test_wording_of_an_admitted_pod_raises() -> None:
    for words in (wording.reason, wording.sentence):
        with pytest.raises(ValueError, match="is admitted"):
            words(verdict(None))
    with pytest.raises(ValueError, match="nothing refuses"):
        text_of(Tally(unknown=3))


SHORTAGES = [
    ("CPUs", Shortage(ZoneId(0), "node-0", "cpu", 4000, 1500), "zone 0: cpu 4 requested, 1500m free"),
    ("memory", Shortage(ZoneId(3), "node-3", "memory", 4 * GIB, 0), "zone 3: memory 4Gi requested, 0 free"),
    ("devices", Shortage(ZoneId(1), "node-1", GPU, 4, 3), f"zone 1: {GPU} 4 requested, 3 free"),
]


@pytest.mark.parametrize(("short", "text"), table(SHORTAGES))
def test_shortage_names_zone_request_and_free_amount(short: Shortage, text: str) -> None:
    assert wording.shortage(short) == text


TIMES = [
    ("seconds", 59.0, "less than a minute"),
    ("a minute", 60.0, "1 min"),
    ("a day", 86400.0, "1 day"),
    ("days", 30 * 86400.0, "30 days"),
    ("a clock that was put back", -5.0, "less than a minute"),
]


@pytest.mark.parametrize(("seconds", "text"), table(TIMES))
def test_age_is_worded_in_its_largest_unit(seconds: float, text: str) -> None:
    assert wording.ago(seconds) == text


UNLISTED = [
    # what it shows             the name       known              text
    ("one that is near",        "intel.com/qatt", ["intel.com/qat", GPU],
     'no node lists the resource "intel.com/qatt"; did you mean "intel.com/qat"?'),
    ("none that is near",       "quantum", [GPU], 'no node lists the resource "quantum"'),
    ("a very long one", "q" * 400, [GPU], f'no node lists the resource "{"q" * 61}..."'),
]  # fmt: skip


@pytest.mark.parametrize(("resource", "known", "text"), table(UNLISTED))
def test_unlisted_resource_has_a_suggestion_if_near(resource: str, known: list[str], text: str) -> None:
    assert wording.unlisted(resource, known) == text


def test_what_a_degraded_node_lacks() -> None:
    assert wording.lacking({GPU: 4, "cpu": 2000}) == f"lacks 4 {GPU} and 2 cpu that it had when healthy"


# All nodes.

FOUR, TWO = (refusal(Cause.ZONES_TOO_SMALL, Need(GPU, 8, 1, most)) for most in (4, 2))
LOOSE = refusal(Cause.NOT_ALIGNED, detail="none")
OTHER = refusal(Cause.ZONES_TOO_SMALL, ONE_GPU, container="side")
AS = 'no node can align container "main" as single-numa-node'

TALLIES = [
    # what it shows, the tally, the first sentence from the number of nodes on
    ("nodes in the scheduler's idiom",
     Tally((Counted(2, FOUR), Counted(1, LOOSE)), {Unmet.AFFINITY: 3, Unmet.TAINT: 2}),
     (f"{AS} (0 of 8 nodes): 2 have at most 4 {GPU} in one NUMA zone, 1 has Topology Manager policy "
      "\"none\", 3 didn't match the pod's node affinity/selector, 2 had untolerated taints")),
    ("the most telling first, in any order",
     Tally((Counted(5, LOOSE), Counted(1, FOUR))),
     f'{AS} (0 of 6 nodes): 1 has at most 4 {GPU} in one NUMA zone, 5 have Topology Manager policy "none"'),
    ("alike but for amounts", Tally((Counted(2, TWO), Counted(1, FOUR))),
         f"{AS} (0 of 3 nodes): 3 have at most 4 {GPU} in one NUMA zone"),
    ("nodes without topology", Tally((Counted(1, FOUR),), unknown=2),
         f"{AS} (0 of 3 nodes): 1 has at most 4 {GPU} in one NUMA zone, 2 publish no NUMA topology"),
    ("another container",
     Tally((Counted(2, FOUR), Counted(1, OTHER))),
     (f"{AS} (0 of 3 nodes): 2 have at most 4 {GPU} in one NUMA zone, 1 has at most 4 {GPU} in one NUMA"
      ' zone for container "side"')),
    ("a reason of no node is no clause", Tally((Counted(1, FOUR),), {Unmet.TAINT: 0}),
         f"{AS} (0 of 1 node): 1 has at most 4 {GPU} in one NUMA zone"),
    ("shapes without nodes", Tally((Counted(1, TWO),), shapes=(Counted(1, FOUR),)),
         f"{AS} (0 of 1 node, 0 of 1 node shape without nodes): 1 has at most 2 {GPU} in one NUMA zone"),
    ("shapes alone are counted themselves",
     Tally(shapes=(Counted(1, TWO), Counted(1, LOOSE))),
     (f"{AS} (0 of 0 nodes, 0 of 2 node shapes without nodes): 1 has at most 2 {GPU} in one"
      ' NUMA zone, 1 has Topology Manager policy "none"')),
]  # fmt: skip


@pytest.mark.parametrize(("tally", "text"), table(TALLIES))
def test_nodes_are_counted_by_reason(tally: Tally, text: str) -> None:
    assert text_of(tally) == f"{text}."
    assert wording.first_sentence(text_of(tally)) == text


def test_remedy_is_the_last_sentence() -> None:
    text = wording.refusal_text(
        Tally((Counted(1, FOUR),)), Intent(SINGLE), looser=Policy.RESTRICTED, enough=always
    )
    assert text.endswith(
        f'in one NUMA zone. Request at most 4 {GPU}, or set annotation numalign.io/policy to "restricted".'
    )


names = st.text(st.sampled_from("ab-./"), min_size=1, max_size=400)
needs = st.builds(Need, names, st.integers(5, 9), st.integers(1, 3), st.integers(0, 12))
refusals = st.builds(
    Refusal,
    st.sampled_from(Refuser),
    st.sampled_from([*RejectionReason, "IntentNotSatisfied"]),
    st.sampled_from(Cause),
    st.sampled_from(Policy),
    names,
    st.sampled_from(Role),
    # More of both would be more than Hypothesis draws in a reasonable time; `many` has them.
    st.lists(needs, max_size=12).map(tuple),
)
counted = st.lists(st.builds(Counted, st.integers(1, 5000), refusals), min_size=1, max_size=16).map(tuple)


@given(counted, counted, st.integers(0, 3))
def test_reason_is_bounded_for_any_request(
    nodes: tuple[Counted, ...], shapes: tuple[Counted, ...], unknown: int
) -> None:
    text = wording.refusal_text(
        Tally(nodes, unknown=unknown, shapes=shapes), Intent(SINGLE), looser=Policy.RESTRICTED, enough=always
    )
    assert len(text) <= LONGEST
    assert text.endswith('to "restricted".') or "set equal requests" in text
    assert all(len(wording.reason(verdict(each.refusal))) <= LONGEST_REASON for each in nodes)


plain = st.builds(refusal, st.sampled_from(Cause), needs.map(lambda need: replace(need, resource=GPU)))
many = st.lists(st.builds(Counted, st.integers(1, 5000), plain), min_size=1, max_size=60).map(tuple)


@given(many, st.integers(0, 9), st.integers(0, 9))
def test_counts_of_reasons_add_up_to_all_nodes(nodes: tuple[Counted, ...], taints: int, unknown: int) -> None:
    tally = Tally(nodes, {Unmet.TAINT: taints}, unknown)
    whole, _, parts = wording.first_sentence(text_of(tally)).partition(": ")
    assert f"(0 of {wording.nodes(tally.total)})" in whole
    assert sum(int(part.split()[0]) for part in parts.split(", ") if part[0].isdigit()) == tally.total


def test_first_of_many_resources_are_named() -> None:
    requested = (Need(f"x/{number:02}", 1, 1, 0) for number in range(MOST_NAMED + 2))
    text = wording.reason(verdict(refusal(Cause.NODE_TOO_SMALL, *requested)))
    assert text.endswith("1 x/15 and more in total")


def text_of(tally: Tally) -> str:
    return wording.refusal_text(tally, Intent(SINGLE), looser=None, enough=never)


def never(_container: str, _resource: str, _amount: int) -> bool:
    return False


def always(_container: str, _resource: str, _amount: int) -> bool:
    return True
