"""Layouts are distinguished by what a question turns on, and by nothing else."""

from dataclasses import replace

import pytest

from numalign.cache.layout_kinds import LayoutKinds, Trait
from numalign.model.node import CpuManager, MemoryManager, Node
from numalign.model.resources import CPU
from tests.worlds.columns import columns, layout, zone_table
from tests.worlds.notation import GPU, NIC, bag, node, options, table

REQUESTED = frozenset({CPU, GPU})
STRICT = node("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2", policy="restricted")
LOOSE = replace(STRICT, policy=node(policy="none").policy)
HIDDEN = replace(
    STRICT, zones=tuple(replace(zone, allocatable=bag("cpu=8"), free=bag("")) for zone in STRICT.zones)
)
PLAIN = replace(
    node("cpu=8 gpu=1", "cpu=8", policy="best-effort", options=options(minor=34)),
    cpu_manager=CpuManager.NONE,
    memory_manager=MemoryManager.NONE,
)

COMPARED = [
    # what differs                         the other node                                              kinds
    ("how much there is",                  node(*["cpu=4 mem=1Gi gpu=1"] * 2, policy="restricted"),     1),
    ("ids of zones", replace(STRICT, zones=node(*["cpu=8 mem=8Gi gpu=2"] * 2, ids=(0, 3)).zones),
                                                                                                        1),
    ("the policy",                         LOOSE,                                                       2),
    ("a manager",                          replace(STRICT, cpu_manager=CpuManager.NONE),                2),
    ("a device that is requested",         node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi", policy="restricted"), 2),
    ("what zones may give",                HIDDEN,                                                      2),
    ("whether totals are reported",        replace(STRICT, totals=bag("cpu=16 gpu=4")),                 2),
    ("threads of cores",                   replace(STRICT, threads=2),                                  2),
]  # fmt: skip


@pytest.mark.parametrize(("other", "count"), table(COMPARED))
def test_nodes_are_of_one_kind_or_two_if_they_differ_in(other: Node, count: int) -> None:
    assert len(LayoutKinds(columns(STRICT, other), REQUESTED).kinds) == count


def test_kinds_follow_nodes_that_come_and_go() -> None:
    zones = zone_table(STRICT, LOOSE)
    kinds = zones.kinds(REQUESTED)
    assert kinds.with_trait(Trait.STRICT, None).tolist() == [True, False]

    zones.add(2, layout(STRICT), STRICT)
    zones.columns.put(0, layout(LOOSE), LOOSE)
    assert zones.kinds(REQUESTED) is kinds, "there is no other layout"
    assert kinds.with_trait(Trait.STRICT, None).tolist() == [False, False, True]
    assert kinds.giving(NIC, None).tolist() == kinds.giving(Trait.STRICT.value, None).tolist() == [False] * 3

    zones.columns.put(2, layout(PLAIN), PLAIN)
    assert [kind.config.policy for kind in zones.kinds(REQUESTED).kinds] == [LOOSE.policy, PLAIN.policy]
    assert zones.kinds(REQUESTED).of_rows(None).tolist() == [0, 0, 1]
    assert zones.kinds(REQUESTED).examples == (LOOSE, PLAIN)
