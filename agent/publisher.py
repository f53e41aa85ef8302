"""
Write a report into the node's NodeResourceTopology without fighting other exporters.

Several programs export topologies, and two that write the same zones would overwrite each other forever. So
every write is a server-side apply by one field manager. If another manager owns the zones, only numalign's
annotations are added by default. The agent tries again from time to time, because the other exporter may have
been removed together with its object.
"""

import asyncio
import contextlib
import random
import sys
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import NoReturn

import orjson

from agent.https import ApiServer
from agent.metrics import AgentMetrics, WriteResult
from agent.options import Publish
from agent.report import JsonObject, NamedPlacement, NodeReport, document
from numalign.kube.decode import placements
from numalign.kube.decode.kubelet_reports import OBSERVED_AT
from numalign.kube.decode.nrt import GROUP, VERSIONS
from numalign.kube.decode.parts import Part
from numalign.kube.errors import ClusterError, Conflict, Forbidden, InvalidObject, NotFound, Unconfigured
from numalign.model import intent
from numalign.runtime.clock import Clock, Sleep, utc_now
from numalign.runtime.logs import Log

AGAIN_SECONDS = 60.0
"""Interval in seconds at which to check whether another exporter still owns the zones."""

OWNER_SECONDS = 300.0
"""Interval in seconds at which to read the Node again: one that was deleted and recreated has another UID."""

FIRST_PAUSE, LAST_PAUSE = 1.0, 30.0
"""Seconds until pods are annotated again after a failure."""


class Publisher:
    """Writes the topology of one node."""

    def __init__(  # noqa: PLR0913  its dependencies
        self,
        api: ApiServer,
        node: str,
        publish: Publish,
        *,
        log: Log,
        metrics: AgentMetrics,
        now: Clock = utc_now,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api, self._node, self._publish = api, node, publish
        self._log, self._metrics = log, metrics
        self._now, self._clock = now, clock
        self._path = f"/apis/{GROUP}/{VERSIONS[0]}/noderesourcetopologies/{node}"
        self._what = f"the topology of node {node}"
        self._owner: str | None = None
        self._owner_due = float("-inf")
        self._unowned = ""
        self._foreign_until = float("-inf")
        self._foreign = False
        self._absent = False

    @property
    def unsettled(self) -> bool:
        """Return whether to write the same again: another exporter had the object, or there was none."""
        return self._absent or (self._foreign and self._clock() >= self._foreign_until)

    async def publish(self, report: NodeReport) -> None:
        """Write a report; raise `ClusterError`."""
        try:
            result = await self._write(report)
        except ClusterError:
            self._metrics.writes.labels(WriteResult.FAILED).inc()
            raise
        self._metrics.writes.labels(result).inc()
        for annotation, text in report.annotations.items():
            self._metrics.annotation_bytes.labels(annotation).set(len(text or ""))

    async def _write(self, report: NodeReport) -> WriteResult:
        """Write the whole topology, or the annotations alone on another exporter's object."""
        if self._publish is Publish.NEVER or (self._foreign and self._clock() < self._foreign_until):
            return await self._annotate(report)
        try:
            return await self._apply(report)
        except Conflict as error:
            self._foreign_until = self._clock() + AGAIN_SECONDS
            if not self._foreign:
                self._foreign = True
                self._log.info("topology.other_exporter", node=self._node, error=error)
            self._metrics.foreign.set(1)
        self._metrics.writes.labels(WriteResult.CONFLICT).inc()
        return await self._annotate(report)

    async def _apply(self, report: NodeReport) -> WriteResult:
        """Write the whole topology; raise `Conflict` if another manager owns the zones and keeps them."""
        # Whether to take over fields that another manager owns.
        force = self._publish is Publish.ALWAYS
        await self._learn_owner()
        status = await self._api.apply(self._path, self._topology(report), force=force, what=self._what)
        if status == HTTPStatus.CREATED:
            # The object may have been deleted together with its Node, which was replaced since.
            owner, self._owner_due = self._owner, float("-inf")
            await self._learn_owner()
            if self._owner != owner:
                topology = self._topology(report)
                await self._api.apply(self._path, topology, force=force, what=self._what)
        if self._foreign:
            self._foreign = False
            self._log.info("topology.taken_over", node=self._node)
        self._metrics.foreign.set(0)
        return WriteResult.APPLIED

    async def _annotate(self, report: NodeReport) -> WriteResult:
        fields = {"metadata": {"annotations": {**report.annotations, **self._stamp()}}}
        try:
            await self._api.merge(self._path, fields, what=self._what)
        except NotFound:
            if self._publish is not Publish.NEVER:
                return await self._apply(report)
            if not self._absent:
                self._absent = True
                self._log.info("topology.absent", node=self._node)
            return WriteResult.ABSENT
        self._absent = False
        return WriteResult.ANNOTATED

    def _topology(self, report: NodeReport) -> JsonObject:
        topology = document(self._node, report)
        topology["metadata"]["annotations"] |= self._stamp()
        if self._owner:
            owner = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": self._owner}
            topology["metadata"]["ownerReferences"] = [owner]
        return topology

    def _stamp(self) -> dict[str, str]:
        return {OBSERVED_AT: self._now().strftime("%Y-%m-%dT%H:%M:%SZ")}

    async def _learn_owner(self) -> None:
        """Read the UID of the Node, so that the object is deleted together with it."""
        if self._clock() < self._owner_due:
            return
        try:
            metadata = await self._api.metadata(f"/api/v1/nodes/{self._node}", what=f"node {self._node}")
        except (Forbidden, NotFound) as error:
            self._owner = None
            if self._unowned != str(error):
                self._unowned = str(error)
                self._log.warning("topology.no_owner", node=self._node, error=error)
        else:
            self._owner, self._unowned = Part(metadata)["metadata"]["uid"].text() or None, ""
        self._owner_due = self._clock() + (OWNER_SECONDS if self._owner else AGAIN_SECONDS)


class Printer:
    """Writes what would be published as JSON: line by line to standard output (`-`), or to a file."""

    unsettled = False

    def __init__(self, node: str, output: str) -> None:
        self._node, self._output = node, output

    async def publish(self, report: NodeReport) -> None:
        """Write a report, in place of a file; raise `Unconfigured` if that cannot be written."""
        line = orjson.dumps(document(self._node, report)).decode() + "\n"
        if self._output == "-":
            sys.stdout.write(line)
            sys.stdout.flush()
            return
        try:
            await asyncio.to_thread(Path(self._output).write_text, line)
        except OSError as error:
            raise Unconfigured(f"{self._output} cannot be written: {error}") from error


class PodRecords:
    """
    Annotates each pod of a node with what it holds, for programs that read only pods.

    A pod is annotated once, and again when it holds something else. The patch contains the UID of the pod, so
    that a successor of the same name never gets its predecessor's annotation.
    """

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
                pause = min(FIRST_PAUSE * 2.0 ** min(failures, 16), LAST_PAUSE)
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
