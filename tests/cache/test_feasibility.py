"""Which nodes take a pod, by columns: yes, no, or that the rules are to say."""

from dataclasses import replace

import pytest

from numalign.cache.columns import FreeOrEmpty, When
from numalign.cache.feasibility import fitting_sets, memory_served, preferred_hint, tried, widths_of
from numalign.decision.evaluate import NO_INTENT, evaluate
from numalign.model.intent import Intent, Policy
from numalign.model.node import CpuManager, MemoryManager, Node
from numalign.model.resources import CPU, MEMORY
from tests.in_columns import asked, left, lists, plan, state
from tests.notation import GPU, HUGE, Ids, asks, bag, means, node, options, table

YES, NO, ASK = "yes", "no", "ask the rules"


def says(pod: str, *nodes: Node, intent: Intent = NO_INTENT, when: FreeOrEmpty = When.NOW) -> list[str]:
    """What columns say of each node; where they say anything, the rules say the same."""
    found = tried(plan(nodes[0], asks(pod), intent), state(*nodes, when=when))
    words = [
        ASK if unsure else YES if taken else NO
        for taken, unsure in zip(found.taken, found.unsure, strict=True)
    ]
    stand = nodes if when is When.NOW else [one.emptied() for one in nodes]
    rules = [YES if evaluate(one, asks(pod), intent).admitted else NO for one in stand]
    assert [word for word in words if word != ASK] == [
        rule for word, rule in zip(words, rules, strict=True) if word != ASK
    ]
    return words


def of(policy: str, *zones: str, scope: str = "container") -> Node:
    return node(*zones, policy=policy, scope=scope)


TWO = ("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2")
NONE, BEST, RESTRICTED, SINGLE = (of(policy, *TWO) for policy in Policy)


# How many zones a request takes by hardware.


@pytest.mark.parametrize(
    ("pod", "widths"),
    table(
        [
            ("one zone has enough of each", "cpu=8 mem=8Gi gpu=2", {GPU: 1, CPU: 1, MEMORY: 1}),
            ("devices take two zones", "cpu=8 mem=8Gi gpu=3", {GPU: 2, CPU: 1, MEMORY: 1}),
            ("CPUs take two zones", "cpu=9 mem=1Gi", {CPU: 2, MEMORY: 1}),
            ("more than there is takes all", "cpu=99 mem=99Gi gpu=9", {GPU: 2, CPU: 2, MEMORY: 3}),
        ]
    ),
)
def test_a_request_takes_so_many_zones(pod: str, widths: dict[str, int]) -> None:
    one = of("restricted", *TWO, "mem=8Gi cpu=0")

    found = widths_of(state(left(one, "gpu=0 cpu=0 mem=0", "", ""), one), asked(one, asks(pod)))
    assert lists(found) == {name: [width] * 2 for name, width in widths.items()}


@pytest.mark.parametrize(
    ("pod", "width"),
    [("mem=1Gi huge=1Gi", 1), ("mem=8Gi huge=3Gi", 2), ("mem=17Gi huge=6Gi", 3), ("mem=9Gi huge=9Gi", 3)],
)
def test_names_of_memory_take_zones_together(pod: str, width: int) -> None:
    one = of("restricted", "mem=8Gi huge=1Gi cpu=4", "mem=8Gi huge=1Gi cpu=4", "mem=1Gi huge=4Gi cpu=4")

    found = widths_of(state(one), asked(one, asks(f"cpu=1 {pod}")))
    assert lists(found) == {CPU: [1], MEMORY: [width], HUGE: [width]}


def test_memory_that_is_given_out_changes_no_width() -> None:
    one = of("restricted", "mem=8Gi//1Gi huge=4Gi//0 cpu=4", "mem=8Gi huge=4Gi cpu=4")

    found = widths_of(state(one), asked(one, asks("cpu=1 mem=8Gi huge=4Gi")))
    assert lists(found) == {CPU: [1], MEMORY: [1], HUGE: [1]}


def test_of_what_no_node_lists_all_zones_are_taken_but_of_cpus_one() -> None:
    one = node("gpu=1", "gpu=1", cpu_manager=CpuManager.STATIC, memory_manager=MemoryManager.STATIC)

    assert lists(widths_of(state(one), asked(one, asks("cpu=1 mem=1Gi")))) == {CPU: [1], MEMORY: [2]}


