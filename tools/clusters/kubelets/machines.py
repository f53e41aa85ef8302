"""Writes the files in which Linux describes a machine, for an invented one.

A kubelet discovers its machine through cAdvisor (v0.52.1 for Kubernetes v1.34, v0.60.5 for v1.37), which
reads `/sys/devices/system` (utils/sysfs, utils/sysinfo), the sizes of hugepages in
`/sys/kernel/mm/hugepages`, memory in `/proc/meminfo` and the number of sockets in `/proc/cpuinfo`
(machine/machine.go). Exporters that are based on ghw (v0.24.0, pkg/topology) also read blocks of memory
(`/sys/devices/system/memory`), and see no zone at all if one lacks a folder of hugepages or its distances;
NFD reads the memory of zones below `/sys/bus/node/devices`. If these files are mounted over the real ones,
all of them see that machine. The description has the format of the recordings of the kubelet
(tests/kubelet/data); all machines of these can be written.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import gcd
from pathlib import Path
from typing import Any

from numalign.kube.decode.machines import DescribedMachine, ZoneMemory
from numalign.model.bitset import bits, members, union
from numalign.model.machine import CpuSet, render_list
from numalign.model.quantity import units

Json = dict[str, Any]
Files = Iterator[tuple[str, object]]
"""Names below `/`, and contents."""

KIB = 2**10
_SYSTEM = "sys/devices/system"

MOUNTED = (_SYSTEM, "sys/kernel/mm", "sys/bus/node/devices", "proc/meminfo", "proc/cpuinfo")
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
    for name, content in _files(machine):
        file, text = folder / name, f"{content}\n"
        file.parent.mkdir(parents=True, exist_ok=True)
        if text in written:
            file.hardlink_to(written[text])
        else:
            file.write_text(text)
            written[text] = file
    for core in machine.cores:
        for cpu in members(core.threads):
            at, of = f"cpu/cpu{cpu}", f"node/node{core.zone}"
            (folder / _SYSTEM / of / f"cpu{cpu}").symlink_to(f"../../{at}", target_is_directory=True)
            (folder / _SYSTEM / at / f"node{core.zone}").symlink_to(f"../../{of}", target_is_directory=True)
    for zone in machine.zones:
        bus = folder / "sys/bus/node/devices"
        bus.mkdir(parents=True, exist_ok=True)
        (bus / f"node{zone}").symlink_to(f"../../../devices/system/node/node{zone}", target_is_directory=True)
    for block, home in _blocks(machine):
        named = folder / _SYSTEM / f"node/node{home}/memory{block}"
        named.symlink_to(f"../../memory/memory{block}", target_is_directory=True)
    for name in (*MOUNTED[:2], *(f"{_SYSTEM}/node/node{zone}/hugepages" for zone in machine.zones)):
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


def _files(machine: DescribedMachine) -> Files:
    with_memory = bits(bank.zone for bank in machine.banks if bank.memory)
    for names, listed in (
        (("cpu/online", "cpu/possible", "cpu/present"), machine.cpus),
        (("node/online", "node/possible"), bits(machine.zones)),
        (("node/has_cpu",), bits(core.zone for core in machine.cores)),
        (("node/has_memory", "node/has_normal_memory"), with_memory),
    ):
        yield from ((f"{_SYSTEM}/{name}", render_list(listed)) for name in names)
    yield from _cores(machine)
    for bank in machine.banks:
        yield from _zone(bank, machine)
    yield f"{_SYSTEM}/memory/block_size_bytes", f"{_block_size(machine):x}"
    for block, _ in _blocks(machine):
        yield f"{_SYSTEM}/memory/memory{block}/state", "online"
        yield f"{_SYSTEM}/memory/memory{block}/online", 1
    yield from _hugepages("sys/kernel/mm", machine, machine.banks)
    yield "proc/meminfo", _memory(machine.banks)
    yield from TUNABLES.items()


def _cores(machine: DescribedMachine) -> Files:
    """Return the cores, whose numbers start again in every socket, and their caches of level 3."""
    counts, sharing = defaultdict[int, int](int), defaultdict[int, CpuSet](int)
    for core in machine.cores:
        sharing[core.cache] |= core.threads
    processors = {}
    for core in machine.cores:
        number, threads = counts[core.socket], render_list(core.threads)
        counts[core.socket] += 1
        shared = sharing[core.cache]
        files = {
            "topology/core_id": number,
            "topology/physical_package_id": core.socket,
            "topology/thread_siblings_list": threads,
            "topology/core_cpus_list": threads,
            "cache/index3/id": core.cache,
            "cache/index3/level": 3,
            "cache/index3/type": "Unified",
            "cache/index3/size": "32768K",
            "cache/index3/shared_cpu_list": render_list(shared),
            "cache/index3/shared_cpu_map": _map(shared),
        }
        for cpu in members(core.threads):
            yield from ((f"{_SYSTEM}/cpu/cpu{cpu}/{name}", content) for name, content in files.items())
            about = {
                "processor": cpu,
                "vendor_id": "GenuineIntel",
                "model name": "A processor that was made up",
                "cpu MHz": "2400.000",
                "physical id": core.socket,
                "core id": number,
            }
            processors[cpu] = "\n".join(f"{name}\t: {value}" for name, value in about.items())
    yield "proc/cpuinfo", "\n\n".join(text for _, text in sorted(processors.items()))


def _zone(bank: ZoneMemory, machine: DescribedMachine) -> Files:
    folder = f"{_SYSTEM}/node/node{bank.zone}"
    cpus = union(core.threads for core in machine.cores if core.zone == bank.zone)
    yield f"{folder}/cpulist", render_list(cpus)
    yield f"{folder}/cpumap", _map(cpus)
    yield f"{folder}/meminfo", _memory([bank], before=f"Node {bank.zone} ")
    if bank.distances:
        yield f"{folder}/distance", " ".join(map(str, bank.distances))
    yield from _hugepages(folder, machine, [bank])


def _hugepages(folder: str, machine: DescribedMachine, banks: Sequence[ZoneMemory]) -> Files:
    """Return the pages of some zones, of all sizes of any zone: Linux shows each in every zone."""
    sizes = {name: units(name.removeprefix("hugepages-")) for bank in machine.banks for name in bank.huge}
    for resource, size in sizes.items():
        pages = sum(bank.huge.get(resource, 0) // size for bank in banks)
        at = f"{folder}/hugepages/hugepages-{size // KIB}kB"
        yield f"{at}/nr_hugepages", pages
        yield f"{at}/free_hugepages", pages
        yield f"{at}/surplus_hugepages", 0


def _block_size(machine: DescribedMachine) -> int:
    """Return the bytes of a block: 128 MiB on most machines, here as few blocks as the zones allow."""
    return max(gcd(*(bank.memory for bank in machine.banks)), 128 * 2**20)


def _blocks(machine: DescribedMachine) -> Iterator[tuple[int, int]]:
    """Yield the number and zone of each block of memory; what fills no block is left out."""
    size = _block_size(machine)
    return enumerate(bank.zone for bank in machine.banks for _ in range(bank.memory // size))


def _memory(banks: Sequence[ZoneMemory], *, before: str = "") -> str:
    total = sum(bank.memory for bank in banks) // KIB
    huge = sum(amount for bank in banks for amount in bank.huge.values()) // KIB
    amounts = {
        "MemTotal": total,
        "MemFree": total - huge,
        "MemAvailable": total - huge,
        "SwapTotal": 0,
        "SwapFree": 0,
        # Where none was requested.
        "Hugepagesize": 2 * KIB,
        "Hugetlb": huge,
    }
    return "\n".join(f"{before}{name}: {kib:>15} kB" for name, kib in amounts.items())


def _map(cpus: CpuSet) -> str:
    """Return a mask in the kernel's format: groups of 32 bits, the highest first."""
    groups = [cpus >> at & 0xFFFFFFFF for at in range(0, max(cpus.bit_length(), 1), 32)]
    return ",".join(f"{group:08x}" for group in reversed(groups))
