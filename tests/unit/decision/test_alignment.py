"""Whether running pods are aligned as their intents require, by what was observed."""

from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from numalign.decision import feasible
from numalign.decision.alignment import (
    LONGEST_BYTES,
    NOT_JUDGED,
    Alignment,
    Judgement,
    Spread,
    alignment,
    why,
)
from numalign.decision.evaluate import too_wide
from numalign.kubelet.admit import admit, effective_demand
from numalign.model import demand
from numalign.model.demand import Demand
from numalign.model.intent import Intent, Policy, Scope
from numalign.model.node import Node
from numalign.model.placement import Held, Placement
from numalign.model.pod import Role
from tests.laws import fleets
from tests.laws.fleets import Pick, drawn
from tests.laws.test_rules_laws import intents
from tests.worlds.notation import asks, bag, means, node, options, pod, table

ALIGNED, MISALIGNED = Judgement.ALIGNED, Judgement.MISALIGNED
NOTHING, NOT_CLEAR = Judgement.HOLDS_NOTHING, Judgement.NOT_CLEAR


def held(text: str) -> Held:
    """What a pod holds by zones, `a` being node-0: `held("a cpu=2, b cpu=2, ab mem=1Gi")`."""
    entries = [entry.split(maxsplit=1) for entry in text.split(",")] if text else []
    return {tuple(f"node-{'abcd'.index(zone)}" for zone in zones): bag(amounts) for zones, amounts in entries}


def wants(text: str) -> Demand:
    """A pod whose containers all have memory, so that it is Guaranteed unless the text says otherwise."""
    return asks(*(f"{each} mem=1Gi" if "mem" not in each else each for each in text.split("|")))


TWO = node("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2", policy="best-effort")
POD_SCOPE = replace(TWO, scope=Scope.POD)
LOOSE = replace(TWO, policy=Policy.NONE)
SINGLE, RESTRICTED, LOOSELY = "single-numa-node", "restricted", "best-effort"

RUNNING = [
    # what it shows, pod, intent, observed, judged
    ("all in one zone", "cpu=4 gpu=1", SINGLE, "a cpu=4 gpu=1", ALIGNED),
    ("CPUs here and the device there", "cpu=4 gpu=1", SINGLE, "a cpu=4, b gpu=1", MISALIGNED),
    ("what is not named may be away", "cpu=4 gpu=1", f"{SINGLE} gpu", "a cpu=4, b gpu=1", ALIGNED),
    ("more than a zone has, as restricted", "cpu=12", RESTRICTED, "a cpu=6, b cpu=6", ALIGNED),
    ("it would fit in one zone", "cpu=4", RESTRICTED, "a cpu=2, b cpu=2", MISALIGNED),
    ("best effort, unmet", "cpu=4", LOOSELY, "a cpu=2, b cpu=2", MISALIGNED),
    ("memory that binds two zones", "cpu=2", RESTRICTED, "a cpu=2, ab mem=1Gi", MISALIGNED),
    ("containers in a zone of their own", "cpu=2 | cpu=4", SINGLE, "a cpu=2, b cpu=4", NOT_CLEAR),
    ("containers that cannot be parted so", "cpu=2 | cpu=4", SINGLE, "a cpu=3, b cpu=3", MISALIGNED),
    ("both of them need two zones", "cpu=9 | cpu=9", RESTRICTED, "a cpu=9, b cpu=9", ALIGNED),
    ("what lies on two zones at once", "cpu=2 | cpu=4", SINGLE, "a cpu=6, ab mem=2Gi", NOT_CLEAR),
    ("an init container that left nothing", "init cpu=2 | cpu=4", RESTRICTED, "a cpu=2, b cpu=2", MISALIGNED),
    ("an init container that left some", "init cpu=2 | cpu=2", RESTRICTED, "a cpu=2, b cpu=2", NOT_CLEAR),
    ("nothing of its own", "cpu=1..", LOOSELY, "", NOTHING),
    ("a zone that is not there", "cpu=4", RESTRICTED, "a cpu=2, d cpu=2", NOT_CLEAR),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "intent", "observed", "judged"), table(RUNNING))
def test_judgement_of_a_running_pod(pod: str, intent: str, observed: str, judged: Judgement) -> None:
    assert alignment(TWO, wants(pod), means(intent), held(observed)).judgement is judged


