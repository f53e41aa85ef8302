"""Machines as people and recordings describe them, and as they should not."""

import gzip
import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cluster import nodes
from numalign.cluster.kubelet_config import KubeletConfiguration, kubelet_configuration
from numalign.cluster.machines import Bank, Described, join_machine, machine
from numalign.cluster.nodes import Facts
from numalign.cluster.topologies import Topology, topology
from numalign.rules.errors import BadTopology
from numalign.rules.intent import Policy, Scope
from numalign.rules.kubelet.start import Reserved
from numalign.rules.machine import Core, Place, cpus
from numalign.rules.options import NEWEST, CpuOption, Options, TopologyOption
from numalign.rules.resources import Resources, ZoneId
from numalign.rules.topology import CpuManager, Known, MemoryManager, Node, Zone
from tests.notation import table

Json = dict[str, Any]

GIB = 2**30
STATIC = KubeletConfiguration("n", cpu_manager=CpuManager.STATIC, memory_manager=MemoryManager.STATIC)
OFF = KubeletConfiguration("n", cpu_manager=CpuManager.NONE, memory_manager=MemoryManager.NONE)


def raw(*zones: Json, **fields: object) -> Json:
    return {"zones": list(zones) or [zone()], "reservedSystemCPUs": "0", **fields}


def zone(number: object = 0, **fields: object) -> Json:
    """A zone of two cores of two threads and 8Gi, one of them kept for the system."""
    first = 4 * number if isinstance(number, int) else 0
    return {
        "id": number,
        "socket": number,
        "cores": [[first, first + 2], [first + 1, first + 3]],
        "memory": 8 * GIB,
        "reservedMemory": GIB,
        **fields,
    }


def join(written: Json, configured: KubeletConfiguration | None = STATIC, **policies: Any) -> Node:  # noqa: ANN401 fields of Topology
    return join_machine(machine(written), Topology("n", (), **policies), configured=configured)


def mistakes(read: Callable[[], object]) -> list[str]:
    with pytest.raises(BadTopology) as raised:
        read()
    return [str(mistake) for mistake in raised.value.mistakes]


def test_all_of_a_machine_is_read() -> None:
    written = raw(
        zone(2, distances=[21, 10], hugepages={"2Mi": 512, "1Gi": 2}),
        zone(0, socket=1, uncoreCaches=[[0, 2], [1, 3]], distances=[10, 21], reservedMemory=None),
        reservedSystemCPUs="0,8-9",
        devices={
            "nvidia.com/gpu": [
                {"id": "a", "zones": [2]},
                {"id": "b", "zones": [2, 0], "healthy": False},
                {"id": "c", "healthy": True},
            ],
            "example.com/none": [],
        },
    )

    assert machine(written) == Described(
        banks=(
            Bank(ZoneId(0), 8 * GIB, None, Resources(), (10, 21)),
            Bank(
                ZoneId(2),
                8 * GIB,
                GIB,
                Resources({"hugepages-1Gi": 2 * GIB, "hugepages-2Mi": GIB}),
                (21, 10),
            ),
        ),
        cores=(
            Core(ZoneId(2), 2, 0, cpus([8, 10])),
            Core(ZoneId(2), 2, 0, cpus([9, 11])),
            Core(ZoneId(0), 1, 1, cpus([0, 2])),
            Core(ZoneId(0), 1, 2, cpus([1, 3])),
        ),
        reserved=cpus([0, 8, 9]),
        devices=(
            (
                "nvidia.com/gpu",
                (
                    (frozenset({ZoneId(2)}), True),
                    (frozenset({ZoneId(0), ZoneId(2)}), False),
                    (frozenset(), True),
                ),
            ),
            ("example.com/none", ()),
        ),
    )


def test_little_is_enough() -> None:
    assert machine({"zones": [{"id": 3, "socket": 0, "cores": [[7]], "memory": "1Gi"}]}) == Described(
        (Bank(ZoneId(3), GIB, None, Resources(), ()),), (Core(ZoneId(3), 0, 0, cpus([7])),)
    )


