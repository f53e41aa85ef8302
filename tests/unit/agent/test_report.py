"""What is published is read back as what was seen."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from agent.amounts import SeenDevices
from agent.observation import Allocatable, ListedDevice, MemoryBlock, Observation
from agent.report import NodeReport, document, report
from numalign.kube.decode import fingerprints, kubelet_reports, nrt
from numalign.kube.decode.kubelet_reports import LONGEST_PLACEMENTS, MACHINE, PLACEMENTS
from numalign.model.bitset import union
from numalign.model.intent import Policy
from numalign.model.machine import DevicePlace
from numalign.model.resources import CPU, MEMORY, Resources
from tests.unit.agent.observations import (
    GIB,
    GPU,
    KUBELET,
    NONSENSE,
    at,
    container,
    gpus,
    hardware,
    listed,
    memory,
    observation,
    observations,
    pod,
    zones,
)
from tests.worlds.notation import table


def reported(seen: Observation) -> NodeReport:
    return report(seen, SeenDevices())[0]


def attributes(seen: Observation) -> dict[str, str]:
    return {each["name"]: each["value"] for each in reported(seen).attributes}


def text(found: NodeReport, annotation: str) -> str:
    written = found.annotations[annotation]
    assert written is not None
    return written


WEB = listed("web", container("main", "1-2", blocks=[memory(4, 0)], devices=[gpus("gpu0")]))
SERVED = observation(pod("1", "web"), listed=[WEB])


def test_a_topology_is_what_other_exporters_write() -> None:
    topology = document("a", reported(SERVED))
    assert (topology["apiVersion"], topology["metadata"]["name"]) == ("topology.node.k8s.io/v1alpha2", "a")
    costs = [
        [{"name": f"node-{at}", "value": cost} for at, cost in enumerate(row)] for row in ((10, 20), (20, 10))
    ]
    assert topology["zones"] == [
        {"name": f"node-{zone}", "type": "Node", "costs": costs[zone], "resources": [
            {"name": "cpu", "capacity": "4", "allocatable": "3", "available": cpus},
            {"name": GPU, "capacity": "2", "allocatable": "2", "available": devices},
            {"name": "memory", "capacity": "16Gi", "allocatable": "15Gi", "available": free},
        ]}
        for zone, cpus, devices, free in ((0, "1", "1", "11Gi"), (1, "3", "2", "15Gi"))
    ]  # fmt: skip


def test_attributes_have_the_configuration_and_fingerprint() -> None:
    usual = {
        "topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "container",
        "nodeTopologyPodsFingerprint": fingerprints.fingerprint([("team", "web")]),
        "nodeTopologyPodsFingerprintMethod": "all",
    }  # fmt: skip
    assert attributes(SERVED) == usual
    options = {"prefer-closest-numa-nodes": "true", "max-allowable-numa-nodes": "12"}
    assert attributes(replace(SERVED, kubelet={**KUBELET, "topologyManagerPolicyOptions": options})) == {
        **usual, "topologyManagerOptionPreferClosestNumaNodes": "true",
        "topologyManagerOptionMaxAllowableNumaNodes": "12", "topologyManagerMaxNUMANodes": "12",
    }  # fmt: skip


def test_without_managers_and_distances_a_zone_has_its_name() -> None:
    built = hardware("0-3")
    silent = replace(built, banks=tuple(replace(bank, distances=()) for bank in built.banks))
    found = reported(Observation(silent, KUBELET, Allocatable(0, (), ()), (), (), None))
    assert found.zones == [{"name": "node-0", "type": "Node", "resources": []}]
    assert kubelet_reports.read_machine(text(found, MACHINE), "a").machine.reserved is None


def test_placement_has_the_resources_by_uid() -> None:
    idle = listed("idle", container("main"))
    found = reported(observation(pod("1", "web"), pod("2", "idle"), listed=[WEB, idle]))
    read = kubelet_reports.read_placements(text(found, PLACEMENTS))
    held = {("node-0",): Resources({CPU: 2000, MEMORY: 4 * GIB, GPU: 1})}
    assert {uid: (each.cpus, dict(each.held)) for uid, each in read.items()} == {"1": (6, held), "2": (0, {})}
    assert [(each.uid, each.name) for each in found.pods] == [("1", "web"), ("2", "idle")]


def test_a_pod_that_may_be_another_is_left_out_and_counted() -> None:
    idle = listed("idle", container("main"))
    found = reported(observation(pod("1", "web"), pod("2", "web"), pod("3", "idle"), listed=[WEB, idle]))
    assert kubelet_reports.read_placements(text(found, PLACEMENTS)).keys() == {"3"}
    assert ([each.uid for each in found.pods], found.left_out) == (["3"], 1)


def test_too_long_report_is_not_written_but_logged() -> None:
    many = [pod(f"{number:036}", f"pod-{number}") for number in range(3000)]
    pods = [listed(f"pod-{number}", container("main")) for number in range(3000)]
    found = reported(observation(*many, listed=pods))
    assert found.annotations[PLACEMENTS] is None
    assert PLACEMENTS not in document("a", found)["metadata"]["annotations"]
    [mistake] = found.mistakes
    assert mistake.where == PLACEMENTS
    assert str(LONGEST_PLACEMENTS) in mistake.message
    assert found.annotations[MACHINE]


def with_devices(*devices: ListedDevice) -> Observation:
    seen = observation()
    return replace(seen, allocatable=replace(seen.allocatable, devices=devices))


@pytest.mark.full
def test_devices_of_old_resources_are_forgotten() -> None:
    known = SeenDevices()
    for generation in range(3):
        many = (ListedDevice(f"x/{generation}", str(number), at(0)) for number in range(2**15 + 1))
        _, known = report(with_devices(*many), known)
    assert [resource for resource, _ in known.most] == ["x/2"]
    assert len(known.zones) == 2**15 + 1


def pages(seen: Observation, *sizes: int) -> list[int]:
    """The hugepages that are published of each zone, if the kernel counts so many bytes now."""
    pairs = zip(seen.hardware.banks, sizes, strict=True)
    banks = tuple(replace(bank, huge=Resources({"hugepages-2Mi": size})) for bank, size in pairs)
    found = reported(replace(seen, hardware=replace(seen.hardware, banks=banks)))
    read = kubelet_reports.read_machine(text(found, MACHINE), "a")
    return [bank.huge["hugepages-2Mi"] for bank in read.machine.banks]


def managing(*blocks: MemoryBlock) -> Observation:
    return replace(observation(), allocatable=replace(observation().allocatable, memory=blocks))


KEPT = {"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi", "hugepages-2Mi": "1Gi"}}]}


@pytest.mark.parametrize(("seen", "expected"), table([
    ("none without blocks of them",      observation(), [0, 0]),
    ("those with which it started",
        managing(memory(15, 0), MemoryBlock("hugepages-2Mi", 2 * GIB, zones(1))), [0, 2 * GIB]),
    ("the kernel's without a manager",   managing(), [4 * GIB, 3 * GIB]),
    ("the kernel's if some are kept",    replace(observation(), kubelet={**KUBELET, **KEPT}),
        [4 * GIB, 3 * GIB]),
]))  # fmt: skip
def test_hugepages_are(seen: Observation, expected: list[int]) -> None:
    assert pages(seen, 4 * GIB, 3 * GIB) == expected


@given(observations())
def test_the_machine_is_read_back_as_it_was_seen(seen: Observation) -> None:
    found = reported(seen)
    read = kubelet_reports.read_machine(text(found, MACHINE), "a")
    every = union(core.threads for core in seen.hardware.cores)
    assert (read.machine.zones, read.machine.cpus) == (
        tuple(bank.zone for bank in seen.hardware.banks),
        every,
    )
    assert {core.threads: (core.zone, core.socket) for core in read.machine.cores} == {
        core.threads: (core.zone, core.socket) for core in seen.hardware.cores
    }
    assert (read.machine.reserved or 0) == every & ~seen.allocatable.cpus
    assert read.machine.banks == seen.hardware.banks
    assert read.version == KUBELET["version"]


@given(observations())
def test_the_zones_are_read_back_as_amounts(seen: Observation) -> None:
    read = nrt.topology(document("a", reported(seen)))
    cpus = {bank.zone: 0 for bank in seen.hardware.banks}
    for core in seen.hardware.cores:
        cpus[core.zone] |= core.threads
    assert read.policy is Policy.SINGLE_NUMA_NODE
    assert {zone.id: zone.allocatable[CPU] // 1000 for zone in read.zones} == {
        zone: (there & seen.allocatable.cpus).bit_count() for zone, there in cpus.items()
    }
    assert [dict(zone.costs) for zone in read.zones] == [
        {other: 10 if other == zone.id else 20 for other in cpus} for zone in read.zones
    ]


@given(observations())
def test_placements_are_read_back_pod_by_pod(seen: Observation) -> None:
    found = reported(seen)
    read = kubelet_reports.read_placements(text(found, PLACEMENTS))
    assert set(read) == {each.uid for each in seen.pods}
    assert {each.uid: each.held for each in found.pods} == {uid: each.held for uid, each in read.items()}


@given(NONSENSE)
def test_every_kubelet_answer_is_reported_or_logged(seen: Observation) -> None:
    """An agent that fell over it would fall over it for ever."""
    found = reported(seen)
    assert len(document("a", found)["zones"]) == len(seen.hardware.banks)
    assert (None in found.annotations.values()) == bool(found.mistakes)


@given(observations())
def test_the_same_is_written_in_the_same_words(seen: Observation) -> None:
    turned = replace(seen, listed=seen.listed[::-1], pods=seen.pods[::-1])
    assert reported(seen).annotations == reported(turned).annotations
    assert reported(seen).zones == reported(turned).zones


@pytest.mark.parametrize(("devices", "places"), table([
    ("alike",             [("a", at(0)), ("b", at(0))], (DevicePlace(zones(0), 2, 2),)),
    ("between zones",     [("a", at(0, 1)), ("b", at(1))],
        (DevicePlace(zones(1), 1, 1), DevicePlace(zones(0, 1), 1, 1))),
    ("without a zone",    [("a", at())], (DevicePlace((), 1, 1),)),
    ("on unknown zones",  [("a", at(0, 7)), ("b", at(7))],
        (DevicePlace(zones(0), 1, 1), DevicePlace(zones(-1), 1, 1))),
]))  # fmt: skip
def test_devices_are(devices: list[tuple[str, Any]], places: tuple[DevicePlace, ...]) -> None:
    found = reported(with_devices(*(ListedDevice(GPU, name, where) for name, where in devices)))
    read = kubelet_reports.read_machine(text(found, MACHINE), "a")
    assert {place for place in dict(read.machine.devices)[GPU] if place.total} == {*places}