def test_only_where_all_zones_have_too_little_the_request_takes_as_many_as_have_any() -> None:
    small, large = (of("restricted", f"gpu={each}", f"gpu={each}") for each in (1, 3))

    assert lists(widths_of(state(small, large), asked(small, asks("gpu=3")))) == {GPU: [2, 1]}


# What all resources prefer.


def test_sets_that_have_enough_of_everything_are_common() -> None:
    some = of("restricted", "cpu=8 gpu=2", "cpu=8 gpu=2", "cpu=8 gpu=2")
    rows = left(some, "cpu=1", "", ""), left(some, "cpu=1", "", "gpu=0"), left(some, "cpu=1", "cpu=1", "")
    found = preferred_hint(state(*rows), asked(some, asks("cpu=2 mem=1Gi gpu=1")))

    assert found.width.tolist() == [1, 1, 1]
    assert found.mask.tolist() == [0b010, 0b010, 0b100]
    assert found.exists.tolist() == [True, True, True]


def test_where_widths_differ_nothing_is_common() -> None:
    found = preferred_hint(state(RESTRICTED), asked(RESTRICTED, asks("cpu=2 mem=1Gi gpu=3")))

    assert (found.width.tolist(), found.mask.tolist(), found.exists.tolist()) == ([0], [0], [False])


def test_nodes_of_several_widths_are_looked_at_together() -> None:
    small, large, full = (of("restricted", *[f"gpu={each}"] * 4) for each in ("1", "2", "2//0"))
    found = preferred_hint(state(small, large, full), asked(small, asks("gpu=2")))

    assert found.width.tolist() == [2, 1, 1]
    assert found.mask.tolist() == [0b0011, 0b0001, 0]
    assert found.exists.tolist() == [True, True, False]


def test_the_kubelets_order_decides_among_equals() -> None:
    costs: dict[Ids, int] = {(0, 2): 11, (2, 0): 11, (0, 1): 30, (1, 0): 30, (1, 2): 30, (2, 1): 30}
    close = replace(
        node(*["gpu=1"] * 3, policy="restricted", costs=costs),
        options=options("prefer-closest-numa-nodes"),
    )

    assert preferred_hint(state(close), asked(close, asks("gpu=2"))).mask.tolist() == [0b101]


def test_for_a_single_zone_only_single_zones_count() -> None:
    found = preferred_hint(state(SINGLE), asked(SINGLE, asks("gpu=3")))

    assert found.width.tolist() == [1]
    assert found.mask.tolist() == [0]


def test_who_asks_for_nothing_is_not_asked_about() -> None:
    nothing = replace(asked(SINGLE, asks("gpu=1")), pieces=())

    with pytest.raises(ValueError, match="asks for nothing"):
        preferred_hint(state(SINGLE), nothing)


def test_groups_shut_sets_to_memory_alone() -> None:
    one = node(*["cpu=8 mem=8Gi"] * 3, policy="restricted", blocks=[(0, 1)])
    with_memory = asked(one, asks("cpu=1 mem=1Gi"))
    without = replace(with_memory, memory=())

    assert fitting_sets(state(one), with_memory, 1).T.tolist() == [[False, False, True]]
    assert fitting_sets(state(one), without, 1).T.tolist() == [[True, True, True]]


def test_memory_is_served_by_some_set_that_is_open() -> None:
    one = node(*["cpu=8 mem=8Gi"] * 3, policy="restricted", blocks=[(0, 1)])
    bare = replace(one, zones=tuple(zone.emptied() for zone in one.zones))
    tight = left(one, "mem=1Gi", "mem=1Gi", "mem=1Gi")

    for amount, open_to in ((8, [True, True, False]), (16, [True, True, False]), (17, [False, True, False])):
        pod = asked(one, asks(f"cpu=1 mem={amount}Gi"))
        assert memory_served(state(one, bare, tight), pod).tolist() == open_to


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