def test_a_zone_without_cores_needs_no_socket() -> None:
    read = machine(raw(zone(0), {"id": 1, "memory": GIB}, {"id": 2, "memory": GIB, "cores": []}))
    assert [bank.zone for bank in read.banks] == [0, 1, 2]
    assert {core.zone for core in read.cores} == {0}


@pytest.mark.parametrize(
    ("written", "said"),
    table(
        [
            ("nothing", {}, ["zones: is missing"]),
            ("no zones", {"zones": []}, ["zones: is empty: a machine has at least one zone"]),
            ("zones that are no list", {"zones": {}}, ["zones: must be a list, not an object"]),
            ("a zone that is no object", {"zones": [1]}, ["zones[0]: must be an object, not a number"]),
            (
                "no core",
                {"zones": [zone(0, cores=[])]},
                ["zones: hold no CPU: a machine has at least one core"],
            ),
            (
                "an empty zone",
                {"zones": [zone(), {}]},
                ["zones[1].id: is missing", "zones[1].memory: is missing"],
            ),
            (
                "unknown fields",
                raw(zone(0, hugePages={}), reservedMemory=1),
                [
                    (
                        "reservedMemory: is none of the fields that are known here: "
                        "zones, reservedSystemCPUs, reservedCPUs, devices"
                    ),
                    (
                        "zones[0].hugePages: is none of the fields that are known here: id, socket, cores, "
                        "uncoreCaches, memory, reservedMemory, hugepages, distances"
                    ),
                ],
            ),
            (
                "an id twice",
                raw(zone(0), zone(1), {**zone(2), "id": 1}),
                ["zones[2].id: 1 is the id of zones[1] too"],
            ),
            ("an id below zero", raw({**zone(), "id": -1}), ["zones[0].id: -1 is too small: the least is 0"]),
            (
                "an id that no Linux has",
                raw({**zone(), "id": 1024}),
                ["zones[0].id: 1024 is beyond 1023, the last zone that Linux knows"],
            ),
            (
                "an id in words",
                raw({**zone(), "id": "one"}),
                ['zones[0].id: must be a whole number, not "one"'],
            ),
            (
                "cores without a socket",
                raw(zone(0, socket=None)),
                ["zones[0].socket: is missing"],
            ),
            (
                "a CPU in two cores",
                raw(zone(0), zone(1, cores=[[4], [5, 2]])),
                ["zones[1].cores[1][1]: CPU 2 stands at zones[0].cores[0][1] too"],
            ),
            (
                "a CPU twice in a core",
                raw(zone(0, cores=[[0, 0]])),
                ["zones[0].cores[0][1]: CPU 0 stands at zones[0].cores[0][0] too"],
            ),
            (
                "CPUs that no Linux has",
                raw(zone(0, cores=[[0], [8192, -1]])),
                [
                    "zones[0].cores[1][0]: 8192 is beyond 8191, the last CPU that Linux knows",
                    "zones[0].cores[1][1]: -1 is too small: the least is 0",
                ],
            ),
            (
                "cores that are none",
                raw(zone(0, cores=[[0], [], 3, [None], ["x"]])),
                [
                    "zones[0].cores[1]: is empty: leave it out",
                    "zones[0].cores[2]: must be a list, not a number",
                    "zones[0].cores[3][0]: is missing",
                    'zones[0].cores[4][0]: must be a whole number, not "x"',
                ],
            ),
            (
                "a cache with a strange CPU",
                raw(zone(0, uncoreCaches=[[0, 2, 1, 3], [4]])),
                ["zones[0].uncoreCaches[1]: CPU 4 is in no core of this zone"],
            ),
            (
                "caches that part a core or leave one out",
                raw(zone(0, cores=[[0, 1], [2]], uncoreCaches=[[0], [1]])),
                [
                    "zones[0].cores[0]: CPU 0-1 is not in one of the uncoreCaches of its zone",
                    "zones[0].cores[1]: CPU 2 is not in one of the uncoreCaches of its zone",
                ],
            ),
            (
                "a CPU in two caches",
                raw(zone(0, uncoreCaches=[[0, 2, 1, 3], [3]])),
                ["zones[0].uncoreCaches[1][0]: CPU 3 stands at zones[0].uncoreCaches[0][3] too"],
            ),
            (
                "reserved CPUs that are not there",
                raw(reservedSystemCPUs="0,3-5"),
                ["reservedSystemCPUs: CPU 4-5 is not on this machine"],
            ),
            (
                "reserved CPUs that are no list",
                raw(reservedSystemCPUs="0;1"),
                ['reservedSystemCPUs: "0;1" is no CPU id and no range of them, as in 0-3,8'],
            ),
            (
                "CPUs reserved by name and by number",
                raw(reservedCPUs=1),
                ["reservedCPUs: stands beside reservedSystemCPUs: leave one of them out"],
            ),
            (
                "more CPUs reserved than there are",
                raw(reservedSystemCPUs=None, reservedCPUs=5),
                ["reservedCPUs: 5 is more than the 4 CPUs of this machine"],
            ),
            (
                "negative numbers",
                raw(zone(0, memory=-1, reservedMemory=-2, hugepages={"1Gi": -1}), reservedCPUs=-1),
                [
                    "reservedCPUs: -1 is too small: the least is 0",
                    'zones[0].memory: "-1" is negative: an amount is zero or more',
                    'zones[0].reservedMemory: "-2" is negative: an amount is zero or more',
                    "zones[0].hugepages.1Gi: -1 is too small: the least is 0",
                ],
            ),
            (
                "more kept and paged than there is",
                raw(zone(0, hugepages={"1Gi": 7, "2Mi": 1})),
                ["zones[0].memory: 8Gi is less than the 8194Mi that are reserved and in hugepages"],
            ),
            (
                "pages of no size",
                raw(zone(0, hugepages={"0": 1, "big": 1, "1Gi": 1, "1024Mi": 1})),
                [
                    "zones[0].hugepages.0: is no size of a page",
                    (
                        'zones[0].hugepages.big: "big" is not a quantity: '
                        "write a number with at most one suffix, like 4, 500m or 16Gi\n  big\n  ^"
                    ),
                    "zones[0].hugepages.1024Mi: is listed twice: hugepages-1Gi",
                ],
            ),
            (
                "too few distances",
                raw(zone(0, distances=[10]), zone(1, distances=[])),
                [
                    (
                        f"zones[{at}].distances: has {count} entries: "
                        "2 are needed, one for each zone, ascending by id"
                    )
                    for at, count in ((0, 1), (1, 0))
                ],
            ),
            (
                "distances that are none",
                raw(zone(0, distances=[None]), zone(1, distances=21)),
                [
                    "zones[0].distances[0]: is missing",
                    "zones[0].distances: has 1 entries: 2 are needed, one for each zone, ascending by id",
                    "zones[1].distances: must be a list, not a number",
                ],
            ),
            (
                "devices on zones that are not there",
                raw(devices={"x/gpu": [{"id": "a", "zones": [1, None]}]}),
                [
                    "devices[x/gpu][0].zones[0]: there is no zone 1 on this machine",
                    "devices[x/gpu][0].zones[1]: is missing",
                ],
            ),
            (
                "devices that are not told apart",
                raw(devices={"x/gpu": [{"id": "a"}, {"id": "a", "numa": 1}, {}]}),
                [
                    "devices[x/gpu][1].numa: is none of the fields that are known here: id, zones, healthy",
                    'devices[x/gpu][1].id: "a" is the id of devices[x/gpu][0] too',
                    "devices[x/gpu][2].id: is missing",
                ],
            ),
            (
                "a health that is none",
                raw(devices={"x/gpu": [{"id": "a", "healthy": "no"}]}),
                ['devices[x/gpu][0].healthy: must be true or false, not "no"'],
            ),
            (
                "devices that are none",
                raw(devices={"cpu": [], "hugepages-1Gi": [], "x/y": 1}),
                [
                    "devices.cpu: is no device: CPUs and memory belong to their zones",
                    "devices.hugepages-1Gi: is no device: CPUs and memory belong to their zones",
                    "devices[x/y]: must be a list, not a number",
                ],
            ),
        ]
    ),
)
def test_every_mistake_is_told_with_its_place(written: Json, said: list[str]) -> None:
    assert mistakes(lambda: machine(written)) == said


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
        (gpu, (Place(zones[:1], 1, 1), Place(zones[1:], 1, 0), Place((), 1, 1), Place(zones, 1, 1))),
    )


