"""What a node is, what its kubelet aligns, and the name of its class."""

import re

from hypothesis import given
from hypothesis import strategies as st

from numalign.kube.decode import label_syntax
from numalign.model.intent import Policy, Scope
from numalign.model.node import (
    DEFAULT_MAX_ZONES,
    CpuManager,
    Known,
    MemoryManager,
    Node,
    node_class,
    node_label,
)
from tests.worlds.notation import node


def test_missing_fact_is_the_kubelet_default() -> None:
    default = Node("node", ())
    assert (default.policy, default.scope) == (Policy.NONE, Scope.CONTAINER)
    assert (default.cpu_manager, default.memory_manager) == (CpuManager.STATIC, MemoryManager.STATIC)
    assert (default.max_zones, default.totals, default.known) == (DEFAULT_MAX_ZONES, None, Known.COUNTS)


def test_zones_are_sorted_by_id() -> None:
    sorted_node = node("cpu=1", "cpu=2", "cpu=3", ids=(4, 0, 2))
    assert [zone.id for zone in sorted_node.zones] == [0, 2, 4]


def test_emptied_node_has_all_its_resources_free() -> None:
    used = node("cpu=16/15/4", "cpu=16/15/0", "cpu=16/15/15", blocks=[(0, 1), (2,)])
    assert used.emptied() == node("cpu=16/15", "cpu=16/15", "cpu=16/15")


def test_class_is_the_same_in_every_process() -> None:
    assert node_class(node("cpu=16", "cpu=16")) == "2x16cpu-none-container-3b3461d8"


@given(st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?", fullmatch=True))
def test_node_name_becomes_a_label_value(name: str) -> None:
    label = node_label(name)
    assert label_syntax.VALUE.fullmatch(label)
    assert (label == name) is (len(name) <= 63)


def test_long_names_that_begin_alike_have_different_labels() -> None:
    names = [f"{'worker' * 12}-{number}" for number in range(100)]
    assert len({*map(node_label, names)}) == 100


def test_class_of_a_large_node_is_a_label_value() -> None:
    many = " ".join(f"example.com/A_Device.{letter}-=16" for letter in "abcdefghij")
    assert re.fullmatch(r"[a-z0-9][-a-z0-9]{0,61}[a-z0-9]", node_class(node(many, many)))
