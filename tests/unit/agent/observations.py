"""Observations as tests write them, and any that a kubelet could give."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeVar

from hypothesis import strategies as st

from agent.observation import (
    Allocatable,
    Checkpoints,
    Hardware,
    HeldDevices,
    KubeletPod,
    ListedContainer,
    ListedDevice,
    ListedPod,
    MemoryBlock,
    Observation,
)
from numalign.kube.decode.machines import ZoneMemory
from numalign.model.bitset import members, union
from numalign.model.machine import Core, CpuSet, read_list
from numalign.model.resources import Resources, ZoneId

T = TypeVar("T")

GIB = 2**30
GPU = "example.com/gpu"
KUBELET: Mapping[str, object] = MappingProxyType({
    "version": "v1.34.4", "cpuManagerPolicy": "static", "memoryManagerPolicy": "Static",
    "topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "container",
})  # fmt: skip


def zones(*ids: int) -> tuple[ZoneId, ...]:
    return tuple(map(ZoneId, ids))


def at(*ids: int) -> frozenset[ZoneId]:
    return frozenset(map(ZoneId, ids))


def hardware(*cpus: str, gib: int = 16) -> Hardware:
    """A machine of single-threaded cores: of each zone its CPUs, as in `0-3`, and so much memory."""
    far = [tuple(10 if at == zone else 20 for at in range(len(cpus))) for zone in range(len(cpus))]
    banks = [ZoneMemory(ZoneId(zone), gib * GIB, None, Resources(), each) for zone, each in enumerate(far)]
    cores = [
        Core(ZoneId(zone), zone, zone, 1 << cpu)
        for zone, listed in enumerate(cpus)
        for cpu in members(read_list(listed))
    ]
    return Hardware(tuple(banks), tuple(cores))


def gpus(*names: str, on: Iterable[int] = (0,)) -> HeldDevices:
    return HeldDevices(GPU, names, at(*on))


def memory(gib: int, *ids: int) -> MemoryBlock:
    return MemoryBlock("memory", gib * GIB, zones(*ids))


def container(
    name: str, cpus: str = "", *, blocks: Iterable[MemoryBlock] = (), devices: Iterable[HeldDevices] = ()
) -> ListedContainer:
    return ListedContainer(name, read_list(cpus), tuple(blocks), tuple(devices))


def listed(name: str, *containers: ListedContainer) -> ListedPod:
    return ListedPod("team", name, containers)


def pod(uid: str, name: str, phase: str = "Running", *, init: Iterable[str] = ()) -> KubeletPod:
    return KubeletPod(uid, "team", name, phase, deleted=False, init_containers=tuple(init))


def checkpoints(
    cpus: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    devices: Mapping[str, Mapping[str, Iterable[HeldDevices]]] = MappingProxyType({}),
) -> Checkpoints:
    """By UID and container the CPUs, as in `0-3`, and the devices."""
    return Checkpoints(
        {uid: {name: read_list(text) for name, text in entries.items()} for uid, entries in cpus.items()},
        {uid: {name: tuple(held) for name, held in entries.items()} for uid, entries in devices.items()},
    )


def observation(
    *pods: KubeletPod, listed: Iterable[ListedPod] = (), saved: Checkpoints | None = None
) -> Observation:
    """Of two zones with CPUs 0-3 and 4-7, of which 0 and 4 are kept, 16 GiB and two devices each."""
    devices = tuple(ListedDevice(GPU, f"gpu{number}", at(number // 2)) for number in range(4))
    allocatable = Allocatable(read_list("1-3,5-7"), (memory(15, 0), memory(15, 1)), devices)
    return Observation(hardware("0-3", "4-7"), KUBELET, allocatable, tuple(listed), pods, saved)


@dataclass
class Stock:
    cpus: list[int]
    devices: list[ListedDevice]
    memory: dict[ZoneId, int]


@st.composite
def machines(draw: st.DrawFn) -> Hardware:
    ids = sorted(draw(st.sets(st.integers(0, 9), min_size=1, max_size=4)))
    threads = draw(st.integers(1, 2))
    cores, cpu = [], 0
    for zone in ids:
        for _ in range(draw(st.integers(1, 4))):
            cores.append(Core(ZoneId(zone), zone, zone, ((1 << threads) - 1) << cpu))
            cpu += threads
    distances = [tuple(10 if other == zone else 20 for other in ids) for zone in ids]
    banks = [
        ZoneMemory(ZoneId(zone), 64 * GIB, None, Resources({"hugepages-2Mi": GIB}), each)
        for zone, each in zip(ids, distances, strict=True)
    ]
    return Hardware(tuple(banks), tuple(replace(core, cache=ids.index(core.zone)) for core in cores))


@st.composite
def observations(draw: st.DrawFn) -> Observation:
    """What a kubelet with static managers may tell: each CPU, device and block is given to one container."""
    machine = draw(machines())
    ids = [bank.zone for bank in machine.banks]
    every = union(core.threads for core in machine.cores)
    kept = draw(st.sets(st.sampled_from([*members(every)]), max_size=every.bit_count() - 1))
    allocatable = [cpu for cpu in members(every) if cpu not in kept]
    devices = tuple(
        ListedDevice(GPU, f"gpu{number}", draw(st.frozensets(st.sampled_from(ids), max_size=2)))
        for number in range(draw(st.integers(0, 6)))
    )
    stock = Stock([*allocatable], [*devices], dict.fromkeys(ids, 60 * GIB))
    names = draw(st.lists(st.sampled_from("abcdef"), max_size=5, unique=True))
    listed, cpus, held = [], {}, {}
    for name in names:
        containers = [_container(draw, f"{name}{number}", stock) for number in range(draw(st.integers(1, 3)))]
        cpus[f"uid-{name}"] = {each.name: each.cpus for each in containers}
        held[f"uid-{name}"] = {each.name: each.devices for each in containers}
        # The last of several may be one that has finished: it is not listed.
        shown = containers[:-1] if len(containers) > 1 and draw(st.booleans()) else containers
        listed.append(ListedPod("team", name, tuple(replace(each) for each in shown)))
    sizes = {"memory": 60 * GIB, "hugepages-2Mi": GIB}
    blocks = tuple(MemoryBlock(resource, size, (zone,)) for resource, size in sizes.items() for zone in ids)
    given = Allocatable(union(1 << cpu for cpu in allocatable), blocks, devices)
    pods = tuple(pod(f"uid-{name}", name) for name in names)
    return Observation(machine, KUBELET, given, tuple(listed), pods, Checkpoints(cpus, held))


def few(of: st.SearchStrategy[T], most: int = 3) -> st.SearchStrategy[tuple[T, ...]]:
    return st.lists(of, max_size=most).map(tuple)


def by_name(of: st.SearchStrategy[T]) -> st.SearchStrategy[dict[str, dict[str, T]]]:
    return st.dictionaries(NAMES, st.dictionaries(NAMES, of, max_size=2), max_size=2)


IDS = st.integers(0, 5).map(ZoneId)
SETS, CPUS = st.frozensets(IDS, max_size=3), st.integers(0, 2**12)
NAMES = st.sampled_from(["a", "b", "gpu0", "gpu1"])
RESOURCES = st.sampled_from([GPU, "memory", "hugepages-2Mi", "cpu", "x"])
ORDERED = SETS.map(lambda ids: tuple(sorted(ids)))
BLOCKS = few(st.builds(MemoryBlock, RESOURCES, st.integers(0, 2**62), ORDERED))
HELD = few(st.builds(HeldDevices, RESOURCES, few(NAMES), SETS))
CONTAINERS = few(st.builds(ListedContainer, NAMES, CPUS, BLOCKS, HELD))
DEVICES = few(st.builds(ListedDevice, RESOURCES, NAMES, SETS), 4)
PODS = few(st.builds(KubeletPod, NAMES, NAMES, NAMES, st.sampled_from(["", "Failed"]), st.booleans()))
LISTED = few(st.builds(ListedPod, NAMES, NAMES, CONTAINERS, CPUS, BLOCKS))
GIVEN, SAVED = (
    st.builds(Allocatable, CPUS, BLOCKS, DEVICES),
    st.builds(Checkpoints, by_name(CPUS), by_name(HELD)),
)
NONSENSE = st.builds(Observation, machines(), st.just(KUBELET), GIVEN, LISTED, PODS, st.none() | SAVED)
"""What no kubelet tells: zones that are not there, CPUs in two places, names and ids twice."""


def _container(draw: st.DrawFn, name: str, stock: Stock) -> ListedContainer:
    cpus: CpuSet = union(1 << stock.cpus.pop() for _ in range(draw(st.integers(0, len(stock.cpus)))))
    devices = [stock.devices.pop() for _ in range(draw(st.integers(0, len(stock.devices))))]
    held = tuple(HeldDevices(each.resource, (each.id,), each.zones) for each in devices)
    blocks = []
    if draw(st.booleans()):
        # The memory manager has no zone in two groups.
        spread = draw(st.sampled_from([[zone] for zone in stock.memory] + [[*stock.memory]]))
        size = draw(st.integers(0, sum(stock.memory[zone] for zone in spread)))
        blocks.append(MemoryBlock("memory", size, tuple(spread)))
        for zone in spread:
            taken = min(size, stock.memory[zone])
            stock.memory[zone] -= taken
            size -= taken
    return ListedContainer(name, cpus, tuple(blocks), held)
