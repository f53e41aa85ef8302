"""Why nodes refuse, in columns: the refusal of each row has the words of the rules for its node."""

from dataclasses import replace

import numpy as np
import pytest

from numalign.cache import batch_refusals
from numalign.cache.columns import FreeOrEmpty, When
from numalign.cache.evaluation import alike
from numalign.cache.feasibility import Trial
from numalign.decision.evaluate import evaluate
from numalign.decision.verdict import Refusal, Verdict
from numalign.model import demand
from numalign.model.intent import Policy
from numalign.model.node import Node
from numalign.scheduling.node_answers import reason
from tests.worlds.columns import state, with_free
from tests.worlds.notation import asks, bag, means, node, options, pod, table

TWO = ("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2")
NONE, BEST, RESTRICTED, SINGLE = (node(*TWO, policy=policy) for policy in Policy)
POD = node(*TWO, policy="restricted", scope="pod")
PAIRS = node(*TWO, threads=2, options=options("full-pcpus-only"))


def words(verdict: Verdict) -> object:
    refusal = verdict.refusal
    assert refusal is not None
    return refusal.refuser, refusal.reason, refusal.cause, refusal.policy, refusal.detail, reason(verdict)


def kinds(
    nodes: tuple[Node, ...], text: str, intent: str = "none", when: FreeOrEmpty = When.NOW
) -> list[Refusal | None]:
    meaning = means(intent)
    trial = Trial(state(asks(text), *nodes, intent=meaning, when=when))
    refusals: list[Refusal | None] = [None] * len(nodes)
    for rows, refusal in batch_refusals.refusals(trial, np.ones(len(nodes), dtype=np.bool_)):
        for row in rows.tolist():
            assert refusals[row] is None
            refusals[row] = alike(refusal)
    for mine, one in zip(refusals, nodes, strict=True):
        verdict = evaluate(one, asks(text), meaning)
        assert verdict.refused == (mine is not None)
        if mine:
            assert verdict.permanent is (when == When.EMPTY)
            assert words(replace(verdict, refusal=mine)) == words(verdict)
    return refusals


def both(one: Node, *free: str) -> tuple[Node, ...]:
    """The node with so much free in both zones, one by one."""
    return tuple(with_free(one, text, text) for text in free)


def halves(one: Node, *pairs: tuple[str, str]) -> tuple[Node, ...]:
    return tuple(with_free(one, *pair) for pair in pairs)


def totals(one: Node, *texts: str) -> tuple[Node, ...]:
    return tuple(replace(one, totals=bag(f"{text} mem=8Gi")) for text in texts)


ALL = "cpu=2 mem=1Gi gpu=1"
REFUSED = [
    # what it shows                              nodes                                     pod, how many kinds
    ("too little, or not together", (*both(SINGLE, "cpu=1"), *halves(SINGLE, ("cpu=1", "gpu=0"))), ALL, 2),
    ("the container that is refused", (*both(RESTRICTED, "gpu=0"), *halves(RESTRICTED, ("", "gpu=0"))),
        "gpu=2 | gpu=1", 2),
    ("after what earlier ones got",              halves(SINGLE, ("cpu=4", "cpu=1"), ("cpu=4", "cpu=2 gpu=0")),
                                                             "cpu=4 mem=1Gi gpu=1 | cpu=2 mem=1Gi gpu=1", 2),
    ("memory that no set has, and CPUs", both(RESTRICTED, "mem=1Gi", "mem=1Gi cpu=1"), "cpu=2 mem=4Gi", 2),
    ("the first resource in turn", both(BEST, "gpu=0", "gpu=0 cpu=0", "cpu=0", "mem=0"), ALL, 3),
    ("in turn for several containers",           halves(NONE, ("gpu=1", ""), ("cpu=2", "cpu=1")),
                                                             "cpu=1 mem=1Gi gpu=2 | cpu=3 mem=1Gi gpu=2", 2),
    ("whole cores that are not free",            halves(PAIRS, ("cpu=2", "cpu=1"), ("cpu=1", "cpu=1")),
        "cpu=4 mem=1Gi", 1),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "text", "count"), table(REFUSED))
def test_refusals_for_now_differ_by(nodes: tuple[Node, ...], text: str, count: int) -> None:
    refusals = kinds(nodes, text)

    assert None not in refusals
    assert len({*refusals}) == count


FOR_GOOD = [
    # what it shows nodes pod, intent, how many kinds
    ("what the node has too little of",          totals(SINGLE, "cpu=1 gpu=9", "cpu=9 gpu=0", "cpu=1 gpu=0"),
        ALL, "none", 3),
    ("no storage that is not listed",
        totals(SINGLE, "cpu=1"), "cpu=2 mem=1Gi ephemeral-storage=1Gi", "none", 1),
    ("its kind", (NONE, *both(NONE, "cpu=1")), "cpu=2 mem=1Gi", "restricted", 1),
    ("zones that the intent does not allow",     (RESTRICTED, *both(RESTRICTED, "gpu=2")), "gpu=3",
        "single-numa-node", 1),
    ("cores of other sizes", (PAIRS, replace(PAIRS, threads=4)), "cpu=3 mem=1Gi", "none", 2),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "text", "intent", "count"), table(FOR_GOOD))
def test_refusals_for_good_differ_by(nodes: tuple[Node, ...], text: str, intent: str, count: int) -> None:
    refusals = kinds(nodes, text, intent, When.EMPTY)

    assert None not in refusals
    assert len({*refusals}) == count


def test_the_overhead_of_a_runtime_class_is_named() -> None:
    adding = demand.of(pod("cpu=16 mem=1Gi", overhead="cpu=250m"))
    (small,) = totals(BEST, "cpu=16")

    ((_, refusal),) = batch_refusals.refusals(Trial(state(adding, small)), np.ones(1, dtype=np.bool_))

    verdict = evaluate(small, adding)
    assert reason(replace(verdict, refusal=refusal)) == reason(verdict)


def test_only_wanted_rows_that_refuse_have_refusals() -> None:
    (full,) = both(SINGLE, "cpu=0")
    trial = Trial(state(asks("cpu=1 mem=1Gi"), full, SINGLE, full))

    refusals = batch_refusals.refusals(trial, np.array([False, True, True]))
    assert [rows.tolist() for rows, _ in refusals] == [[2]]
