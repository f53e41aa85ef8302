"""
Tells each pod what it holds, on the pod itself.

The topology has all of it already; this is for programs that read pods alone. A pod is told once, and again
when it holds something else. The patch names the UID of the pod, so that a successor of the same name is
never told what its predecessor held.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import NoReturn, Protocol

import orjson

from agent.metrics import AgentMetrics
from agent.report import NamedPlacement
from numalign.kube.decode import placements
from numalign.kube.errors import ClusterError, InvalidObject, NotFound
from numalign.model import intent
from numalign.runtime.clock import Sleep
from numalign.runtime.logs import Log

FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 1.0, 30.0


class PodWriter(Protocol):
    """What of an `ApiServer` is needed here."""

    async def merge(self, path: str, fields: object, *, what: str) -> None:
        """Change these fields of an object; raises `ClusterError`."""


class PodRecords:
    """Keeps the pods of one node told of what they hold."""

    def __init__(
        self,
        api: PodWriter,
        *,
        log: Log,
        metrics: AgentMetrics,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._api = api
        self._log = log
        self._metrics = metrics
        self._sleep = sleep
        self._chance = chance
        self._wanted: Mapping[str, NamedPlacement] = {}
        self._told: dict[str, str] = {}
        self._news = asyncio.Event()

    def keep(self, pods: tuple[NamedPlacement, ...]) -> None:
        """Have these told, and no others; what was wanted before and not told yet is forgotten."""
        self._wanted = {pod.uid: pod for pod in pods}
        self._news.set()

    async def run(self) -> NoReturn:
        """Go on for ever; what fails is tried again."""
        failures = 0
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self.tell()
            except ClusterError as error:
                if not failures:
                    self._log.warning("placements.write_failed", error=error)
                self._news.set()
                pause = min(FIRST_RETRY_SECONDS * 2.0 ** min(failures, 16), LAST_RETRY_SECONDS)
                await self._sleep(pause * (0.5 + self._chance()))
                failures += 1
            else:
                failures = 0

    async def tell(self) -> None:
        """Tell all pods that are not told yet; raises `ClusterError`."""
        self._told = {uid: text for uid, text in self._told.items() if uid in self._wanted}
        for uid, pod in self._wanted.items():
            text = orjson.dumps(placements.render_held(pod.held)).decode()
            if self._told.get(uid) != text:
                await self._tell(pod, text)
                self._told[uid] = text

    async def _tell(self, pod: NamedPlacement, text: str) -> None:
        metadata = {"uid": pod.uid, "annotations": {intent.PLACEMENT_OBSERVED: text}}
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        try:
            await self._api.merge(path, {"metadata": metadata}, what=f"pod {pod.namespace}/{pod.name}")
        except (InvalidObject, NotFound):
            # It is gone, and another one may have its name by now: a UID cannot be changed.
            return
        self._metrics.wrote_pod()
