"""Writes the files in which Linux describes a machine, for an invented one.

A kubelet discovers its machine through cAdvisor (v0.52.1 for Kubernetes v1.34, v0.60.5 for v1.37), which
reads `/sys/devices/system` (utils/sysfs, utils/sysinfo), the sizes of hugepages in
`/sys/kernel/mm/hugepages`, memory in `/proc/meminfo` and the number of sockets in `/proc/cpuinfo`
(machine/machine.go). Exporters that are based on ghw (v0.24.0, pkg/topology) also read blocks of memory
(`/sys/devices/system/memory`) and the size of a hugepage, and see no zone at all if one lacks a folder of
hugepages or its distances; NFD reads the memory of zones below `/sys/bus/node/devices`. If these files are
mounted over the real ones, all of them see that machine. The description has the format of the recordings of
the kubelet (tests/kubelet/data); all machines of these can be written.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import gcd
from pathlib import Path
from typing import Any

from numalign.kube.decode.machines import DescribedMachine, ZoneMemory
from numalign.model.bitset import bits, members, union
from numalign.model.machine import Core, CpuSet, render_list
from numalign.model.quantity import units

Json = dict[str, Any]

KIB = 2**10
HUGEPAGES = "hugepages-"
SMALLEST_BLOCK = 128 * 2**20
"""Bytes of memory that Linux switches on or off at once, on most machines."""
USUAL_PAGE = 2 * 2**20
"""Bytes of a hugepage where none was asked for."""
_SYSTEM = "sys/devices/system"
_CPU = "sys/devices/system/cpu/cpu"

MOUNTED = ("sys/devices/system", "sys/kernel/mm", "sys/bus/node/devices", "proc/meminfo", "proc/cpuinfo")
"""The files and folders of `write` to mount over those of the same names."""

TUNABLES: Mapping[str, int] = {
    "proc/sys/vm/overcommit_memory": 1,
    "proc/sys/vm/panic_on_oom": 0,
    "proc/sys/kernel/panic": 10,
    "proc/sys/kernel/panic_on_oops": 1,
    "proc/sys/kernel/keys/root_maxkeys": 1_000_000,
    "proc/sys/kernel/keys/root_maxbytes": 25_000_000,
}
"""Kernel settings that a kubelet changes when it starts (cm/container_manager_linux.go, setupKernelTunables),
with the values that it wants. They are mounted, too, so that it does not change the host."""


def write(machine: DescribedMachine, folder: Path) -> None:
    """Write the machine's files into a folder: `sys` and `proc`, as below `/`.

    Files with the same text are hard links to one file, as a large machine has thousands.
    """
    written: dict[str, Path] = {}
    for name, text in _files(machine):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if text in written:
            file.hardlink_to(written[text])
        else:
            file.write_text(f"{text}\n")
            written[text] = file
    for name, target in _links(machine):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(target, target_is_directory=True)
    for name in (*MOUNTED[:3], *(f"{_SYSTEM}/node/node{zone}/hugepages" for zone in machine.zones)):
        (folder / name).mkdir(parents=True, exist_ok=True)


def reservations(machine: DescribedMachine) -> Json:
    """Return the fields of KubeletConfiguration that reserve what the description reserves.

    Nothing is reserved for evictions: a memory manager starts only if its amounts add up exactly.
    """
    kept = {bank.zone: bank.reserved for bank in machine.banks if bank.reserved}
    system = {"memory": str(sum(kept.values()))} if kept else {}
    cpus = {"cpu": str(machine.kept)} if machine.kept else {}
    return {
        "systemReserved": {**system, **cpus},
        "evictionHard": {"memory.available": "0%"},
        "reservedMemory": [
            {"numaNode": zone, "limits": {"memory": str(amount)}} for zone, amount in kept.items()
        ],
        **({"reservedSystemCPUs": render_list(machine.reserved)} if machine.reserved else {}),
    }


def _files(machine: DescribedMachine) -> Iterator[tuple[str, str]]:
    yield from _lists("sys/devices/system/cpu", machine.cpus, ("online", "possible", "present"))
    for core in machine.cores:
        yield from _core(core, machine)
    for number, cpus in _caches(machine).items():
        yield from _cache(number, cpus)
    yield from _lists("sys/devices/system/node", bits(machine.zones), ("online", "possible"))
    yield from _lists("sys/devices/system/node", bits(core.zone for core in machine.cores), ("has_cpu",))
    stocked = bits(bank.zone for bank in machine.banks if bank.memory)
    yield from _lists("sys/devices/system/node", stocked, ("has_memory", "has_normal_memory"))
    for bank in machine.banks:
        yield from _zone(bank, machine)
    yield f"{_SYSTEM}/memory/block_size_bytes", f"{_block_size(machine):x}"
    for block in _blocks(machine):
        yield f"{_SYSTEM}/memory/memory{block}/state", "online"
        yield f"{_SYSTEM}/memory/memory{block}/online", "1"
    for size in _page_sizes(machine):
        total = sum(_pages(bank, size) for bank in machine.banks)
        yield from _hugepages("sys/kernel/mm", size, total)
    yield "proc/meminfo", _memory(machine.banks)
    yield "proc/cpuinfo", "\n\n".join(_processors(machine))
    for name, value in TUNABLES.items():
        yield name, str(value)


def _lists(folder: str, held: CpuSet, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        yield f"{folder}/{name}", render_list(held)


def _core(core: Core, machine: DescribedMachine) -> Iterator[tuple[str, str]]:
    told = {
        "core_id": str(_core_id(core, machine)),
        "physical_package_id": str(core.socket),
        "thread_siblings_list": render_list(core.threads),
        "core_cpus_list": render_list(core.threads),
    }
    for cpu in members(core.threads):
        for name, text in told.items():
            yield f"{_CPU}{cpu}/topology/{name}", text


def _core_id(core: Core, machine: DescribedMachine) -> int:
    """Return the number of a core; numbers start again in every socket, as in real processors."""
    return [other.threads for other in machine.cores if other.socket == core.socket].index(core.threads)


def _caches(machine: DescribedMachine) -> Mapping[int, CpuSet]:
    """Return the CPUs that share each cache of level 3, by its number."""
    sharing = defaultdict[int, CpuSet](int)
    for core in machine.cores:
        sharing[core.cache] |= core.threads
    return sharing


def _cache(number: int, cpus: CpuSet) -> Iterator[tuple[str, str]]:
    told = {
        "id": str(number),
        "level": "3",
        "type": "Unified",
        "size": "32768K",
        "shared_cpu_list": render_list(cpus),
        "shared_cpu_map": _map(cpus),
    }
    for cpu in members(cpus):
        for name, text in told.items():
            yield f"{_CPU}{cpu}/cache/index3/{name}", text


def _zone(bank: ZoneMemory, machine: DescribedMachine) -> Iterator[tuple[str, str]]:
    folder = f"sys/devices/system/node/node{bank.zone}"
    cpus = union(core.threads for core in machine.cores if core.zone == bank.zone)
    yield f"{folder}/cpulist", render_list(cpus)
    yield f"{folder}/cpumap", _map(cpus)
    yield f"{folder}/meminfo", _memory([bank], before=f"Node {bank.zone} ")
    if bank.distances:
        yield f"{folder}/distance", " ".join(map(str, bank.distances))
    for size in _page_sizes(machine):
        yield from _hugepages(folder, size, _pages(bank, size))


def _hugepages(folder: str, size: int, pages: int) -> Iterator[tuple[str, str]]:
    names = {"nr_hugepages": pages, "free_hugepages": pages, "surplus_hugepages": 0}
    for name, number in names.items():
        yield f"{folder}/hugepages/hugepages-{size // KIB}kB/{name}", str(number)


def _page_sizes(machine: DescribedMachine) -> list[int]:
    """Return all sizes of pages of any zone, in bytes: Linux shows each in every zone."""
    return sorted({units(name.removeprefix(HUGEPAGES)) for bank in machine.banks for name in bank.huge})


def _pages(bank: ZoneMemory, size: int) -> int:
    held = {units(name.removeprefix(HUGEPAGES)): amount for name, amount in bank.huge.items()}
    return held.get(size, 0) // size


def _block_size(machine: DescribedMachine) -> int:
    """Return the bytes of a block, as few blocks as the zones allow."""
    return max(gcd(*(bank.memory for bank in machine.banks)), SMALLEST_BLOCK)


def _blocks(machine: DescribedMachine) -> Mapping[int, int]:
    """Return the zone of each block of memory, by its number; what fills no block is left out."""
    size = _block_size(machine)
    return dict(enumerate(bank.zone for bank in machine.banks for _ in range(bank.memory // size)))


def _memory(banks: Sequence[ZoneMemory], *, before: str = "") -> str:
    total = sum(bank.memory for bank in banks) // KIB
    huge = sum(amount for bank in banks for amount in bank.huge.values()) // KIB
    told = {
        "MemTotal": total,
        "MemFree": total - huge,
        "MemAvailable": total - huge,
        "SwapTotal": 0,
        "SwapFree": 0,
        "Hugepagesize": USUAL_PAGE // KIB,
        "Hugetlb": huge,
    }
    return "\n".join(f"{before}{name}: {kib:>15} kB" for name, kib in told.items())


def _processors(machine: DescribedMachine) -> Iterator[str]:
    by_cpu = {cpu: core for core in machine.cores for cpu in members(core.threads)}
    for cpu, core in sorted(by_cpu.items()):
        told = {
            "processor": cpu,
            "vendor_id": "GenuineIntel",
            "model name": "A processor that was made up",
            "cpu MHz": "2400.000",
            "physical id": core.socket,
            "core id": _core_id(core, machine),
        }
        yield "\n".join(f"{name}\t: {value}" for name, value in told.items())


def _links(machine: DescribedMachine) -> Iterator[tuple[str, str]]:
    for core in machine.cores:
        for cpu in members(core.threads):
            yield f"sys/devices/system/node/node{core.zone}/cpu{cpu}", f"../../cpu/cpu{cpu}"
            yield f"{_CPU}{cpu}/node{core.zone}", f"../../node/node{core.zone}"
    for each in machine.zones:
        yield f"sys/bus/node/devices/node{each}", f"../../../devices/system/node/node{each}"
    for block, zone in _blocks(machine).items():
        yield f"{_SYSTEM}/node/node{zone}/memory{block}", f"../../memory/memory{block}"


def _map(cpus: CpuSet) -> str:
    """Return a mask in the kernel's format: groups of 32 bits, the highest first."""
    groups = defaultdict[int, int](int)
    for cpu in members(cpus):
        groups[cpu // 32] |= 1 << cpu % 32
    return ",".join(f"{groups[at]:08x}" for at in reversed(range(max(groups, default=0) + 1)))
