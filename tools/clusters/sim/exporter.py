"""A topology exporter that publishes each observation some seconds later.

In between, schedulers decide by outdated topologies. Real exporters are late by up to their period, and by
their own latency and that of the API server; here, tests set both.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tools.clusters.sim import documents
from tools.clusters.sim.accounts import Zones
from tools.clusters.sim.desk import ApiDesk
from tools.clusters.sim.fingerprints import Fingerprint, fingerprint
from tools.clusters.sim.kubelet import Active
from tools.clusters.sim.shapes import SimNode

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """What an exporter observed at one time."""

    left: Zones
    pods: list[Active]


@dataclass(frozen=True, slots=True)
class Timing:
    """How late an exporter is: `delay` seconds, and up to `jitter` more at random."""

    delay: float = 0
    jitter: float = 0
    chance: Random = field(default_factory=Random)

    def lag(self) -> float:
        """Return how late the next publication is, in seconds."""
        return self.delay + self.jitter * self.chance.random()


class Exporter:
    """The exporter of a node. `look` takes a sample, `publish` publishes it.

    Publications have the order of their samples; if several are due, only the last one is made.
    """

    def __init__(
        self,
        look: Callable[[], Sample],
        publish: Callable[[Sample], Awaitable[None]],
        timing: Timing,
    ) -> None:
        self._look = look
        self._publish = publish
        self._timing = timing
        self._due: deque[tuple[float, Sample]] = deque()
        self._sampled = asyncio.Event()
        self._busy = False

    @property
    def quiet(self) -> bool:
        """Whether all changes are published."""
        return not (self._due or self._busy)

    def changed(self) -> None:
        """Take a sample, as there is something new to observe, and schedule its publication."""
        due = time.monotonic() + self._timing.lag()
        # A later sample is not published earlier.
        last = self._due[-1][0] if self._due else due
        self._due.append((max(due, last), self._look()))
        self._sampled.set()

    async def now(self) -> None:
        """Take a sample and publish it at once, whatever the timing is."""
        await self._publish(self._look())

    async def run(self) -> None:
        """Publish the samples; never returns."""
        while True:
            await self._sampled.wait()
            self._sampled.clear()
            while self._due:
                await self._next()

    async def _next(self) -> None:
        """Wait until a sample is due, and publish the last one that is."""
        await asyncio.sleep(max(0, self._due[0][0] - time.monotonic()))
        _, sample = self._due.popleft()
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            _, sample = self._due.popleft()
        self._busy = True
        try:
            await self._publish(sample)
        finally:
            self._busy = False


class Publisher:
    """Writes the samples of a node to a desk, and with `observe`, to each pod what it holds."""

    def __init__(self, machine: SimNode, desk: ApiDesk, *, method: Fingerprint | None, observe: bool) -> None:
        self._machine = machine
        self._desk = desk
        self._method = method
        self._observe = observe
        self._told: set[str] = set()

    async def __call__(self, sample: Sample) -> None:
        """Write a sample. Raise what the desk raises."""
        if self._observe:
            await self._tell(sample.pods)
        said = attributes(sample.pods, self._method)
        await self._desk.publish(documents.topology(self._machine, sample.left, said))

    async def _tell(self, pods: list[Active]) -> None:
        new = [one for one in pods if one.pod["metadata"]["uid"] not in self._told]
        for one in new:
            await self._desk.annotate(one.pod, documents.OBSERVED, documents.placement(one.held))
        self._told = {one.pod["metadata"]["uid"] for one in pods}


def attributes(pods: list[Active], method: Fingerprint | None) -> dict[str, str]:
    """Return the attributes for the pods of a topology, by an exporter with that method; none without one."""
    if method is None:
        return {}
    counted = pods if method is Fingerprint.ALL else [one for one in pods if one.held]
    return {
        "nodeTopologyPodsFingerprint": fingerprint(documents.names(one.pod for one in counted)),
        "nodeTopologyPodsFingerprintMethod": method,
    }
