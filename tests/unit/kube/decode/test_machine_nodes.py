"""Nodes whose machine was described: what every zone has, and configurations that tell of another machine."""

import gzip
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kube.decode import machine_nodes, nodes
from numalign.kube.decode.kubelet_config import KubeletConfiguration, kubelet_configuration
from numalign.kube.decode.machines import machine
from numalign.kube.decode.nodes import BadNode, NodeFacts
from numalign.kube.decode.nrt import Topology, topology
from numalign.kubelet.validation import Reserved
from numalign.model.bitset import bits
from numalign.model.errors import BadTopology
from numalign.model.intent import Policy, Scope
from numalign.model.machine import DevicePlace
from numalign.model.node import CpuManager, Known, MemoryManager, Node, Zone
from numalign.model.options import CpuOption, Options, TopologyOption
from numalign.model.resources import Resources, ZoneId
from tests.worlds.notation import table
from tests.worlds.objects import GIB, Json, mistakes
from tests.worlds.objects import described_machine as raw
from tests.worlds.objects import machine_zone as zone

STATIC = KubeletConfiguration("n", cpu_manager=CpuManager.STATIC, memory_manager=MemoryManager.STATIC)
OFF = KubeletConfiguration("n", cpu_manager=CpuManager.NONE, memory_manager=MemoryManager.NONE)


def join(written: Json, configured: KubeletConfiguration | None = STATIC, **policies: Any) -> Node:  # noqa: ANN401 fields of Topology
    return machine_nodes.join(machine(written), Topology("n", (), **policies), configured=configured)


def test_zones_hold_what_an_exporter_would_publish() -> None:
    written = raw(
        zone(0, hugepages={"1Gi": 2}, distances=[10, 21]),
        zone(1, distances=[21, 10], reservedMemory=0),
        devices={
            "x/gpu": [
                {"id": "a", "zones": [0]},
                {"id": "b", "zones": [0, 1]},
                {"id": "c", "zones": [1], "healthy": False},
                {"id": "d"},
            ]
        },
    )
    node = join(written)

    gpu = "x/gpu"
    memory, huge = 8 * GIB, "hugepages-1Gi"
    left = [
        Resources({"cpu": 3000, "memory": 5 * GIB, huge: 2 * GIB, gpu: 2}),
        Resources({"cpu": 4000, "memory": memory, huge: 0, gpu: 1}),
    ]
    assert node.zones == (
        Zone(
            ZoneId(0),
            "node-0",
            Resources({"cpu": 4000, "memory": memory, huge: 2 * GIB, gpu: 2}),
            left[0],
            left[0],
            ((ZoneId(0), 10), (ZoneId(1), 21)),
        ),
        Zone(
            ZoneId(1),
            "node-1",
            Resources({"cpu": 4000, "memory": memory, huge: 0, gpu: 2}),
            left[1],
            left[1],
            ((ZoneId(0), 21), (ZoneId(1), 10)),
        ),
    )
    assert node.machine is not None
    zones = (ZoneId(0), ZoneId(1))
    assert node.machine.devices == (
        (
            gpu,
            (
                DevicePlace(zones[:1], 1, 1),
                DevicePlace(zones[1:], 1, 0),
                DevicePlace((), 1, 1),
                DevicePlace(zones, 1, 1),
            ),
        ),
    )


def test_managers_that_are_off_list_nothing_but_the_cores_are_known() -> None:
    node = join(raw(zone(0, hugepages={"1Gi": 1})), OFF)
    assert (node.zones[0].capacity, node.zones[0].free) == (Resources(), Resources())
    assert node.machine is not None
    assert node.machine.topology.everything == bits(range(4))


def test_a_zone_without_cpus_lists_none() -> None:
    node = join(raw(zone(0), {"id": 1, "memory": GIB}))
    assert [zone.capacity.get("cpu") for zone in node.zones] == [4000, None]


