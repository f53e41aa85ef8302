"""How many zones a request takes at the least is a matter of hardware, not of what is free."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.widths import widths_of
from numalign.kubelet.admit import min_widths
from numalign.model.demand import Demand
from numalign.model.node import CpuManager, MemoryManager, Node
from numalign.model.resources import CPU, MEMORY
from tests.worlds.columns import only_request, state, with_free
from tests.worlds.notation import GPU, HUGE, asks, node, options, table


def of(*zones: str, minor: int | None = None) -> Node:
    return node(*zones, policy="restricted", options=options(minor=minor))


def widths(demand: Demand, *nodes: Node) -> dict[str, list[int]]:
    """By name and row how many zones each resource of the only container takes."""
    every = state(demand, *nodes)
    request = only_request(every)
    return dict(zip(request.names, widths_of(every, request).tolist(), strict=True))


THREE = of("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2", "mem=8Gi cpu=0", minor=34)
NEAR = of("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2", "mem=8Gi cpu=0", minor=36)
FULL = with_free(THREE, "gpu=0 cpu=0 mem=0", "", "")
PAGES = of("mem=8Gi huge=1Gi cpu=4", "mem=8Gi huge=1Gi cpu=4", "mem=1Gi huge=4Gi cpu=4")
BARE = node("gpu=1", "gpu=1", cpu_manager=CpuManager.STATIC, memory_manager=MemoryManager.STATIC)
NO_CPUS = node("cpu=0 gpu=1", "gpu=1", cpu_manager=CpuManager.STATIC)


WIDTHS = [
    ("one or two", [FULL, THREE], "cpu=8 mem=8Gi gpu=3", {GPU: [2, 2], CPU: [1, 1], MEMORY: [1, 1]}),
    ("the largest zones first", [of("gpu=1", "gpu=4", "gpu=1")], "gpu=5", {GPU: [2]}),
    ("reserved CPUs count", [of("cpu=8/6", "cpu=8")], "cpu=8 mem=1Gi", {CPU: [1]}),
    ("all with hints", [NEAR], "cpu=99 mem=99Gi gpu=9", {GPU: [2], CPU: [2], MEMORY: [3]}),
    ("all before 1.36", [THREE], "cpu=99 mem=99Gi gpu=9", {GPU: [3], CPU: [2], MEMORY: [3]}),
    ("no zone has CPUs", [NO_CPUS], "cpu=1 mem=1Gi", {CPU: [1]}),
    ("no node lists it", [BARE], "cpu=1 mem=1Gi gpu=2", {GPU: [2], CPU: [1], MEMORY: [2]}),
    ("names of memory together", [PAGES], "cpu=1 mem=8Gi huge=3Gi", {CPU: [1], MEMORY: [2], HUGE: [2]}),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "pod", "by_name"), table(WIDTHS))
def test_a_request_takes_zones(nodes: Sequence[Node], pod: str, by_name: dict[str, list[int]]) -> None:
    assert widths(asks(pod), *nodes) == by_name


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
    demand = asks("cpu={} mem={}Gi huge={}Gi gpu={}".format(*amounts))
    by_rules = [min_widths(one, demand.steps[0]) for one in nodes]

    by_name = widths(demand, *nodes)
    assert [{name: by_name[name][row] for name in rules} for row, rules in enumerate(by_rules)] == by_rules
