"""The files of a machine have its description, as the kubelet reads them."""

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.hardware import hardware
from numalign.kube.decode.machines import DescribedMachine, machine
from numalign.model.machine import CpuSet
from tools.clusters.kubelets import machines

Json = dict[str, Any]

RECORDINGS = Path(__file__).resolve().parents[1] / "data"
KINDS = 2


def recorded() -> Iterator[Json]:
    """Two machines of each kind of the recordings."""
    counts = defaultdict[str, int](int)
    with gzip.open(RECORDINGS / "kubelet-v1.36.3.jsonl.gz", "rt") as lines:
        for line in map(json.loads, lines):
            counts[line["kind"]] += 1
            if counts[line["kind"]] <= KINDS:
                yield line


MACHINES = [pytest.param(line["machine"], id=line["name"]) for line in recorded()]


def cores(described: DescribedMachine) -> list[tuple[int, int, CpuSet]]:
    return sorted((core.zone, core.socket, core.threads) for core in described.cores)


@pytest.mark.parametrize("raw", MACHINES)
def test_recorded_machine_is_read_back_from_its_files(raw: Json, tmp_path: Path) -> None:
    described = machine(raw)
    machines.write(described, tmp_path)

    seen = hardware(tmp_path / "sys")

    assert cores(DescribedMachine(seen.banks, seen.cores)) == cores(described)
    assert [bank.zone for bank in seen.banks] == [*described.zones]
    assert [bank.memory for bank in seen.banks] == [bank.memory for bank in described.banks]
    assert [bank.distances for bank in seen.banks] == [bank.distances for bank in described.banks]
    for wanted, bank in zip(described.banks, seen.banks, strict=True):
        assert {name: amount for name, amount in bank.huge.items() if amount} == {
            name: amount for name, amount in wanted.huge.items() if amount
        }


def zone(**more: object) -> Json:
    return {"id": 0, "socket": 0, "cores": [[0, 2], [1, 3]], "memory": 1 << 30, **more}


def written(folder: Path, *zones: Json, **more: object) -> Path:
    machines.write(machine({"zones": [*zones], **more}), folder)
    return folder


def read(folder: Path, name: str) -> str:
    return (folder / name).read_text(encoding="utf-8").rstrip("\n")


def test_cpuinfo_lists_the_sockets(tmp_path: Path) -> None:
    second = {"id": 1, "socket": 3, "cores": [[4, 5]], "memory": 1 << 30}

    cpuinfo = read(written(tmp_path, zone(), second), "proc/cpuinfo")

    assert cpuinfo.count("processor\t: ") == 6
    assert {line for line in cpuinfo.splitlines() if line.startswith("physical id")} == {
        "physical id\t: 0",
        "physical id\t: 3",
    }


def test_meminfo_lists_the_machine_and_each_zone(tmp_path: Path) -> None:
    empty = {"id": 4, "memory": 2 << 30}

    folder = written(tmp_path, zone(hugepages={"2Mi": 8}), empty)

    assert read(folder, "proc/meminfo").split("\n")[0].split() == ["MemTotal:", str(3 << 20), "kB"]
    assert read(folder, "sys/devices/system/node/node4/meminfo").split()[:4] == [
        *("Node", "4", "MemTotal:", str(2 << 20))
    ]
    assert read(folder, "sys/devices/system/node/has_cpu") == "0"
    assert read(folder, "sys/devices/system/node/online") == "0,4"
    assert read(folder, "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages") == "8"
    assert read(folder, "sys/devices/system/node/node4/hugepages/hugepages-2048kB/nr_hugepages") == "0"


def amounts(text: str) -> dict[str, int]:
    """The bytes in a meminfo, by the last word of each name."""
    rows = (line.split(":") for line in text.splitlines())
    return {name.split()[-1]: int(amount.removesuffix(" kB")) << 10 for name, amount in rows}


