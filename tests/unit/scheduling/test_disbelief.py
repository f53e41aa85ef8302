"""Two ways to lie about a pod, neither of which moves a node; and how that is told."""

from collections.abc import Mapping, Sequence

import pytest

from numalign.scheduling.disbelief import IN_A_LINE, Disbelief
from tests.worlds.notation import node
from tests.worlds.scorer import SINGLE, Raw, Scorer, on, raw, running

WIDE = node("cpu=64 mem=64Gi", "cpu=64 mem=64Gi", policy=SINGLE)
ALL_OF_IT = [{"zones": [f"node-{at}"], "amount": {"cpu": "64", "memory": "64Gi"}} for at in (0, 1)]
HALF_OF_IT = "cpu=64 mem=1Gi"
ALL_OF_A_ZONE = [{"zones": ["node-0"], "amount": {"cpu": "64", "memory": "1Gi"}}]


def there(containers: str, name: str, record: Sequence[Mapping[str, object]]) -> Raw:
    return running(on("wide", raw(containers, name=name), record=record))


@pytest.fixture
async def scorer() -> Scorer:
    made = Scorer()
    await made.know({"wide": WIDE})
    return made


async def test_false_record_of_a_small_pod_blocks_nothing(scorer: Scorer) -> None:
    scorer.see(there("cpu=100m mem=100Mi", "tiny", ALL_OF_IT))
    assert scorer.fits(raw(HALF_OF_IT), "wide") == [True]
    assert scorer.reservations.count_refuted() == 1


async def test_disbelieved_pod_is_logged_once_while_it_is_there(scorer: Scorer) -> None:
    disbelief = Disbelief(scorer.reservations, log=scorer.journal.log)
    scorer.see(there(HALF_OF_IT, "liar", []), there(HALF_OF_IT, "honest", ALL_OF_A_ZONE))
    disbelief.look()
    scorer.see(there(HALF_OF_IT, "liar", ALL_OF_IT))
    disbelief.look()
    [line] = scorer.journal.of("record.disbelieved")
    assert (line["pods"], line["omitted"]) == (["team/liar on wide: cpu, memory"], 0)
    scorer.lose("liar")
    disbelief.look()
    scorer.see(there(HALF_OF_IT, "liar", []))
    disbelief.look()
    assert len(scorer.journal.of("record.disbelieved")) == 2


async def test_a_thousand_false_records_are_a_line_at_a_time(scorer: Scorer) -> None:
    disbelief = Disbelief(scorer.reservations, log=scorer.journal.log)
    many = IN_A_LINE + 3
    scorer.see(*(there("cpu=1 mem=1Gi", f"liar-{at}", []) for at in range(many)))
    for _ in range(4):
        disbelief.look()
    lines = scorer.journal.of("record.disbelieved")
    assert [(len(line["pods"]), line["omitted"]) for line in lines] == [(IN_A_LINE, 3), (3, 0)]
    assert len({pod for line in lines for pod in line["pods"]}) == many
