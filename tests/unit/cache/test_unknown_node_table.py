"""What nodes without topology have as a whole."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.unknown_node_table import UnknownNodeTable
from numalign.model.resources import Resources
from numalign.shapes import UnknownNode
from tests.worlds.notation import asks, bag, table


def bare(*totals: Resources | None) -> UnknownNodeTable:
    return become(UnknownNodeTable(), *totals)


def become(made: UnknownNodeTable, *totals: Resources | None) -> UnknownNodeTable:
    """Nodes without topology that have as much as this, and no others."""
    deque(made.put_all({f"n{at}": UnknownNode(f"n{at}", each) for at, each in enumerate(totals)}), maxlen=0)
    deque(made.drop_others(), maxlen=0)
    return made


LARGE = bag("cpu=8 mem=8Gi gpu=2")

ENOUGH = [
    # what is told                          what a pod asks for        whether it may be enough
    ("as much as it asks for",   LARGE,                     "cpu=8 mem=8Gi gpu=2", [True]),
    ("less of one resource",     LARGE,                     "cpu=1 mem=1Gi gpu=3", [False]),
    ("none of one",              bag("cpu=8 mem=8Gi gpu=0"), "cpu=1 mem=1Gi gpu=1", [False]),
    ("not listed",               bag("cpu=8 mem=8Gi"),      "cpu=1 mem=1Gi gpu=1", [False]),
    ("not listed nor asked for", bag("cpu=8 mem=8Gi"),      "cpu=1 mem=1Gi",       [True]),
    ("nothing",                  None,                      "cpu=1 mem=1Gi gpu=3", [True]),
    ("more than fits in 64 bits", Resources({**LARGE, "memory": 2**70}), "cpu=1 mem=9Gi", [True]),
    ("no disk, which few tell",  LARGE,                     "cpu=1 mem=1Gi ephemeral-storage=1Gi", [True]),
]  # fmt: skip


@pytest.mark.parametrize(("told", "asked", "enough"), table(ENOUGH))
def test_whether_a_node_is_large_enough_if_its_node_object_tells(
    told: Resources | None, asked: str, enough: list[bool]
) -> None:
    assert bare(told).large_enough(asks(asked)).tolist() == enough


def test_what_was_given_up_halfway_is_done_the_next_time() -> None:
    unknown = {f"n{at}": UnknownNode(f"n{at}", LARGE) for at in range(40)}
    made = bare()
    # An error elsewhere has ended it.
    next(made.put_all(unknown))

    for _ in range(2):
        deque(made.put_all(unknown), maxlen=0)

    assert len(made) == 40


amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(0, 4))
nodes = st.lists(st.none() | amounts.map(Resources), max_size=6)


@given(nodes, nodes, st.integers(0, 4))
def test_whatever_was_there_before_each_node_counts_as_it_is(
    before: list[Resources | None], after: list[Resources | None], gpus: int
) -> None:
    made = become(bare(*before), *after)
    demand = asks(f"gpu={gpus}")

    enough = made.large_enough(demand)

    here = [made.node(row).name for row in range(made.height) if made.has(row) and enough[row]]
    expected = [
        f"n{at}" for at, each in enumerate(after) if each is None or each.get("nvidia.com/gpu", 0) >= gpus
    ]
    assert sorted(here) == expected


def test_what_some_node_lists_is_listed_though_there_is_none_of_it() -> None:
    assert bare(bag("cpu=8 gpu=0"), None).listed() == {"cpu", "nvidia.com/gpu"}
    assert bare().listed() == frozenset()


def test_of_resources_that_nobody_lists_any_more_none_is_kept() -> None:
    made = UnknownNodeTable()
    for number in range(100):
        become(made, bag(f"cpu=8 example.com/{number}=1"))

    assert made.listed() == {"cpu", "example.com/99"}
    assert made.large_enough(asks("cpu=1 mem=1Gi example.com/99=1")).tolist() == [False]
    assert made.large_enough(asks("cpu=1 example.com/99=1")).tolist() == [True]
