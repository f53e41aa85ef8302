"""
One look at a node, put together from all that tells of it.

The order matters. What is listed comes first, for whatever the managers have given out stands in their
checkpoints by then, and its pod among the kubelet's pods; so the later answers explain the first one. Where
they cannot, the pod is one that is just leaving, and the next look says so.

A kubelet that has just started tells less than there is: its managers have nothing to give out until they
run, and it lists no pods until the API server has sent them. That is not believed. What it was told and what
its machine is made of cannot change while it runs, and are looked at again only now and then.
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
"""Between two looks at what a kubelet was told and at its machine."""

START_SECONDS = 10.0
"""After which a kubelet that was started is believed, whatever it says."""

PATIENCE = (0.05, 0.1, 0.2, 0.4)
"""Seconds to wait where the kubelet is asked too often: it answers 100 calls a second, of all who ask."""

_JITTER = 0.5


class KubeletReader(Protocol):
    """What of a `KubeletApi` is asked here; each method raises `ClusterError`."""

    async def configuration(self) -> Mapping[str, object]:
        """What the kubelet was told, and its version."""

    async def pods(self) -> tuple[KubeletPod, ...]:
        """The pods of the node."""


@dataclass(frozen=True, slots=True)
class NodePaths:
    """
    Where a node shows itself: the socket of podresources, sysfs, and the folder of the kubelet's checkpoints.

    `state` is None where the checkpoints are not to be read.
    """

    socket: Path
    sysfs: Path = SYSFS
    state: Path | None = None


@dataclass(frozen=True, slots=True)
class _Standing:
    """What does not change while a kubelet runs, and until when it need not be asked about again."""

    socket: tuple[Stamp, ...]
    hardware: Hardware
    kubelet: Mapping[str, object]
    until: float


class Observer:
    """Looks at one node."""

    def __init__(  # noqa: PLR0913  what it depends on
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
        self._standing: _Standing | None = None
        self._started: float | None = None
        self._socket: tuple[Stamp, ...] = ()
        self._unread = ""
        self._known = frozenset[PodName]()

    async def look(self) -> Observation:
        """
        The node as it is now.

        Raises `ClusterError` if the kubelet does not answer or is not ready yet (`Unobserved`), and
        `BadInput` if the hardware it reports is invalid.
        """
        socket = self._followed()
        standing = await self._kept(socket)
        listed = await self._patiently(self._podresources.listed)
        allocatable = await self._patiently(self._podresources.allocatable)
        found = self._checkpoints()
        pods = await self._kubelet.pods()
        self._check_started(standing.kubelet, allocatable, listed)
        if self._followed() != socket:
            raise Unobserved("the kubelet restarted during the observation")
        self._known = _from_the_api_server(listed, pods)
        return Observation(standing.hardware, standing.kubelet, allocatable, listed, pods, found)

    def _followed(self) -> tuple[Stamp, ...]:
        """The stamp of the socket; another one is another kubelet's."""
        now = stamps((self._paths.socket,))
        if now != self._socket:
            self._socket, self._started = now, self._clock()
        return now

    async def _kept(self, socket: tuple[Stamp, ...]) -> _Standing:
        """What does not change, asked for anew if it is time or the kubelet is another."""
        before = self._standing
        same = before is not None and before.socket == socket
        if before is not None and same and self._clock() < before.until:
            return before
        try:
            machine = await asyncio.to_thread(hardware, self._paths.sysfs)
            told = await self._kubelet.configuration()
        except ClusterError as error:
            if before is None or not same:
                raise
            # It still runs as it was told when it started.
            self._log.info("kubelet_config.kept", error=error)
            machine, told = before.hardware, before.kubelet
        self._standing = _Standing(socket, machine, told, self._clock() + self._again)
        return self._standing

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask, and again after a moment where the kubelet is asked too often."""
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
            found = checkpoints(self._paths.state)
        except BadCheckpoint as error:
            if self._unread != str(error):
                self._unread = str(error)
                self._log.warning("checkpoints.unreadable", errors=error.mistakes)
            return None
        self._unread = ""
        return found

    def _check_started(
        self, kubelet: Mapping[str, object], allocatable: Allocatable, listed: tuple[ListedPod, ...]
    ) -> None:
        """Raises `Unobserved` while a kubelet that has just started does not know all."""
        if self._started is None:
            return
        lacking = _not_running(kubelet, allocatable) or _not_listed(listed, self._known)
        if lacking and self._clock() < self._started + START_SECONDS:
            raise Unobserved(lacking)
        self._started = None


def _not_running(kubelet: Mapping[str, object], allocatable: Allocatable) -> str:
    """Which manager that gives something out has nothing to give; empty, if all run."""
    if kubelet.get("cpuManagerPolicy") == "static" and not allocatable.cpus:
        return "the kubelet's CPU manager has no CPUs yet"
    if kubelet.get("memoryManagerPolicy") == "Static" and not allocatable.memory:
        return "the kubelet's memory manager has no memory yet"
    return ""


def _not_listed(listed: tuple[ListedPod, ...], known: frozenset[PodName]) -> str:
    """
    What is wrong with a list that has none of the pods that were known; empty, if it has one.

    A kubelet is sent its pods all at once, but for static ones, which it reads itself and first.
    """
    return "" if not known or known & _names(listed) else "the kubelet does not list its pods yet"


def _from_the_api_server(listed: tuple[ListedPod, ...], pods: tuple[KubeletPod, ...]) -> frozenset[PodName]:
    """The pods that a kubelet lists and did not read from a file."""
    static = {(pod.namespace, pod.name) for pod in pods if pod.static}
    return _names(listed) - static


def _names(listed: tuple[ListedPod, ...]) -> frozenset[PodName]:
    return frozenset((pod.namespace, pod.name) for pod in listed)
