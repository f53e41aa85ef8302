"""What all resources of a container prefer: the fewest zones that each could do with, if they agree."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.column_state import ColumnState
from numalign.cache.preferred_hint import PreferredHint, fitting_sets, preferred_hint
from numalign.kubelet.admit import PodAdmitResult, admit
from numalign.model.bitset import bits
from numalign.model.intent import Policy
from numalign.model.node import CpuManager, MemoryManager, Node
from numalign.model.resources import MEMORY
from tests.worlds.in_columns import asked, left, state
from tests.worlds.notation import GPU, Ids, asks, node, options, table


def of(policy: str, *zones: str) -> Node:
    return node(*zones, policy=policy)


def hint(pod: str, *nodes: Node) -> PreferredHint:
    """What the only container of a pod prefers on each node."""
    found = state(asks(pod), *nodes)
    return preferred_hint(found, asked(found))


def fitting(found: ColumnState, width: int, *names: str) -> list[list[bool]]:
    """By row which sets of so many zones have what the container asks for of these resources."""
    return list[list[bool]](fitting_sets(found, asked(found).only(names), width).T.tolist())


THREE = of("restricted", *["cpu=8 mem=8Gi gpu=2"] * 3)


def test_sets_that_have_enough_of_everything_are_preferred_the_lowest_first() -> None:
    rows = left(THREE, "cpu=1", "", ""), left(THREE, "cpu=1", "", "gpu=0"), left(THREE, "cpu=1", "cpu=1", "")
    found = hint("cpu=2 mem=1Gi gpu=1", *rows)

    assert found.width.tolist() == [1, 1, 1]
    assert found.mask.tolist() == [0b010, 0b010, 0b100]
    assert found.exists.tolist() == [True, True, True]


def test_where_widths_differ_nothing_is_preferred() -> None:
    found = hint("cpu=2 mem=1Gi gpu=3", THREE)

    assert (found.width.tolist(), found.mask.tolist(), found.exists.tolist()) == ([0], [0], [False])


def test_where_no_set_has_enough_of_everything_nothing_is_preferred() -> None:
    found = hint("cpu=2 mem=1Gi gpu=1", left(THREE, "cpu=1", "gpu=0", "mem=0"))

    assert (found.width.tolist(), found.mask.tolist(), found.exists.tolist()) == ([1], [0], [False])


def test_nodes_of_several_widths_are_looked_at_together() -> None:
    small, large, full = (of("restricted", *[f"gpu={each}"] * 4) for each in ("1", "2", "2//0"))
    found = hint("gpu=2", small, large, full)

    assert found.width.tolist() == [2, 1, 1]
    assert found.mask.tolist() == [0b0011, 0b0001, 0]
    assert found.exists.tolist() == [True, True, False]


def test_each_kubelet_has_its_own_order_among_equals() -> None:
    costs: dict[Ids, int] = {(0, 2): 11, (2, 0): 11, (0, 1): 30, (1, 0): 30, (1, 2): 30, (2, 1): 30}
    plain = node(*["gpu=1"] * 3, policy="restricted", costs=costs)
    close = replace(plain, options=options("prefer-closest-numa-nodes"))

    assert hint("gpu=2", plain, close, plain).mask.tolist() == [0b011, 0b101, 0b011]


def test_for_a_single_zone_only_single_zones_count() -> None:
    mixed = hint("gpu=3", replace(THREE, policy=Policy.SINGLE_NUMA_NODE), THREE)

    assert mixed.width.tolist() == [1, 2]
    assert mixed.mask.tolist() == [0, 0b011]
    assert mixed.exists.tolist() == [False, True]


def test_what_managers_do_not_give_out_is_not_asked_about() -> None:
    shared = replace(THREE, cpu_manager=CpuManager.NONE, memory_manager=MemoryManager.NONE)
    found = hint("cpu=1 mem=1Gi gpu=3", THREE, shared)

    assert found.width.tolist() == [0, 2]
    assert found.mask.tolist() == [0, 0b011]


@pytest.mark.parametrize(
    ("pod", "nothing"),
    table(
        [
            ("the container asks for nothing", "cpu=1..", [True, True]),
            ("nobody gives it out", "nic=1", [True, True]),
            ("managers here do not", "cpu=2 mem=1Gi", [False, True]),
            ("all do", "gpu=1", [False, False]),
        ]
    ),
)
@pytest.mark.parametrize("policy", [Policy.RESTRICTED, Policy.SINGLE_NUMA_NODE])
def test_of_nothing_all_zones_are_preferred_where(pod: str, nothing: list[bool], policy: Policy) -> None:
    shared = replace(THREE, policy=policy, cpu_manager=CpuManager.NONE, memory_manager=MemoryManager.NONE)
    found = hint(pod, THREE, shared)

    assert found.nothing.tolist() == nothing
    assert found.exists.tolist() == [True, True]
    assert (found.mask == 0).tolist() == nothing


def test_groups_close_sets_to_memory_alone() -> None:
    grouped = state(
        asks("cpu=1 mem=1Gi gpu=1"), node(*["cpu=8 mem=8Gi gpu=1"] * 3, policy="restricted", blocks=[(0, 1)])
    )

    assert fitting(grouped, 1, MEMORY) == fitting(grouped, 1, MEMORY, GPU) == [[False, False, True]]
    assert fitting(grouped, 2, MEMORY) == [[True, False, False]]
    assert fitting(grouped, 1, GPU) == [[True, True, True]]


# By the rules.

zone = st.builds("cpu=8/8/{} mem=4Gi/4Gi/{}Gi gpu={}".format, *[st.integers(0, 4)] * 3)
policies = st.sampled_from(["restricted", "single-numa-node"])
nodes = st.lists(
    st.builds(lambda policy, zones: of(policy, *zones), policies, st.tuples(*[zone] * 3)),
    min_size=1,
    max_size=4,
)


def affinity(admission: PodAdmitResult) -> int:
    """The zones that the container is bound to, as bits; 0 if it is refused."""
    return bits(zone for grant in admission.placement.grants for zone in grant.affinity or ())


@given(nodes, st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(1, 6)))
def test_a_strict_kubelet_admits_what_all_resources_prefer(
    nodes: list[Node], amounts: tuple[int, ...]
) -> None:
    pod = "cpu={} mem={}Gi gpu={}".format(*amounts)
    found = hint(pod, *nodes)

    admissions = [admit(one, asks(pod)) for one in nodes]
    assert found.exists.tolist() == [one.refusal is None for one in admissions]
    assert found.mask.tolist() == [affinity(one) for one in admissions]
