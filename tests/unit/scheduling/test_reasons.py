"""What a scheduler prints of nodes that say no."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.decision.evaluate import NO_INTENT, evaluate
from numalign.decision.verdict import Cause, Refusal, Refuser, Verdict
from numalign.model.intent import Policy
from numalign.model.node import Known, Node
from numalign.model.placement import Placement
from numalign.scheduling.reasons import reason
from tests.worlds.notation import asks, means, node, table

SINGLE = "single-numa-node"
EMPTY = node("cpu=8 mem=16Gi gpu=2", "cpu=8 mem=16Gi gpu=2", policy=SINGLE)
SHORT = node("cpu=8//3 mem=16Gi gpu=2", "cpu=8//3 mem=16Gi gpu=2", policy=SINGLE)
TIGHT = node("cpu=8 mem=16Gi gpu=2", "cpu=8 mem=16Gi gpu=2", policy="restricted")
LOOSE = node("cpu=8 mem=16Gi gpu=2", "cpu=8 mem=16Gi gpu=2")


@pytest.mark.parametrize(("node_of_row", "pod", "intent", "expected"), table([
    # what it shows                   node   pod                     intent, then the reason
    ("what is taken now",             SHORT, "cpu=4 mem=1Gi gpu=1",  "none",
     "have no NUMA zone with 4 cpu, 1Gi memory and 1 nvidia.com/gpu free (numalign: single-numa-node)"),
    ("as few zones as it takes",      TIGHT, "cpu=12 mem=1Gi gpu=1", "none",
     ("would use a different number of NUMA zones per resource for 12 cpu, 1Gi memory and 1 nvidia.com/gpu"
      " (numalign: restricted)")),
    ("a kubelet that aligns nothing", LOOSE, "cpu=4 mem=1Gi gpu=1",  "restricted",
     'have Topology Manager policy "none" (numalign: restricted)'),
    ("CPUs that are shared",          EMPTY, "cpu=1.5 mem=1Gi",      "restricted cpu",
     ('cannot pin cpu for the pod, because container "c0" requests 1500m cpu, which is not a whole number'
      " (numalign: restricted)")),
]))  # fmt: skip
def test_a_reason_follows_a_number_of_nodes(node_of_row: Node, pod: str, intent: str, expected: str) -> None:
    """As in `0/3 nodes are available: 2 node(s) have no NUMA zone with ..., 1 node(s) have less than`."""
    match = "equal" if intent.startswith("equal") else "satisfies"
    wanted = NO_INTENT if intent == "none" else means(intent.removeprefix("equal "), match=match)
    assert reason(evaluate(node_of_row, asks(pod), wanted)) == f"node(s) {expected}"


@pytest.mark.parametrize("cause", Cause)
@pytest.mark.parametrize("permanent", [True, False], ids=["ever", "now"])
def test_every_cause_has_a_sentence(cause: Cause, *, permanent: bool) -> None:
    refusal = Refusal(Refuser.KUBELET, "x", cause, Policy.RESTRICTED)
    text = reason(Verdict(refusal, permanent=permanent, placement=Placement(), known=Known.COUNTS))
    assert text.startswith("node(s) ")
    assert text.endswith(" (numalign: restricted)")


def test_admitting_verdict_has_no_reason() -> None:
    with pytest.raises(ValueError, match="is admitted"):
        reason(evaluate(EMPTY, asks("cpu=4 mem=1Gi")))


AMOUNTS = st.tuples(st.integers(0, 8), st.integers(0, 2))
TWO_ZONES = st.tuples(AMOUNTS, AMOUNTS)


def left(amounts: tuple[tuple[int, int], ...], *, policy: str) -> Node:
    return node(*(f"cpu=8//{cpus} mem=16Gi gpu=2//{gpus}" for cpus, gpus in amounts), policy=policy)


@given(
    amounts=st.lists(TWO_ZONES, min_size=2, max_size=12),
    pod=st.sampled_from(
        [
            "cpu=4 mem=1Gi gpu=1",
            "cpu=8 mem=1Gi gpu=2",
            "cpu=6 mem=1Gi | cpu=2 mem=1Gi gpu=2",
            "cpu=10 mem=1Gi",
        ]
    ),
    policy=st.sampled_from([SINGLE, "restricted"]),
)
def test_reason_hides_free_amounts(amounts: list[tuple[tuple[int, int], ...]], pod: str, policy: str) -> None:
    verdicts = [evaluate(left(each, policy=policy), asks(pod)) for each in amounts]
    refusals = [(each, each.refusal) for each in verdicts if each.refusal]
    kinds = {(refusal.cause, refusal.container, each.permanent) for each, refusal in refusals}
    assert len({reason(each) for each, _ in refusals}) <= len(kinds)
