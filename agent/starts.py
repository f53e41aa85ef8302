"""
Check whether a kubelet that has just started knows its pods yet.

The API server sends them all at once, but the kubelet admits them one after another, the oldest first, and
lists each as soon as its turn comes (HandlePodAdditions in pkg/kubelet/kubelet.go). So the list is incomplete
until the last pod is admitted, and does not show that. What is missing is known from the last observation of
the kubelet before it, or, if there was none, from the API server and the checkpoint of the CPU manager, which
the kubelet reads before it admits anything.

A missing pod may never be listed: it was deleted while the kubelet was down, or the kubelet rejects it. It is
not waited for once the kubelet lists a younger pod, or knows the pod and then does not list it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent.observation import KubeletPod, Observation
from numalign.ledger.model import PodName
from numalign.model.bitset import union
from numalign.model.machine import CpuSet

CreationTimes = Mapping[PodName, int]
"""When each pod was created, in seconds since 1970."""

_ENDED = frozenset({"Succeeded", "Failed"})
_RUNNING = "Running"


@dataclass(frozen=True, slots=True)
class Start:
    """
    The pods that a started kubelet has yet to list.

    `pods` are those from the API server, None if no kubelet was observed before. `holders` are UIDs of pods
    that have CPUs in the CPU manager's checkpoint.
    """

    pods: CreationTimes | None
    holders: frozenset[str] = frozenset()

    def check(self, observation: Observation) -> tuple[str, "Start"]:
        """Return why an observation is too early ("" if it is not), and what the next one must have."""
        cpus: dict[str, CpuSet] = {}
        if observation.checkpoints is not None:
            cpus = {uid: union(each.values()) for uid, each in observation.checkpoints.cpus.items()}
            cpus |= observation.checkpoints.pod_cpus
        pods, holders = self.pods, self.holders
        if pods is None:
            # No kubelet was observed before: running pods are expected, and those with CPUs.
            pods = _created(pod for pod in observation.pods if pod.phase == _RUNNING and not pod.deleted)
            holders = frozenset(cpus)
        # The API server and the checkpoint have different UIDs for a static pod: its CPUs are listed.
        uids = {pod.uid for pod in observation.pods}
        listed = union(
            union(container.cpus for container in pod.containers) | pod.cpus for pod in observation.listed
        )
        holders &= {uid for uid, held in cpus.items() if held and uid not in uids and not held & listed}
        alive = {_name(pod) for pod in observation.pods if pod.phase not in _ENDED}
        over = _names(observation) | {_name(pod) for pod in observation.pods} - alive
        youngest = max(from_the_api_server(observation).values(), default=0)
        missing = {
            name: created
            for name, created in pods.items()
            # The turn of a pod that was created in the same second may still come.
            if name not in over and not 0 < created < youngest
        }
        why, kubelet, allocatable = "", observation.kubelet, observation.allocatable
        if kubelet.get("cpuManagerPolicy") == "static" and not allocatable.cpus:
            why = "the kubelet's CPU manager has no CPUs yet"
        elif kubelet.get("memoryManagerPolicy") == "Static" and not allocatable.memory:
            why = "the kubelet's memory manager has no memory yet"
        elif missing or holders:
            why = "the kubelet does not list its pods yet"
        # A pod that the kubelet knows now, and does not list next time either, is rejected.
        taken = {_name(pod) for pod in observation.pods if pod.from_kubelet}
        left = {name: created for name, created in missing.items() if name not in taken}
        return why, Start(left, holders)


def from_the_api_server(observation: Observation) -> CreationTimes:
    """Return the listed pods that are not static; the kubelet reads static pods itself, and first."""
    names = _names(observation)
    return _created(pod for pod in observation.pods if _name(pod) in names and pod.phase not in _ENDED)


def _created(pods: Iterable[KubeletPod]) -> CreationTimes:
    """Return when the pods that are not static were created; of two with the same name, the older one."""
    by_age = sorted((pod for pod in pods if not pod.static), key=lambda pod: -pod.created)
    return {_name(pod): pod.created for pod in by_age}


def _names(observation: Observation) -> frozenset[PodName]:
    return frozenset((pod.namespace, pod.name) for pod in observation.listed)


def _name(pod: KubeletPod) -> PodName:
    return pod.namespace, pod.name
