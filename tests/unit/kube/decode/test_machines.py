"""Machines as people and recordings describe them, and as they should not."""

import pytest

from numalign.kube.decode.machines import DescribedMachine, ZoneMemory, machine
from numalign.model.bitset import bits
from numalign.model.errors import BadTopology
from numalign.model.machine import Core, DevicePlace
from numalign.model.resources import Resources, ZoneId
from tests.worlds.notation import table, zone_ids
from tests.worlds.objects import GIB, Json, mistakes
from tests.worlds.objects import described_machine as raw
from tests.worlds.objects import machine_zone as zone


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
