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
from numalign.model.resources import CPU
from tests.worlds.in_columns import left, named
from tests.worlds.notation import GPU, machine, node, options

TWO = node("cpu=8 gpu=4", "cpu=8 gpu=4", policy="restricted")
FOUR = node(*["cpu=8 gpu=4"] * 4, policy="restricted")
BY_SOCKET = options("align-by-socket")
CHOOSING = machine("cpu=0-3", "cpu=4-7", devices="gpu=0,1", policy="restricted", options=BY_SOCKET)
"""A node that stands in no columns."""


def tables(*nodes: Node) -> NodeTable:
    made = NodeTable()
    for one in nodes:
        made.put(one)
    return made


def called(name: str, one: Node, *free: str) -> Node:
    return replace(left(one, *free) if free else one, name=name)


def stands(made: NodeTable) -> list[tuple[str, object]]:
    """By row the name of its node, and what columns say is free of GPUs there."""
    numbers, places = made.places(None)
    return [
        (one.name, _told(made, int(numbers[row]), int(places[row]), row))
        for one in made
        for row in [made.rows([one.name])[0]]
    ]


def _told(made: NodeTable, number: int, place: int, row: int) -> object:
    if number == ODD:
        return "odd"
    table = made.table(number)
    assert table.rows[place] == row
    return table.columns.free(When.NOW, [GPU])[0, :, place].tolist()


def free(one: Node) -> object:
    """What it has free of GPUs, if it stands in columns."""
    return "odd" if one.options == BY_SOCKET else [zone.free.get(GPU, 0) for zone in one.zones]


# Rows.


def test_every_node_has_a_row() -> None:
    made = tables(*named([TWO, FOUR, CHOOSING]))

    assert [made.row(name) for name in ("n0", "n1", "n2", "n3")] == [0, 1, 2, None]
    assert made.rows(["n2", "n3", "n0"]).tolist() == [2, -1, 0]
    assert [one.name for one in made] == ["n0", "n1", "n2"]
    assert made.node(1).name == "n1"
    assert (len(made), made.height, made.in_columns) == (3, 3, 2)


def test_a_row_without_a_node_has_none() -> None:
    made = tables(*named([TWO, TWO]))
    made.drop("n0")

    for row in (0, 2, -1):
        with pytest.raises(KeyError, match=str(row)):
            made.node(row)
    assert [one.name for one in made] == ["n1"]
    assert (len(made), made.height, made.in_columns) == (1, 2, 1)
    assert made.places(None)[0].tolist()[0] == GONE


def test_a_row_is_used_again_when_its_node_has_gone() -> None:
    made = tables(*named([TWO, TWO, TWO]))
    made.drop("n1")
    made.put(called("another", FOUR))
    made.put(called("one more", TWO))

    assert [made.row(name) for name in ("another", "one more")] == [1, 3]
    assert made.height == 4


def test_who_is_not_there_cannot_go() -> None:
    made = tables(*named([TWO]))

    assert changed(made, gone=["n7"]) == ([], [])
    assert len(made) == 1


def test_there_is_room_for_many() -> None:
    many = named([TWO, FOUR, CHOOSING] * 30)
    made = tables(*many)

    assert stands(made) == [(one.name, free(one)) for one in many]
    assert made.in_columns == 60


# What changes.


def changed(made: NodeTable, *nodes: Node, gone: Iterable[str] = ()) -> tuple[list[int], list[int]]:
    """The rows that change by this, and those of which more does than what is free."""
    logs = (made.changes, made.facts)
    places = [log.place for log in logs]
    for one in nodes:
        made.put(one)
    for name in gone:
        made.drop(name)
    rows, facts = (log.since(place, below=made.height) for log, place in zip(logs, places, strict=True))
    assert rows is not None
    assert facts is not None
    return rows.tolist(), facts.tolist()


def test_rows_that_change_are_noted() -> None:
    first, second = named([TWO, TWO])
    made = tables(first)

    assert changed(made, second) == ([1], [1])
    assert changed(made, called("n0", TWO, "gpu=1", "")) == ([0], [])
    assert changed(made, called("n1", FOUR)) == ([1], [1])
    assert changed(made, gone=["n0"]) == ([0], [0])


def test_who_may_go_to_a_node_is_noted_by_itself() -> None:
    first, second = named([TWO, TWO])
    made = tables(first)

    def may_go(*nodes: Node, gone: Iterable[str] = ()) -> tuple[list[int], list[int], list[int]]:
        place = made.attributes.place
        verdicts, facts = changed(made, *nodes, gone=gone)
        rows = made.attributes.since(place, below=made.height)
        assert rows is not None
        return verdicts, facts, rows.tolist()

    cordoned = replace(second, attributes=Attributes(cordoned=True))
    assert may_go(second) == ([1], [1], [1])
    assert may_go(cordoned) == ([], [], [1])
    assert may_go(replace(cordoned, label="a-class")) == ([], [], [])
    assert may_go(replace(left(second, "gpu=1", ""), attributes=cordoned.attributes)) == ([1], [], [])
    assert may_go(gone=["n1"]) == ([1], [1], [1])


