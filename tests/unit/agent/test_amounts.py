"""What a zone has is what is free and what is held, and nothing is in two places."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.amounts import SeenDevices, held_by, places, zone_amounts, zone_cpus
from agent.identities import KeptPod, identified
from agent.observation import ListedDevice, ListedPod, Observation
from numalign.model.machine import DevicePlace, read_list
from numalign.model.resources import CPU, MEMORY, MILLI, Resources, ZoneId
from tests.unit.agent.observations import (
    GIB,
    GPU,
    at,
    checkpoints,
    container,
    gpus,
    listed,
    memory,
    observation,
    observations,
    pod,
    zones,
)
from tests.worlds.notation import table

NOTHING = SeenDevices()
DEVICE_IDS = st.integers(0, 20).map("gpu{}".format)


def reckoned(seen: Observation, before: SeenDevices = NOTHING) -> tuple[tuple[KeptPod, ...], SeenDevices]:
    pods = identified(seen)
    return pods, before.plus(seen, pods)


def with_devices(where: Mapping[str, frozenset[ZoneId]], listed: Iterable[ListedPod] = ()) -> Observation:
    seen = observation(listed=listed)
    devices = tuple(ListedDevice(GPU, name, at) for name, at in where.items())
    return replace(seen, allocatable=replace(seen.allocatable, devices=devices))


WIDE = listed("wide", container("main", "1,5", blocks=[memory(20, 0, 1)], devices=[gpus("x", on=())]))
OWN = container("own", "1", blocks=[memory(1, 0)])
# Each container of a pod that was served as a whole lists all memory that they share.
TWINS = listed("whole", OWN, *(container(name, "2-3", blocks=[memory(3, 0)]) for name in ("one", "two")))
BY_CONTAINER = checkpoints({"1": {"own": "1", "one": "2-3", "two": "2-3"}})
RECORDED = replace(BY_CONTAINER, pod_cpus={"1": read_list("1-3")}, pod_memory={"1": (memory(4, 0),)})
WHOLE = replace(listed("whole", OWN, container("x")), cpus=read_list("1-3"), memory=(memory(4, 0),))
THREE_CPUS = {("node-0",): Resources({CPU: 3 * MILLI, MEMORY: 4 * GIB})}


@pytest.mark.parametrize(("seen", "held", "free"), table([
    # what it shows                  what is seen, what the pod holds, the GiB that are free in each zone
    ("amounts of sets of zones", observation(pod("1", "wide"), listed=[WIDE]), {
        (): Resources({GPU: 1}), ("node-0",): Resources({CPU: MILLI}), ("node-1",): Resources({CPU: MILLI}),
        ("node-0", "node-1"): Resources({MEMORY: 20 * GIB}),
    }, [0, 10]),
    ("what its containers share once", observation(pod("1", "whole"), listed=[TWINS], saved=RECORDED),
        THREE_CPUS, [11, 15]),
    ("what is listed of it as a whole", observation(pod("1", "whole"), listed=[WHOLE]), THREE_CPUS, [11, 15]),
]))  # fmt: skip
def test_a_pod_holds(seen: Observation, held: object, free: list[int]) -> None:
    pods, devices = reckoned(seen)
    amounts = zone_amounts(seen, pods, devices)
    assert held_by(pods[0], zone_cpus(seen.hardware), devices) == held
    assert [amounts[zone][MEMORY][2] // GIB for zone in zones(0, 1)] == free


def test_a_device_that_falls_ill_is_still_built_in() -> None:
    before = observation()
    _, known = reckoned(before)
    ill = tuple(device for device in before.allocatable.devices if device.id != "gpu0")
    after = replace(before, allocatable=replace(before.allocatable, devices=ill))
    pods, now = reckoned(after, known)
    assert places(now) == {GPU: (DevicePlace(zones(0), 2, 1), DevicePlace(zones(1), 2, 2))}
    assert zone_amounts(after, pods, now)[ZoneId(0)][GPU] == (2, 1, 1)


def test_held_unhealthy_device_counts_for_its_pod() -> None:
    """Then what is healthy less what is held is what the kubelet has to give."""
    web = listed("web", container("main", devices=[gpus("gone")]))
    pods, devices = reckoned(seen := observation(listed=[web]))
    assert places(devices)[GPU][0] == DevicePlace(zones(0), 3, 3)
    assert zone_amounts(seen, pods, devices)[ZoneId(0)][GPU] == (3, 3, 2)


def test_moved_device_counts_in_one_zone() -> None:
    _, known = reckoned(with_devices({"old a": at(), "old b": at()}))
    _, known = reckoned(with_devices({"a": at(), "b": at()}), known)
    _, known = reckoned(with_devices({"a": at(0), "b": at()}), known)
    assert places(known) == {GPU: (DevicePlace((), 1, 1), DevicePlace(zones(0), 1, 1))}
    _, known = reckoned(with_devices({"a": at(0), "b": at(1)}), known)
    assert places(known) == {GPU: (DevicePlace(zones(0), 1, 1), DevicePlace(zones(1), 1, 1))}


@given(st.lists(st.dictionaries(DEVICE_IDS, st.booleans(), max_size=4), min_size=1))
def test_there_are_as_many_devices_as_were_there_at_once(looks: list[dict[str, bool]]) -> None:
    known = NOTHING
    for look in looks:
        held = [name for name, healthy in look.items() if not healthy]
        web = listed("web", container("main", devices=[gpus(*held)]))
        there = with_devices({name: at(0) for name, healthy in look.items() if healthy}, listed=[web])
        _, known = reckoned(there, known)
    most, last = max(map(len, looks)), len(looks[-1])
    assert places(known) == ({GPU: (DevicePlace(zones(0), most, last),)} if most else {})


@given(observations())
def test_free_plus_held_is_allocatable(seen: Observation) -> None:
    pods, devices = reckoned(seen)
    amounts = zone_amounts(seen, pods, devices)
    cpus = zone_cpus(seen.hardware)
    held = Counter[str]()
    for each in pods:
        for resources in held_by(each, cpus, devices).values():
            held.update(resources)

    def summed(resource: str, column: int) -> int:
        return sum(zone[resource][column] for zone in amounts.values() if resource in zone)

    for resource in (CPU, MEMORY):
        assert summed(resource, 2) + held[resource] == summed(resource, 1) <= summed(resource, 0)
    built = places(devices).get(GPU, ())
    assert sum(place.healthy for place in built) == len(seen.allocatable.devices)
    assert held[GPU] == sum(len(devices.ids) for each in pods for devices in each.devices)


@given(observations())
def test_every_cpu_is_in_one_place(seen: Observation) -> None:
    pods, devices = reckoned(seen)
    held = [each.cpus for each in pods]
    assert sum(map(int.bit_count, held)) == sum(held).bit_count()
    free = sum(zone[CPU][2] for zone in zone_amounts(seen, pods, devices).values()) // MILLI
    assert free + sum(held).bit_count() == seen.allocatable.cpus.bit_count()