def test_what_is_told_beside_the_machine_is_in_the_node() -> None:
    told = NodeFacts("n", Resources({"cpu": 3000}), label="a-class", minor=34, threads=2)
    said = KubeletConfiguration(
        "n",
        cpu_manager=CpuManager.STATIC,
        cpu_options=frozenset({CpuOption.FULL_PCPUS_ONLY}),
        topology_options=frozenset({TopologyOption.PREFER_CLOSEST}),
    )
    seen = Topology("n", (), Policy.RESTRICTED, Scope.POD, 12)
    node = machine_nodes.join(machine(raw(zone(0, distances=[10]))), seen, node_facts=told, configured=said)

    assert (node.name, node.policy, node.scope, node.max_zones) == ("n", Policy.RESTRICTED, Scope.POD, 12)
    assert (node.totals, node.label, node.known) == (told.totals, "a-class", Known.MACHINE)
    assert node.options == Options(said.cpu_options, said.topology_options, frozenset(), 34)


THREADS = [
    ("all of one", [[0], [1]], 1),
    ("all of two, whatever a label says", [[0, 1], [2, 3]], 2),
    ("some of each, so that a label counts", [[0, 1], [2]], 4),
]


@pytest.mark.parametrize(("cores", "threads"), table(THREADS))
def test_its_cores_say_how_many_threads_they_have(cores: list[list[int]], threads: int) -> None:
    described = machine(raw(zone(0, cores=cores)))

    assert machine_nodes.join(described, Topology("n", ()), node_facts=NodeFacts("n", threads=4)).threads == (
        threads
    )


def test_a_machine_of_which_nothing_else_is_told_has_no_managers() -> None:
    node = join(raw(), None)
    assert (node.policy, node.cpu_manager, node.memory_manager) == (
        Policy.NONE,
        CpuManager.NONE,
        MemoryManager.NONE,
    )
    assert (node.options, node.known) == (Options(), Known.MACHINE)


def test_managers_are_read_off_the_topology_where_no_configuration_tells() -> None:
    bag = Resources({"memory": 1})
    seen = Topology("n", (Zone(ZoneId(0), "node-0", bag, bag, bag),))
    node = machine_nodes.join(machine(raw()), seen)
    assert (node.cpu_manager, node.memory_manager) == (CpuManager.NONE, MemoryManager.STATIC)


RESERVED = [
    ("by the machine", {"reservedSystemCPUs": "1,3"}, {}, [1, 3]),
    ("by the configuration", {"reservedSystemCPUs": None}, {"reserved_cpus": bits([2])}, [2]),
    ("by both", {"reservedSystemCPUs": "1"}, {"reserved_cpus": bits([1])}, [1]),
    ("as many as the machine says", {"reservedSystemCPUs": None, "reservedCPUs": 2}, {}, [0, 2]),
    ("as many as the configuration says", {"reservedSystemCPUs": None}, {"kept_cpus": 3}, [0, 1, 2]),
    ("by name rather than by number", {"reservedSystemCPUs": None, "reservedCPUs": 2},
        {"reserved_cpus": bits([3]), "kept_cpus": 4}, [3]),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "said", "reserved"), table(RESERVED))
def test_cpus_are_reserved(fields: Json, said: Mapping[str, Any], reserved: list[int]) -> None:
    configured = KubeletConfiguration("n", cpu_manager=CpuManager.STATIC, **said)
    node = join(raw(**fields), configured)
    assert node.machine is not None
    assert node.machine.reserved == bits(reserved)
    assert node.zones[0].allocatable["cpu"] == 1000 * (4 - len(reserved))


def test_memory_is_reserved_by_the_configuration() -> None:
    said = KubeletConfiguration(
        "n",
        memory_manager=MemoryManager.STATIC,
        reserved=Reserved({ZoneId(1): Resources({"memory": 2 * GIB})}, 2 * GIB),
    )
    node = join(raw(zone(0, reservedMemory=None), zone(1, reservedMemory=2 * GIB)), said)
    assert [zone.allocatable["memory"] for zone in node.zones] == [8 * GIB, 6 * GIB]


