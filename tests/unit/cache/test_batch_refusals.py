"""Why nodes refuse, in columns: what is told of each row is what the rules say of its node."""

from dataclasses import replace

import numpy as np
import pytest

from numalign.cache import batch_refusals
from numalign.cache.columns import FreeOrEmpty, When
from numalign.cache.evaluation import alike
from numalign.cache.feasibility import Trial
from numalign.decision.evaluate import NO_INTENT, evaluate
from numalign.decision.verdict import Refusal, Verdict
from numalign.model import demand
from numalign.model.intent import Intent, Policy, Scope
from numalign.model.node import Node
from numalign.scheduling.reasons import reason
from tests.worlds.in_columns import left, state
from tests.worlds.notation import NIC, asks, bag, means, node, options, pod, table

ALIKE, APART = "alike", "apart"

TWO = ("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2")
NONE, BEST, RESTRICTED, SINGLE = (node(*TWO, policy=policy) for policy in Policy)
POD = node(*TWO, policy="restricted", scope="pod")


def told(
    pod: str, *nodes: Node, intent: Intent = NO_INTENT, when: FreeOrEmpty = When.NOW
) -> list[Refusal | None]:
    """Why each node refuses, None if it takes the pod; in the words of the rules."""
    trial = Trial(state(asks(pod), *nodes, intent=intent, when=when))
    found: list[Refusal | None] = [None] * len(nodes)
    for rows, refusal in batch_refusals.refusals(trial, np.ones(len(nodes), dtype=np.bool_)):
        for row in rows.tolist():
            assert found[row] is None
            found[row] = alike(refusal)
    for mine, one in zip(found, nodes, strict=True):
        verdict = evaluate(one, asks(pod), intent)
        assert verdict.refused == (mine is not None)
        if mine:
            assert verdict.permanent is (when == When.EMPTY)
            assert said(replace(verdict, refusal=mine)) == said(verdict)
    return found


def said(verdict: Verdict) -> object:
    """What a scheduler hears."""
    refusal = verdict.refusal
    assert refusal is not None
    return refusal.refuser, refusal.reason, refusal.cause, refusal.policy, refusal.detail, reason(verdict)


def compared(pod: str, *nodes: Node, intent: Intent = NO_INTENT, when: FreeOrEmpty = When.NOW) -> str:
    """Whether all nodes are told alike or all apart."""
    found = told(pod, *nodes, intent=intent, when=when)
    assert None not in found
    assert len({*found}) in {1, len(found)}
    return ALIKE if len({*found}) == 1 else APART


# Strict kubelets.

SHORT_OF_CPUS = left(SINGLE, "cpu=1", "cpu=1")
SHORT_OF_GPUS = left(SINGLE, "gpu=0", "gpu=0")
NOT_TOGETHER = left(SINGLE, "cpu=1", "gpu=0")
NOT_TOGETHER_EITHER = left(SINGLE, "gpu=0", "cpu=0")


@pytest.mark.parametrize(
    ("nodes", "word"),
    table(
        [
            ("zones are too small, in one thing or another", (SHORT_OF_CPUS, SHORT_OF_GPUS), ALIKE),
            ("no zone has both", (NOT_TOGETHER, NOT_TOGETHER_EITHER), ALIKE),
            ("small zones, or not together", (SHORT_OF_CPUS, NOT_TOGETHER), APART),
        ]
    ),
)
def test_of_single_zones_it_is_told(nodes: tuple[Node, ...], word: str) -> None:
    assert compared("cpu=2 mem=1Gi gpu=1", *nodes) == word


