"""
Annotate each pod with what it holds.

The topology already has all of it; this is for programs that read only pods. A pod is annotated once, and
again when it holds something else. The patch contains the UID of the pod, so that a successor of the same
name never gets its predecessor's annotation.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping
from typing import NoReturn

import orjson

from agent.https import ApiServer
from agent.metrics import AgentMetrics
from agent.report import NamedPlacement
from numalign.kube.decode import placements
from numalign.kube.errors import ClusterError, InvalidObject, NotFound
from numalign.model import intent
from numalign.runtime.clock import Sleep
from numalign.runtime.logs import Log

FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 1.0, 30.0


class PodRecords:
    """Keeps the annotations of one node's pods up to date."""

    def __init__(
        self,
        api: ApiServer,
        *,
        log: Log,
        metrics: AgentMetrics,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._api, self._log, self._metrics = api, log, metrics
        self._sleep, self._chance = sleep, chance
        self._wanted: Mapping[str, NamedPlacement] = {}
        self._written: dict[str, str] = {}
        self._changed = asyncio.Event()

    def keep(self, pods: tuple[NamedPlacement, ...]) -> None:
        """Keep these pods annotated, and no others; drop what was requested before and is not written yet."""
        self._wanted = {pod.uid: pod for pod in pods}
        self._changed.set()

    async def run(self) -> NoReturn:
        """Run forever; retry failures."""
        failures = 0
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self.write_due()
            except ClusterError as error:
                if not failures:
                    self._log.warning("placements.write_failed", error=error)
                self._changed.set()
                pause = min(FIRST_RETRY_SECONDS * 2.0 ** min(failures, 16), LAST_RETRY_SECONDS)
                await self._sleep(pause * (0.5 + self._chance()))
                failures += 1
            else:
                failures = 0

    async def write_due(self) -> None:
        """Annotate all pods that are not up to date; raise `ClusterError`."""
        self._written = {uid: text for uid, text in self._written.items() if uid in self._wanted}
        for uid, pod in self._wanted.items():
            text = orjson.dumps(placements.render_held(pod.held)).decode()
            if self._written.get(uid) == text:
                continue
            metadata = {"uid": pod.uid, "annotations": {intent.PLACEMENT_OBSERVED: text}}
            path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
            # If the pod is gone, another one may have its name by now: a UID cannot be changed.
            with contextlib.suppress(InvalidObject, NotFound):
                await self._api.merge(path, {"metadata": metadata}, what=f"pod {pod.namespace}/{pod.name}")
                self._metrics.pod_writes.inc()
            self._written[uid] = text
