"""What nodes without topology have as a whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.unknown_node_table import UnknownNodeTable
from numalign.model.resources import Resources
from numalign.shapes import UnknownNode
from tests.worlds.notation import asks, bag, table


def table_of(*totals: Resources | None) -> UnknownNodeTable:
    return updated(UnknownNodeTable(), *totals)


def updated(made: UnknownNodeTable, *totals: Resources | None) -> UnknownNodeTable:
    for at in range(max(len(made), len(totals))):
        name = f"n{at}"
        made.update(name, UnknownNode(name, totals[at]) if at < len(totals) else None)
    return made


LARGE = bag("cpu=8 mem=8Gi gpu=2")

ENOUGH = [
    # what is told                          what a pod asks for        whether it may be enough
    ("as much as it asks for",   LARGE,                     "cpu=8 mem=8Gi gpu=2", [True]),
    ("none of one",              bag("cpu=8 mem=8Gi gpu=0"), "cpu=1 mem=1Gi gpu=1", [False]),
    ("not listed",               bag("cpu=8 mem=8Gi"),      "cpu=1 mem=1Gi gpu=1", [False]),
    ("not listed nor asked for", bag("cpu=8 mem=8Gi"),      "cpu=1 mem=1Gi",       [True]),
    ("nothing",                  None,                      "cpu=1 mem=1Gi gpu=3", [True]),
    ("more than fits in 64 bits", Resources({**LARGE, "memory": 2**70}), "cpu=1 mem=9Gi", [True]),
    ("no disk, which few tell",  LARGE,                     "cpu=1 mem=1Gi ephemeral-storage=1Gi", [True]),
]  # fmt: skip


@pytest.mark.parametrize(("totals", "pod", "enough"), table(ENOUGH))
def test_a_node_is_large_enough_if_it_has(totals: Resources | None, pod: str, enough: list[bool]) -> None:
    assert table_of(totals).large_enough(asks(pod)).tolist() == enough


amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(0, 4))
nodes = st.lists(st.none() | amounts.map(Resources), max_size=6)


@given(nodes, nodes, st.integers(0, 4))
def test_nodes_count_as_they_are(
    before: list[Resources | None], after: list[Resources | None], gpus: int
) -> None:
    made = updated(table_of(*before), *after)
    demand = asks(f"gpu={gpus}")

    enough = made.large_enough(demand)

    names = [made.node(row).name for row in range(made.height) if made.has(row) and enough[row]]
    expected = [
        f"n{at}" for at, each in enumerate(after) if each is None or each.get("nvidia.com/gpu", 0) >= gpus
    ]
    assert sorted(names) == expected


def test_unlisted_resources_are_dropped() -> None:
    made = UnknownNodeTable()
    for number in range(100):
        updated(made, bag(f"cpu=8 example.com/{number}=1"))

    assert made.listed() == {"cpu", "example.com/99"}
    assert made.large_enough(asks("cpu=1 mem=1Gi example.com/99=1")).tolist() == [False]
    assert made.large_enough(asks("cpu=1 example.com/99=1")).tolist() == [True]