def test_how_many_zones_it_may_take_is_told() -> None:
    large = left(RESTRICTED, "gpu=1", "gpu=1")
    small = left(node("cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy="restricted"), "", "gpu=0")

    assert compared("gpu=2", large, small) == APART


def test_it_is_told_which_container_finds_nothing() -> None:
    first, second = left(RESTRICTED, "gpu=0", "gpu=0"), left(RESTRICTED, "", "gpu=0")

    assert compared("gpu=2 | gpu=1", first, second) == APART
    assert compared("gpu=2 | gpu=1", second, left(RESTRICTED, "gpu=0", "")) == ALIKE


def test_what_earlier_containers_got_is_gone_for_the_one_that_is_refused() -> None:
    pod = "cpu=4 mem=1Gi gpu=1 | cpu=2 mem=1Gi gpu=1"
    small, smaller = left(SINGLE, "cpu=5", "cpu=1"), left(SINGLE, "cpu=4", "cpu=1")
    apart = left(SINGLE, "cpu=4", "cpu=2 gpu=0")

    assert compared(pod, small, smaller) == ALIKE
    assert compared(pod, small, apart) == APART


@pytest.mark.parametrize("one", [SINGLE, RESTRICTED])
def test_memory_that_no_set_of_zones_has_is_not_given(one: Node) -> None:
    """The manager has no opinion then, and the rest is aligned."""
    without = left(one, "mem=1Gi", "mem=1Gi")
    without_cpus = left(one, "mem=1Gi cpu=1", "mem=1Gi cpu=1")

    assert compared("cpu=2 mem=4Gi", without, left(one, "mem=2Gi", "mem=0")) == ALIKE
    assert compared("cpu=2 mem=4Gi", without, without_cpus) == APART


def test_of_containers_that_are_aligned_as_one_the_one_is_told_that_finds_no_memory() -> None:
    none, some = left(POD, "mem=1Gi", "mem=1Gi"), left(POD, "mem=4Gi", "mem=1Gi")

    assert compared("cpu=1 mem=4Gi | cpu=1 mem=3Gi", none, some) == APART
    assert compared("cpu=1 mem=4Gi | cpu=1 mem=4Gi", none, left(none, "cpu=1", "")) == ALIKE
    assert compared("cpu=1 mem=4Gi", none, left(POD, "mem=2Gi", "mem=0")) == ALIKE


def test_of_a_pod_that_is_aligned_as_one_its_sum_is_told() -> None:
    one, each = left(POD, "gpu=1", "gpu=0"), left(replace(POD, scope=Scope.CONTAINER), "gpu=1", "gpu=0")

    both = (*told("gpu=1 | gpu=1", one), *told("gpu=1 | gpu=1", each))
    assert [[need.asked for need in refusal.needs] for refusal in both if refusal] == [[2], [1]]


# The node as a whole.


def test_of_what_the_node_has_too_little_is_told() -> None:
    told = ("cpu=1 gpu=9", "cpu=9 gpu=0", "cpu=1 gpu=0")
    cpus, gpus, both = (replace(SINGLE, totals=bag(f"{each} mem=8Gi")) for each in told)

    assert compared("cpu=2 mem=1Gi gpu=1", cpus, gpus, both, when=When.EMPTY) == APART
    assert compared("cpu=2 mem=1Gi gpu=1", cpus, left(cpus, "cpu=0", ""), when=When.EMPTY) == ALIKE


def test_what_is_refused_whatever_the_amounts_is_told_alike() -> None:
    used = left(NONE, "cpu=1", "cpu=1")

    assert compared("cpu=2 mem=1Gi", NONE, used, intent=means("restricted"), when=When.EMPTY) == ALIKE


def test_a_node_that_tells_all_it_has_has_none_of_what_it_does_not_list() -> None:
    tells = replace(SINGLE, totals=bag("cpu=16 mem=16Gi gpu=4"))

    (nowhere,) = told("nic=1", tells, when=When.EMPTY)
    assert nowhere is not None
    assert [need.resource for need in nowhere.needs] == [NIC]


def test_what_a_runtime_class_adds_is_told() -> None:
    adding = demand.of(pod("cpu=16 mem=1Gi", overhead="cpu=250m"))
    small = replace(BEST, totals=bag("cpu=16 mem=16Gi"))
    trial = Trial(state(adding, small, intent=NO_INTENT, when=When.NOW))

    ((_, refusal),) = batch_refusals.refusals(trial, np.ones(1, dtype=np.bool_))

    verdict = evaluate(small, adding)
    assert reason(replace(verdict, refusal=refusal)) == reason(verdict)


def test_every_policy_is_told_of_by_its_name() -> None:
    small = [replace(one, totals=bag("cpu=1 mem=8Gi gpu=4")) for one in (NONE, BEST, RESTRICTED, SINGLE)]

    assert compared("cpu=2 mem=1Gi", *small, when=When.EMPTY) == APART
    assert compared("cpu=2 mem=1Gi", small[0], small[0], when=When.EMPTY) == ALIKE


def test_only_of_wanted_rows_that_refuse_anything_is_told() -> None:
    full = left(SINGLE, "cpu=0", "cpu=0")
    trial = Trial(state(asks("cpu=1 mem=1Gi"), full, SINGLE, full))
    found = batch_refusals.refusals(trial, np.array([False, True, True]))

    assert [rows.tolist() for rows, _ in found] == [[2]]


# Kubelets that align at best.


@pytest.mark.parametrize("one", [NONE, BEST])
def test_the_first_resource_that_cannot_be_given_is_told(one: Node) -> None:
    cpus, gpus, memory = (left(one, text, text) for text in ("cpu=0", "gpu=0", "mem=0"))
    both = left(one, "cpu=0 gpu=0", "cpu=0 gpu=0")
    pod = "cpu=2 mem=2Gi gpu=1"

    assert compared(pod, cpus, gpus, memory) == APART
    assert compared(pod, gpus, both) == ALIKE
    assert compared(pod, cpus, left(cpus, "mem=0", "mem=0")) == ALIKE


@pytest.mark.parametrize("one", [NONE, BEST])
def test_of_several_containers_the_one_is_told_that_is_not_given_anything(one: Node) -> None:
    first, second = left(one, "gpu=1", "gpu=0"), left(one, "gpu=1", "gpu=2")

    assert compared("gpu=2 | gpu=2", first, second) == ALIKE
    apart = left(one, "gpu=1", ""), left(one, "cpu=2", "cpu=1")
    assert compared("cpu=1 mem=1Gi gpu=2 | cpu=3 mem=1Gi gpu=2", *apart) == APART


# Whole cores.


def test_who_gives_out_whole_cores_tells_what_would_break_one_from_what_is_not_there() -> None:
    pairs = node(*TWO, threads=2, options=options("full-pcpus-only"))
    quads = replace(pairs, threads=4, stock=None)

    assert compared("cpu=3 mem=1Gi", pairs, quads, when=When.EMPTY) == APART
    assert compared("cpu=2 mem=1Gi", quads, left(quads, "cpu=1", "cpu=1"), when=When.EMPTY) == ALIKE
    assert compared("cpu=4 mem=1Gi", left(pairs, "cpu=2", "cpu=1"), left(pairs, "cpu=1", "cpu=1")) == ALIKE


# What the pod means.


@pytest.mark.parametrize("one", [BEST, RESTRICTED])
def test_what_lies_apart_is_told_by_what_it_comes_down_to(one: Node) -> None:
    intent = means("single-numa-node")
    small, free = left(one, "gpu=1", "gpu=1"), left(one, "", "")

    assert compared("gpu=2", small, left(one, "gpu=1", "gpu=1 cpu=0"), intent=intent) == ALIKE
    assert compared("gpu=3", free, left(one, "gpu=2", "gpu=2"), intent=intent, when=When.EMPTY) == ALIKE


def test_what_an_intent_is_not_about_is_no_reason() -> None:
    intent, pod = means("single-numa-node gpu", scope="pod"), "cpu=1 mem=1Gi gpu=1 | cpu=2 mem=1Gi gpu=1"
    apart, short_of_cpus = left(RESTRICTED, "cpu=2", ""), left(RESTRICTED, "cpu=2", "cpu=2")

    assert compared(pod, apart, short_of_cpus, intent=intent) == ALIKE
    assert compared(pod, apart, short_of_cpus, intent=replace(intent, resources=())) == APART
