"""Two ways to lie about a pod, neither of which moves a node; and how that is told."""

from collections.abc import Mapping, Sequence

import pytest

from numalign.ledger.model import Basis
from numalign.scheduling.disbelief import IN_A_LINE, Disbelief
from tests.unit.scorer.conftest import SINGLE, Raw, Scorer, on, raw, running
from tests.worlds.notation import node

WIDE = node("cpu=64 mem=64Gi", "cpu=64 mem=64Gi", policy=SINGLE)
ALL_OF_IT = [{"zones": [f"node-{at}"], "amount": {"cpu": "64", "memory": "64Gi"}} for at in (0, 1)]
HALF_OF_IT = "cpu=64 mem=1Gi"


def half(zone: int) -> list[Mapping[str, object]]:
    """What a pod holds that has all CPUs of a zone."""
    return [{"zones": [f"node-{zone}"], "amount": {"cpu": "64", "memory": "1Gi"}}]


def there(containers: str, name: str, record: Sequence[Mapping[str, object]]) -> Raw:
    """A pod that runs on the wide node, and what stands on it."""
    return running(on("wide", raw(containers, name=name), record=record))


@pytest.fixture
async def scorer() -> Scorer:
    """One wide node, and nobody on it."""
    made = Scorer()
    await made.know({"wide": WIDE})
    return made


async def test_a_tiny_pod_that_claims_a_node_closes_it_to_nobody(scorer: Scorer) -> None:
    scorer.see(there("cpu=100m mem=100Mi", "tiny", ALL_OF_IT))

    assert scorer.fits(raw(HALF_OF_IT), "wide") == [True]
    assert scorer.reservations.count_refuted() == 1


@pytest.mark.parametrize("claim", [[], [{"zones": ["node-0"], "amount": {"cpu": "1", "memory": "1Gi"}}]])
async def test_a_huge_pod_that_claims_little_leaves_a_full_node_full(
    scorer: Scorer, claim: list[Mapping[str, object]]
) -> None:
    scorer.see(there(HALF_OF_IT, "honest", half(0)), there(HALF_OF_IT, "liar", claim))

    assert scorer.fits(raw("cpu=1 mem=1Gi"), "wide") == [False]
    assert scorer.reservations.count_by_basis()[Basis.OBSERVED] == 0


async def test_a_pod_that_is_resized_holds_what_its_kubelet_gave_it(scorer: Scorer) -> None:
    """No kubelet takes back what its managers gave, whatever the pod's spec says from then on."""
    scorer.see(there(HALF_OF_IT, "grown", half(0)))
    scorer.see(there("cpu=1 mem=1Gi", "grown", half(0)))

    assert scorer.reservations.count_refuted() == 0
    assert scorer.fits(raw(HALF_OF_IT), "wide") == [True]
    assert scorer.fits(raw("cpu=64 mem=1Gi | cpu=1 mem=1Gi"), "wide") == [False]


async def test_each_pod_is_told_of_once(scorer: Scorer) -> None:
    disbelief = Disbelief(scorer.reservations, log=scorer.told.log)
    scorer.see(there(HALF_OF_IT, "liar", []), there(HALF_OF_IT, "honest", half(0)))
    disbelief.look()
    scorer.see(there(HALF_OF_IT, "liar", ALL_OF_IT))
    disbelief.look()

    [line] = scorer.told.of("record.disbelieved")
    assert (line["pods"], line["omitted"]) == (["team/liar on wide: cpu, memory"], 0)


async def test_a_thousand_false_records_are_a_line_at_a_time(scorer: Scorer) -> None:
    disbelief = Disbelief(scorer.reservations, log=scorer.told.log)
    many = IN_A_LINE + 3
    scorer.see(*(there("cpu=1 mem=1Gi", f"liar-{at}", []) for at in range(many)))
    for _ in range(4):
        disbelief.look()

    told = scorer.told.of("record.disbelieved")
    assert [(len(line["pods"]), line["omitted"]) for line in told] == [(IN_A_LINE, 3), (3, 0)]
    assert len({pod for line in told for pod in line["pods"]}) == many


async def test_nobody_is_remembered_who_is_gone(scorer: Scorer) -> None:
    disbelief = Disbelief(scorer.reservations, log=scorer.told.log)
    for _ in range(2):
        scorer.see(there(HALF_OF_IT, "liar", []))
        disbelief.look()
        scorer.lose("liar")
        disbelief.look()

    assert len(scorer.told.of("record.disbelieved")) == 2
    assert scorer.reservations.count_refuted() == 0
