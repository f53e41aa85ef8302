"""Why a placement has its score, in words that add up to it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.decision import score_words
from numalign.decision.evaluate import NO_INTENT, evaluate
from numalign.decision.scoring import HIGHEST, Strategy, score
from numalign.model.node import Node
from tests.worlds.notation import asks, node, table

Costs = dict[tuple[int, ...], int]

LEAST, MOST = Strategy.LEAST_NUMA_NODES, Strategy.MOST_ALLOCATED
SINGLE = "single-numa-node"

TWO = node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi", policy=SINGLE)
SPANNING = node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi", policy="restricted")
NEAR: Costs = {
    (0, 0): 10,
    (0, 1): 12,
    (1, 0): 12,
    (1, 1): 10,
    (2, 2): 10,
    (0, 2): 32,
    (2, 0): 32,
    (1, 2): 32,
    (2, 1): 32,
}
CLOSE = node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi", "cpu=8 mem=8Gi", policy="restricted", costs=NEAR)
FAR = node("cpu=8 mem=8Gi", "cpu=8/8/1 mem=8Gi", "cpu=8 mem=8Gi", policy="restricted", costs=NEAR)

WORDS = [
    # what it shows            strategy   node       what is asked      why
    ("one zone of two",        LEAST,     TWO,       "cpu=4 mem=1Gi",
        "one zone of two (12 deducted for each), no closer ones exist (6 added)"),
    ("all zones",              LEAST,     SPANNING,  "cpu=12 mem=12Gi",
        "two zones of two (12 deducted for each), all of them (6 added)"),
    ("the closest two",        LEAST,     CLOSE,     "cpu=12 mem=12Gi",
        "two zones of three (12 deducted for each), no closer ones exist (6 added)"),
    ("two that are far",       LEAST,     FAR,       "cpu=12 mem=12Gi",
        "two zones of three (12 deducted for each), closer ones exist"),
    ("nothing of its own",     LEAST,     TWO,       "cpu=..1",
        "it requests nothing that the NUMA zones of this node allocate"),
    ("shares",                 MOST,      TWO,       "cpu=4 mem=2Gi",
        "more of the free amounts of its NUMA zones used is better: cpu 50%; memory 25%"),
]  # fmt: skip


@pytest.mark.parametrize(("strategy", "on", "asked", "why"), table(WORDS))
def test_why(strategy: Strategy, on: Node, asked: str, why: str) -> None:
    demand = asks(asked)
    placement = evaluate(on, demand, NO_INTENT).placement

    assert score_words.why(strategy, on, demand, placement) == why


@given(
    cpu=st.integers(1, 30),
    zones=st.lists(st.integers(0, 8), min_size=1, max_size=4),
    costs=st.lists(st.integers(11, 40), min_size=6, max_size=6),
)
def test_the_figures_add_up_to_the_score(cpu: int, zones: list[int], costs: list[int]) -> None:
    pairs = [(one, other) for one in range(4) for other in range(one)]
    both: Costs = {
        pair: cost
        for (one, other), cost in zip(pairs, costs, strict=True)
        for pair in ((one, other), (other, one))
    }
    distances: Costs = both | {(at, at): 10 for at in range(4)}
    on = node(*(f"cpu=8/8/{free} mem=8Gi" for free in zones), policy="restricted", costs=distances)
    demand = asks(f"cpu={cpu} mem={cpu}Gi")
    verdict = evaluate(on, demand, NO_INTENT)
    if not verdict.admitted:
        return

    why = score_words.why(LEAST, on, demand, verdict.placement)
    spanned = ["no", "one", "two", "three", "four"].index(why.split()[0])
    off, back = (
        int(found[1]) if (found := re.search(pattern, why)) else 0
        for pattern in (r"\((\d+) deducted", r"\((\d+) added")
    )

    assert HIGHEST - spanned * off + back == score(LEAST, on, demand, verdict.placement)