def test_managers_that_are_off_list_nothing_but_the_cores_are_known() -> None:
    node = join(raw(zone(0, hugepages={"1Gi": 1})), OFF)
    assert (node.zones[0].capacity, node.zones[0].free) == (Resources(), Resources())
    assert node.machine is not None
    assert node.machine.layout.everything == cpus(range(4))


def test_a_zone_without_cpus_lists_none() -> None:
    node = join(raw(zone(0), {"id": 1, "memory": GIB}))
    assert [zone.capacity.get("cpu") for zone in node.zones] == [4000, None]


def test_what_is_told_beside_the_machine_is_in_the_node() -> None:
    told = Facts("n", Resources({"cpu": 3000}), label="a-class", minor=34, threads=2)
    said = KubeletConfiguration(
        "n",
        cpu_manager=CpuManager.STATIC,
        cpu_options=frozenset({CpuOption.FULL_PCPUS_ONLY}),
        topology_options=frozenset({TopologyOption.PREFER_CLOSEST}),
    )
    seen = Topology("n", (), Policy.RESTRICTED, Scope.POD, 12)
    node = join_machine(machine(raw(zone(0, distances=[10]))), seen, told=told, configured=said)

    assert (node.name, node.policy, node.scope, node.max_zones) == ("n", Policy.RESTRICTED, Scope.POD, 12)
    assert (node.totals, node.label, node.known) == (told.totals, "a-class", Known.MACHINE)
    assert node.options == Options(said.cpu_options, said.topology_options, frozenset(), 34)


