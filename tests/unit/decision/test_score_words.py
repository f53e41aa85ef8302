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
NEAR: Costs = {(one, other): 32 if 2 in (one, other) else 12 for one in range(3) for other in range(3)}
NEAR |= {(at, at): 10 for at in range(3)}
CLOSE = node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi", "cpu=8 mem=8Gi", policy="restricted", costs=NEAR)
FAR = node("cpu=8 mem=8Gi", "cpu=8/8/1 mem=8Gi", "cpu=8 mem=8Gi", policy="restricted", costs=NEAR)

WORDS = [
    # what it shows            strategy   node       the pod            why
    ("one zone of two",        LEAST,     TWO,       "cpu=4 mem=1Gi",
        "one zone of two (12 deducted for each), no closer ones exist (6 added)"),
    ("the closest two",        LEAST,     CLOSE,     "cpu=12 mem=12Gi",
        "two zones of three (12 deducted for each), no closer ones exist (6 added)"),
    ("two that are far",       LEAST,     FAR,       "cpu=12 mem=12Gi",
        "two zones of three (12 deducted for each), closer ones exist"),
    ("nothing of its own",     LEAST,     TWO,       "cpu=..1",
        "it requests nothing that the NUMA zones of this node allocate"),
    ("shares",                 MOST,      TWO,       "cpu=4 mem=2Gi",
        "more of the free amounts of its NUMA zones used is better: cpu 50%; memory 25%"),
]  # fmt: skip


@pytest.mark.parametrize(("strategy", "host", "text", "why"), table(WORDS))
def test_reason_of_a_score(strategy: Strategy, host: Node, text: str, why: str) -> None:
    demand = asks(text)
    placement = evaluate(host, demand, NO_INTENT).placement
    assert score_words.why(strategy, host, demand, placement) == why


@given(
    cpu=st.integers(1, 30),
    zones=st.lists(st.integers(0, 8), min_size=1, max_size=4),
    costs=st.lists(st.integers(11, 40), min_size=6, max_size=6),
)
def test_figures_of_a_reason_add_up_to_the_score(cpu: int, zones: list[int], costs: list[int]) -> None:
    pairs = [(one, other) for one in range(4) for other in range(one)]
    both: Costs = {
        pair: cost
        for (one, other), cost in zip(pairs, costs, strict=True)
        for pair in ((one, other), (other, one))
    }
    distances: Costs = both | {(at, at): 10 for at in range(4)}
    host = node(*(f"cpu=8/8/{free} mem=8Gi" for free in zones), policy="restricted", costs=distances)
    demand = asks(f"cpu={cpu} mem={cpu}Gi")
    verdict = evaluate(host, demand, NO_INTENT)
    if not verdict.admitted:
        return

    why = score_words.why(LEAST, host, demand, verdict.placement)
    spanned = ["no", "one", "two", "three", "four"].index(why.split()[0])
    off, back = (
        int(match[1]) if (match := re.search(pattern, why)) else 0
        for pattern in (r"\((\d+) deducted", r"\((\d+) added")
    )

    assert HIGHEST - spanned * off + back == score(LEAST, host, demand, verdict.placement)
