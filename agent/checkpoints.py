"""
Read the checkpoints of the kubelet's managers, as far as podresources does not report the same.

They are not a public interface, so nothing in them is guessed: a checkpoint with an unknown field is of an
unknown version, and is not read at all. Known are

* the CPU manager's with the CPUs of containers (versions 2, of Kubernetes 1.16, to 4, of 1.37;
  cm/cpumanager/state/checkpoint.go),
* the device manager's with devices by zone (from 1.20; cm/devicemanager/checkpoint/checkpoint.go),
* the memory manager's (cm/memorymanager/state/checkpoint.go), for pods with pod-level resources (from 1.36):
  podresources lists their memory once for each container that shares it.

The kubelet replaces each file atomically, so none is ever half written. Their checksums depend on how Go
prints values, and are not checked.
"""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import orjson

from agent.devices import held, sites
from agent.observation import Checkpoints, HeldDevices, MemoryBlock
from numalign.kube.decode.parts import Part
from numalign.model.errors import BadInput, Mistake
from numalign.model.machine import CpuSet
from numalign.model.resources import ZoneId
from numalign.runtime.nesting import why_not_json

CPUS = "cpu_manager_state"
MEMORY = "memory_manager_state"
DEVICES = "device-plugins/kubelet_internal_checkpoint"

LONGEST = 2**24
"""Bytes; a device has a few hundred, with all that its plugin wants to set in a container."""

# `baselines`, from 1.37 behind a gate, are the CPUs that a resize must leave a container.
_STATE_FIELDS = ("policyName", "defaultCpuSet", "entries", "podEntries", "baselines")
_MEMORY_FIELDS = ("policyName", "machineState", "entries", "podEntries")
_SIGNATURE = ("checksum", "data", "dataChecksum")
_ENTRY_FIELDS = ("PodUID", "ContainerName", "ResourceName", "DeviceIDs", "AllocResp")
# Devices without a zone (nodeWithoutTopology of cm/devicemanager/manager.go).
_NOWHERE = "-1"


class BadCheckpoint(BadInput):
    """Raised when a checkpoint cannot be read, or is of an unknown version."""


def checkpoints(folder: Path) -> Checkpoints:
    """
    Return the checkpoints in a kubelet's directory (`/var/lib/kubelet`).

    A kubelet that never had a device plugin has no checkpoint of devices, and an old one may have none of
    memory. Raise `BadCheckpoint`.
    """
    state, listed, memory = (_parsed(folder / name) for name in (CPUS, DEVICES, MEMORY))
    if state is None:
        raise BadCheckpoint([Mistake(str(folder / CPUS), "is missing")])
    containers, pods = _cpus(folder / CPUS, state)
    return Checkpoints(
        containers,
        {} if listed is None else _devices(folder / DEVICES, listed),
        pods,
        {} if memory is None else _memory(folder / MEMORY, memory),
    )


def _parsed(path: Path) -> object | None:
    """Return the content of a file; None if it does not exist."""
    try:
        with open(path, "rb", opener=_plainly) as file:
            content = file.read(LONGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadCheckpoint([Mistake(str(path), f"cannot be read: {error.strerror}")]) from error
    if len(content) > LONGEST:
        raise BadCheckpoint([Mistake(str(path), f"is longer than {LONGEST} bytes")])
    return _json(path, content)


def _plainly(path: str, flags: int) -> int:
    """Open a file that is not a link, without waiting for a writer."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _json(path: Path, content: bytes | str) -> object:
    try:
        parsed: object = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise BadCheckpoint([Mistake(str(path), why_not_json(content, error))]) from error
    return {} if parsed is None else parsed


def _data(path: Path, signed: Part, fields: tuple[str, ...]) -> Part:
    """Return the valid part of a checkpoint: from version 4 on `data`; the rest is for older kubelets."""
    signed.only((*fields, *_SIGNATURE))
    serialized = signed["data"].text()
    if not serialized:
        signed["policyName"].required_text()
        return signed
    data = Part(_json(path, serialized), "data", signed)
    data.only(fields)
    data["policyName"].required_text()
    return data


def _cpus(path: Path, state: object) -> tuple[Mapping[str, Mapping[str, CpuSet]], Mapping[str, CpuSet]]:
    """Return the CPUs of containers, by pod UID and container name, and the pod-level CPUs, by pod UID."""
    signed = Part(state)
    data = _data(path, signed, _STATE_FIELDS)
    containers = {
        uid: {name: cpus.cpu_list() or 0 for name, cpus in pod.members()}
        for uid, pod in data["entries"].members()
    }
    pods = {uid: pod["cpuSet"].cpu_list() or 0 for uid, pod in data["podEntries"].members()}
    _raise_mistakes(path, signed)
    return containers, pods


def _memory(path: Path, state: object) -> Mapping[str, tuple[MemoryBlock, ...]]:
    """Return the pod-level memory, by pod UID."""
    signed = Part(state)
    data = _data(path, signed, _MEMORY_FIELDS)
    pods = {
        uid: tuple(_block(block) for block in pod["memoryBlocks"].objects())
        for uid, pod in data["podEntries"].members()
    }
    _raise_mistakes(path, signed)
    return pods


def _block(block: Part) -> MemoryBlock:
    zones = sorted(zone.required().integer() or 0 for zone in block["numaAffinity"].elements())
    size = block["size"].required().integer()
    return MemoryBlock(block["type"].required_text(), size or 0, tuple(map(ZoneId, zones)))


def _devices(path: Path, listed: object) -> Mapping[str, Mapping[str, tuple[HeldDevices, ...]]]:
    """Return the devices of containers, by pod UID and container name."""
    signed = Part(listed)
    signed.only(("Data", "Checksum"))
    data = signed["Data"].required()
    data.only(("PodDeviceEntries", "RegisteredDevices"))
    devices = defaultdict[str, dict[str, dict[tuple[str, str], frozenset[ZoneId]]]](dict)
    for entry in data["PodDeviceEntries"].objects():
        entry.only(_ENTRY_FIELDS)
        uid, container = entry["PodUID"].required_text(), entry["ContainerName"].required_text()
        resource = entry["ResourceName"].required_text()
        by_zone = [*_by_zone(entry["DeviceIDs"])]
        if not entry.mistakes:
            where = sites((resource, ids, zones) for zones, ids in by_zone)
            devices[uid].setdefault(container, {}).update(where)
    _raise_mistakes(path, signed)
    return {uid: {name: held(where) for name, where in pod.items()} for uid, pod in devices.items()}


def _raise_mistakes(path: Path, part: Part) -> None:
    if part.mistakes:
        raise BadCheckpoint(mistake.under(str(path)) for mistake in part.mistakes)


def _by_zone(listed: Part) -> Iterator[tuple[list[int], list[str]]]:
    """Yield zones, and the IDs of devices on them; a device on several zones is listed for each."""
    for zone, ids in listed.members():
        if zone != _NOWHERE and not (zone.isascii() and zone.isdigit()):
            ids.wrong("is not a NUMA node ID")
        else:
            yield [] if zone == _NOWHERE else [int(zone)], [part.required_text() for part in ids.elements()]
