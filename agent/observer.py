"""
Observe a node once, from all sources.

The order matters. The list comes first: by then the managers have written their allocations into checkpoints,
and the pod is among the kubelet's pods, so the later sources explain the first one. If they cannot, the pod
is just being removed, and the next observation shows that.

A kubelet that has just started reports less than there is: its managers have nothing allocatable until they
run, and it lists no pods until the API server has sent them. Such a report is not accepted. The kubelet's
configuration and its machine cannot change while it runs, and are read again only now and then.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from agent.checkpoints import BadCheckpoint, checkpoints
from agent.hardware import SYSFS, hardware
from agent.observation import (
    Allocatable,
    Checkpoints,
    Hardware,
    KubeletPod,
    ListedPod,
    Observation,
    Unobserved,
)
from agent.podresources import PodResources
from agent.unary import RESOURCE_EXHAUSTED, CallRefused
from numalign.kube.errors import ClusterError
from numalign.ledger.model import PodName
from numalign.runtime.clock import Sleep
from numalign.runtime.files import Stamp, stamps
from numalign.runtime.logs import Log

T = TypeVar("T")

AGAIN_SECONDS = 60.0
"""Interval in seconds between two readings of a kubelet's configuration and its machine."""

START_SECONDS = 10.0
"""Seconds after which the report of a started kubelet is accepted, whatever it is."""

PATIENCE = (0.05, 0.1, 0.2, 0.4)
"""Pauses in seconds when the kubelet limits the rate: it answers 100 calls a second, from all clients
together."""

_JITTER = 0.5


class KubeletReader(Protocol):
    """The methods of `KubeletApi` that are used here; each raises `ClusterError`."""

    async def configuration(self) -> Mapping[str, object]:
        """Return the kubelet's configuration, and its version."""

    async def pods(self) -> tuple[KubeletPod, ...]:
        """Return the pods of the node."""


@dataclass(frozen=True, slots=True)
class NodePaths:
    """
    The paths of a node: the podresources socket, sysfs, and the directory of the kubelet's checkpoints.

    `state` is None if the checkpoints are not to be read.
    """

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
        kubelet: KubeletReader,
        *,
        log: Log,
        again: float = AGAIN_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._paths, self._kubelet = paths, kubelet
        self._podresources = PodResources(paths.socket)
        self._log = log
        self._again = again
        self._clock, self._sleep, self._chance = clock, sleep, chance
        self._static: _Static | None = None
        self._started: float | None = None
        self._socket: tuple[Stamp, ...] = ()
        self._unread = ""
        self._known = frozenset[PodName]()

    async def look(self) -> Observation:
        """
        Return the current state of the node.

        Raise `ClusterError` if the kubelet does not answer or is not ready yet (`Unobserved`), and `BadInput`
        if the hardware it reports is invalid.
        """
        socket = self._followed()
        static = await self._kept(socket)
        listed = await self._patiently(self._podresources.listed)
        allocatable = await self._patiently(self._podresources.allocatable)
        recorded = self._checkpoints()
        pods = await self._kubelet.pods()
        self._check_started(static.kubelet, allocatable, listed)
        if self._followed() != socket:
            raise Unobserved("the kubelet restarted during the observation")
        self._known = _from_the_api_server(listed, pods)
        return Observation(static.hardware, static.kubelet, allocatable, listed, pods, recorded)

    def _followed(self) -> tuple[Stamp, ...]:
        """Return the stamp of the socket; a different one belongs to a restarted kubelet."""
        now = stamps((self._paths.socket,))
        if now != self._socket:
            self._socket, self._started = now, self._clock()
        return now

    async def _kept(self, socket: tuple[Stamp, ...]) -> _Static:
        """Return what does not change, read again if it is due or if the kubelet has restarted."""
        before = self._static
        same = before is not None and before.socket == socket
        if before is not None and same and self._clock() < before.until:
            return before
        try:
            machine = await asyncio.to_thread(hardware, self._paths.sysfs)
            configuration = await self._kubelet.configuration()
        except ClusterError as error:
            if before is None or not same:
                raise
            # The kubelet still runs with the configuration with which it started.
            self._log.info("kubelet_config.kept", error=error)
            machine, configuration = before.hardware, before.kubelet
        self._static = _Static(socket, machine, configuration, self._clock() + self._again)
        return self._static

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Call `ask`, and again after a pause if the kubelet limits the rate."""
        for pause in PATIENCE:
            try:
                return await ask()
            except CallRefused as error:
                if error.status != RESOURCE_EXHAUSTED:
                    raise
                await self._sleep(pause * (1 + _JITTER * self._chance()))
        return await ask()

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

    def _check_started(
        self, kubelet: Mapping[str, object], allocatable: Allocatable, listed: tuple[ListedPod, ...]
    ) -> None:
        """Raise `Unobserved` while a kubelet that has just started does not know everything."""
        if self._started is None:
            return
        lacking = _not_running(kubelet, allocatable) or _not_listed(listed, self._known)
        if lacking and self._clock() < self._started + START_SECONDS:
            raise Unobserved(lacking)
        self._started = None


def _not_running(kubelet: Mapping[str, object], allocatable: Allocatable) -> str:
    """Return which allocating manager has nothing allocatable; "" if all run."""
    if kubelet.get("cpuManagerPolicy") == "static" and not allocatable.cpus:
        return "the kubelet's CPU manager has no CPUs yet"
    if kubelet.get("memoryManagerPolicy") == "Static" and not allocatable.memory:
        return "the kubelet's memory manager has no memory yet"
    return ""


def _not_listed(listed: tuple[ListedPod, ...], known: frozenset[PodName]) -> str:
    """
    Return what is wrong with a list that has none of the known pods; "" if it has one.

    A kubelet receives all its pods at once, except for static pods, which it reads itself and first.
    """
    return "" if not known or known & _names(listed) else "the kubelet does not list its pods yet"


def _from_the_api_server(listed: tuple[ListedPod, ...], pods: tuple[KubeletPod, ...]) -> frozenset[PodName]:
    """Return the names of the listed pods that are not static."""
    static = {(pod.namespace, pod.name) for pod in pods if pod.static}
    return _names(listed) - static


def _names(listed: tuple[ListedPod, ...]) -> frozenset[PodName]:
    return frozenset((pod.namespace, pod.name) for pod in listed)