def as_ghw_does(root: Path) -> dict[int, tuple[list[int], set[str], list[int], int, int, list[str]]]:
    """Threads, caches, distances, memory, blocks of memory and sizes of pages of each zone (pkg/topology)."""
    block = int(read(root, "sys/devices/system/memory/block_size_bytes"), 16)
    seen = {}
    for folder in (root / "sys/devices/system/node").glob("node*"):
        threads = {int(cpu.name[3:]): cpu for cpu in folder.glob("cpu[0-9]*")}
        assert all(read(cpu, "topology/core_id").isdecimal() for cpu in threads.values())
        online = [each for each in folder.glob("memory[0-9]*") if read(each, "state") == "online"]
        seen[int(folder.name[4:])] = (
            sorted(threads),
            {read(cpu, "cache/index3/id") for cpu in threads.values()},
            [int(each) for each in read(folder, "distance").split()],
            amounts(read(folder, "meminfo"))["MemTotal"],
            len(online) * block,
            sorted(each.name for each in (folder / "hugepages").iterdir()),
        )
    return seen


def test_exporters_based_on_ghw_see_the_machine(tmp_path: Path) -> None:
    second = {"id": 4, "memory": 3 << 30, "distances": [21, 10]}
    folder = written(tmp_path, zone(distances=[10, 21], hugepages={"2Mi": 8}), second)

    assert as_ghw_does(folder) == {
        0: ([0, 1, 2, 3], {"0"}, [10, 21], 1 << 30, 1 << 30, ["hugepages-2048kB"]),
        4: ([], set(), [21, 10], 3 << 30, 3 << 30, ["hugepages-2048kB"]),
    }
    whole = amounts(read(folder, "proc/meminfo"))
    assert (whole["Hugepagesize"], whole["Hugetlb"]) == (2 << 20, 16 << 20)


def test_bus_lists_the_memory_of_each_zone(tmp_path: Path) -> None:
    folder = written(tmp_path, zone(), {"id": 4, "memory": 3 << 30}) / "sys/bus/node/devices"

    memory = {each.name: amounts(read(each, "meminfo"))["MemTotal"] for each in folder.iterdir()}
    assert memory == {"node0": 1 << 30, "node4": 3 << 30}


def test_memory_blocks_are_no_smaller_than_in_linux(tmp_path: Path) -> None:
    folder = written(tmp_path, zone(memory=(1 << 30) + 4096), {"id": 1, "memory": 1 << 30})

    assert read(folder, "sys/devices/system/memory/block_size_bytes") == f"{machines.SMALLEST_BLOCK:x}"


def test_caches_are_shared_as_described(tmp_path: Path) -> None:
    folder = written(tmp_path, zone(cores=[[0], [1], [40]], uncoreCaches=[[0, 1], [40]]))

    shared = {cpu: read(folder, f"{CPU}{cpu}/cache/index3/shared_cpu_list") for cpu in (0, 1, 40)}

    assert shared == {0: "0-1", 1: "0-1", 40: "40"}
    assert read(folder, f"{CPU}40/cache/index3/shared_cpu_map") == "00000100,00000000"


CPU = "sys/devices/system/cpu/cpu"


def test_reserved_resources_become_configuration() -> None:
    described = machine(
        {"zones": [zone(reservedMemory=1 << 20), {"id": 1, "memory": 1 << 30}], "reservedSystemCPUs": "0,2"}
    )

    assert machines.reservations(described) == {
        "systemReserved": {"memory": "1048576"},
        "evictionHard": {"memory.available": "0%"},
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1048576"}}],
        "reservedSystemCPUs": "0,2",
    }
    chosen = machines.reservations(machine({"zones": [zone()], "reservedCPUs": 2}))
    assert (chosen["systemReserved"], "reservedSystemCPUs" in chosen) == ({"cpu": "2"}, False)


def test_all_mounted_folders_exist(tmp_path: Path) -> None:
    folder = written(tmp_path, zone())

    assert all((folder / name).exists() for name in machines.MOUNTED)
    assert (folder / "sys/devices/system/node/node0/hugepages").is_dir()