def test_a_machine_of_which_nothing_else_is_told_has_no_managers() -> None:
    node = join(raw(), None)
    assert (node.policy, node.cpu_manager, node.memory_manager) == (
        Policy.NONE,
        CpuManager.NONE,
        MemoryManager.NONE,
    )
    assert (node.options, node.known) == (Options(minor=NEWEST), Known.MACHINE)


def test_managers_are_read_off_the_topology_where_no_configuration_tells() -> None:
    bag = Resources({"memory": 1})
    seen = Topology("n", (Zone(ZoneId(0), "node-0", bag, bag, bag),))
    node = join_machine(machine(raw()), seen)
    assert (node.cpu_manager, node.memory_manager) == (CpuManager.NONE, MemoryManager.STATIC)


@pytest.mark.parametrize(
    ("fields", "said", "reserved"),
    table(
        [
            ("by the machine", {"reservedSystemCPUs": "1,3"}, {}, [1, 3]),
            (
                "by the configuration",
                {"reservedSystemCPUs": None},
                {"reserved_cpus": cpus([2])},
                [2],
            ),
            ("by both", {"reservedSystemCPUs": "1"}, {"reserved_cpus": cpus([1])}, [1]),
            ("as many as the machine says", {"reservedSystemCPUs": None, "reservedCPUs": 2}, {}, [0, 2]),
            (
                "as many as the configuration says",
                {"reservedSystemCPUs": None},
                {"kept_cpus": 3},
                [0, 1, 2],
            ),
            (
                "by name rather than by number",
                {"reservedSystemCPUs": None, "reservedCPUs": 2},
                {"reserved_cpus": cpus([3]), "kept_cpus": 4},
                [3],
            ),
        ]
    ),
)
def test_cpus_are_reserved(fields: Json, said: Mapping[str, Any], reserved: list[int]) -> None:
    configured = KubeletConfiguration("n", cpu_manager=CpuManager.STATIC, **said)
    node = join(raw(**fields), configured)
    assert node.machine is not None
    assert node.machine.reserved == cpus(reserved)
    assert node.zones[0].allocatable["cpu"] == 1000 * (4 - len(reserved))


