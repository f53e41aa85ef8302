"""The checkpoints of the kubelet's managers."""

import json
from errno import EISDIR, ELOOP
from os import strerror
from pathlib import Path
from typing import Any

import pytest

from agent.checkpoints import BadCheckpoint, checkpoints
from agent.observation import Checkpoints, HeldDevices, MemoryBlock
from numalign.model.resources import ZoneId

GPU = "example.com/gpu"
STATE: dict[str, Any] = {
    "policyName": "static",
    "defaultCpuSet": "0,4-7",
    "entries": {"uid-1": {"init": "1-2", "app": "1-3"}},
    "checksum": 1353318690,
}
POD_ENTRIES = {"uid-2": {"cpuSet": "5-6"}}
CONTAINERS = {"uid-1": {"init": 0b110, "app": 0b1110}}


def held(*ids: str, zones: tuple[int, ...] = ()) -> HeldDevices:
    return HeldDevices(GPU, ids, frozenset(map(ZoneId, zones)))


def entry(**fields: object) -> dict[str, object]:
    told = {
        "PodUID": "uid-1",
        "ContainerName": "app",
        "ResourceName": GPU,
        "AllocResp": "CgwKA2dwdRIFZ3B1LTA=",
    }
    return {**told, "DeviceIDs": {"0": ["gpu-0"]}, **fields}


def devices(*entries: object) -> dict[str, Any]:
    return {"Data": {"PodDeviceEntries": [*entries], "RegisteredDevices": {GPU: ["gpu-0"]}}, "Checksum": 1}


MEMORY: dict[str, Any] = {
    "policyName": "Static",
    "machineState": {"0": {"numberOfAssignments": 1, "memoryMap": {}, "cells": [0]}},
    "entries": {"uid-2": {"app": [{"numaAffinity": [0], "type": "memory", "size": 3}]}},
    "podEntries": {"uid-2": {"memoryBlocks": [{"numaAffinity": [1, 0], "type": "memory", "size": 4}]}},
    "checksum": 4086136230,
}


def read(folder: Path, state: object = STATE, given: object = None, memory: object = None) -> Checkpoints:
    if memory is not None:
        text = memory if isinstance(memory, str) else json.dumps(memory)
        (folder / "memory_manager_state").write_text(text)
    (folder / "cpu_manager_state").write_text(state if isinstance(state, str) else json.dumps(state))
    (folder / "device-plugins").mkdir(exist_ok=True)
    if given is not None:
        text = given if isinstance(given, str) else json.dumps(given)
        (folder / "device-plugins/kubelet_internal_checkpoint").write_text(text)
    return checkpoints(folder)


def test_cpu_checkpoint_lists_pods_and_containers(tmp_path: Path) -> None:
    assert read(tmp_path) == Checkpoints(CONTAINERS, {})


def test_manager_without_policy_lists_no_pod(tmp_path: Path) -> None:
    assert read(tmp_path, {"policyName": "none", "defaultCpuSet": "", "checksum": 1}) == Checkpoints({}, {})


def test_a_pod_served_as_a_whole_has_cpus_of_its_own(tmp_path: Path) -> None:
    assert read(tmp_path, STATE | {"podEntries": POD_ENTRIES}).pod_cpus == {"uid-2": 0b1100000}


def test_signed_checkpoint_data_come_first(tmp_path: Path) -> None:
    data = {
        "policyName": "static",
        "defaultCpuSet": "0",
        "entries": STATE["entries"],
        "podEntries": POD_ENTRIES,
        "baselines": {"uid-1": {"app": {"baseline": "7"}}},
    }
    older = {"policyName": "static", "defaultCpuSet": "0", "entries": {"uid-9": {"app": "7"}}, "checksum": 0}
    state = {**older, "data": json.dumps(data), "dataChecksum": 1}

    assert read(tmp_path, state) == Checkpoints(CONTAINERS, {}, {"uid-2": 0b1100000})


def test_memory_checkpoint_lists_pod_level_blocks(tmp_path: Path) -> None:
    block = MemoryBlock("memory", 4, (ZoneId(0), ZoneId(1)))
    signed = json.dumps({name: MEMORY[name] for name in MEMORY if name != "checksum"})

    assert read(tmp_path, memory=MEMORY).pod_memory == {"uid-2": (block,)}
    assert read(tmp_path, memory={**MEMORY, "podEntries": None}).pod_memory == {}
    later = {**MEMORY, "podEntries": None, "checksum": 0, "data": signed, "dataChecksum": 7}
    assert read(tmp_path, memory=later).pod_memory == {"uid-2": (block,)}


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        ("", "memory_manager_state: is not JSON"),
        ({**MEMORY, "version": 5}, "version: is not a known field"),
        ({**MEMORY, "podEntries": {"uid": []}}, "podEntries.uid: must be an object"),
        ({**MEMORY, "podEntries": {"uid": {"memoryBlocks": [{"size": 1}]}}}, "type: is missing"),
        ({**MEMORY, "podEntries": {"uid": {"memoryBlocks": [{"type": "memory"}]}}}, "size: is missing"),
    ],
    ids=map(str, range(5)),
)
def test_memory_checkpoint_of_another_version_is_rejected(tmp_path: Path, memory: object, said: str) -> None:
    with pytest.raises(BadCheckpoint, match=said):
        read(tmp_path, memory=memory)


