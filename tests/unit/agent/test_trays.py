"""Machines of up to 64 zones, two of them with CPUs and devices: what an agent sees is what programs know."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent.amounts import SeenDevices
from agent.hardware import hardware
from agent.observation import Allocatable, ListedDevice, Observation
from agent.report import document, report
from numalign.kube.files import snapshot
from tests.unit.agent import observations
from tests.unit.agent.fabricated import write
from tests.unit.agent.observations import at
from tests.worlds.notation import GPU, bag

SETTINGS = {
    "version": "v1.36.3", "cpuManagerPolicy": "static", "topologyManagerPolicy": "restricted",
    "topologyManagerPolicyOptions": {"max-allowable-numa-nodes": "64"},
}  # fmt: skip


@pytest.mark.parametrize("zones", [34, 64])
def test_zones_without_cpus_and_devices_are_separate(tmp_path: Path, zones: int) -> None:
    made = observations.hardware("0-71", "72-143", *[""] * (zones - 2))
    bare = tuple(bank if bank.zone < 2 else replace(bank, memory=0) for bank in made.banks)
    seen = hardware(write(replace(made, banks=bare), tmp_path).sysfs)
    gpus = tuple(ListedDevice(GPU, f"gpu{number}", at(number // 2)) for number in range(4))
    cpus = sum(core.threads for core in seen.cores) & ~0b1
    observed = Observation(seen, SETTINGS, Allocatable(cpus, (), gpus), (), (), None)
    topology = document("tray", report(observed, SeenDevices())[0])
    read = snapshot.of([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "tray"}}, topology])
    assert read.problems == ()
    [node] = read.nodes
    assert (node.ids, len(node.others)) == ((0, 1), zones - 2)
    assert [zone.allocatable for zone in node.zones] == [bag("cpu=71 gpu=2"), bag("cpu=72 gpu=2")]
