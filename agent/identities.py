"""
Determine which pod each entry of a kubelet's list is: the list has names, and names are reused.

A StatefulSet gives a new pod the name of the one before, sometimes while that one is still terminating. So a
name alone identifies a pod only if there is one pod of that name. The kubelet's checkpoints have UIDs: the
allocation recorded for a pod must equal the listed one. A pod that neither identifies is left out, because a
wrong placement is worse than none. So is a pod that does not have all its resources yet, because a kubelet
lists a pod before it has admitted it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from agent.observation import (
    Checkpoints,
    HeldDevices,
    KubeletPod,
    ListedContainer,
    ListedPod,
    MemoryBlock,
    Observation,
)
from numalign.ledger.model import PodName
from numalign.model.bitset import union
from numalign.model.machine import CpuSet

_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class KeptPod:
    """A listed pod, what its finished init containers still hold, and its identity if it is certain."""

    listed: ListedPod
    pod: KubeletPod | None = None
    kept_cpus: CpuSet = 0
    kept_devices: tuple[HeldDevices, ...] = ()
    whole_memory: tuple[MemoryBlock, ...] | None = None

    @property
    def cpus(self) -> CpuSet:
        """Return all exclusive CPUs of its containers, and of the whole pod."""
        return _listed_cpus(self.listed) | self.kept_cpus

    @property
    def memory(self) -> tuple[MemoryBlock, ...]:
        """Return all memory of its containers; that of finished init containers is free again."""
        # Containers of a pod with pod-level resources each list what they share; since 1.37 the pod lists it.
        if self.listed.memory:
            return self.listed.memory
        if self.whole_memory is not None:
            return self.whole_memory
        return tuple(block for container in self.listed.containers for block in container.memory)

    @property
    def devices(self) -> tuple[HeldDevices, ...]:
        """Return all devices of its containers, each once."""
        listed = [held for container in self.listed.containers for held in container.devices]
        return (*listed, *self.kept_devices)


def identified(observation: Observation) -> tuple[KeptPod, ...]:
    """Return the listed pods that have not ended, in the order of the list."""
    by_name: dict[PodName, list[KubeletPod]] = defaultdict(list)
    for pod in observation.pods:
        by_name[pod.namespace, pod.name].append(pod)
    times = Counter((pod.namespace, pod.name) for pod in observation.listed)
    found: list[tuple[ListedPod, list[KubeletPod]]] = []
    for listed in observation.listed:
        named = by_name.get((listed.namespace, listed.name), [])
        # Kubelets before 1.34 also list pods that have ended.
        if named and all(pod.phase in _ENDED for pod in named):
            continue
        alone = times[listed.namespace, listed.name] == 1
        found.append((listed, [pod for pod in named if _can_be(pod, listed, observation, alone=alone)]))
    claims = Counter(candidates[0].uid for _, candidates in found if len(candidates) == 1)
    return tuple(
        _kept(listed, candidates[0], observation.checkpoints)
        if len(candidates) == 1 and claims[candidates[0].uid] == 1
        else KeptPod(listed)
        for listed, candidates in found
    )


def _can_be(pod: KubeletPod, listed: ListedPod, observation: Observation, *, alone: bool) -> bool:
    """Return whether the listed pod can be this one of its name; `alone` if it is listed once."""
    if pod.phase in _ENDED or not _is_admitted(pod, listed, observation):
        return False
    if observation.checkpoints is not None:
        return _agrees(pod.uid, listed, observation.checkpoints)
    # It is unknown what init containers keep, which of two pods it is, and what containers share: those of a
    # pod with pod-level resources list the same CPUs in 1.36.
    every = [container.cpus for container in listed.containers]
    shares = union(every).bit_count() != sum(map(int.bit_count, every))
    return alone and not pod.init_containers and not shares


def _is_admitted(pod: KubeletPod, listed: ListedPod, observation: Observation) -> bool:
    """
    Return whether the kubelet has admitted the pod, and so its managers have allocated all it gets.

    A running pod may lack something for good: a kubelet that lost its checkpoints allocates no devices to
    containers that already run (devicesToAllocate in pkg/kubelet/cm/devicemanager/manager.go).
    """
    if pod.phase == "Running":
        return True
    static_cpus = observation.kubelet.get("cpuManagerPolicy") == "static"
    static_memory = observation.kubelet.get("memoryManagerPolicy") == "Static"
    plugins = {device.resource for device in observation.allocatable.devices}
    containers = {container.name: container for container in listed.containers}
    for asking in pod.asking:
        container = containers.get(asking.name, ListedContainer(asking.name, 0, (), ()))
        devices = {held.resource for held in container.devices}
        if (
            (static_cpus and asking.cpus and not container.cpus)
            or (static_memory and asking.memory and not container.memory)
            or (asking.resources & plugins) - devices
        ):
            return False
    return True


def _listed_cpus(listed: ListedPod) -> CpuSet:
    return union(container.cpus for container in listed.containers) | listed.cpus


def _agrees(uid: str, listed: ListedPod, checkpoints: Checkpoints) -> bool:
    """Return whether the checkpoints record for this pod and its containers what is listed."""
    if listed.cpus not in (0, checkpoints.pod_cpus.get(uid, 0)):
        return False
    # If the pod lists CPUs, a container that shares them lists none, and the checkpoint records its part.
    recorded, devices = checkpoints.cpus.get(uid, {}), checkpoints.devices.get(uid, {})
    return all(
        recorded.get(each.name, 0) & ~(0 if each.cpus else listed.cpus) == each.cpus
        and ids(devices.get(each.name, ())) == ids(each.devices)
        for each in listed.containers
    )


def ids(devices: Iterable[HeldDevices]) -> set[tuple[str, str]]:
    """Return each device by its resource and its ID."""
    return {(held.resource, each) for held in devices for each in held.ids}


def _kept(listed: ListedPod, pod: KubeletPod, checkpoints: Checkpoints | None) -> KeptPod:
    """Return the pod with what its checkpoints record of containers that are not listed."""
    if checkpoints is None:
        return KeptPod(listed, pod)
    shown = _listed_cpus(listed)
    taken = ids(held for container in listed.containers for held in container.devices)
    names = {container.name for container in listed.containers}
    kept: list[HeldDevices] = []
    for name, devices in checkpoints.devices.get(pod.uid, {}).items():
        for held in devices if name not in names else ():
            own = tuple(each for each in held.ids if (held.resource, each) not in taken)
            taken |= {(held.resource, each) for each in own}
            kept += [HeldDevices(held.resource, own, held.zones)] if own else []
    given = union(checkpoints.cpus.get(pod.uid, {}).values()) | checkpoints.pod_cpus.get(pod.uid, 0)
    return KeptPod(listed, pod, given & ~shown, tuple(kept), checkpoints.pod_memory.get(pod.uid))
