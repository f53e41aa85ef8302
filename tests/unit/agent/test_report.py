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
from numalign.model.resources import CPU, Resources
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


def reported(seen: Observation) -> NodeReport:
    return report(seen, SeenDevices())[0]


def attributes(seen: Observation) -> dict[str, str]:
    return {each["name"]: each["value"] for each in reported(seen).attributes}


def configured(**fields: object) -> Observation:
    return replace(observation(), kubelet={**KUBELET, **fields})


def text(found: NodeReport, annotation: str) -> str:
    written = found.annotations[annotation]
    assert written is not None
    return written


WEB = listed("web", container("main", "1-2", blocks=[memory(4, 0)], devices=[gpus("gpu0")]))


def test_a_topology_is_what_other_exporters_write() -> None:
    topology = document("a", reported(observation(pod("1", "web"), listed=[WEB])))

    assert (topology["apiVersion"], topology["metadata"]["name"]) == ("topology.node.k8s.io/v1alpha2", "a")
    assert topology["zones"][0] == {
        "name": "node-0",
        "type": "Node",
        "costs": [{"name": "node-0", "value": 10}, {"name": "node-1", "value": 20}],
        "resources": [
            {"name": "cpu", "capacity": "4", "allocatable": "3", "available": "1"},
            {"name": GPU, "capacity": "2", "allocatable": "2", "available": "1"},
            {"name": "memory", "capacity": "16Gi", "allocatable": "15Gi", "available": "11Gi"},
        ],
    }


def test_attributes_have_the_configuration_and_fingerprint() -> None:
    found = attributes(observation(pod("1", "web"), listed=[WEB]))

    assert found == {
        "topologyManagerPolicy": "single-numa-node",
        "topologyManagerScope": "container",
        "nodeTopologyPodsFingerprint": fingerprints.fingerprint([("team", "web")]),
        "nodeTopologyPodsFingerprintMethod": "all",
    }


def test_options_have_names_in_camel_case() -> None:
    options = {"prefer-closest-numa-nodes": "true", "max-allowable-numa-nodes": "12"}
    found = attributes(configured(topologyManagerPolicyOptions=options))
    assert found["topologyManagerOptionPreferClosestNumaNodes"] == "true"
    assert found["topologyManagerOptionMaxAllowableNumaNodes"] == "12"
    assert found["topologyManagerMaxNUMANodes"] == "12"


def test_a_kernel_that_tells_no_distances_costs_nothing() -> None:
    told = hardware("0-3")
    silent = replace(told, banks=tuple(replace(bank, distances=()) for bank in told.banks))
    seen = Observation(silent, KUBELET, Allocatable(0, (), ()), (), (), None)
    assert "costs" not in reported(seen).zones[0]


def test_placement_has_the_resources_by_uid() -> None:
    idle = listed("idle", container("main"))
    found = reported(observation(pod("1", "web"), pod("2", "idle"), listed=[WEB, idle]))
    read = kubelet_reports.read_placements(text(found, PLACEMENTS))

    assert read["1"].cpus == 0b110
    assert {zones: dict(amounts) for zones, amounts in read["1"].held.items()} == {
        ("node-0",): {"cpu": 2000, "memory": 4 * 2**30, GPU: 1}
    }
    assert (read["2"].held, read["2"].cpus) == ({}, 0)
    assert [(each.uid, each.name) for each in found.pods] == [("1", "web"), ("2", "idle")]


def test_a_pod_that_may_be_another_is_left_out_and_counted() -> None:
    found = reported(observation(pod("1", "web"), pod("2", "web"), listed=[WEB]))
    assert kubelet_reports.read_placements(text(found, PLACEMENTS)) == {}
    assert (found.pods, found.left_out) == ((), 1)


def test_without_a_manager_no_cpu_is_kept() -> None:
    seen = Observation(hardware("0-3"), KUBELET, Allocatable(0, (), ()), (), (), None)
    read = kubelet_reports.read_machine(text(reported(seen), MACHINE), "a")
    assert read.machine.reserved is None


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


def test_new_device_ids_do_not_change_the_machine() -> None:
    known, told = SeenDevices(), set[str]()
    for generation in range(3):
        named = [ListedDevice(GPU, f"{generation}-{zone}", at(zone)) for zone in range(2)]
        found, known = report(with_devices(*named), known)
        told.add(text(found, MACHINE))

    assert len(told) == 1


@pytest.mark.full
def test_devices_of_old_resources_are_forgotten() -> None:
    known = SeenDevices()
    for generation in range(3):
        many = (ListedDevice(f"x/{generation}", str(number), at(0)) for number in range(2**15 + 1))
        _, known = report(with_devices(*many), known)

    assert [resource for resource, _ in known.most] == ["x/2"]
    assert len(known.zones) == 2**15 + 1


def with_pages(seen: Observation, *zones: int) -> Observation:
    pairs = zip(seen.hardware.banks, zones, strict=True)
    banks = tuple(replace(bank, huge=Resources({"hugepages-2Mi": size})) for bank, size in pairs)
    return replace(seen, hardware=replace(seen.hardware, banks=banks))


def pages(seen: Observation) -> list[int]:
    read = kubelet_reports.read_machine(text(reported(seen), MACHINE), "a")
    return [bank.huge["hugepages-2Mi"] for bank in read.machine.banks]


def test_later_hugepages_are_not_counted() -> None:
    seen = observation()
    blocks = (*seen.allocatable.memory, MemoryBlock("hugepages-2Mi", 2 * GIB, zones(1)))
    started_with = replace(seen, allocatable=replace(seen.allocatable, memory=blocks))
    assert pages(with_pages(seen, 4 * GIB, 4 * GIB)) == [0, 0]
    assert pages(with_pages(started_with, 4 * GIB, 4 * GIB)) == [0, 2 * GIB]


@pytest.mark.parametrize("shape", ["no memory manager", "pages that are kept"])
def test_missing_hugepages_are_read_from_the_kernel(shape: str) -> None:
    seen = with_pages(observation(), 4 * GIB, 0)
    kept = [{"numaNode": 0, "limits": {"memory": "1Gi", "hugepages-2Mi": "1Gi"}}]
    shapes = {
        "no memory manager": replace(seen, allocatable=replace(seen.allocatable, memory=())),
        "pages that are kept": replace(seen, kubelet={**KUBELET, "reservedMemory": kept}),
    }

    assert pages(shapes[shape]) == [4 * GIB, 0]


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


@pytest.mark.parametrize(
    ("devices", "places"),
    [
        ([("a", at(0)), ("b", at(0))], (DevicePlace(zones(0), 2, 2),)),
        ([("a", at(0, 1)), ("b", at(1))], (DevicePlace(zones(1), 1, 1), DevicePlace(zones(0, 1), 1, 1))),
        ([("a", at())], (DevicePlace((), 1, 1),)),
    ],
    ids=["alike", "between zones", "nobody knows where"],
)
def test_devices_stand_where_they_sit(devices: list[Any], places: tuple[DevicePlace, ...]) -> None:
    found = reported(with_devices(*(ListedDevice(GPU, name, where) for name, where in devices)))
    read = kubelet_reports.read_machine(text(found, MACHINE), "a")
    assert [place for place in dict(read.machine.devices)[GPU] if place.total] == [*places]