def test_of_nodes_that_stand_in_no_columns_it_is_noted_too_what_changes() -> None:
    made = tables(*named([CHOOSING, called("", TWO, "gpu=5", "")]))
    used = machine("cpu=0-3", "cpu=4-7", devices="gpu=0*,1", policy="restricted", options=BY_SOCKET)

    assert changed(made, called("n0", used)) == ([0], [])
    assert changed(made, called("n1", TWO, "gpu=6", "")) == ([1], [])
    assert changed(made, called("n1", TWO)) == ([1], [])


def test_a_node_that_is_told_anew_as_it_was_changes_nothing() -> None:
    (one,) = named([TWO])
    made = tables(one)
    again = replace(one)

    assert changed(made, one) == changed(made, again) == ([], [])
    assert made.node(0) is again


def test_a_node_that_is_used_stays_in_its_place() -> None:
    made = tables(*named([TWO, TWO]))
    before = made.places(None)[1].tolist()
    made.put(called("n0", TWO, "gpu=1", "gpu=0"))

    assert stands(made) == [("n0", [1, 0]), ("n1", [4, 4])]
    assert made.places(None)[1].tolist() == before


def test_a_node_that_has_more_hardware_stays_in_its_place_too() -> None:
    made = tables(*named([TWO, TWO]))
    made.put(called("n0", node("cpu=8 gpu=9", "cpu=8 gpu=9", policy="restricted")))

    assert stands(made) == [("n0", [9, 9]), ("n1", [4, 4])]
    assert [number for number, _ in made.tables()] == [0]
    (table,) = (each for _, each in made.tables())
    assert table.columns.free(When.EMPTY, [GPU])[0].T.tolist() == [[9, 9], [4, 4]]


def test_a_node_that_comes_to_have_more_zones_moves() -> None:
    made = tables(*named([TWO, TWO, TWO]))
    made.put(called("n0", FOUR, *["gpu=3"] * 4))

    assert stands(made) == [("n0", [3] * 4), ("n1", [4, 4]), ("n2", [4, 4])]
    assert [(number, table.columns.count) for number, table in made.tables()] == [(0, 2), (1, 1)]


def test_a_node_that_changes_its_policy_stays_in_its_place() -> None:
    made = tables(*named([TWO, TWO]))
    made.put(called("n0", replace(TWO, policy=Policy.NONE), "gpu=3", ""))

    assert stands(made) == [("n0", [3, 4]), ("n1", [4, 4])]
    assert made.places(None)[1].tolist()[:2] == [0, 1]


def test_a_table_that_nobody_stands_in_is_not_shown() -> None:
    made = tables(*named([TWO, FOUR]))
    made.put(called("n0", FOUR))

    assert [number for number, _ in made.tables()] == [1]
    made.put(called("n0", TWO))
    assert [number for number, _ in made.tables()] == [0, 1]


def test_a_node_that_reports_more_than_it_has_leaves_columns() -> None:
    made = tables(*named([TWO, TWO]))
    made.put(called("n0", TWO, "gpu=5", ""))
    assert stands(made) == [("n0", "odd"), ("n1", [4, 4])]

    made.put(called("n0", TWO, "gpu=3", ""))
    assert stands(made) == [("n0", [3, 4]), ("n1", [4, 4])]


def test_places_are_told_of_some_rows() -> None:
    made = tables(*named([TWO, FOUR, CHOOSING, TWO]))
    numbers, places = made.places(made.rows(["n3", "n2", "n1"]))

    assert numbers.tolist() == [0, ODD, 1]
    assert places.tolist()[0::2] == [1, 0]


def test_tables_have_the_row_of_each_of_their_nodes() -> None:
    made = tables(*named([TWO, FOUR, CHOOSING, TWO, TWO]))
    made.drop("n0")
    (two, four) = (table for _, table in made.tables())

    assert (two.rows.tolist(), four.rows.tolist()) == ([4, 3], [1])
    assert made.table(1) is four


def test_nodes_of_all_policies_stand_in_one_table() -> None:
    loose, pods = replace(TWO, policy=Policy.NONE), replace(TWO, scope=Scope.POD)
    made = tables(*named([TWO, loose, pods, node("nic=1", "mem=1Gi")]))

    (only,) = (table for _, table in made.tables())
    assert only.rows.tolist() == [0, 1, 2, 3]
    assert len(only.columns.layouts) == 4


