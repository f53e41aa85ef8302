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
from collections.abc import Mapping
from pathlib import Path

import orjson

from agent.observation import Checkpoints, HeldDevices, MemoryBlock, held, sites
from numalign.kube.decode.parts import Part
from numalign.model.errors import BadInput, Mistake
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
    cpus, devices, memory = folder / CPUS, folder / DEVICES, folder / MEMORY
    state, listed, blocks = (_parsed(path) for path in (cpus, devices, memory))
    if state is None:
        raise BadCheckpoint([Mistake(str(cpus), "is missing")])
    signed = Part(state)
    data = _data(cpus, signed, _STATE_FIELDS)
    containers = {
        uid: {name: ids.cpu_list() or 0 for name, ids in pod.members()}
        for uid, pod in data["entries"].members()
    }
    pods = {uid: pod["cpuSet"].cpu_list() or 0 for uid, pod in data["podEntries"].members()}
    _raise_mistakes(cpus, signed)
    return Checkpoints(
        containers,
        {} if listed is None else _devices(devices, listed),
        pods,
        {} if blocks is None else _memory(memory, blocks),
    )


def _parsed(path: Path) -> object | None:
    """Return the content of a file; None if it does not exist."""

    def plainly(name: str, flags: int) -> int:
        # No link is followed, and no writer is waited for.
        return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)

    try:
        with open(path, "rb", opener=plainly) as file:
            content = file.read(LONGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadCheckpoint([Mistake(str(path), f"cannot be read: {error.strerror}")]) from error
    if len(content) > LONGEST:
        raise BadCheckpoint([Mistake(str(path), f"is longer than {LONGEST} bytes")])
    return _json(path, content)


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


def _memory(path: Path, state: object) -> Mapping[str, tuple[MemoryBlock, ...]]:
    """Return the pod-level memory, by pod UID."""
    signed = Part(state)
    data = _data(path, signed, _MEMORY_FIELDS)
    pods = dict[str, tuple[MemoryBlock, ...]]()
    for uid, pod in data["podEntries"].members():
        blocks = []
        for block in pod["memoryBlocks"].objects():
            zones = sorted(zone.required().integer() or 0 for zone in block["numaAffinity"].elements())
            size = block["size"].required().integer() or 0
            blocks.append(MemoryBlock(block["type"].required_text(), size, tuple(map(ZoneId, zones))))
        pods[uid] = tuple(blocks)
    _raise_mistakes(path, signed)
    return pods


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
        # A device on several zones is listed for each.
        rows = list[tuple[str, list[str], list[int]]]()
        for zone, ids in entry["DeviceIDs"].members():
            if zone == _NOWHERE or (zone.isascii() and zone.isdigit()):
                zones = [] if zone == _NOWHERE else [int(zone)]
                rows.append((resource, [part.required_text() for part in ids.elements()], zones))
            else:
                ids.wrong("is not a NUMA node ID")
        if not entry.mistakes:
            devices[uid].setdefault(container, {}).update(sites(rows))
    _raise_mistakes(path, signed)
    return {uid: {name: held(found) for name, found in pod.items()} for uid, pod in devices.items()}


def _raise_mistakes(path: Path, part: Part) -> None:
    if part.mistakes:
        raise BadCheckpoint(mistake.under(str(path)) for mistake in part.mistakes)
