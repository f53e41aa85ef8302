"""Which resources no kubelet of a cluster aligns."""

from dataclasses import replace

import pytest

from numalign.model.node import CpuManager, MemoryManager, Node
from numalign.shapes.hints import unhinted
from tests.worlds.notation import GPU, NIC, node, table

CPUS_AND_GPUS = "cpu=16 mem=16Gi gpu=2 nic=1"
ZONE = "cpu=8 mem=8Gi gpu=1"
ALL = node(ZONE, ZONE, policy="restricted", totals="cpu=16 mem=16Gi gpu=2")
WITHOUT_NICS = replace(ALL, totals=node(CPUS_AND_GPUS).zones[0].capacity)
NO_MEMORY = replace(ALL, memory_manager=MemoryManager.NONE)
NO_CPUS = replace(ALL, cpu_manager=CpuManager.NONE)
LOOSE = node(ZONE, ZONE, policy="none", totals="cpu=16 mem=16Gi gpu=2")

CLUSTERS = [
    # what it shows               the nodes  what none aligns
    ("everything is aligned",     [ALL], set()),
    ("a Memory Manager is off",   [NO_MEMORY], {"memory"}),
    ("one of two aligns it",      [NO_MEMORY, NO_CPUS], set()),
    ("a Topology Manager is off", [LOOSE], {"cpu", "memory", GPU}),
    ("a device of no zone",       [WITHOUT_NICS], {NIC}),
    ("one of an uncertain zone",  [replace(WITHOUT_NICS, uncertain=frozenset({NIC}))], set()),
    ("no nodes",                  [], {"memory"}),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "names"), table(CLUSTERS))
def test_resources_without_hints_in_a_cluster(nodes: list[Node], names: set[str]) -> None:
    assert unhinted(nodes) == names
