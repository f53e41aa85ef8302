"""How many zones a request takes at the least is a matter of hardware, not of what is free."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.column_state import ColumnState
from numalign.cache.widths import widths_of
from numalign.kubelet.admit import min_widths
from numalign.model.node import CpuManager, MemoryManager, Node
from numalign.model.resources import CPU, MEMORY
from tests.worlds.in_columns import asked, by_name, left, state
from tests.worlds.notation import GPU, HUGE, asks, node, options, table


def of(*zones: str, minor: int | None = None) -> Node:
    return node(*zones, policy="restricted", options=options(minor=minor))


def widths(found: ColumnState) -> dict[str, list[int]]:
    """By row how many zones each resource takes that the only container asks for."""
    return by_name(asked(found), widths_of(found, asked(found)))


TWO = ("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2")
THREE = of(*TWO, "mem=8Gi cpu=0")


@pytest.mark.parametrize(
    ("pod", "found"),
    table(
        [
            ("one zone has enough of each", "cpu=8 mem=8Gi gpu=2", {GPU: 1, CPU: 1, MEMORY: 1}),
            ("devices take two zones", "cpu=8 mem=8Gi gpu=3", {GPU: 2, CPU: 1, MEMORY: 1}),
            ("CPUs take two zones", "cpu=9 mem=1Gi", {CPU: 2, MEMORY: 1}),
            ("memory takes three", "cpu=1 mem=17Gi", {CPU: 1, MEMORY: 3}),
        ]
    ),
)
def test_a_request_takes_so_many_zones_whatever_is_free(pod: str, found: dict[str, int]) -> None:
    used = left(THREE, "gpu=0 cpu=0 mem=0", "", "")

    assert widths(state(asks(pod), used, THREE)) == {name: [width] * 2 for name, width in found.items()}


def test_the_largest_zones_count_first() -> None:
    assert widths(state(asks("gpu=5"), of("gpu=1", "gpu=4", "gpu=1"))) == {GPU: [2]}


def test_reserved_cpus_count() -> None:
    assert widths(state(asks("cpu=8 mem=1Gi"), of("cpu=8/6 mem=1Gi", "cpu=8 mem=1Gi"))) == {
        CPU: [1],
        MEMORY: [1],
    }


# More than there is.


@pytest.mark.parametrize(
    ("minor", "found"),
    [(36, {GPU: 2, CPU: 2, MEMORY: 3}), (34, {GPU: 3, CPU: 2, MEMORY: 3})],
)
def test_more_than_all_zones_have_takes_all_of_which_there_are_hints(
    minor: int, found: dict[str, int]
) -> None:
    one = of(*TWO, "mem=8Gi cpu=0", minor=minor)

    assert widths(state(asks("cpu=99 mem=99Gi gpu=9"), one)) == {
        name: [width] for name, width in found.items()
    }


def test_only_where_all_zones_have_too_little_all_are_taken() -> None:
    small, large = (of(*[f"gpu={each}"] * 2) for each in (1, 3))

    assert widths(state(asks("gpu=3"), small, large)) == {GPU: [2, 1]}


def test_of_cpus_that_no_zone_has_one_zone_is_taken() -> None:
    without = node("cpu=0 gpu=1", "gpu=1", cpu_manager=CpuManager.STATIC)

    assert widths(state(asks("cpu=1 mem=1Gi"), without)) == {CPU: [1]}


def test_of_what_no_node_lists_all_zones_are_taken_but_of_cpus_one() -> None:
    bare = node("gpu=1", "gpu=1", cpu_manager=CpuManager.STATIC, memory_manager=MemoryManager.STATIC)

    assert widths(state(asks("cpu=1 mem=1Gi gpu=2"), bare)) == {GPU: [2], CPU: [1], MEMORY: [2]}


# Memory of several names.


@pytest.mark.parametrize(
    ("memory", "width"),
    [("mem=1Gi huge=1Gi", 1), ("mem=8Gi huge=3Gi", 2), ("mem=17Gi huge=6Gi", 3), ("mem=9Gi huge=9Gi", 3)],
)
def test_names_of_memory_take_zones_together(memory: str, width: int) -> None:
    one = of("mem=8Gi huge=1Gi cpu=4", "mem=8Gi huge=1Gi cpu=4", "mem=1Gi huge=4Gi cpu=4")
    full = left(one, *["mem=0 huge=0"] * 3)

    found = widths(state(asks(f"cpu=1 {memory}"), one, full))
    assert found == {CPU: [1, 1], MEMORY: [width] * 2, HUGE: [width] * 2}


# By the rules.

zones = st.builds("cpu=8/8/{} mem={}Gi/1Gi huge={}Gi gpu={}".format, *[st.integers(0, 4)] * 4)
nodes = st.lists(
    st.builds(
        lambda zones, minor: of(*zones, minor=minor), st.tuples(*[zones] * 3), st.sampled_from([34, 36])
    ),
    min_size=1,
    max_size=3,
)


@given(nodes, st.tuples(*[st.integers(1, 30)] * 4))
def test_widths_are_those_of_the_rules(nodes: list[Node], amounts: tuple[int, ...]) -> None:
    pod = asks("cpu={} mem={}Gi huge={}Gi gpu={}".format(*amounts))
    by_rules = [min_widths(one, pod.steps[0]) for one in nodes]

    found = widths(state(pod, *nodes))
    assert [{name: found[name][row] for name in rules} for row, rules in enumerate(by_rules)] == by_rules