CONTRADICTIONS = [
    ("other CPUs", {"reserved_cpus": bits([0, 1])},
        ['reservedSystemCPUs: "0-1" contradicts the machine: "0"']),
    ("more CPUs than there are", {"kept_cpus": 5},
        ["systemReserved.cpu: 5 CPUs cannot be reserved on a machine with 4"]),
    ("other memory", {"reserved": Reserved({ZoneId(0): Resources({"memory": 2 * GIB})}, 2 * GIB)},
        ["reservedMemory: 2Gi of zone 0 contradicts the machine: 1Gi"]),
    ("no memory", {"reserved": Reserved({}, 0)},
        ["reservedMemory: 0 of zone 0 contradicts the machine: 1Gi"]),
]  # fmt: skip


@pytest.mark.parametrize(("said", "told"), table(CONTRADICTIONS))
def test_a_configuration_of_another_machine_is_a_mistake(said: Mapping[str, Any], told: list[str]) -> None:
    assert mistakes(BadNode, join, raw(), KubeletConfiguration("n", **said)) == told


def test_a_configuration_that_asks_more_of_the_machine_than_it_has_is_a_mistake() -> None:
    bare = raw(zone(0, reservedMemory=None, hugepages={"1Gi": 4}), reservedSystemCPUs=None)
    said = KubeletConfiguration(
        "n",
        reserved_cpus=bits([0, 9]),
        reserved=Reserved({ZoneId(0): Resources({"memory": 5 * GIB})}, 5 * GIB),
    )
    assert mistakes(BadNode, join, bare, said) == [
        "reservedSystemCPUs: CPU 9 is not on this machine",
        "reservedMemory: zone 0 does not have 5Gi apart from its hugepages",
    ]


def test_what_no_kubelet_starts_with_is_a_mistake() -> None:
    bare = raw(zone(0, reservedMemory=0), reservedSystemCPUs=None)
    said = KubeletConfiguration(
        "n",
        policy=Policy.RESTRICTED,
        cpu_manager=CpuManager.STATIC,
        memory_manager=MemoryManager.STATIC,
        topology_options=frozenset(TopologyOption),
    )
    assert [
        text.partition(": the kubelet would not start: ")[0] for text in mistakes(BadNode, join, bare, said)
    ] == [
        "reservedSystemCPUs",
        "reservedMemory",
        "topologyManagerPolicyOptions.prefer-closest-numa-nodes",
    ]


def test_reserved_cpus_are_distributed_over_at_most_16_zones() -> None:
    many = raw(*(zone(number) for number in range(17)))
    spread = KubeletConfiguration(
        "n",
        policy=Policy.NONE,
        cpu_manager=CpuManager.STATIC,
        memory_manager=MemoryManager.NONE,
        cpu_options=frozenset({CpuOption.DISTRIBUTE_ACROSS_NUMA}),
        kept_cpus=9,
    )
    unnamed = many | {"reservedSystemCPUs": None}
    [mistake] = mistakes(BadNode, join, unnamed, spread)
    assert mistake.startswith("zones: 17 zones with CPUs are more than the 16 over which")


SCRAPS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 9)
    | st.sampled_from(["", "0", "0-1", "1Gi", "x"])
    | st.integers(min_value=2**63),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "zones", "cores", "1Gi", "x/gpu"]), inner, max_size=3)
    ),
    max_leaves=6,
)
WHOLE = raw(
    zone(0, hugepages={"1Gi": 1}, distances=[10, 21], uncoreCaches=[[0, 2], [1, 3]]),
    zone(1, distances=[21, 10]),
    devices={"x/gpu": [{"id": "a", "zones": [0], "healthy": True}]},
)


def places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path to everything inside."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(each for step, inner in steps for each in places(inner, (*path, step)))]


@given(st.sampled_from(places(WHOLE)[1:]), SCRAPS)
def test_any_scrap_in_any_place_is_a_node_or_a_mistake(path: tuple[Any, ...], scrap: object) -> None:
    written = deepcopy(WHOLE)
    parent: Any = written
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = scrap
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
        said = kubelet_configuration({**scenario["kubeletConfig"], "metadata": {"name": seen.name}})
        node = machine_nodes.join(machine(scenario["machine"]), seen, configured=said)
        published = nodes.join(seen, configured=said)
        assert [(zone.id, zone.free.positive(), zone.costs) for zone in node.zones] == [
            (zone.id, zone.free.positive(), zone.costs) for zone in published.zones
        ]
