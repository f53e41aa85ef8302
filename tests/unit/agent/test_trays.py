"""Machines of up to 64 zones, two of them with CPUs and devices: what an agent sees is what programs know."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent.amounts import SeenDevices
from agent.hardware import hardware
from agent.observation import Allocatable, Hardware, ListedDevice, Observation
from agent.report import document, report
from numalign.decision.evaluate import evaluate
from numalign.kube.files import snapshot
from numalign.model.intent import Intent, Policy
from numalign.model.node import Node
from tests.unit.agent import observations
from tests.unit.agent.fabricated import write
from tests.unit.agent.observations import at
from tests.worlds.notation import GPU, asks, bag, table

SETTINGS = {
    "version": "v1.36.3",
    "cpuManagerPolicy": "static",
    "topologyManagerPolicy": "restricted",
    "topologyManagerPolicyOptions": {"max-allowable-numa-nodes": "64"},
}


def tray(zones: int) -> Hardware:
    made = observations.hardware("0-71", "72-143", *[""] * (zones - 2))
    bare = tuple(bank if bank.zone < 2 else replace(bank, memory=0) for bank in made.banks)
    return replace(made, banks=bare)


def known(folder: Path, zones: int) -> Node:
    seen = hardware(write(tray(zones), folder).sysfs)
    gpus = tuple(ListedDevice(GPU, f"gpu{number}", at(number // 2)) for number in range(4))
    cpus = sum(core.threads for core in seen.cores) & ~0b1
    observed = Observation(seen, SETTINGS, Allocatable(cpus, (), gpus), (), (), None)
    topology = document("tray", report(observed, SeenDevices())[0])
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "tray"}}
    read = snapshot.of([node, topology])
    assert read.problems == ()
    return read.nodes[0]


@pytest.mark.parametrize("zones", [34, 64])
def test_zones_without_cpus_and_devices_are_separate(tmp_path: Path, zones: int) -> None:
    node = known(tmp_path, zones)
    assert (node.ids, len(node.others)) == ((0, 1), zones - 2)
    assert [zone.allocatable for zone in node.zones] == [bag("cpu=71 gpu=2"), bag("cpu=72 gpu=2")]


REQUESTS = [
    ("as much as a zone has", "cpu=32 mem=200Gi gpu=2", (0,)),
    ("more than a zone has",  "cpu=32 mem=200Gi gpu=3", None),
    ("the whole tray",        "cpu=140 mem=900Gi gpu=4", (0, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("requested", "zones"), table(REQUESTS))
def test_a_pod_gets(tmp_path: Path, requested: str, zones: tuple[int, ...] | None) -> None:
    verdict = evaluate(known(tmp_path, 34), asks(requested), Intent(Policy.RESTRICTED))
    assert (verdict.placement.zones or None) == (zones and frozenset(zones))
