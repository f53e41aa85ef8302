"""A made-up machine, written as the kernel writes one under /sys/devices/system."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agent.observation import Hardware
from numalign.model.bitset import members, union
from numalign.model.machine import CpuSet, render_list
from numalign.model.quantity import units

LEVELS = {1: "Data", 2: "Unified", 3: "Unified"}


@dataclass(frozen=True)
class Folder:
    sysfs: Path

    @property
    def system(self) -> Path:
        return self.sysfs / "devices/system"

    def write(self, path: str, text: object) -> None:
        file = self.system / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")


def mask(cpus: CpuSet) -> str:
    """As the kernel prints it: words of 32 bits in hexadecimal, the highest first."""
    words = max(-(-cpus.bit_length() // 32), 1)
    return ",".join(f"{cpus >> 32 * word & (1 << 32) - 1:08x}" for word in reversed(range(words)))


def write(machine: Hardware, sysfs: Path, *, offline: Iterable[int] = ()) -> Folder:
    folder = Folder(sysfs)
    folder.write("cpu/online", render_list(union(core.threads for core in machine.cores)))
    for bank in machine.banks:
        zone = f"node/node{bank.zone}"
        folder.write(
            f"{zone}/meminfo",
            f"Node {bank.zone} MemTotal:       {bank.memory // 1024} kB\nNode 0 MemFree: 1 kB",
        )
        folder.write(
            f"{zone}/cpulist", render_list(union(c.threads for c in machine.cores if c.zone == bank.zone))
        )
        if bank.distances:
            folder.write(f"{zone}/distance", " ".join(map(str, bank.distances)))
        for name, amount in bank.huge.items():
            page = units(name.removeprefix("hugepages-"))
            folder.write(f"{zone}/hugepages/hugepages-{page // 1024}kB/nr_hugepages", amount // page)
    for at, core in enumerate(machine.cores):
        for cpu in members(core.threads):
            (folder.system / f"node/node{core.zone}/cpu{cpu}").mkdir()
            folder.write(f"cpu/cpu{cpu}/topology/core_id", at)
            folder.write(f"cpu/cpu{cpu}/topology/physical_package_id", core.socket)
            for level, kind in LEVELS.items():
                shared = union(c.threads for c in machine.cores if c.cache == core.cache)
                cache = f"cpu/cpu{cpu}/cache/index{level}"
                folder.write(f"{cache}/level", level)
                folder.write(f"{cache}/type", kind)
                folder.write(f"{cache}/id", core.cache if level > 2 else at)
                folder.write(f"{cache}/shared_cpu_map", mask(shared if level > 2 else core.threads))
    for cpu in offline:
        (folder.system / f"node/node{machine.banks[0].zone}/cpu{cpu}").mkdir()
    return folder
