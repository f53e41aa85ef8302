"""Rows with equal numbers have the same said of them; the same is said under one number, where it can be."""

from dataclasses import replace

import pytest

from numalign.cache.columns import FreeOrEmpty, When
from numalign.cache.feasibility import Trial
from numalign.cache.refusal_codes import UNTOLD, numbers
from numalign.decision.evaluate import NO_INTENT, evaluate
from numalign.decision.verdict import Verdict
from numalign.model.intent import Intent, Policy
from numalign.model.node import Node
from tests.in_columns import left, plan, state
from tests.notation import asks, bag, means, node, table

ALIKE, APART, ASK = "alike", "apart", "ask the rules"

TWO = ("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2")
NONE, BEST, RESTRICTED, SINGLE = (node(*TWO, policy=policy) for policy in Policy)
POD = node(*TWO, policy="restricted", scope="pod")


def told(pod: str, *nodes: Node, intent: Intent = NO_INTENT, when: FreeOrEmpty = When.NOW) -> list[int]:
    """The numbers of nodes that refuse; those with equal ones say the same."""
    demand = asks(pod)
    asked = plan(nodes[0], demand, intent)
    found = numbers(Trial(asked, state(*nodes, when=when))).tolist()
    assert found == [numbers(Trial(asked, state(one, when=when))).item() for one in nodes]
    words = dict[int, object]()
    for number, one in zip(found, nodes, strict=True):
        verdict = evaluate(one, demand, intent)
        assert not verdict.admitted
        assert verdict.permanent is (when == When.EMPTY)
        if number != UNTOLD:
            assert words.setdefault(number, said(verdict)) == said(verdict)
    return list[int](found)


def said(verdict: Verdict) -> object:
    """What a scheduler hears: the reason, what it comes down to, and what is short."""
    refusal = verdict.refusal
    assert refusal is not None
    needs = tuple((need.resource, need.asked, need.zones) for need in refusal.needs)
    return refusal.reason, refusal.cause, refusal.policy, needs, refusal.detail


def compared(pod: str, *nodes: Node, intent: Intent = NO_INTENT, when: FreeOrEmpty = When.NOW) -> str:
    """Whether all nodes are told alike or all apart, or the rules are to say it of each."""
    found = told(pod, *nodes, intent=intent, when=when)
    if UNTOLD in found:
        assert {*found} == {UNTOLD}
        return ASK
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


def test_of_containers_that_are_aligned_as_one_it_is_not_known_which_finds_no_memory() -> None:
    assert compared("cpu=1 mem=4Gi | cpu=1 mem=4Gi", left(POD, "mem=1Gi", "mem=1Gi")) == ASK
    assert compared("cpu=1 mem=4Gi", left(POD, "mem=1Gi", "mem=1Gi")) == ALIKE


# The node as a whole.


def test_of_what_the_node_has_too_little_is_told() -> None:
    told = ("cpu=1 gpu=9", "cpu=9 gpu=0", "cpu=1 gpu=0")
    cpus, gpus, both = (replace(SINGLE, totals=bag(f"{each} mem=8Gi")) for each in told)

    assert compared("cpu=2 mem=1Gi gpu=1", cpus, gpus, both, when=When.EMPTY) == APART
    assert compared("cpu=2 mem=1Gi gpu=1", cpus, left(cpus, "cpu=0", ""), when=When.EMPTY) == ALIKE


def test_what_is_refused_whatever_the_amounts_is_told_alike() -> None:
    used = left(NONE, "cpu=1", "cpu=1")

    assert compared("cpu=2 mem=1Gi", NONE, used, intent=means("restricted"), when=When.EMPTY) == ALIKE


def test_what_a_plan_leaves_to_the_rules_is_left_to_them() -> None:
    full = left(SINGLE, "cpu=0", "cpu=0")

    assert compared("init cpu=1 mem=1Gi | cpu=1 mem=1Gi", full) == ASK


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
def test_of_several_containers_the_rules_say_which_is_not_given(one: Node) -> None:
    assert compared("gpu=1 | gpu=1", left(one, "gpu=1", "gpu=0")) == ASK


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