ELSEWHERE = [
    # what it shows                           node       pod              observed            judged
    ("a kubelet without a policy, bad luck",  LOOSE,     "cpu=4",         "a cpu=2, b cpu=2", MISALIGNED),
    ("a kubelet without a policy, good luck", LOOSE,     "cpu=4",         "a cpu=4",          ALIGNED),
    ("containers of a pod that sits as one",  POD_SCOPE, "cpu=2 | cpu=4", "a cpu=2, b cpu=4", MISALIGNED),
]  # fmt: skip


@pytest.mark.parametrize(("host", "pod", "observed", "judged"), table(ELSEWHERE))
def test_judgement_on_other_nodes(host: Node, pod: str, observed: str, judged: Judgement) -> None:
    assert alignment(host, wants(pod), means(SINGLE), held(observed)).judgement is judged


def test_pod_without_intent_or_observation_is_not_judged() -> None:
    split = held("a cpu=2, b cpu=2")
    assert alignment(TWO, wants("cpu=4"), means("none"), split) == Alignment(Judgement.NOT_ASKED)
    assert alignment(TWO, wants("cpu=4"), means("restricted"), None) == Alignment(Judgement.NOT_OBSERVED)
    unplaced = {(): bag("gpu=1"), **held("a cpu=4")}
    assert alignment(TWO, wants("cpu=4 gpu=1"), means("restricted"), unplaced) == Alignment(ALIGNED)


@pytest.mark.parametrize(("intent", "judged"), [("restricted", NOT_CLEAR), ("restricted cpu", MISALIGNED)])
def test_unknown_resource_counts_if_the_intent_names_it(intent: str, judged: Judgement) -> None:
    observed, unknown = held("a cpu=2, b cpu=2"), frozenset({"nvidia.com/gpu"})
    assert alignment(TWO, wants("cpu=4 gpu=1"), means(intent), observed, unknown).judgement is judged


def test_scope_of_the_intent_decides_the_unit() -> None:
    observed = held("a cpu=2, b cpu=4")
    assert alignment(TWO, wants("cpu=2 | cpu=4"), means("restricted", scope="pod"), observed).misaligned


def test_unhealthy_node_is_judged_by_its_healthy_shape() -> None:
    healthy = node("cpu=8 gpu=2", "cpu=8 gpu=2", policy="restricted")
    ill = replace(node("cpu=8 gpu=0/0", "cpu=8 gpu=2", policy="restricted"), health=healthy)
    assert alignment(ill, asks("gpu=2"), means("restricted"), held("a gpu=1, b gpu=1")).misaligned


def test_container_split_beyond_the_work_limit_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feasible, "MOST_TRIED", 1)
    judged = alignment(TWO, wants("cpu=2 | cpu=4"), means("single-numa-node"), held("a cpu=3, b cpu=3"))
    assert judged == Alignment(NOT_CLEAR)


WORDS = [
    ("a single zone", SINGLE, "2 NUMA zones, and single-numa-node allows one"),
    ("restricted", RESTRICTED, "2 NUMA zones, and restricted allows only as many as this node needs, one"),
    ("best effort", LOOSELY, "2 NUMA zones where one would do; best-effort allows this"),
]


@pytest.mark.parametrize(("intent", "text"), table(WORDS))
def test_reason_names_zones_and_policy(intent: str, text: str) -> None:
    judged = alignment(TWO, wants("cpu=4 gpu=1"), means(intent), held("a cpu=4, b gpu=1"))
    assert why(judged) == f'container "c0" holds cpu in zone 0 and nvidia.com/gpu in zone 1: {text}'


def test_reason_in_pod_scope_is_of_the_pod() -> None:
    judged = alignment(POD_SCOPE, wants("cpu=2 | cpu=4"), means("restricted"), held("a cpu=2, b cpu=4"))
    assert why(judged).startswith("the pod holds cpu in zone 0 and zone 1: 2 NUMA zones")
    assert why(alignment(TWO, wants("cpu=4"), means("restricted"), held("a cpu=4"))) == ""


FRACTION, SHARED = "cpu=500m gpu=1", "cpu=4.. gpu=1"
GPU_ONLY = node("cpu=8/0 gpu=2", "cpu=8/0 gpu=2", policy="restricted")
ONE_ZONE = node("cpu=8 mem=8Gi gpu=2", policy=SINGLE)
GATED = replace(TWO, options=options("PodLevelResourceManagers"))