def test_memory_is_reserved_by_the_configuration() -> None:
    said = KubeletConfiguration(
        "n",
        memory_manager=MemoryManager.STATIC,
        reserved=Reserved({ZoneId(1): Resources({"memory": 2 * GIB})}, 2 * GIB),
    )
    node = join(raw(zone(0, reservedMemory=None), zone(1, reservedMemory=2 * GIB)), said)
    assert [zone.allocatable["memory"] for zone in node.zones] == [8 * GIB, 6 * GIB]


@pytest.mark.parametrize(
    ("said", "told"),
    table(
        [
            (
                "other CPUs",
                {"reserved_cpus": cpus([0, 1])},
                ['reservedSystemCPUs: "0-1" is not what the machine says: "0"'],
            ),
            (
                "more CPUs than there are",
                {"kept_cpus": 5},
                ["systemReserved.cpu: 5 CPUs cannot be kept on a machine of 4"],
            ),
            (
                "other memory",
                {"reserved": Reserved({ZoneId(0): Resources({"memory": 2 * GIB})}, 2 * GIB)},
                ["reservedMemory: 2Gi of zone 0 is not what the machine says: 1Gi"],
            ),
            (
                "no memory",
                {"reserved": Reserved({}, 0)},
                ["reservedMemory: 0 of zone 0 is not what the machine says: 1Gi"],
            ),
        ]
    ),
)
def test_a_configuration_of_another_machine_is_a_mistake(said: Mapping[str, Any], told: list[str]) -> None:
    assert mistakes(lambda: join(raw(), KubeletConfiguration("n", **said))) == told


def test_a_configuration_that_asks_more_of_the_machine_than_it_has_is_a_mistake() -> None:
    bare = raw(zone(0, reservedMemory=None, hugepages={"1Gi": 4}), reservedSystemCPUs=None)
    said = KubeletConfiguration(
        "n",
        reserved_cpus=cpus([0, 9]),
        reserved=Reserved({ZoneId(0): Resources({"memory": 5 * GIB})}, 5 * GIB),
    )
    assert mistakes(lambda: join(bare, said)) == [
        "reservedSystemCPUs: CPU 9 is not on this machine",
        "reservedMemory: zone 0 does not have 5Gi beside its hugepages",
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
        text.partition(": the kubelet does not start: ")[0] for text in mistakes(lambda: join(bare, said))
    ] == [
        "reservedSystemCPUs",
        "reservedMemory",
        "topologyManagerPolicyOptions.prefer-closest-numa-nodes",
    ]


def test_more_zones_than_can_be_walked_are_a_mistake() -> None:
    many = raw(*(zone(number) for number in range(17)))
    assert mistakes(lambda: join(many))[0] == (
        "zones: 17 are more than the 16 among which a kubelet can align"
    )


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
def test_any_scrap_in_any_place_is_a_machine_or_a_mistake(path: tuple[Any, ...], scrap: object) -> None:
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


RECORDINGS = Path(__file__).parent.parent / "conformance" / "data"


@pytest.mark.parametrize("name", ["kubelet-synthetic.jsonl.gz", "kubelet-trace.jsonl.gz"])
def test_a_recorded_machine_is_what_its_exporter_published(name: str) -> None:
    for line in gzip.decompress((RECORDINGS / name).read_bytes()).splitlines():
        scenario = json.loads(line)
        seen = topology(scenario["nrt"])
        said = kubelet_configuration({**scenario["kubeletConfig"], "metadata": {"name": seen.name}})
        node = join_machine(machine(scenario["machine"]), seen, configured=said)
        published = nodes.join(seen, configured=said)
        assert [(zone.id, zone.free.positive(), zone.costs) for zone in node.zones] == [
            (zone.id, zone.free.positive(), zone.costs) for zone in published.zones
        ]
