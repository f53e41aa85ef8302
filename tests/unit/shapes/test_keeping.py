"""Which shapes are remembered where not all can be, and what is known of the others."""

from dataclasses import replace

import pytest

from numalign.model.node import Node
from numalign.shapes import KnownShape, LeftOut
from numalign.shapes.keeping import MOST_NAMES, in_turn, left_out
from numalign.shapes.shape import of
from tests.worlds.notation import GPU, NIC, node, table

BARE = node("cpu=4", totals="cpu=4")
NAMES = frozenset(f"example.com/{at}" for at in range(MOST_NAMES))


def remembered(at: int, *, seen: float, only_node: str = "") -> KnownShape:
    return KnownShape(of(replace(BARE, max_zones=9 + at)), seen=seen, only_node=only_node)


def test_nodes_take_turns() -> None:
    shared = [remembered(0, seen=1.0), remembered(1, seen=2.0)]
    greedy = [remembered(2 + at, seen=20.0 + at, only_node="greedy") for at in range(3)]
    other = [remembered(5, seen=4.0, only_node="other"), remembered(6, seen=3.0, only_node="other")]
    order = [greedy[2], other[0], shared[1], shared[0], greedy[1], other[1], greedy[0]]
    assert in_turn([*shared, *greedy, *other]) == order


LISTED = [
    # what it shows                     the node that is left out, the devices
    ("none",                      BARE,                                             frozenset()),
    ("of zones, and of the node", node("cpu=4 gpu=1", totals="cpu=4 nic=1"),        {GPU, NIC}),
    ("of uncertain zones",        replace(BARE, uncertain=frozenset({"cpu", NIC})), {NIC}),
    ("any, without totals",       node("cpu=4 gpu=1"),                              None),
]  # fmt: skip


@pytest.mark.parametrize(("made", "devices"), table(LISTED))
def test_devices_of_left_out_shapes_are_known(made: Node, devices: frozenset[str] | None) -> None:
    assert left_out([KnownShape(of(made), seen=5.0)], None) == LeftOut(5.0, devices)


def test_with_too_many_devices_any_may_be_listed() -> None:
    few = LeftOut(1.0, NAMES)
    assert few.joined(None) is few
    assert few.joined(LeftOut(2.0, frozenset())) == LeftOut(2.0, NAMES)
    assert few.joined(LeftOut(0.0, frozenset({GPU}))) == LeftOut(1.0)
    assert few.joined(LeftOut(0.0, frozenset({"x" * 4096}))) == LeftOut(1.0)
    assert LeftOut(0.0).joined(few) == LeftOut(1.0)


MAY = [
    # what it shows         what is left out, the names, and whether it may list them
    ("some of it",      LeftOut(0.0, frozenset({GPU})),      {GPU, NIC}, False),
    ("all of it",       LeftOut(0.0, frozenset({GPU, NIC})), {GPU},      True),
    ("nothing to list", LeftOut(0.0, frozenset()),           set(),      True),
    ("anything",        LeftOut(0.0),                        {GPU},      True),
]  # fmt: skip


@pytest.mark.parametrize(("missing", "names", "may"), table(MAY))
def test_left_out_shape_may_list_all_of_a_request(missing: LeftOut, names: set[str], *, may: bool) -> None:
    assert missing.may_list(names) is may
