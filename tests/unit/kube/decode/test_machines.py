"""Machines as people and recordings describe them, and the nodes that they are with a configuration."""

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
from numalign.kube.decode.machines import DescribedMachine, ZoneMemory, machine
from numalign.kube.decode.nodes import BadNode, NodeFacts
from numalign.kube.decode.nrt import Topology, topology
from numalign.kubelet.validation import Reserved
from numalign.model.bitset import bits
from numalign.model.errors import BadTopology
from numalign.model.intent import Policy, Scope
from numalign.model.machine import Core, DevicePlace
from numalign.model.node import CpuManager, Known, MemoryManager, Node, Zone
from numalign.model.options import CpuOption, Options, TopologyOption
from numalign.model.resources import Resources, ZoneId
from tests.worlds.notation import table, zone_ids
from tests.worlds.objects import GIB, Json, mistakes
from tests.worlds.objects import described_machine as raw
from tests.worlds.objects import machine_zone as zone
from tests.worlds.scraps import documents


def test_all_fields_are_read() -> None:
    gpus = [
        {"id": "a", "zones": [2]},
        {"id": "b", "zones": [2, 0], "healthy": False},
        {"id": "c", "healthy": True},
    ]
    written = raw(
        zone(2, distances=[21, 10], hugepages={"2Mi": 512, "1Gi": 2}),
        zone(0, socket=1, uncoreCaches=[[0, 2], [1, 3]], distances=[10, 21], reservedMemory=None),
        reservedSystemCPUs="0,8-9",
        devices={"nvidia.com/gpu": gpus, "example.com/none": []},
    )
    pages = Resources({"hugepages-1Gi": 2 * GIB, "hugepages-2Mi": GIB})
    cores = [(2, 2, 0, [8, 10]), (2, 2, 0, [9, 11]), (0, 1, 1, [0, 2]), (0, 1, 2, [1, 3])]
    places: dict[str, list[tuple[tuple[int, ...], int, int]]] = {
        "example.com/none": [((0,), 0, 0), ((2,), 0, 0)],
        "nvidia.com/gpu": [((0,), 0, 0), ((2,), 1, 1), ((), 1, 1), ((0, 2), 1, 0)],
    }
    assert machine(written) == DescribedMachine(
        banks=(
            ZoneMemory(ZoneId(0), 8 * GIB, None, Resources(), (10, 21)),
            ZoneMemory(ZoneId(2), 8 * GIB, GIB, pages, (21, 10)),
        ),
        cores=tuple(Core(ZoneId(at), socket, cache, bits(cpus)) for at, socket, cache, cpus in cores),
        reserved=bits([0, 8, 9]),
        devices=tuple(
            (name, tuple(DevicePlace(zone_ids(*at), total, healthy) for at, total, healthy in listed))
            for name, listed in places.items()
        ),
    )


def test_the_smallest_machine() -> None:
    assert machine({"zones": [{"id": 3, "socket": 0, "cores": [[7]], "memory": "1Gi"}]}) == DescribedMachine(
        (ZoneMemory(ZoneId(3), GIB, None, Resources(), ()),), (Core(ZoneId(3), 0, 0, bits([7])),)
    )


def test_a_zone_without_cores_needs_no_socket() -> None:
    read = machine(raw(zone(0), {"id": 1, "memory": GIB}, {"id": 2, "memory": GIB, "cores": []}))
    assert [bank.zone for bank in read.banks] == [0, 1, 2]
    assert {core.zone for core in read.cores} == {0}


def test_a_zone_may_span_sockets_and_a_cache_zones() -> None:
    read = machine(raw(zone(0, socket=[0, 1], uncoreCacheIDs=[3, 4]), zone(1, uncoreCacheIDs=4)))
    places = [(core.zone, core.socket, core.cache) for core in read.cores]
    assert places == [(0, 0, 3), (0, 1, 4), (1, 1, 4), (1, 1, 4)]