def test_nodes_with_too_many_resources_for_one_table_stand_in_two() -> None:
    def listing(first: int) -> Node:
        return node(" ".join(f"example.com/d{at}=1" for at in range(first, first + MOST_RESOURCES // 2)))

    half = MOST_RESOURCES // 2
    made = tables(*named([listing(0), listing(half), listing(2 * half), listing(half)]))

    assert [(number, table.rows.tolist()) for number, table in made.tables()] == [(0, [0, 1, 3]), (1, [2])]


# Nodes whose machine is described.


def described(devices: str = "gpu=0,1", free: str = "0-7") -> Node:
    return machine("cpu=0-3", "cpu=4-7", devices=devices, free=free, policy="restricted")


def left_of(made: NodeTable) -> list[list[int]]:
    """What columns say is free of CPUs and GPUs in each zone of the first node."""
    table: list[list[int]] = made.table(0).columns.free(When.NOW, [CPU, GPU])[..., 0].tolist()
    return table


def test_of_a_described_machine_columns_follow_what_is_left() -> None:
    made = tables(described())

    assert changed(made, described("gpu=0*,1", "1-4")) == ([0], [])
    assert left_of(made) == [[3, 1], [0, 1]]
    assert changed(made, described("gpu=0*,1", "4-6")) == ([0], [])
    assert left_of(made) == [[0, 3], [0, 1]]


def test_a_described_machine_whose_zones_report_other_devices_leaves_columns() -> None:
    made = tables(described())
    made.put(left(described(), "gpu=0", ""))
    assert made.unfit == {Unfit.AMOUNTS: 1}

    made.put(described("gpu=0*,1"))
    assert made.unfit == {}


# Nodes that stand in no columns.


def test_it_is_told_why_nodes_stand_in_no_columns() -> None:
    pods = replace(TWO, options=options("PodLevelResourceManagers"))
    made = tables(*named([CHOOSING, TWO, pods, CHOOSING]))

    assert made.unfit == {Unfit.CPU_OPTIONS: 2, Unfit.POD_LEVEL: 1}
    assert (made.why_odd(0), made.why_odd(2)) == (Unfit.CPU_OPTIONS, Unfit.POD_LEVEL)
    with pytest.raises(KeyError, match="1"):
        made.why_odd(1)


def test_a_node_that_comes_to_stand_in_columns_is_told_of_no_more() -> None:
    made = tables(*named([CHOOSING, CHOOSING, TWO]))
    made.put(called("n0", TWO))
    made.drop("n1")
    assert made.unfit == {}

    made.put(called("n2", CHOOSING))
    assert made.unfit == {Unfit.CPU_OPTIONS: 1}


def test_it_is_known_of_which_nodes_pods_with_an_intent_hold_zones() -> None:
    made, first, every = tables(*named([TWO] * 3)), frozenset(TWO.ids[:1]), np.arange(3)
    made.put(replace(called("n1", TWO), occupied=first))
    made.put(replace(called("n2", TWO), occupied=first, exclusive=first))
    before = made.occupied(every).tolist(), made.exclusive(every).tolist()
    made.put(called("n2", TWO))

    assert before == ([False, True, True], [False, False, True])
    assert (made.occupied(every).tolist(), made.exclusive(every).tolist()) == (
        [False, True, False],
        [False] * 3,
    )
    assert made.in_columns == 3


def test_of_a_node_that_is_gone_nobody_holds_zones() -> None:
    zones = frozenset(TWO.ids)
    made = tables(*named([replace(TWO, occupied=zones, exclusive=zones)] * 20))
    made.drop("n19")

    for concerned in (made.occupied, made.exclusive):
        assert concerned(np.arange(20)).tolist() == [True] * 19 + [False]


kinds = st.sampled_from([None, TWO, FOUR, CHOOSING])
steps = st.lists(st.tuples(st.sampled_from("abcd"), kinds, st.integers(0, 4)))


@given(steps)
def test_whoever_comes_and_goes_all_stand_where_they_should(
    steps: list[tuple[str, Node | None, int]],
) -> None:
    made, nodes = NodeTable(), dict[str, Node]()
    for name, kind, amount in steps:
        nodes.pop(name, None)
        if kind is None:
            made.drop(name)
            continue
        amounts = [] if kind is CHOOSING else [f"gpu={amount}"] * len(kind.zones)
        nodes[name] = called(name, kind, *amounts)
        made.put(nodes[name])

    assert dict(stands(made)) == {name: free(one) for name, one in nodes.items()}
    assert made.in_columns == sum(one.options != BY_SOCKET for one in nodes.values())


@pytest.mark.full
def test_what_kinds_of_layouts_are_found_for_is_kept_however_large_a_table_is() -> None:
    tables = NodeTable()
    for one in named([node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi")] * 4096):
        tables.put(one)
    (_, table), *_ = tables.tables()
    every = [frozenset({f"example.com/device-{at}"}) for at in range(64)]
    before = [table.kinds(asked) for asked in every]

    assert all(table.kinds(asked) is kinds for asked, kinds in zip(every, before, strict=True))
