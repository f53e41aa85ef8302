"""Which nodes take a pod, in columns: those whose rules do."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from numalign.cache.columns import FreeOrEmpty, When
from numalign.cache.feasibility import Trial, large_enough
from numalign.decision.evaluate import NO_INTENT, evaluate
from numalign.model.intent import Intent, Policy
from numalign.model.node import MemoryManager, Node
from tests.worlds.in_columns import left, state
from tests.worlds.notation import asks, bag, means, node, options, table

YES, NO = "yes", "no"


def says(pod: str, *nodes: Node, intent: Intent = NO_INTENT, when: FreeOrEmpty = When.NOW) -> list[str]:
    """What columns say of each node, alone or beside the others; the rules say the same."""
    asked = state(asks(pod), *nodes, intent=intent, when=when)
    taken = words(Trial(asked))
    for row, word in enumerate(taken):
        assert words(Trial(asked.at(np.array([row])))) == [word]
    stand = nodes if when is When.NOW else [one.emptied() for one in nodes]
    assert taken == [YES if evaluate(one, asks(pod), intent).admitted else NO for one in stand]
    return taken


def words(trial: Trial) -> list[str]:
    return [YES if taken else NO for taken in trial.taken.tolist()]


def of(policy: str, *zones: str, scope: str = "container") -> Node:
    return node(*zones, policy=policy, scope=scope)


TWO = ("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2")
NONE, BEST, RESTRICTED, SINGLE = (of(policy, *TWO) for policy in Policy)


# What kubelets make of it.


@pytest.mark.parametrize(
    ("pod", "by_policy"),
    table(
        [
            ("what fits one zone", "cpu=8 mem=8Gi gpu=2", [YES, YES, YES, YES]),
            ("not what has too many devices", "cpu=2 mem=1Gi gpu=5", [NO, NO, NO, NO]),
            ("nor too many CPUs", "cpu=17 mem=1Gi gpu=1", [NO, NO, NO, NO]),
            ("nor too much memory", "cpu=2 mem=17Gi gpu=1", [NO, NO, NO, NO]),
            ("two zones together", "cpu=10 mem=10Gi gpu=3", [YES, YES, YES, NO]),
            ("resources that differ in width", "cpu=2 mem=10Gi gpu=1", [YES, YES, NO, NO]),
            ("nothing at all", "cpu=1..", [YES, YES, YES, YES]),
            ("a device that is nowhere", "gpu=1 nic=1", [YES, YES, YES, YES]),
        ]
    ),
)
def test_kubelets_take(pod: str, by_policy: list[str]) -> None:
    assert [says(pod, one)[0] for one in (NONE, BEST, RESTRICTED, SINGLE)] == by_policy


@pytest.mark.parametrize(("one", "word"), [(NONE, YES), (BEST, YES), (RESTRICTED, NO), (SINGLE, NO)])
def test_where_no_zone_has_both_only_strict_kubelets_refuse(one: Node, word: str) -> None:
    apart = left(one, "cpu=1", "gpu=0")

    assert says("cpu=4 mem=1Gi gpu=1", apart) == [word]
    assert says("cpu=4 mem=1Gi gpu=1", apart, when=When.EMPTY) == [YES]


def test_the_node_as_a_whole_may_have_less_than_its_zones() -> None:
    told = [replace(SINGLE, totals=bag(f"cpu={cpus} mem=8Gi gpu=4")) for cpus in (1, 2, 3)]

    assert says("cpu=2 mem=1Gi", *told) == [NO, YES, YES]


def test_what_a_kubelet_does_not_align_is_refused_whatever_it_has() -> None:
    assert says("cpu=1 mem=1Gi gpu=0", NONE, BEST, intent=means("restricted")) == [NO, YES]


def test_kubelets_of_all_policies_are_asked_together() -> None:
    every = (NONE, BEST, RESTRICTED, SINGLE)

    assert says("cpu=10 mem=10Gi gpu=3", *every, *every[::-1]) == [YES, YES, YES, NO, NO, YES, YES, YES]
    assert says("cpu=2 mem=10Gi gpu=1", *every, intent=means("restricted gpu")) == [NO, YES, NO, NO]


def test_a_resource_counts_only_where_a_manager_gives_it_out() -> None:
    shared = left(replace(SINGLE, memory_manager=MemoryManager.NONE), *["mem=1Gi"] * 2)
    without = of("single-numa-node", *["cpu=8 mem=8Gi"] * 2)

    assert says("cpu=2 mem=4Gi", SINGLE, shared, left(shared, "cpu=1", "cpu=1")) == [YES, YES, NO]
    assert says("cpu=2 mem=4Gi gpu=1", SINGLE, shared, without) == [YES, YES, YES]


def test_where_no_node_has_a_device_only_nodes_that_tell_all_they_have_refuse_it() -> None:
    told = replace(SINGLE, totals=bag("cpu=16 mem=16Gi gpu=4"))

    assert says("nic=1", SINGLE, told) == [YES, NO]


def test_memory_that_others_hold_may_shut_a_best_effort_out() -> None:
    best = node(*["cpu=8 mem=8Gi"] * 3, policy="best-effort", blocks=[(0, 1)])
    shut = left(best, "mem=1Gi cpu=4", "mem=1Gi cpu=4", "mem=1Gi cpu=8")

    assert says("cpu=1 mem=2Gi", best, shut, best.emptied()) == [YES, YES, YES]
    assert says("cpu=1 mem=3Gi", best, shut, best.emptied()) == [YES, NO, YES]


# Whole cores.


WHOLE = options("full-pcpus-only")


def test_who_gives_out_whole_cores_breaks_none() -> None:
    lone, pairs = (node(*["cpu=8 mem=8Gi"] * 2, threads=count, options=WHOLE) for count in (1, 2))

    assert says("cpu=3 mem=1Gi", lone, pairs) == [YES, NO]
    assert says("cpu=3 mem=1Gi", replace(pairs, options=options()), left(lone, "cpu=3", "cpu=3")) == [
        YES,
        YES,
    ]
    assert says("cpu=4 mem=1Gi", lone, pairs, left(pairs, "cpu=3", "cpu=3")) == [YES, YES, YES]
    assert says("cpu=3 mem=1Gi | cpu=5 mem=1Gi", lone, pairs) == [YES, NO]


def test_only_whole_cores_are_counted_of_what_is_free() -> None:
    pairs = node("cpu=8/7 mem=8Gi", "cpu=8/8 mem=8Gi", threads=2, options=WHOLE)

    assert says("cpu=14 mem=1Gi", pairs, left(pairs, "cpu=6", ""), left(pairs, "cpu=5", "")) == [YES, YES, NO]
    assert says(
        "cpu=8 mem=1Gi",
        *(replace(one, policy=Policy.SINGLE_NUMA_NODE) for one in (pairs, left(pairs, "", "cpu=7"))),
    ) == [YES, NO]


# Containers, one after another.


@pytest.mark.parametrize("one", [RESTRICTED, SINGLE, BEST, NONE])
def test_what_a_container_got_is_gone_for_the_next(one: Node) -> None:
    short = left(one, "", "cpu=3")

    assert says("cpu=6 mem=1Gi gpu=1 | cpu=3 mem=1Gi gpu=1", one, short) == [YES, YES]
    assert says("cpu=8 mem=4Gi | cpu=8 mem=4Gi | cpu=1 mem=1Gi", one) == [NO]


@pytest.mark.parametrize(
    ("pod", "ones", "taken"),
    table(
        [
            ("over two zones", "gpu=3 | gpu=1", [RESTRICTED, BEST, left(BEST, "gpu=1", "")], [YES, YES, NO]),
            (
                "with nothing in common",
                "cpu=8 mem=1Gi gpu=3 | cpu=8 mem=1Gi",
                [BEST, left(BEST, "cpu=7", "")],
                [YES, NO],
            ),
            (
                "over two zones' memory",
                "cpu=1 mem=10Gi | cpu=1 mem=1Gi",
                [NONE, left(NONE, "mem=2Gi", "")],
                [YES, NO],
            ),
            (
                "over what is left",
                "cpu=1 mem=6Gi | cpu=1 mem=1Gi",
                [left(NONE, *["mem=4Gi"] * 2), NONE],
                [YES, YES],
            ),
        ]
    ),
)
def test_where_a_container_spilled_the_next_finds_what_is_left(
    pod: str, ones: Sequence[Node], taken: list[str]
) -> None:
    assert says(pod, *ones) == taken


def test_what_an_init_container_had_is_there_for_the_next_but_not_what_a_sidecar_has() -> None:
    pod = "{} cpu=8 mem=8Gi gpu=2 | cpu=8 mem=8Gi gpu=2"
    one = left(SINGLE, "", "cpu=0")

    assert says(pod.format("init"), SINGLE, one) == [YES, YES]
    assert says(pod.format("sidecar"), SINGLE, one) == [YES, NO]


def test_the_last_container_may_spill() -> None:
    assert says("gpu=1 | gpu=3", RESTRICTED, left(RESTRICTED, "gpu=1", "")) == [YES, NO]
    assert says("cpu=1 mem=1Gi | cpu=9 mem=1Gi", NONE) == [YES]


def test_where_nothing_is_aligned_containers_without_memory_bind_none() -> None:
    assert says("gpu=1 | cpu=1 mem=10Gi", NONE) == [YES]
    shared = replace(NONE, memory_manager=MemoryManager.NONE)
    assert says("cpu=9 mem=10Gi | cpu=7 mem=1Gi | gpu=4", shared) == [YES]
    assert says("cpu=9 mem=10Gi | cpu=8 mem=1Gi | gpu=4", shared) == [NO]


POD = of("restricted", *TWO, scope="pod")


def test_a_pod_that_is_aligned_as_one_takes_its_sum() -> None:
    assert says("cpu=4 mem=1Gi gpu=1 | cpu=4 mem=1Gi gpu=1", POD, left(POD, "cpu=7", "cpu=7")) == [YES, NO]


@pytest.mark.parametrize("policy", ["best-effort", "restricted"])
def test_memory_that_there_is_not_for_all_at_once_is_not_aligned_and_given_as_far_as_it_goes(
    policy: str,
) -> None:
    one = of(policy, *TWO, scope="pod")

    assert says("cpu=1 mem=5Gi | cpu=1 mem=5Gi", left(one, "mem=4Gi", "mem=4Gi")) == [NO]
    assert says("cpu=5 mem=5Gi | cpu=5 mem=5Gi", left(one, "", "mem=2Gi")) == [YES]
    assert says("cpu=1 mem=5Gi", left(one, "mem=2Gi", "mem=2Gi")) == [NO]
    assert says("cpu=1 mem=4Gi | cpu=1 mem=4Gi", one) == [YES]


def test_a_best_effort_for_a_pod_may_find_groups_in_its_way() -> None:
    best = of("best-effort", *TWO, scope="pod")
    apart = left(best, "cpu=1", "mem=1Gi")

    assert says("cpu=2 mem=1Gi | cpu=2 mem=1Gi", apart) == [YES]
    assert says("cpu=4 mem=2Gi", apart) == [YES]
    assert says("gpu=1 | gpu=2", left(best, "gpu=2", "gpu=1")) == [YES]


def test_a_best_effort_may_spill_over_groups() -> None:
    best = node(*["cpu=8 mem=8Gi"] * 3, policy="best-effort", blocks=[(0, 1)])

    assert says("cpu=10 mem=1Gi", best) == [YES]
    assert says("cpu=1 mem=1Gi", best) == [YES]


# What the pod means.


@pytest.mark.parametrize(
    ("pod", "words", "by_policy"),
    table(
        [
            ("a single zone", "gpu=3", "single-numa-node", [NO, NO, NO, NO]),
            ("as few zones as possible", "gpu=3", "restricted", [NO, YES, YES, NO]),
            ("one of both, nothing in common", "cpu=9 mem=1Gi gpu=3", "restricted gpu", [NO, YES, NO, NO]),
            ("as well as possible", "cpu=9 mem=1Gi gpu=3", "best-effort", [YES, YES, NO, NO]),
            ("one zone for what is named", "cpu=9 mem=1Gi gpu=1", "single-numa-node gpu", [NO, YES, NO, NO]),
            ("nothing that it asks for", "gpu=3", "single-numa-node nic", [NO, YES, YES, NO]),
        ]
    ),
)
def test_a_pod_may_mean_more_than_its_node(pod: str, words: str, by_policy: list[str]) -> None:
    kubelets = (NONE, BEST, RESTRICTED, SINGLE)

    assert [says(pod, one, intent=means(words))[0] for one in kubelets] == by_policy


TOGETHER = means("single-numa-node", scope="pod")


def test_containers_that_were_placed_one_by_one_may_have_to_sit_together() -> None:
    apart = left(RESTRICTED, "gpu=1", "gpu=1")

    assert says("gpu=1 | gpu=1", RESTRICTED, apart, intent=TOGETHER) == [YES, NO]
    assert says("gpu=1 | gpu=1", apart, intent=means("restricted", scope="pod")) == [NO]
    assert says("gpu=1 | gpu=1", apart, intent=means("restricted")) == [YES]


def test_containers_may_sit_in_as_many_zones_as_the_pod_needs() -> None:
    words = means("restricted", scope="pod")

    assert says("gpu=2 | gpu=1", RESTRICTED, intent=words) == [YES]
    assert says("gpu=2 | gpu=1", RESTRICTED, intent=TOGETHER) == [NO]
    about_gpus = means("restricted gpu", scope="pod")
    assert says("gpu=2 cpu=1 mem=1Gi | gpu=1 cpu=1 mem=1Gi", RESTRICTED, intent=about_gpus) == [YES]
    assert says("gpu=2 cpu=1 mem=1Gi | gpu=1 cpu=1 mem=1Gi", RESTRICTED, intent=words) == [NO]


def test_containers_of_a_pod_that_was_placed_as_one_may_have_to_fit_one_zone_each() -> None:
    each = means("single-numa-node", scope="container")

    assert says("gpu=2 | gpu=2", POD, intent=each) == [YES]
    assert says("gpu=1 | gpu=1", POD, intent=each) == [YES]
    assert says("gpu=2 | gpu=2", POD, intent=means("restricted", scope="container")) == [YES]


def test_a_container_that_was_spread_does_not_keep_its_intent() -> None:
    spread = left(BEST, "gpu=2", "gpu=1")

    assert says("gpu=1 | gpu=2", spread, intent=means("single-numa-node")) == [NO]
    assert says("gpu=1 | gpu=1", spread, intent=means("single-numa-node")) == [YES]


# What is known of the rows of a trial.


def test_a_container_alone_takes_what_it_prefers_or_is_placed_in_steps() -> None:
    apart = left(BEST, "cpu=1", "gpu=0")
    trial = Trial(state(asks("cpu=4 mem=1Gi gpu=1"), BEST, apart, NONE, left(SINGLE, "cpu=1", "gpu=0")))

    assert trial.by_hint.tolist() == [True, False, False, False]
    assert trial.hint.mask.tolist()[0] == 0b01
    assert [rows.tolist() for rows, _, _ in trial.placed_in_steps] == [[1, 2]]


def test_of_several_containers_all_are_placed_in_steps() -> None:
    trial = Trial(state(asks("gpu=1 | gpu=2"), SINGLE, left(SINGLE, "gpu=0", "")))

    assert trial.taken.tolist() == [True, False]
    assert not trial.by_hint.any()
    assert [rows.tolist() for rows, _, _ in trial.placed_in_steps] == [[0]]
    with pytest.raises(ValueError, match="no hint in common"):
        _ = trial.hint


def test_rows_whose_machines_differ_are_admitted_apart_and_together_once() -> None:
    pairs = replace(SINGLE, threads=2)
    trial = Trial(state(asks("gpu=1 | gpu=2"), SINGLE, pairs, SINGLE, left(pairs, "gpu=0", "")))
    found = {
        row: bool(yes)
        for rows, _, admission in trial.admitted_in_steps(np.array([True, True, False, True]))
        for row, yes in zip(rows.tolist(), admission.admitted.tolist(), strict=True)
    }

    assert found == {0: True, 1: True, 3: False}
    assert trial.admitted_in_steps(np.zeros(4, dtype=np.bool_)) == ()


def test_a_node_is_large_enough_with_what_it_has_as_a_whole() -> None:
    told = [replace(SINGLE, totals=bag(f"cpu={cpus} mem=8Gi gpu=4")) for cpus in (1, 2)]

    assert large_enough(state(asks("cpu=2 mem=1Gi"), *told, SINGLE)).tolist() == [False, True, True]
    assert large_enough(state(asks("cpu=17 mem=1Gi"), *told, SINGLE)).tolist() == [False, False, False]
    assert large_enough(state(asks("nic=1"), *told, SINGLE)).tolist() == [False, False, True]