@pytest.mark.parametrize(("written", "messages"), table([
    ("no zone", {"zones": []}, ["zones: is empty: a machine has at least one zone"]),
    ("an id twice", raw(zone(0), {"id": 0, "memory": GIB}), ["zones[1].id: 0 is also the ID of zones[0]"]),
    ("an empty core", raw(zone(0, cores=[[0], []])), ["zones[0].cores[1]: is empty: remove it"]),
    ("more CPUs reserved than there are", raw(reservedSystemCPUs=None, reservedCPUs=5),
        ["reservedCPUs: 5 is more than the 4 CPUs of this machine"]),
    ("no core", {"zones": [zone(0, cores=[])]}, ["zones: contain no CPU: a machine has at least one core"]),
    ("an id that no Linux has", raw({**zone(), "id": 1024}),
        ["zones[0].id: 1024 is above 1023, the highest NUMA node ID of Linux"]),
    ("a CPU in two cores", raw(zone(0), zone(1, cores=[[4], [5, 2]])),
        ["zones[1].cores[1][1]: CPU 2 is also listed at zones[0].cores[0][1]"]),
    ("CPUs that no Linux has", raw(zone(0, cores=[[0], [8192, -1]])),
        ["zones[0].cores[1][0]: 8192 is above 8191, the highest CPU ID of Linux",
            "zones[0].cores[1][1]: must be at least 0, not -1"]),
    ("a cache with a strange CPU", raw(zone(0, uncoreCaches=[[0, 2, 1, 3], [4]])),
        ["zones[0].uncoreCaches[1]: CPU 4 is in no core of this zone"]),
    ("caches that part a core or leave one out", raw(zone(0, cores=[[0, 1], [2]], uncoreCaches=[[0], [1]])),
        ["zones[0].cores[0]: CPU 0-1 is not in one of the uncoreCaches of its zone",
            "zones[0].cores[1]: CPU 2 is not in one of the uncoreCaches of its zone"]),
    ("caches with ids and without",
        raw(zone(0, uncoreCacheIDs=[1, 1]), zone(1, uncoreCaches=[[4, 6], [5, 7]])),
        ["zones[1].uncoreCaches: cannot be combined with uncoreCacheIDs: remove one of them",
            "zones[1].uncoreCacheIDs: is missing"]),
    ("numbers that are not of these cores", raw(zone(0, socket=[0], uncoreCacheIDs=[0, None])),
        ["zones[0].uncoreCacheIDs[1]: is missing",
            "zones[0].socket: has 1 entries: expected 2, one for each core"]),
    ("a CPU in two caches", raw(zone(0, uncoreCaches=[[0, 2, 1, 3], [3]])),
        ["zones[0].uncoreCaches[1][0]: CPU 3 is also listed at zones[0].uncoreCaches[0][3]"]),
    ("reserved CPUs that are not there", raw(reservedSystemCPUs="0,3-5"),
        ["reservedSystemCPUs: CPU 4-5 is not on this machine"]),
    ("CPUs reserved by name and by number", raw(reservedCPUs=1),
        ["reservedCPUs: cannot be combined with reservedSystemCPUs: remove one of them"]),
    ("more kept and paged than there is", raw(zone(0, hugepages={"1Gi": 7, "2Mi": 1})),
        ["zones[0].memory: 8Gi is less than the 8194Mi that are reserved and in hugepages"]),
    ("pages of no size", raw(zone(0, hugepages={"0": 1, "big": 1, "1Gi": 1, "1024Mi": 1})),
        ["zones[0].hugepages.0: is not a page size",
            ('zones[0].hugepages.big: "big" is not a quantity: '
                "write a number with at most one suffix, like 4, 500m or 16Gi\n  big\n  ^"),
            "zones[0].hugepages.1024Mi: is listed twice: hugepages-1Gi"]),
    ("too few distances", raw(zone(0, distances=[10]), zone(1, distances=[])),
        [f"zones[{at}].distances: has {count} entries: expected 2, one for each zone, ascending by ID"
            for at, count in ((0, 1), (1, 0))]),
    ("devices on zones that are not there", raw(devices={"x/gpu": [{"id": "a", "zones": [1, None]}]}),
        ["devices[x/gpu][0].zones[0]: there is no zone 1 on this machine",
            "devices[x/gpu][0].zones[1]: is missing"]),
    ("devices with the same ID", raw(devices={"x/gpu": [{"id": "a"}, {"id": "a", "numa": 1}, {}]}),
        ["devices[x/gpu][1].numa: is not a known field: expected one of id, zones, healthy",
            'devices[x/gpu][1].id: "a" is also the ID of devices[x/gpu][0]',
            "devices[x/gpu][2].id: is missing"]),
    ("devices that are none", raw(devices={"cpu": [], "hugepages-1Gi": [], "x/y": 1}),
        ["devices.cpu: is not a device: CPUs and memory belong to their zones",
            "devices.hugepages-1Gi: is not a device: CPUs and memory belong to their zones",
            "devices[x/y]: must be a list, not a number"]),
]))  # fmt: skip
def test_mistakes_have_their_places(written: Json, messages: list[str]) -> None:
    assert mistakes(BadTopology, machine, written) == messages


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
