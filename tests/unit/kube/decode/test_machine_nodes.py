"""Nodes whose machine was described: what every zone has, and configurations that tell of another machine."""

import gzip
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given

from numalign.kube.decode import machine_nodes, nodes
from numalign.kube.decode.kubelet_config import KubeletConfiguration, kubelet_configuration
from numalign.kube.decode.machines import machine
from numalign.kube.decode.nodes import BadNode, NodeFacts
from numalign.kube.decode.nrt import Topology, topology
from numalign.kubelet.validation import Reserved
from numalign.model.bitset import bits
from numalign.model.errors import BadTopology
from numalign.model.intent import Policy, Scope
from numalign.model.node import CpuManager, Known, MemoryManager, Node, Zone
from numalign.model.options import CpuOption, Options, TopologyOption
from numalign.model.resources import Resources, ZoneId
from tests.worlds.notation import table
from tests.worlds.objects import GIB, Json, mistakes
from tests.worlds.objects import described_machine as raw
from tests.worlds.objects import machine_zone as zone
from tests.worlds.scraps import documents

STATIC = KubeletConfiguration("n", cpu_manager=CpuManager.STATIC, memory_manager=MemoryManager.STATIC)
OFF = KubeletConfiguration("n", cpu_manager=CpuManager.NONE, memory_manager=MemoryManager.NONE)


def join(written: Json, configured: KubeletConfiguration | None = STATIC, **policies: Any) -> Node:  # noqa: ANN401 fields of Topology
    return machine_nodes.join(machine(written), Topology("n", (), **policies), configured=configured)


def test_no_amounts_without_managers() -> None:
    node = join(raw(zone(0, hugepages={"1Gi": 1})), OFF)
    assert (node.zones[0].capacity, node.zones[0].free) == (Resources(), Resources())
    assert node.machine is not None
    assert node.machine.topology.everything == bits(range(4))


def test_facts_and_configuration_are_in_the_node() -> None:
    expected = NodeFacts("n", Resources({"cpu": 3000}), label="a-class", minor=34, threads=2)
    configuration = KubeletConfiguration("n", cpu_manager=CpuManager.STATIC,
        cpu_options=frozenset({CpuOption.FULL_PCPUS_ONLY}),
        topology_options=frozenset({TopologyOption.PREFER_CLOSEST}))  # fmt: skip
    seen, described = (
        Topology("n", (), Policy.RESTRICTED, Scope.POD, 12),
        machine(raw(zone(0, distances=[10]))),
    )
    node = machine_nodes.join(described, seen, node_facts=expected, configured=configuration)
    assert (node.name, node.policy, node.scope, node.max_zones) == ("n", Policy.RESTRICTED, Scope.POD, 12)
    assert (node.totals, node.label, node.known) == (expected.totals, "a-class", Known.MACHINE)
    assert node.options == Options(configuration.cpu_options, configuration.topology_options, frozenset(), 34)


@pytest.mark.parametrize(("cores", "threads"), table([
    ("all of one", [[0], [1]], 1),
    ("all of two, against a label", [[0, 1], [2, 3]], 2),
    ("some of each, so that a label counts", [[0, 1], [2]], 4),
]))  # fmt: skip
def test_threads_of_the_cores(cores: list[list[int]], threads: int) -> None:
    described, node_facts = machine(raw(zone(0, cores=cores))), NodeFacts("n", threads=4)
    assert machine_nodes.join(described, Topology("n", ()), node_facts=node_facts).threads == threads


def test_managers_follow_from_the_topology() -> None:
    bag = Resources({"memory": 1})
    seen = Topology("n", (Zone(ZoneId(0), "node-0", bag, bag, bag),))
    node = machine_nodes.join(machine(raw()), seen)
    assert (node.cpu_manager, node.memory_manager) == (CpuManager.NONE, MemoryManager.STATIC)


@pytest.mark.parametrize(("fields", "configuration", "reserved"), table([
    ("by the machine", {"reservedSystemCPUs": "1,3"}, {}, [1, 3]),
    ("by the configuration", {"reservedSystemCPUs": None}, {"reserved_cpus": bits([2])}, [2]),
    ("a number by the machine", {"reservedSystemCPUs": None, "reservedCPUs": 2}, {}, [0, 2]),
    ("a number by the configuration", {"reservedSystemCPUs": None}, {"kept_cpus": 3}, [0, 1, 2]),
    ("by name rather than by number", {"reservedSystemCPUs": None, "reservedCPUs": 2},
        {"reserved_cpus": bits([3]), "kept_cpus": 4}, [3]),
]))  # fmt: skip
def test_reserved_cpus(fields: Json, configuration: Mapping[str, Any], reserved: list[int]) -> None:
    configured = KubeletConfiguration("n", cpu_manager=CpuManager.STATIC, **configuration)
    node = join(raw(**fields), configured)
    assert node.machine is not None
    assert node.machine.reserved == bits(reserved)
    assert node.zones[0].allocatable["cpu"] == 1000 * (4 - len(reserved))


