"""Which zones a pod has to itself, and which pods may share them."""

from dataclasses import replace

import pytest

from numalign.decision.evaluate import evaluate
from numalign.decision.own_zones import own_zones
from numalign.decision.verdict import Cause, Refuser
from numalign.model.intent import Intent
from numalign.model.node import CpuManager, MemoryManager, Node
from numalign.model.resources import ZoneId
from tests.unit.ledger.conftest import held
from tests.worlds.notation import GPU, asks, means, node, table

SINGLE = "single-numa-node"
TWO = node("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2", policy=SINGLE)
ONE = node("cpu=8 mem=8Gi", cpu_manager=CpuManager.NONE, memory_manager=MemoryManager.NONE)
ALONE, SHARING = means(SINGLE, exclusive=True), means(SINGLE)

OWN = [
    # what it shows                      the intent              what the pod holds  its own zones
    ("all that it holds",                means(SINGLE),          "0 cpu=1; 1 gpu=1", {0, 1}),
    ("only what the intent is about",    means(f"{SINGLE} gpu"), "0 cpu=1; 1 gpu=1", {1}),
    ("a block lies on all of its zones", means("restricted"),    "0,1 mem=9Gi",      {0, 1}),
    ("nothing that the intent is about", means(f"{SINGLE} gpu"), "0 cpu=1",          set()),
    ("a device nowhere has no zone",     means("restricted"),    "- gpu=1",          set()),
    ("without an intent none",           means("none"),          "0 cpu=1",          set()),
]  # fmt: skip


@pytest.mark.parametrize(("intent", "holds", "zones"), table(OWN))
def test_own_zones_are_those_of_the_intent(intent: Intent, holds: str, zones: set[int]) -> None:
    by_id = {tuple(ZoneId(int(name[-1])) for name in names): bag_ for names, bag_ in held(holds).items()}
    assert own_zones(TWO, asks("cpu=1 mem=1Gi gpu=1"), intent, by_id) == zones


@pytest.mark.parametrize(
    ("containers", "intent", "zones"),
    [
        ("cpu=1 mem=1Gi", means("restricted"), {0}),
        ("cpu=1 mem=1Gi", means("restricted gpu"), set()),
        ("cpu=1..", means("restricted"), set()),
        ("cpu=1 mem=1Gi", means("none"), set()),
    ],
)
def test_single_zone_provides_every_resource(containers: str, intent: Intent, zones: set[int]) -> None:
    assert own_zones(ONE, asks(containers), intent, {}) == zones


def taken(host: Node, occupied: str, exclusive: str = "") -> Node:
    """The node with pods with an intent on these zones, some of which are exclusive."""
    numbers = (frozenset(ZoneId(int(zone)) for zone in zones.split()) for zones in (occupied, exclusive))
    occupied_zones, exclusive_zones = numbers
    return replace(host, occupied=occupied_zones, exclusive=exclusive_zones)


FIRST_FULL = node("cpu=8//0 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2", policy=SINGLE)
REQUESTS = [
    # what it shows, the node
    #     the intent, why not
    ("no other pods", TWO, ALONE, None),
    ("others are in its zone", taken(TWO, "0"), ALONE, (Cause.NOT_ALONE, ("node-0",))),
    ("where it is predicted counts, not where it could be", taken(FIRST_FULL, "0"), ALONE, None),
    ("a pod that is not exclusive", taken(TWO, "0 1"), SHARING, None),
    ("another has the zone to itself", taken(TWO, "0 1", "0"), SHARING, (Cause.NOT_SHARED, ("node-0",))),
    ("two exclusive pods", taken(TWO, "0", "0"), ALONE, (Cause.NOT_SHARED, ("node-0",))),
    ("at best effort it has an intent", taken(TWO, "0", "0"),
         means("best-effort"), (Cause.NOT_SHARED, ("node-0",))),
    ("a pod without an intent", taken(TWO, "0 1", "0 1"), means("none"), None),
    ("its intent is about what is elsewhere", taken(TWO, "0 1", "0 1"), means(f"{SINGLE} gpu"), None),
]  # fmt: skip


@pytest.mark.parametrize(("host", "intent", "why"), table(REQUESTS))
def test_exclusive_zones_refuse_other_pods(
    host: Node, intent: Intent, why: tuple[Cause, tuple[str, ...]] | None
) -> None:
    refusal = evaluate(host, asks("cpu=2 mem=1Gi"), intent).refusal
    assert (refusal and (refusal.cause, refusal.zones)) == why


@pytest.mark.parametrize("host", [taken(TWO, "0 1"), taken(TWO, "0 1", "0 1")])
def test_refusal_beside_other_pods_is_temporary(host: Node) -> None:
    verdict = evaluate(host, asks("cpu=2 mem=1Gi"), ALONE)
    assert verdict.refusal
    assert (verdict.permanent, verdict.refusal.refuser) == (False, Refuser.INTENT)
    assert not evaluate(host.emptied(), asks("cpu=2 mem=1Gi"), ALONE).refusal


def test_permanent_refusal_comes_first() -> None:
    verdict = evaluate(taken(TWO, "0 1", "0 1"), asks("cpu=9 mem=1Gi"), ALONE)
    assert verdict.refusal
    assert (verdict.permanent, verdict.refusal.cause) == (True, Cause.ZONES_TOO_SMALL)


def test_random_zone_is_exclusive_only_on_an_empty_node() -> None:
    """Of devices on a node that aligns nothing it is not known which one a pod gets."""
    aligns_nothing = node("cpu=8 gpu=1", "cpu=8 gpu=1")
    wanted, alone = asks("cpu=1.. gpu=1"), replace(means("best-effort gpu"), exclusive=True)
    (grant,) = evaluate(aligns_nothing, wanted).placement.grants
    assert grant.chosen == (GPU,)
    assert evaluate(aligns_nothing, wanted, alone).admitted
    assert not evaluate(taken(aligns_nothing, "1"), wanted, alone).admitted
    assert evaluate(taken(aligns_nothing, "1"), wanted, replace(alone, resources=("cpu",))).admitted