IN_PART = [
    # what it shows, the node, the pod, its intent, what it holds, the word
    ("all but memory, which its node pins nowhere", TWO, "cpu=4 gpu=1", SINGLE, "a cpu=4 gpu=1", "aligned"),
    ("a Burstable pod", TWO, SHARED, SINGLE, "a gpu=1", "aligned (devices only)"),
    ("only the device is meant", TWO, SHARED, f"{SINGLE} gpu", "a gpu=1", "aligned"),
    ("a node with one zone", ONE_ZONE, SHARED, SINGLE, "a gpu=1", "aligned"),
    ("a fraction", TWO, FRACTION, SINGLE, "a mem=1Gi gpu=1", "aligned (not all cpu)"),
    ("a fraction where memory is not pinned", TWO, FRACTION, SINGLE, "a gpu=1", "aligned (devices only)"),
    ("a fraction in another container", TWO, "cpu=4|cpu=500m", SINGLE, "a cpu=4", "aligned (not all cpu)"),
    ("a kubelet that pins devices", GPU_ONLY, "cpu=4 gpu=1", SINGLE, "a gpu=1", "aligned (devices only)"),
    ("a part that is spread", TWO, "cpu=500m gpu=2", SINGLE, "a gpu=1, b gpu=1", "misaligned"),
]  # fmt: skip


@pytest.mark.parametrize(("host", "pod", "intent", "observed", "word"), table(IN_PART))
def test_word_for_a_pod_aligned_in_part(host: Node, pod: str, intent: str, observed: str, word: str) -> None:
    assert alignment(host, wants(pod), means(intent), held(observed)).word == word


def test_reason_names_what_is_not_pinned() -> None:
    judged = alignment(TWO, wants(FRACTION), means(SINGLE), held("a gpu=1"))
    assert why(judged) == (
        f'{SINGLE} applies to nvidia.com/gpu only: cpu is not pinned, because container "c0" requests 500m'
        " cpu, which is not a whole number"
    )
    assert why(alignment(GPU_ONLY, wants("cpu=4 gpu=1"), means(SINGLE), held("a gpu=1"))) == (
        f"{SINGLE} applies to nvidia.com/gpu only: cpu and memory are not pinned, because its node pins only"
        " devices"
    )


@pytest.mark.parametrize(("scope", "partial"), [(Scope.POD, False), (Scope.CONTAINER, True)])
def test_pod_scope_shares_pod_level_resources(scope: Scope, *, partial: bool) -> None:
    whole = demand.of(
        pod("cpu=2 mem=1Gi | cpu=500m mem=1Gi", requests="cpu=4 mem=4Gi", limits="cpu=4 mem=4Gi")
    )
    judged = alignment(replace(GATED, scope=scope), whole, means(SINGLE), held("a cpu=2"))
    assert (judged.partial is not None) is partial


@pytest.mark.parametrize("judgement", NOT_JUDGED)
def test_reason_for_no_judgement(judgement: Judgement) -> None:
    assert why(Alignment(judgement)) == NOT_JUDGED[judgement]


@given(st.text(max_size=400), st.integers(1, 40), st.integers(1, 40))
def test_words_are_bounded_for_long_names(name: str, resources: int, zones: int) -> None:
    places = tuple(
        (f"{name}-{at}", tuple(f"{name}-{zone}" for zone in range(zones))) for at in range(resources)
    )
    text = why(Alignment(MISALIGNED, Spread(name or "x", places, 1, Policy.RESTRICTED)))
    assert 0 < len(text.encode(errors="replace")) <= LONGEST_BYTES


# Laws: what the kubelet's own rules give, judged afterwards.


def seen(host: Node, placement: Placement) -> Held:
    names = {zone.id: zone.name for zone in host.zones}
    return {tuple(sorted(names[zone] for zone in zones)): bag for zones, bag in placement.kept.items()}


AS_STRICT = {Policy.BEST_EFFORT: Policy.RESTRICTED}
"""What is kept where best-effort is kept."""


def _case(pick: Pick) -> tuple[Node, Demand]:
    host = fleets.worn(pick, fleets.counted(pick))
    return host, fleets.question(pick).demand


@given(drawn(_case), intents())
def test_judgement_agrees_with_the_rules_of_admission(case: tuple[Node, Demand], intent: Intent) -> None:
    host, wanted = case
    admitted = admit(host, wanted)
    if admitted.refusal:
        return
    judged = alignment(host, wanted, intent, seen(host, admitted.placement))
    event(judged.judgement)
    strict = replace(intent, policy=AS_STRICT.get(intent.policy, intent.policy))
    tight = not any(too_wide(host, effective_demand(host, wanted), strict, admitted.placement))

    if judged.misaligned and host.policy is not Policy.NONE:
        assert not tight
    # Where an init container was before its memory was given back, nobody can see afterwards.
    if judged.judgement is ALIGNED and all(step.role is not Role.INIT for step in wanted.steps):
        assert tight