def test_what_a_plan_leaves_to_the_rules_is_left_to_them() -> None:
    assert says("init cpu=1 mem=1Gi | cpu=1 mem=1Gi", SINGLE, left(SINGLE, "cpu=0", "cpu=0")) == [ASK, ASK]
    assert says("cpu=1 mem=1Gi gpu=0", NONE, intent=means("restricted")) == [NO]


# Containers, one after another.


@pytest.mark.parametrize("one", [RESTRICTED, SINGLE, BEST, NONE])
def test_what_a_container_got_is_gone_for_the_next(one: Node) -> None:
    short = left(one, "", "cpu=3")

    assert says("cpu=6 mem=1Gi gpu=1 | cpu=3 mem=1Gi gpu=1", one, short) == [YES, YES]
    assert says("cpu=8 mem=4Gi | cpu=8 mem=4Gi | cpu=1 mem=1Gi", one) == [NO]


@pytest.mark.parametrize(
    ("pod", "one"),
    table(
        [
            ("over two zones", "gpu=3 | gpu=1", RESTRICTED),
            ("over two zones, at best", "gpu=3 | gpu=1", BEST),
            ("with nothing in common", "cpu=8 mem=1Gi gpu=3 | cpu=1 mem=1Gi", BEST),
            ("over two zones' memory", "cpu=1 mem=10Gi | cpu=1 mem=1Gi", NONE),
            ("over what zones have left", "cpu=1 mem=6Gi | cpu=1 mem=1Gi", left(NONE, *["mem=4Gi"] * 2)),
        ]
    ),
)
def test_where_a_container_spilled_the_rules_say_what_the_next_finds(pod: str, one: Node) -> None:
    assert says(pod, one) == [ASK]


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
def test_memory_that_there_is_not_for_all_at_once_may_be_there_for_each(policy: str) -> None:
    one = of(policy, *TWO, scope="pod")

    assert says("cpu=1 mem=5Gi | cpu=1 mem=5Gi", left(one, "mem=4Gi", "mem=4Gi")) == [ASK]
    assert says("cpu=1 mem=5Gi", left(one, "mem=2Gi", "mem=2Gi")) == [NO]
    assert says("cpu=1 mem=4Gi | cpu=1 mem=4Gi", one) == [YES]


def test_a_best_effort_for_a_pod_may_find_groups_in_its_way() -> None:
    best = of("best-effort", *TWO, scope="pod")
    apart = left(best, "cpu=1", "mem=1Gi")

    assert says("cpu=2 mem=1Gi | cpu=2 mem=1Gi", apart) == [ASK]
    assert says("cpu=4 mem=2Gi", apart) == [YES]
    assert says("gpu=1 | gpu=2", left(best, "gpu=2", "gpu=1")) == [YES]


def test_a_best_effort_that_spills_over_groups_is_the_rules_to_tell() -> None:
    best = node(*["cpu=8 mem=8Gi"] * 3, policy="best-effort", blocks=[(0, 1)])

    assert says("cpu=10 mem=1Gi", best) == [ASK]
    assert says("cpu=1 mem=1Gi", best) == [YES]


# What the pod means.


@pytest.mark.parametrize(
    ("pod", "words", "by_policy"),
    table(
        [
            ("a single zone", "gpu=3", "single-numa-node", [NO, NO, NO, NO]),
            ("as few zones as possible", "gpu=3", "restricted", [NO, YES, YES, NO]),
            ("one of both, nothing in common", "cpu=9 mem=1Gi gpu=3", "restricted gpu", [NO, ASK, NO, NO]),
            ("as well as possible", "cpu=9 mem=1Gi gpu=3", "best-effort", [YES, YES, NO, NO]),
            ("one zone for what is named", "cpu=9 mem=1Gi gpu=1", "single-numa-node gpu", [NO, ASK, NO, NO]),
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

    assert says("gpu=2 | gpu=2", POD, intent=each) == [ASK]
    assert says("gpu=1 | gpu=1", POD, intent=each) == [YES]
    assert says("gpu=2 | gpu=2", POD, intent=means("restricted", scope="container")) == [ASK]


def test_whether_a_container_that_was_spread_keeps_an_intent_the_rules_say() -> None:
    spread = left(BEST, "gpu=2", "gpu=1")

    assert says("gpu=1 | gpu=2", spread, intent=means("single-numa-node")) == [ASK]
