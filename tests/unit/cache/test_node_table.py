"""Nodes find their rows, and their places in tables, whichever way they come and go."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache.columns import MOST_RESOURCES, When
from numalign.cache.layout import Unfit
from numalign.cache.node_table import GONE, ODD, NodeTable
from numalign.model.attributes import Attributes
from numalign.model.intent import Policy, Scope
from numalign.model.node import Node
from tests.worlds.columns import numbered, with_free
from tests.worlds.notation import GPU, machine, node, options, table

TWO = node("cpu=8 gpu=4", "cpu=8 gpu=4", policy="restricted")
FOUR = node(*["cpu=8 gpu=4"] * 4, policy="restricted")
BY_SOCKET = options("align-by-socket")
CHOOSING, CHOOSING_USED = (
    machine("cpu=0-3", "cpu=4-7", devices=devices, policy="restricted", options=BY_SOCKET)
    for devices in ("gpu=0,1", "gpu=0*,1")
)
"""Nodes outside columns."""


def table_of(*nodes: Node) -> NodeTable:
    made = NodeTable()
    for one in nodes:
        made.put(one)
    return made


def called(name: str, one: Node, *free: str) -> Node:
    return replace(with_free(one, *free) if free else one, name=name)


def gpus(made: NodeTable, one: Node) -> object:
    """What is free in columns in each zone of a node."""
    (number,), (place,) = made.places(made.rows([one.name]))
    return "odd" if number == ODD else made.table(number).columns.free(When.NOW, [GPU])[0, :, place].tolist()


def changed(
    made: NodeTable, *nodes: Node, gone: Iterable[str] = ()
) -> tuple[list[int], list[int], list[int]]:
    """The rows that change: in any way that matters to verdicts, in facts, and in who may use them."""
    logs = (made.changes, made.facts, made.attributes)
    places = [log.place for log in logs]
    for one in nodes:
        made.put(one)
    for name in gone:
        made.drop(name)
    rows = (log.since(place, below=made.height) for log, place in zip(logs, places, strict=True))
    changes, facts, attributes = ([] if some is None else some.tolist() for some in rows)
    return changes, facts, attributes


def test_every_node_has_a_row() -> None:
    made = table_of(*numbered([TWO, FOUR, CHOOSING]))

    assert [made.row(name) for name in ("n0", "n1", "n2", "n3")] == [0, 1, 2, None]
    assert made.rows(["n2", "n3", "n0"]).tolist() == [2, -1, 0]
    assert [one.name for one in made] == ["n0", "n1", "n2"]
    assert (len(made), made.height, made.in_columns) == (3, 3, 2)
    numbers, places = made.places(made.rows(["n2", "n1", "n0"]))
    assert (numbers.tolist(), places.tolist()[1:]) == ([ODD, 1, 0], [0, 0])


def test_the_row_of_a_node_that_has_gone_is_used_again() -> None:
    made = table_of(*numbered([TWO, TWO, TWO]))
    made.drop("n1")
    for row in (1, 3, -1):
        with pytest.raises(KeyError, match=str(row)):
            made.node(row)
    assert (len(made), made.height, made.in_columns, made.places(None)[0].tolist()[1]) == (2, 3, 2, GONE)

    made.put(called("another", FOUR))
    made.put(called("one more", TWO))
    assert [made.row(name) for name in ("another", "one more")] == [1, 3]
    assert made.node(1).name == "another"


CORDONED = replace(TWO, attributes=Attributes(cordoned=True))
NOTHING, FREE, FACTS, USE = (False,) * 3, (True, False, False), (True, True, False), (False, False, True)
CHANGES = [
    # what happens                before    after                            changes, facts, attributes
    ("nothing",                   TWO,      replace(TWO),                    NOTHING),
    ("it is in use",              TWO,      with_free(TWO, "gpu=1", ""),     FREE),
    ("it gets more zones",        TWO,      FOUR,                            FACTS),
    ("it is cordoned",            TWO,      CORDONED,                        USE),
    ("it is labelled",            TWO,      replace(TWO, label="a-class"),   NOTHING),
    ("it is cordoned and in use", TWO,      with_free(CORDONED, "gpu=1", ""), (True, False, True)),
    ("one outside columns",       CHOOSING, CHOOSING_USED,                   FREE),
    ("it reports too much",       TWO,      with_free(TWO, "gpu=5", ""),     FREE),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "changes"), table(CHANGES))
def test_changes_are_noted_if(before: Node, after: Node, changes: tuple[bool, ...]) -> None:
    made = table_of(*numbered([TWO, before]))

    assert changed(made, called("n1", after)) == tuple([1] if noted else [] for noted in changes)
    assert changed(made, gone=["n1", "n7"]) == ([1], [1], [1])


def test_nodes_share_a_table_while_it_has_room() -> None:
    def listing(first: int) -> Node:
        return node(" ".join(f"example.com/d{at}=1" for at in range(first, first + MOST_RESOURCES // 2)))

    mixed = table_of(*numbered([TWO, replace(TWO, policy=Policy.NONE), replace(TWO, scope=Scope.POD)]))
    half = MOST_RESOURCES // 2
    crowded = table_of(*numbered([listing(0), listing(half), listing(2 * half), listing(half)]))

    assert [zones.rows.tolist() for _, zones in mixed.tables()] == [[0, 1, 2]]
    assert [zones.rows.tolist() for _, zones in crowded.tables()] == [[0, 1, 3], [2]]


def test_nodes_outside_columns_have_a_reason() -> None:
    pods = replace(TWO, options=options("PodLevelResourceManagers"))
    made = table_of(*numbered([CHOOSING, TWO, pods, CHOOSING]))

    assert made.unfit == {Unfit.CPU_OPTIONS: 2, Unfit.POD_LEVEL: 1}
    assert (made.why_odd(0), made.why_odd(2)) == (Unfit.CPU_OPTIONS, Unfit.POD_LEVEL)
    with pytest.raises(KeyError, match="1"):
        made.why_odd(1)

    made.put(called("n0", TWO))
    made.drop("n3")
    made.put(called("n1", CHOOSING))
    assert made.unfit == {Unfit.CPU_OPTIONS: 1, Unfit.POD_LEVEL: 1}


def test_nodes_with_exclusive_pods_are_known() -> None:
    made, first, every = table_of(*numbered([TWO] * 20)), frozenset(TWO.ids[:1]), np.arange(3)
    made.put(replace(called("n1", TWO), occupied=first))
    made.put(replace(called("n2", TWO), occupied=first, exclusive=first))
    made.put(replace(called("n20", TWO), occupied=first, exclusive=first))

    assert (made.occupied(every).tolist(), made.exclusive(every).tolist()) == (
        [False, True, True],
        [False, False, True],
    )
    made.put(called("n2", TWO))
    made.drop("n1")
    made.drop("n20")
    assert not made.occupied(np.arange(21)).any()
    assert not made.exclusive(np.arange(21)).any()


kinds = st.sampled_from([None, TWO, FOUR, CHOOSING])


@given(st.lists(st.tuples(st.sampled_from("abcd"), kinds, st.integers(0, 4))))
def test_nodes_that_come_and_go_have_their_amounts(steps: list[tuple[str, Node | None, int]]) -> None:
    made, nodes = NodeTable(), dict[str, Node]()
    for name, kind, amount in steps:
        nodes.pop(name, None)
        if kind is None:
            made.drop(name)
            continue
        amounts = [] if kind is CHOOSING else [f"gpu={amount}"] * len(kind.zones)
        nodes[name] = called(name, kind, *amounts)
        made.put(nodes[name])

    assert {one.name: gpus(made, one) for one in made} == {
        name: "odd" if one.options == BY_SOCKET else [zone.free.get(GPU, 0) for zone in one.zones]
        for name, one in nodes.items()
    }


@pytest.mark.full
def test_kinds_of_a_large_table_are_cached() -> None:
    (_, zones), *_ = table_of(*numbered([node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi")] * 4096)).tables()
    every = [frozenset({f"example.com/device-{at}"}) for at in range(64)]
    before = [zones.kinds(requested) for requested in every]

    assert all(zones.kinds(requested) is kinds for requested, kinds in zip(every, before, strict=True))
