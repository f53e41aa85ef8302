"""A topology exporter that publishes each observation some seconds later.

In between, schedulers decide by outdated topologies. Real exporters are late by up to their period, and by
their own latency and that of the API server; here, tests set both.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

from tools.clusters.sim import documents
from tools.clusters.sim.accounts import Zones
from tools.clusters.sim.desk import ApiDesk
from tools.clusters.sim.fingerprints import Fingerprint, fingerprint
from tools.clusters.sim.kubelet import Active, Kubelet

Sample = tuple[Zones, list[Active]]
"""What an exporter observed at one time: what is left, and the pods."""


class Exporter:
    """The exporter of a node, `lag()` seconds late; with `observe`, it writes to each pod what it holds.

    Publications have the order of their samples; if several are due, only the last one is made.
    """

    def __init__(
        self,
        kubelet: Kubelet,
        desk: ApiDesk,
        *,
        lag: Callable[[], float],
        method: Fingerprint | None,
        observe: bool,
    ) -> None:
        self.kubelet = kubelet
        kubelet.changed = self._changed
        self._desk = desk
        self._lag = lag
        self._method = method
        self._observe = observe
        self._observed: set[str] = set()
        self._due: deque[tuple[float, Sample]] = deque()
        self._sampled = asyncio.Event()
        self._busy = False

    @property
    def quiet(self) -> bool:
        """Whether all changes are published."""
        return not (self._due or self._busy)

    async def now(self) -> None:
        """Take a sample and publish it at once, whatever the lag is."""
        await self._publish(self._look())

    async def run(self) -> None:
        """Publish the samples; never returns."""
        while True:
            await self._sampled.wait()
            self._sampled.clear()
            while self._due:
                await asyncio.sleep(max(0, self._due[0][0] - time.monotonic()))
                _, sample = self._due.popleft()
                now = time.monotonic()
                while self._due and self._due[0][0] <= now:
                    _, sample = self._due.popleft()
                self._busy = True
                await self._publish(sample)
                self._busy = False

    def _look(self) -> Sample:
        return self.kubelet.available(), self.kubelet.active

    def _changed(self) -> None:
        """Take a sample, as there is something new to observe, and schedule its publication."""
        due = time.monotonic() + self._lag()
        # A later sample is not published earlier.
        last = self._due[-1][0] if self._due else due
        self._due.append((max(due, last), self._look()))
        self._sampled.set()

    async def _publish(self, sample: Sample) -> None:
        left, pods = sample
        if self._observe:
            for one in pods:
                if one.pod["metadata"]["uid"] not in self._observed:
                    await self._desk.annotate(one.pod, documents.OBSERVED, documents.placement(one.held))
            self._observed = {one.pod["metadata"]["uid"] for one in pods}
        topology = documents.topology(self.kubelet.machine, left, _attributes(pods, self._method))
        await self._desk.publish(topology)


def _attributes(pods: list[Active], method: Fingerprint | None) -> dict[str, str]:
    """Return the attributes for the pods of a topology, by an exporter with that method; none without one."""
    if method is None:
        return {}
    counted = [one.pod["metadata"] for one in pods if one.held or method is Fingerprint.ALL]
    return {
        "nodeTopologyPodsFingerprint": fingerprint((each["namespace"], each["name"]) for each in counted),
        "nodeTopologyPodsFingerprintMethod": method,
    }
