"""
One look at a node: what it is made of, what its kubelet was told, and what each container holds.

These are the values between reading and publishing. Each is what one source said, checked for its shape and
otherwise untouched: nothing is added up here, and no source is believed in place of another.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from numalign.kube.decode.machines import ZoneMemory
from numalign.kube.errors import ClusterError
from numalign.model.machine import Core, CpuSet
from numalign.model.resources import ZoneId


class Unobserved(ClusterError):
    """Raised when a kubelet answers, but what it says cannot be all of it yet."""


@dataclass(frozen=True, slots=True)
class ListedDevice:
    """One healthy device that the kubelet can give out; no `zones` means that its plugin told none."""

    resource: str
    id: str
    zones: frozenset[ZoneId]


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """`size` bytes of memory, or of one size of hugepages, on these zones together, ascending."""

    resource: str
    size: int
    zones: tuple[ZoneId, ...]


@dataclass(frozen=True, slots=True)
class HeldDevices:
    """Devices of one resource, ids ascending, that sit on the same zones; no `zones`: nobody knows where."""

    resource: str
    ids: tuple[str, ...]
    zones: frozenset[ZoneId]


@dataclass(frozen=True, slots=True)
class ListedContainer:
    """What a container holds for itself; `cpus` are exclusive ones only."""

    name: str
    cpus: CpuSet
    memory: tuple[MemoryBlock, ...]
    devices: tuple[HeldDevices, ...]


@dataclass(frozen=True, slots=True)
class ListedPod:
    """
    A pod as the kubelet lists it: app containers, and init containers that restart.

    It has no UID, and a kubelet before 1.34 lists pods that have ended, too.
    """

    namespace: str
    name: str
    containers: tuple[ListedContainer, ...]


@dataclass(frozen=True, slots=True)
class Allocatable:
    """
    What the kubelet can give out in all, held or free.

    `cpus` is empty where the CPU manager's policy is none, `memory` where the memory manager's is.
    """

    cpus: CpuSet
    memory: tuple[MemoryBlock, ...]
    devices: tuple[ListedDevice, ...]


@dataclass(frozen=True, slots=True)
class Hardware:
    """
    A machine as its kernel tells, `banks` ascending by zone and `cores` by their smallest thread.

    `ZoneMemory.reserved` is None throughout: the kernel keeps nothing for the kubelet.
    """

    banks: tuple[ZoneMemory, ...]
    cores: tuple[Core, ...]


@dataclass(frozen=True, slots=True)
class AskingContainer:
    """
    A container that runs as long as its pod does, and what of its own it asks for.

    That is whole CPUs or memory, which only Guaranteed pods are given, and any other resources.
    """

    name: str
    cpus: bool = False
    memory: bool = False
    resources: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class KubeletPod:
    """
    A pod of this node by its UID; `phase` as in its status, empty if there is none yet.

    A `static` one stands in a file of its node; a kubelet calls it by another UID than the API server.
    `init_containers` names those that do not restart, which podresources leaves out, as far as they ask for
    something that they may be given for themselves: whole CPUs, or devices. `asking` are the containers
    that stay, of a pod that states no resources as a whole.
    """

    uid: str
    namespace: str
    name: str
    phase: str
    deleted: bool
    init_containers: tuple[str, ...] = ()
    static: bool = False
    asking: tuple[AskingContainer, ...] = ()


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """
    What the managers wrote down by UID of the pod and name of the container, init containers included.

    They may tell of pods that are gone, and are only good for telling pods of one name apart and for what
    finished init containers keep. `pod_cpus` and `pod_memory` are all that a pod was given that was served as
    a whole: its containers have parts of that, which overlap.
    """

    cpus: Mapping[str, Mapping[str, CpuSet]]
    devices: Mapping[str, Mapping[str, tuple[HeldDevices, ...]]]
    pod_cpus: Mapping[str, CpuSet] = field(default_factory=dict)
    pod_memory: Mapping[str, tuple[MemoryBlock, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observation:
    """
    One look at a node.

    `kubelet` holds those fields of its configuration that `kubelet_config.FIELDS` names, and its "version".
    `checkpoints` is None where they cannot be read.
    """

    hardware: Hardware
    kubelet: Mapping[str, object]
    allocatable: Allocatable
    listed: tuple[ListedPod, ...]
    pods: tuple[KubeletPod, ...]
    checkpoints: Checkpoints | None
