"""Values are numbered, and a requirement is asked of each of them once."""

from dataclasses import replace

import pytest

from numalign.cache.label_column import LabelColumn
from numalign.cache.node_table import NodeTable
from numalign.model.attributes import Attributes, Labels
from numalign.model.constraints import Operator, Requirement
from numalign.model.node import Node
from tests.worlds.notation import node

PLAIN = node("cpu=8 gpu=4")
TIER = "tier"


def labelled(name: str, tier: str | None) -> Node:
    labels = Labels({} if tier is None else {TIER: tier})
    return replace(PLAIN, name=name, attributes=Attributes(labels))


def tables(*tiers: str | None) -> NodeTable:
    made = NodeTable()
    for at, tier in enumerate(tiers):
        made.put(labelled(f"n{at}", tier))
    return made


def tiers(nodes: NodeTable) -> LabelColumn:
    return LabelColumn(nodes, lambda node: node.attributes.labels.get(TIER))


def test_unused_values_are_dropped_when_all_are_read() -> None:
    nodes = tables("gold", "gold", "gold")
    values = tiers(nodes)
    assert values.kinds == (None, "gold")

    for name in ("n0", "n1", "n2"):
        nodes.put(labelled(name, "silver"))
    assert values.kinds == (None, "silver")


def test_value_of_a_node_that_is_gone_is_not_present() -> None:
    nodes = tables("gold", "gold", "gold", "silver")
    values = tiers(nodes)
    assert {*values.present} == {"gold", "silver"}

    nodes.drop("n3")
    assert {*values.present} == {None, "gold"}


@pytest.mark.full
def test_numbers_of_values_are_bounded() -> None:
    nodes = tables(*["gold"] * 4)
    names = LabelColumn(nodes, lambda node: node.name)
    for at in range(10_000):
        nodes.drop(f"n{at}")
        nodes.put(labelled(f"n{at + 4}", "gold"))
        assert names.numbers.max() < 8192


def test_requirements_hold_for_later_values() -> None:
    nodes = tables("1", "2", "3", "4", "5")
    values, more = tiers(nodes), Requirement(TIER, Operator.GT, frozenset({"3"}))
    assert values.meeting(more)[values.numbers].tolist() == [False, False, False, True, True]

    nodes.put(labelled("n0", "7"))
    assert values.meeting(more)[values.numbers].tolist() == [True, False, False, True, True]