def test_device_checkpoint_lists_pods_and_containers(tmp_path: Path) -> None:
    given = devices(entry(DeviceIDs={"1": ["gpu-3", "gpu-2"], "0": ["gpu-0"]}), entry(ContainerName="init"))

    assert read(tmp_path, given=given).devices == {
        "uid-1": {
            "app": (held("gpu-0", zones=(0,)), held("gpu-2", "gpu-3", zones=(1,))),
            "init": (held("gpu-0", zones=(0,)),),
        }
    }


def test_a_device_on_two_zones_is_one_device(tmp_path: Path) -> None:
    given = devices(entry(DeviceIDs={"0": ["gpu-0"], "1": ["gpu-0"]}))
    assert read(tmp_path, given=given).devices["uid-1"]["app"] == (held("gpu-0", zones=(0, 1)),)


def test_a_device_may_sit_nowhere_in_particular(tmp_path: Path) -> None:
    given = devices(entry(DeviceIDs={"-1": ["gpu-0"]}))
    assert read(tmp_path, given=given).devices["uid-1"]["app"] == (held("gpu-0"),)


@pytest.mark.parametrize(
    "given",
    [
        {"Data": {"PodDeviceEntries": None, "RegisteredDevices": {}}, "Checksum": 1},
        devices(entry(DeviceIDs=None)),
    ],
)
def test_device_checkpoint_without_holders(tmp_path: Path, given: object) -> None:
    assert not any(held for pod in read(tmp_path, given=given).devices.values() for held in pod.values())


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("", "cpu_manager_state: is not JSON"),
        ("null", r"policyName: is missing"),
        ("[]", "must be an object"),
        ({**STATE, "version": 5}, "version: is not a known field"),
        ({"policyName": "static", "entries": {"container": "1-3"}}, "entries.container: must be an object"),
        ({**STATE, "entries": {"uid": {"app": "3-1"}}}, 'entries.uid.app: "3-1" is not a CPU ID'),
        ({**STATE, "entries": {"uid": {"app": 3}}}, "entries.uid.app: must be a string"),
        ({**STATE, "podEntries": {"uid": "1"}}, "podEntries.uid: must be an object"),
        ({**STATE, "data": "{"}, "cpu_manager_state: is not JSON"),
        ({**STATE, "data": '{"policyName": "static", "more": 1}'}, "data.more: is not a known field"),
        ("[" * 100_000, "cpu_manager_state: is nested deeper than"),
    ],
    ids=map(str, range(11)),
)
def test_a_checkpoint_of_another_version_is_not_read(tmp_path: Path, state: object, said: str) -> None:
    with pytest.raises(BadCheckpoint, match=said):
        read(tmp_path, state)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{", "kubelet_internal_checkpoint: is not JSON"),
        ({"Checksum": 1}, "Data: is missing"),
        ({**devices(), "Version": 3}, "Version: is not a known field"),
        (devices(entry(DeviceIDs=["gpu-0"])), r"PodDeviceEntries\[0\].DeviceIDs: must be an object"),
        (devices(entry(DeviceIDs={"x": ["gpu-0"]})), "DeviceIDs.x: is not a NUMA node ID"),
        (devices(entry(DeviceIDs={"0": [7]})), r"DeviceIDs.0\[0\]: must be a string"),
        (devices(entry(PodUID="")), "PodUID: is empty"),
        (devices(entry(ResourceName=None)), "ResourceName: is missing"),
        (devices(entry(Claims=[])), "Claims: is not a known field"),
        (devices("entry"), "must be an object"),
    ],
    ids=map(str, range(10)),
)
def test_device_checkpoint_of_another_version_is_rejected(tmp_path: Path, given: object, said: str) -> None:
    with pytest.raises(BadCheckpoint, match=said):
        read(tmp_path, given=given)


def test_missing_checkpoint_raises(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match=f"{tmp_path}/cpu_manager_state: is missing"):
        checkpoints(tmp_path)


def test_checkpoint_that_is_no_file_raises(tmp_path: Path) -> None:
    (tmp_path / "cpu_manager_state").mkdir()
    with pytest.raises(BadCheckpoint, match=f"cannot be read: {strerror(EISDIR)}"):
        checkpoints(tmp_path)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(json.dumps(STATE))
    (tmp_path / "cpu_manager_state").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadCheckpoint, match=f"cannot be read: {strerror(ELOOP)}"):
        checkpoints(tmp_path)


def test_a_checkpoint_without_end_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match="is longer than 16777216 bytes"):
        read(tmp_path, " " * (2**24 + 1))
