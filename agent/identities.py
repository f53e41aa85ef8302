"""
Which pod of a kubelet's list is which: the list has names, and names come again.

A StatefulSet gives a new pod the name of the one before, sometimes while that one still ends; so a name alone
says whose zones are told only as long as there is one pod of it. The kubelet's checkpoints have UIDs: what
they say a pod was given has to be what is listed. A pod of which neither is sure is left out, for a wrong
placement is worse than none; so is one that was not given all yet, since a kubelet lists a pod before it has
decided on it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
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
_RUNNING = "Running"


@dataclass(frozen=True, slots=True)
class KeptPod:
    """A pod that is listed, what its finished init containers keep beside that, and who it is, if certain."""

    listed: ListedPod
    pod: KubeletPod | None = None
    kept_cpus: CpuSet = 0
    kept_devices: tuple[HeldDevices, ...] = ()
    whole_memory: tuple[MemoryBlock, ...] | None = None

    @property
    def cpus(self) -> CpuSet:
        """All exclusive CPUs of its containers."""
        return union(container.cpus for container in self.listed.containers) | self.kept_cpus

    @property
    def memory(self) -> tuple[MemoryBlock, ...]:
        """All memory of its containers; what finished init containers had is free again.

        Containers of a pod that was served as a whole list what they share each for itself.
        """
        if self.whole_memory is not None:
            return self.whole_memory
        return tuple(block for container in self.listed.containers for block in container.memory)

    @property
    def devices(self) -> tuple[HeldDevices, ...]:
        """All devices of its containers; none stands there twice."""
        listed = [held for container in self.listed.containers for held in container.devices]
        return (*listed, *self.kept_devices)


def identified(observation: Observation) -> tuple[KeptPod, ...]:
    """The pods that are listed and have not ended, in the order of the list."""
    by_name = _by_name(observation.pods)
    times = Counter((pod.namespace, pod.name) for pod in observation.listed)
    found = [
        (listed, [*_candidates(listed, by_name, observation, times)])
        for listed in observation.listed
        if not _ended(by_name.get((listed.namespace, listed.name), ()))
    ]
    claims = Counter(candidates[0].uid for _, candidates in found if len(candidates) == 1)
    return tuple(
        _kept(listed, candidates[0], observation.checkpoints)
        if len(candidates) == 1 and claims[candidates[0].uid] == 1
        else KeptPod(listed)
        for listed, candidates in found
    )


def _by_name(pods: Iterable[KubeletPod]) -> Mapping[PodName, list[KubeletPod]]:
    named: dict[PodName, list[KubeletPod]] = defaultdict(list)
    for pod in pods:
        named[pod.namespace, pod.name].append(pod)
    return named


def _ended(pods: Iterable[KubeletPod]) -> bool:
    """Whether there are pods of a name, and all of them have ended: older kubelets list those, too."""
    phases = {pod.phase for pod in pods}
    return bool(phases) and phases <= _ENDED


def _candidates(
    listed: ListedPod,
    by_name: Mapping[PodName, list[KubeletPod]],
    observation: Observation,
    times: Mapping[PodName, int],
) -> Iterator[KubeletPod]:
    """Those pods that the listed one can be."""
    name, checkpoints = (listed.namespace, listed.name), observation.checkpoints
    for pod in by_name.get(name, ()):
        if pod.phase in _ENDED or not _is_admitted(pod, listed, observation):
            continue
        if checkpoints is None:
            # Nobody knows what its init containers keep, what its containers share, nor which of two it is.
            fits = times[name] == 1 and not pod.init_containers and not _shares(listed)
        else:
            fits = all(_agrees(pod.uid, container, checkpoints) for container in listed.containers)
        if fits:
            yield pod


def _is_admitted(pod: KubeletPod, listed: ListedPod, observation: Observation) -> bool:
    """Whether its kubelet has decided on it, and so has given each container what its managers give.

    A pod that runs may lack something for good: a kubelet that lost its checkpoints gives no devices to
    containers that run already (devicesToAllocate in pkg/kubelet/cm/devicemanager/manager.go).
    """
    if pod.phase == _RUNNING:
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


def _shares(listed: ListedPod) -> bool:
    """Whether containers list CPUs that others have too, as those of a pod that was served as a whole do."""
    every = [container.cpus for container in listed.containers]
    return union(every).bit_count() != sum(map(int.bit_count, every))


def _agrees(uid: str, container: ListedContainer, checkpoints: Checkpoints) -> bool:
    """Whether the checkpoints say that this container of this pod was given what is listed."""
    cpus = checkpoints.cpus.get(uid, {}).get(container.name, 0)
    devices = checkpoints.devices.get(uid, {}).get(container.name, ())
    return cpus == container.cpus and ids(devices) == ids(container.devices)


def ids(devices: Iterable[HeldDevices]) -> set[tuple[str, str]]:
    """Each device by its resource and its id."""
    return {(held.resource, each) for held in devices for each in held.ids}


def _kept(listed: ListedPod, pod: KubeletPod, checkpoints: Checkpoints | None) -> KeptPod:
    """The pod with what its checkpoints tell of containers that are not listed."""
    if checkpoints is None:
        return KeptPod(listed, pod)
    shown = union(container.cpus for container in listed.containers)
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
