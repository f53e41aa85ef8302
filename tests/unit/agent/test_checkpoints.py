"""The checkpoints of the kubelet's managers."""

import json
from errno import EISDIR, ELOOP
from os import strerror
from pathlib import Path
from typing import Any

import pytest

from agent.checkpoints import CPUS, DEVICES, BadCheckpoint, checkpoints
from agent.checkpoints import MEMORY as MEMORIES
from agent.observation import Checkpoints, HeldDevices, MemoryBlock
from numalign.model.resources import ZoneId
from tests.worlds.notation import table

GPU = "example.com/gpu"
STATE: dict[str, Any] = {
    "policyName": "static", "defaultCpuSet": "0,4-7", "checksum": 1353318690,
    "entries": {"uid-1": {"init": "1-2", "app": "1-3"}},
}  # fmt: skip
POD_ENTRIES = {"uid-2": {"cpuSet": "5-6"}}
CONTAINERS = {"uid-1": {"init": 0b110, "app": 0b1110}}


def held(*ids: str, zones: tuple[int, ...] = ()) -> HeldDevices:
    return HeldDevices(GPU, ids, frozenset(map(ZoneId, zones)))


def entry(**fields: object) -> dict[str, object]:
    document = {
        "PodUID": "uid-1", "ContainerName": "app", "ResourceName": GPU, "AllocResp": "CgwKA2dwdRIFZ3B1LTA="
    }  # fmt: skip
    return {**document, "DeviceIDs": {"0": ["gpu-0"]}, **fields}


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
    """What is read where these stand in a kubelet's folder; None is no checkpoint."""
    (folder / "device-plugins").mkdir(exist_ok=True)
    files = [CPUS, MEMORIES, DEVICES]
    for name, content in zip(files, (state, memory, given), strict=True):
        if content is not None:
            (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return checkpoints(folder)


def test_cpu_checkpoint_lists_pods_and_containers(tmp_path: Path) -> None:
    assert read(tmp_path) == Checkpoints(CONTAINERS, {})
    assert read(tmp_path, {"policyName": "none", "defaultCpuSet": "", "checksum": 1}) == Checkpoints({}, {})
    # A pod served as a whole has CPUs of its own.
    assert read(tmp_path, STATE | {"podEntries": POD_ENTRIES}).pod_cpus == {"uid-2": 0b1100000}


def test_signed_checkpoint_data_come_first(tmp_path: Path) -> None:
    common = {"policyName": "static", "defaultCpuSet": "0"}
    baselines = {"uid-1": {"app": {"baseline": "7"}}}
    data = {**common, "entries": STATE["entries"], "podEntries": POD_ENTRIES, "baselines": baselines}
    older = {**common, "entries": {"uid-9": {"app": "7"}}, "checksum": 0}
    state = {**older, "data": json.dumps(data), "dataChecksum": 1}
    assert read(tmp_path, state) == Checkpoints(CONTAINERS, {}, {"uid-2": 0b1100000})


def test_memory_checkpoint_lists_pod_level_blocks(tmp_path: Path) -> None:
    block = MemoryBlock("memory", 4, (ZoneId(0), ZoneId(1)))
    signed = json.dumps({name: MEMORY[name] for name in MEMORY if name != "checksum"})
    assert read(tmp_path, memory=MEMORY).pod_memory == {"uid-2": (block,)}
    assert read(tmp_path, memory={**MEMORY, "podEntries": None}).pod_memory == {}
    later = {**MEMORY, "podEntries": None, "checksum": 0, "data": signed, "dataChecksum": 7}
    assert read(tmp_path, memory=later).pod_memory == {"uid-2": (block,)}


def test_device_checkpoint_lists_pods_and_containers(tmp_path: Path) -> None:
    given = devices(entry(DeviceIDs={"1": ["gpu-3", "gpu-2"], "0": ["gpu-0"]}), entry(ContainerName="init"))
    first, others = held("gpu-0", zones=(0,)), held("gpu-2", "gpu-3", zones=(1,))
    assert read(tmp_path, given=given).devices == {"uid-1": {"app": (first, others), "init": (first,)}}


NO_HOLDERS = {"Data": {"PodDeviceEntries": None, "RegisteredDevices": {}}, "Checksum": 1}


@pytest.mark.parametrize(("given", "expected"), table([
    ("one on two zones", devices(entry(DeviceIDs={"0": ["gpu-0"], "1": ["gpu-0"]})),
        [held("gpu-0", zones=(0, 1))]),
    ("one without a zone",   devices(entry(DeviceIDs={"-1": ["gpu-0"]})), [held("gpu-0")]),
    ("none of a container",  devices(entry(DeviceIDs=None)),              []),
    ("none of any pod",      NO_HOLDERS,                                  []),
]))  # fmt: skip
def test_device_checkpoint_has(tmp_path: Path, given: object, expected: list[HeldDevices]) -> None:
    assert [*read(tmp_path, given=given).devices.get("uid-1", {}).get("app", ())] == expected


INVALID: list[tuple[str, object, str]] = [
    # the checkpoint, its content, what is said of it
    ("state", "", "cpu_manager_state: is not JSON"),
    ("state", "null", r"policyName: is missing"),
    ("state", {**STATE, "version": 5}, "version: is not a known field"),
    ("state", {"policyName": "static", "entries": {"x": "1-3"}}, "entries.x: must be an object"),
    ("state", {**STATE, "entries": {"uid": {"app": "3-1"}}}, 'entries.uid.app: "3-1" is not a CPU ID'),
    ("state", {**STATE, "data": "{"}, "cpu_manager_state: is not JSON"),
    ("state", {**STATE, "data": '{"policyName": "static", "more": 1}'}, "data.more: is not a known field"),
    ("state", "[" * 100_000, "cpu_manager_state: is nested deeper than"),
    ("state", " " * (2**24 + 1), "is longer than 16777216 bytes"),
    ("memory", {**MEMORY, "version": 5}, "version: is not a known field"),
    ("memory", {**MEMORY, "podEntries": {"uid": []}}, "podEntries.uid: must be an object"),
    ("memory", {**MEMORY, "podEntries": {"uid": {"memoryBlocks": [{"size": 1}]}}}, "type: is missing"),
    ("memory", {**MEMORY, "podEntries": {"uid": {"memoryBlocks": [{"type": "memory"}]}}}, "size: is missing"),
    ("given", {"Checksum": 1}, "Data: is missing"),
    ("given", {**devices(), "Version": 3}, "Version: is not a known field"),
    ("given", devices(entry(DeviceIDs=["gpu-0"])), r"PodDeviceEntries\[0\].DeviceIDs: must be an object"),
    ("given", devices(entry(DeviceIDs={"x": ["gpu-0"]})), "DeviceIDs.x: is not a NUMA node ID"),
    ("given", devices(entry(DeviceIDs={"0": [7]})), r"DeviceIDs.0\[0\]: must be a string"),
    ("given", devices(entry(PodUID="")), "PodUID: is empty"),
    ("given", devices(entry(ResourceName=None)), "ResourceName: is missing"),
    ("given", devices(entry(Claims=[])), "Claims: is not a known field"),
]


@pytest.mark.parametrize(("of", "content", "why"), INVALID, ids=map(str, range(len(INVALID))))
def test_checkpoint_of_another_form_is_rejected(tmp_path: Path, of: str, content: object, why: str) -> None:
    with pytest.raises(BadCheckpoint, match=why):
        read(tmp_path, **{of: content})


def test_unreadable_checkpoint_raises(tmp_path: Path) -> None:
    state, elsewhere = tmp_path / "cpu_manager_state", tmp_path / "elsewhere"
    with pytest.raises(BadCheckpoint, match=f"{state}: is missing"):
        checkpoints(tmp_path)
    state.mkdir()
    with pytest.raises(BadCheckpoint, match=f"cannot be read: {strerror(EISDIR)}"):
        checkpoints(tmp_path)
    # No link is followed.
    state.rmdir()
    elsewhere.write_text(json.dumps(STATE))
    state.symlink_to(elsewhere)
    with pytest.raises(BadCheckpoint, match=f"cannot be read: {strerror(ELOOP)}"):
        checkpoints(tmp_path)
