"""
The values of one observation: the node's hardware, its kubelet's configuration, what containers hold.

They connect reading and publishing. Each value comes from one source, with its shape checked and otherwise
unchanged: nothing is added up here, and no source replaces another.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from numalign.kube.decode.machines import ZoneMemory
from numalign.kube.errors import ClusterError
from numalign.model.machine import UNKNOWN_ZONE, Core, CpuSet, existing
from numalign.model.resources import ZoneId

LARGEST_ZONE = 1023
"""The largest CONFIG_NODES_SHIFT of Linux is 10."""

Sites = Mapping[tuple[str, str], frozenset[ZoneId]]
"""The zones of each device, by its resource and its ID."""


class Unobserved(ClusterError):
    """Raised when a kubelet answers, but cannot have reported everything yet."""


@dataclass(frozen=True, slots=True)
class ListedDevice:
    """A healthy device that the kubelet can allocate; no `zones` if its plugin reported none."""

    resource: str
    id: str
    zones: frozenset[ZoneId]


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """`size` bytes of memory, or of one size of hugepages, on all these zones together, ascending."""

    resource: str
    size: int
    zones: tuple[ZoneId, ...]


@dataclass(frozen=True, slots=True)
class HeldDevices:
    """Devices of one resource, IDs ascending, on the same zones; no `zones` if they are unknown."""

    resource: str
    ids: tuple[str, ...]
    zones: frozenset[ZoneId]


@dataclass(frozen=True, slots=True)
class ListedContainer:
    """What a container holds exclusively; `cpus` are exclusive ones only."""

    name: str
    cpus: CpuSet
    memory: tuple[MemoryBlock, ...]
    devices: tuple[HeldDevices, ...]


@dataclass(frozen=True, slots=True)
class ListedPod:
    """
    A pod as the kubelet lists it: its app containers and restartable init containers.

    It has no UID, and a kubelet before 1.34 also lists pods that have ended. Since 1.37, `cpus` and `memory`
    are those of a pod with pod-level resources as a whole: its containers list only what is exclusively
    theirs, which is a part of it.
    """

    namespace: str
    name: str
    containers: tuple[ListedContainer, ...]
    cpus: CpuSet = 0
    memory: tuple[MemoryBlock, ...] = ()


@dataclass(frozen=True, slots=True)
class Allocatable:
    """All that the kubelet can allocate, held or free."""

    # Empty if the policy of the CPU manager, or of the memory manager, is none.
    cpus: CpuSet
    memory: tuple[MemoryBlock, ...]
    devices: tuple[ListedDevice, ...]


@dataclass(frozen=True, slots=True)
class Hardware:
    """A machine as its kernel reports it, `banks` ascending by zone and `cores` by their smallest thread."""

    # `reserved` is None: the kernel reserves nothing for the kubelet.
    banks: tuple[ZoneMemory, ...]
    cores: tuple[Core, ...]


@dataclass(frozen=True, slots=True)
class AskingContainer:
    """
    A container that runs as long as its pod, and the exclusive resources it requests.

    These are whole CPUs or memory, which only Guaranteed pods get exclusively, and any other resources.
    """

    name: str
    cpus: bool = False
    memory: bool = False
    resources: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class KubeletPod:
    """
    A pod of this node by its UID; `phase` as in its status, "" if it has none yet.

    A `static` pod comes from a file of its node; the kubelet and the API server have different UIDs for it.
    `created` is in seconds since 1970, 0 if unknown. `from_kubelet` says that the kubelet itself lists the
    pod; the API server lists all pods that are bound to the node.
    `init_containers` names those that do not restart, which podresources omits, if they request exclusive
    resources: whole CPUs, or devices. `asking` has the containers that keep running, without exclusive CPUs
    and memory if the pod has pod-level resources.
    """

    uid: str
    namespace: str
    name: str
    phase: str
    deleted: bool
    init_containers: tuple[str, ...] = ()
    static: bool = False
    asking: tuple[AskingContainer, ...] = ()
    created: int = 0
    from_kubelet: bool = False


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """
    What the managers recorded, by pod UID and container name, including init containers.

    They may contain pods that are gone. Use them only to tell pods of the same name apart, and for what
    finished init containers keep. `pod_cpus` and `pod_memory` are the allocations of pods with pod-level
    resources: their containers have overlapping parts of them.
    """

    cpus: Mapping[str, Mapping[str, CpuSet]]
    devices: Mapping[str, Mapping[str, tuple[HeldDevices, ...]]]
    pod_cpus: Mapping[str, CpuSet] = field(default_factory=dict)
    pod_memory: Mapping[str, tuple[MemoryBlock, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observation:
    """
    One observation of a node.

    `kubelet` has those fields of its configuration that `kubelet_config.FIELDS` names, and its "version".
    `checkpoints` is None if they cannot be read.
    """

    hardware: Hardware
    kubelet: Mapping[str, object]
    allocatable: Allocatable
    listed: tuple[ListedPod, ...]
    pods: tuple[KubeletPod, ...]
    checkpoints: Checkpoints | None


def sites(listed: Iterable[tuple[str, Iterable[str], Iterable[int]]]) -> Sites:
    """
    Return the zones of each device, from rows of a resource, device IDs, and zones that all of these are on.

    A device may be in several rows, with one zone each. IDs that are not zone IDs, such as -1, become
    `UNKNOWN_ZONE`: the kubelet accepts them, and then finds no hint for the device. Raise `ValueError` for a
    device without a resource.
    """
    found = defaultdict[tuple[str, str], set[ZoneId]](set)
    for resource, ids, zones in listed:
        if not resource:
            raise ValueError("a device is of no resource")
        known = {ZoneId(zone) if 0 <= zone <= LARGEST_ZONE else UNKNOWN_ZONE for zone in zones}
        for name in ids:
            found[resource, name].update(known)
    return {device: existing(zones) for device, zones in found.items()}


def held(placed: Sites) -> tuple[HeldDevices, ...]:
    """Return devices that one container holds, grouped by resource and zones, both in order."""
    ids = defaultdict[tuple[str, frozenset[ZoneId]], list[str]](list)
    for (resource, name), zones in sorted(placed.items(), key=lambda site: site[0]):
        ids[resource, zones].append(name)
    return tuple(
        HeldDevices(resource, tuple(ids[resource, zones]), zones)
        for resource, zones in sorted(ids, key=lambda place: (place[0], sorted(place[1])))
    )
