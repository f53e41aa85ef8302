"""
Observe a node once, from all sources.

The order matters. The list comes first: by then the managers have written their allocations into checkpoints,
and the pod is among the kubelet's pods, so the later sources explain the first one. If they cannot, the pod
is just being removed, and the next observation shows that.

A kubelet that has just started reports less than there is: its managers have nothing allocatable until they
run, and it does not list all its pods at once (`Start`). Such a report is not accepted. The kubelet's
configuration and its machine cannot change while it runs, and are read again only now and then.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from agent.checkpoints import BadCheckpoint, checkpoints
from agent.hardware import SYSFS, hardware
from agent.kubelet_api import KubeletApi
from agent.observation import Checkpoints, Hardware, KubeletPod, Observation, Unobserved
from agent.podresources import PodResources
from agent.unary import RESOURCE_EXHAUSTED, CallRefused
from numalign.kube.errors import ClusterError
from numalign.ledger.model import PodName
from numalign.model.bitset import union
from numalign.model.machine import CpuSet
from numalign.runtime.clock import Sleep
from numalign.runtime.files import Stamp, stamps
from numalign.runtime.logs import Log

T = TypeVar("T")

REREAD_SECONDS = 60.0
"""Interval in seconds between two readings of a kubelet's configuration and its machine."""

START_SECONDS = 60.0
"""
Seconds after the first answers of a started kubelet until its report is accepted, whatever it is.

A kubelet that could not reach the API server tries again after up to half a minute, or, by chance, after up
to twice that (the backoff of reflectors in client-go).
"""

YOUNG_SECONDS = 10.0
"""Age in seconds up to which a kubelet may still be starting when it is observed for the first time."""

RETRY_PAUSES = (0.05, 0.1, 0.2, 0.4)
"""Pauses in seconds when the kubelet limits the rate: it answers 100 calls a second, from all clients
together."""

_JITTER = 0.5

CreationTimes = Mapping[PodName, int]
"""When each pod was created, in seconds since 1970."""

_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Start:
    """
    The pods that a started kubelet has yet to list.

    The API server sends them all at once, but the kubelet admits them one after another, the oldest first,
    and lists each as soon as its turn comes (HandlePodAdditions in pkg/kubelet/kubelet.go). So the list is
    incomplete until the last pod is admitted, and does not show that. What is missing is known from the last
    observation of the kubelet before it, or, if there was none, from the API server and the checkpoint of the
    CPU manager, which the kubelet reads before it admits anything.

    A missing pod may never be listed: it was deleted while the kubelet was down, or the kubelet rejects it.
    It is not waited for once the kubelet lists a younger pod, or knows the pod and then does not list it.

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
            pods = _created(pod for pod in observation.pods if pod.phase == "Running" and not pod.deleted)
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


@dataclass(frozen=True, slots=True)
class NodePaths:
    """The podresources socket, sysfs, and the directory of checkpoints: None if they are not to be read."""

    socket: Path
    sysfs: Path = SYSFS
    state: Path | None = None


@dataclass(frozen=True, slots=True)
class _Static:
    """What does not change while a kubelet runs, and until when it need not be read again."""

    socket: tuple[Stamp, ...]
    hardware: Hardware
    kubelet: Mapping[str, object]
    until: float


class Observer:
    """Observes one node."""

    def __init__(  # noqa: PLR0913  its dependencies
        self,
        paths: NodePaths,
        kubelet: KubeletApi,
        *,
        log: Log,
        reread: float = REREAD_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._paths, self._kubelet = paths, kubelet
        self._podresources = PodResources(paths.socket)
        self._log = log
        self._reread = reread
        self._clock, self._sleep, self._chance = clock, sleep, chance
        self._static: _Static | None = None
        self._start: Start | None = None
        self._first_answer: float | None = None
        self._socket: tuple[Stamp, ...] = ()
        self._unread = ""
        self._known: CreationTimes | None = None

    async def observe(self) -> Observation:
        """
        Return the current state of the node.

        Raise `ClusterError` if the kubelet does not answer or is not ready yet (`Unobserved`), and `BadInput`
        if the hardware it reports is invalid.
        """
        socket = self._socket_stamps()
        static = await self._static_facts(socket)
        listed = await self._with_retries(self._podresources.listed)
        allocatable = await self._with_retries(self._podresources.allocatable)
        recorded = self._checkpoints()
        pods = await self._kubelet.pods()
        if self._socket_stamps() != socket:
            raise Unobserved("the kubelet restarted during the observation")
        seen = Observation(static.hardware, static.kubelet, allocatable, listed, pods, recorded)
        if self._start is not None:
            lacking, rest = self._start.check(seen)
            now = self._clock()
            self._first_answer = now if self._first_answer is None else self._first_answer
            if lacking and now < self._first_answer + START_SECONDS:
                self._start = rest
                raise Unobserved(lacking)
            self._start = None
        self._known = from_the_api_server(seen)
        return seen

    def _socket_stamps(self) -> tuple[Stamp, ...]:
        """Return the stamp of the socket; a different one belongs to a restarted kubelet."""
        now = stamps((self._paths.socket,))
        if now != self._socket:
            made = (stamp.modified_ns for stamp in now if stamp.modified_ns is not None)
            young = all(time.time() < nanoseconds / 1e9 + YOUNG_SECONDS for nanoseconds in made)
            self._socket, self._first_answer = now, None
            self._start = Start(self._known) if self._known is not None or young else None
        return now

    async def _static_facts(self, socket: tuple[Stamp, ...]) -> _Static:
        """Return what does not change, read again if it is due or if the kubelet has restarted."""
        before = self._static if self._static and self._static.socket == socket else None
        if before and self._clock() < before.until:
            return before
        try:
            machine = await asyncio.to_thread(hardware, self._paths.sysfs)
            configuration = await self._kubelet.configuration()
        except ClusterError as error:
            if before is None:
                raise
            # The kubelet still runs with the configuration with which it started.
            self._log.info("kubelet_config.kept", error=error)
            machine, configuration = before.hardware, before.kubelet
        self._static = _Static(socket, machine, configuration, self._clock() + self._reread)
        return self._static

    async def _with_retries(self, call: Callable[[], Awaitable[T]]) -> T:
        """Await `call()`, and again after a pause if the kubelet limits the rate."""
        for pause in RETRY_PAUSES:
            try:
                return await call()
            except CallRefused as error:
                if error.status != RESOURCE_EXHAUSTED:
                    raise
                await self._sleep(pause * (1 + _JITTER * self._chance()))
        return await call()

    def _checkpoints(self) -> Checkpoints | None:
        if self._paths.state is None:
            return None
        try:
            read = checkpoints(self._paths.state)
        except BadCheckpoint as error:
            if self._unread != str(error):
                self._unread = str(error)
                self._log.warning("checkpoints.unreadable", errors=error.mistakes)
            return None
        self._unread = ""
        return read
