"""Which nodes take a pod, in columns: those whose rules do."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from numalign.cache.feasibility import Trial
from numalign.decision.evaluate import evaluate
from numalign.model.intent import Policy
from numalign.model.node import MemoryManager, Node
from tests.worlds.columns import state, with_free
from tests.worlds.notation import asks, bag, means, node, options, table

TWO = ("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2")
NONE, BEST, RESTRICTED, SINGLE = (node(*TWO, policy=policy) for policy in Policy)
EVERY = (NONE, BEST, RESTRICTED, SINGLE)
POD = node(*TWO, policy="restricted", scope="pod")
SHARED = with_free(replace(SINGLE, memory_manager=MemoryManager.NONE), *["mem=1Gi"] * 2)
LONE, PAIRS = (
    node(*["cpu=8 mem=8Gi"] * 2, threads=count, options=options("full-pcpus-only")) for count in (1, 2)
)
GROUPED = node(*["cpu=8 mem=8Gi"] * 3, policy="best-effort", blocks=[(0, 1)])
SHUT = with_free(GROUPED, "mem=1Gi cpu=4", "mem=1Gi cpu=4", "mem=1Gi cpu=8")
FULL = options("full-pcpus-only")
SPLIT = node(*["cpu=8/7 mem=8Gi"] * 2, threads=4, options=FULL)
SMALL = replace(SINGLE, totals=bag("cpu=1 mem=8Gi gpu=4"))
APART = tuple(with_free(one, "cpu=1", "gpu=0") for one in EVERY)

TAKEN = [
    # what it shows                          nodes                     the pod                 intent, taken
    ("one zone has all",                     EVERY,  "cpu=8 mem=8Gi gpu=2",                  "none", "1111"),
    ("two zones together",                   EVERY,  "cpu=10 mem=10Gi gpu=3",                "none", "1110"),
    ("no zone has both",                     APART,  "cpu=4 mem=1Gi gpu=1",                  "none", "1100"),
    ("a device that no node lists",          (*EVERY, SMALL), "gpu=1 nic=1",                 "none", "11110"),
    ("the node as a whole has less",         (SMALL, SINGLE), "cpu=2 mem=1Gi",               "none", "01"),
    ("memory in use shuts best-effort out",
        (GROUPED, SHUT, GROUPED.emptied()), "cpu=1 mem=3Gi", "none", "101"),
    ("cores would be broken",                (LONE, PAIRS),    "cpu=3 mem=1Gi | cpu=5 mem=1Gi", "none", "10"),
    ("what spilled is gone", (BEST, with_free(BEST, "gpu=1", "")), "gpu=3 | gpu=1", "none", "10"),
    ("an init container leaves its devices", (SINGLE,),        "init gpu=2 | gpu=2",         "none", "1"),
    ("a pod is aligned as one",
        (POD, with_free(POD, "cpu=7", "cpu=7")), "cpu=4 gpu=1 mem=1Gi | cpu=4 mem=1Gi",
                                                                                             "none", "10"),
    ("a kind that aligns nothing",           EVERY,            "gpu=3",                "restricted", "0110"),
    ("for one resource",                     EVERY, "cpu=9 mem=1Gi gpu=1", "single-numa-node gpu", "0100"),
    ("no promise is asked for",              EVERY, "cpu=9 mem=1Gi gpu=3",            "best-effort", "1100"),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "pod", "intent", "taken"), table(TAKEN))
def test_nodes_take_a_pod_or_not_where(nodes: Sequence[Node], pod: str, intent: str, taken: str) -> None:
    """Alone or beside the others."""
    demand, meaning = asks(pod), means(intent)
    every = state(demand, *nodes, intent=meaning)
    by_rules = [evaluate(one, demand, meaning).admitted for one in nodes]

    assert Trial(every).taken.tolist() == by_rules == [digit == "1" for digit in taken]
    assert [bool(Trial(every.at(np.array([row]))).taken[0]) for row in range(len(nodes))] == by_rules


def test_one_container_is_placed_by_its_hint_or_in_steps() -> None:
    trial = Trial(state(asks("cpu=4 mem=1Gi gpu=1"), BEST, APART[1], NONE, APART[3]))

    assert trial.by_hint.tolist() == [True, False, False, False]
    assert trial.hint.mask.tolist()[0] == 0b01
    assert [rows.tolist() for rows, _, _ in trial.placed_in_steps] == [[1, 2]]


def test_several_containers_are_placed_in_steps() -> None:
    pairs = replace(SINGLE, threads=2)
    trial = Trial(state(asks("gpu=1 | gpu=2"), SINGLE, pairs, SINGLE, with_free(pairs, "gpu=0", "")))

    assert trial.taken.tolist() == [True, True, True, False]
    assert not trial.by_hint.any()
    assert sorted(row for rows, _, _ in trial.placed_in_steps for row in rows.tolist()) == [0, 1, 2]
    with pytest.raises(ValueError, match="no hint in common"):
        _ = trial.hint