@pytest.mark.parametrize(("fields", "expected"), table([
    ("other CPUs", {"reserved_cpus": bits([0, 1])},
        ['reservedSystemCPUs: "0-1" contradicts the machine: "0"']),
    ("more CPUs than there are", {"kept_cpus": 5},
        ["systemReserved.cpu: 5 CPUs cannot be reserved on a machine with 4"]),
    ("other memory", {"reserved": Reserved({ZoneId(0): Resources({"memory": 2 * GIB})}, 2 * GIB)},
        ["reservedMemory: 2Gi of zone 0 contradicts the machine: 1Gi"]),
]))  # fmt: skip
def test_a_configuration_that_contradicts_the_machine(fields: Json, expected: list[str]) -> None:
    assert mistakes(BadNode, join, raw(), KubeletConfiguration("n", **fields)) == expected


def test_a_configuration_larger_than_the_machine() -> None:
    bare = raw(zone(0, reservedMemory=None, hugepages={"1Gi": 4}), reservedSystemCPUs=None)
    reserved = Reserved({ZoneId(0): Resources({"memory": 5 * GIB})}, 5 * GIB)
    configuration = KubeletConfiguration("n", reserved_cpus=bits([0, 9]), reserved=reserved)
    assert mistakes(BadNode, join, bare, configuration) == [
        "reservedSystemCPUs: CPU 9 is not on this machine",
        "reservedMemory: zone 0 does not have 5Gi apart from its hugepages",
    ]


def test_configurations_that_no_kubelet_starts_with() -> None:
    bare = raw(zone(0, reservedMemory=0), reservedSystemCPUs=None)
    configuration = replace(STATIC, policy=Policy.RESTRICTED, topology_options=frozenset(TopologyOption))
    texts = mistakes(BadNode, join, bare, configuration)
    assert [text.partition(": the kubelet would not start: ")[0] for text in texts] == [
        "reservedSystemCPUs", "reservedMemory", "topologyManagerPolicyOptions.prefer-closest-numa-nodes",
    ]  # fmt: skip


def test_reserved_cpus_are_distributed_over_16_zones() -> None:
    many = raw(*(zone(number) for number in range(17)))
    spread = KubeletConfiguration("n", Policy.NONE, None, CpuManager.STATIC, MemoryManager.NONE, kept_cpus=9,
        cpu_options=frozenset({CpuOption.DISTRIBUTE_ACROSS_NUMA}))  # fmt: skip
    [mistake] = mistakes(BadNode, join, many | {"reservedSystemCPUs": None}, spread)
    assert mistake.startswith("zones: 17 zones with CPUs are more than the 16 over which")


WRITTEN = raw(zone(0, hugepages={"1Gi": 1}, distances=[10, 21], uncoreCaches=[[0, 2], [1, 3]]),
    zone(1, distances=[21, 10]), devices={"x/gpu": [{"id": "a", "zones": [0], "healthy": True}]})  # fmt: skip


@given(documents(WRITTEN))
def test_any_machine_is_a_node_or_a_mistake(written: Json) -> None:
    try:
        node = join(written)
    except BadTopology:
        return
    for each in node.zones:
        assert all(each.allocatable[name] <= amount for name, amount in each.capacity.items())


RECORDINGS = Path(__file__).parents[3] / "kubelet" / "data"


@pytest.mark.parametrize("name", ["kubelet-synthetic.jsonl.gz", "kubelet-trace.jsonl.gz"])
def test_a_recorded_machine_is_what_its_exporter_published(name: str) -> None:
    for line in gzip.decompress((RECORDINGS / name).read_bytes()).splitlines():
        scenario = orjson.loads(line)
        seen = topology(scenario["nrt"])
        configuration = kubelet_configuration({**scenario["kubeletConfig"], "metadata": {"name": seen.name}})
        node = machine_nodes.join(machine(scenario["machine"]), seen, configured=configuration)
        published = nodes.join(seen, configured=configuration)
        assert [(zone.id, zone.free.positive(), zone.costs) for zone in node.zones] == [
            (zone.id, zone.free.positive(), zone.costs) for zone in published.zones
        ]
