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


@pytest.mark.parametrize("raw", MACHINES)
def test_exporters_find_the_memory_of_each_zone(raw: Json, tmp_path: Path) -> None:
    described = machine(raw)
    machines.write(described, tmp_path)
    size = int((tmp_path / "sys/devices/system/memory/block_size_bytes").read_text(), 16)

    for bank in described.banks:
        # Node Feature Discovery takes this way to a zone, and ghw counts its blocks.
        zone = tmp_path / f"sys/bus/node/devices/node{bank.zone}"
        blocks = [*zone.glob("memory[0-9]*")]
        assert len(blocks) == bank.memory // size
        assert {(block / "state").read_text().strip() for block in blocks} <= {"online"}
        assert f"Node {bank.zone} MemTotal" in (zone / "meminfo").read_text()
