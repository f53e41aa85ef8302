"""
Write a report into the node's NodeResourceTopology without fighting other exporters.

Several programs export topologies, and two that write the same zones would overwrite each other forever. So
every write is a server-side apply by one field manager. If another manager owns the zones, only numalign's
annotations are added by default. The agent tries again from time to time, because the other exporter may have
been removed together with its object.
"""

import time
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from agent.api_server import Conflicts
from agent.metrics import AgentMetrics, WriteResult
from agent.publish import Publish
from agent.report import JsonObject, NodeReport, document
from numalign.kube.decode.kubelet_reports import OBSERVED_AT
from numalign.kube.decode.nrt import GROUP, VERSIONS
from numalign.kube.decode.parts import Part
from numalign.kube.errors import ClusterError, Conflict, Forbidden, NotFound
from numalign.runtime.clock import Clock, utc_now
from numalign.runtime.logs import Log

AGAIN_SECONDS = 60.0
"""Interval in seconds at which to check whether another exporter still owns the zones."""

OWNER_SECONDS = 300.0
"""Interval in seconds at which to read the Node again: one that was deleted and recreated has another UID."""

_COLLECTION = f"/apis/{GROUP}/{VERSIONS[0]}/noderesourcetopologies"


class TopologyWriter(Protocol):
    """The methods of `ApiServer` that are used here; each raises `ClusterError`."""

    async def metadata(self, path: str, *, what: str) -> object:
        """Return the metadata of an object."""

    async def apply(self, path: str, fields: object, *, conflicts: Conflicts, what: str) -> int:
        """Apply these fields to an object."""

    async def merge(self, path: str, fields: object, *, what: str) -> None:
        """Change these fields of an object."""


class Publisher:
    """Writes the topology of one node."""

    def __init__(  # noqa: PLR0913  its dependencies
        self,
        api: TopologyWriter,
        node: str,
        publish: Publish,
        *,
        log: Log,
        metrics: AgentMetrics,
        now: Clock = utc_now,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._node = node
        self._publish = publish
        self._log = log
        self._metrics = metrics
        self._now = now
        self._clock = clock
        self._path = f"{_COLLECTION}/{node}"
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
            result = await self._written(report)
        except ClusterError:
            self._metrics.wrote(WriteResult.FAILED)
            raise
        self._metrics.wrote(result)
        for annotation, text in report.annotations.items():
            self._metrics.annotated(annotation, len(text or ""))

    async def _written(self, report: NodeReport) -> WriteResult:
        if self._publish is Publish.NEVER or (self._foreign and self._clock() < self._foreign_until):
            return await self._annotate(report)
        try:
            return await self._apply(report)
        except Conflict as error:
            self._give_way(error)
        self._metrics.wrote(WriteResult.CONFLICT)
        return await self._annotate(report)

    async def _apply(self, report: NodeReport) -> WriteResult:
        """Write the whole topology; raise `Conflict` if another manager owns the zones and keeps them."""
        force = self._publish is Publish.ALWAYS
        conflicts = Conflicts.TAKE_OVER if force else Conflicts.GIVE_WAY
        await self._learn_owner()
        status = await self._api.apply(
            self._path, self._topology(report), conflicts=conflicts, what=self._what
        )
        if status == _CREATED and await self._has_another_owner():
            await self._api.apply(self._path, self._topology(report), conflicts=conflicts, what=self._what)
        if self._foreign:
            self._foreign = False
            self._log.info("topology.taken_over", node=self._node)
        self._metrics.foreign(0)
        return WriteResult.APPLIED

    def _give_way(self, error: Conflict) -> None:
        self._foreign_until = self._clock() + AGAIN_SECONDS
        if not self._foreign:
            self._foreign = True
            self._log.info("topology.other_exporter", node=self._node, error=error)
        self._metrics.foreign(1)

    async def _annotate(self, report: NodeReport) -> WriteResult:
        """Write the annotations alone, on another exporter's object."""
        fields = {"metadata": {"annotations": {**report.annotations, **self._stamp()}}}
        try:
            await self._api.merge(self._path, fields, what=self._what)
        except NotFound:
            return await self._missed(report)
        self._absent = False
        return WriteResult.ANNOTATED

    async def _missed(self, report: NodeReport) -> WriteResult:
        """Handle a missing object: create it, unless `publish` is never."""
        if self._publish is not Publish.NEVER:
            return await self._apply(report)
        if not self._absent:
            self._absent = True
            self._log.info("topology.absent", node=self._node)
        return WriteResult.ABSENT

    def _topology(self, report: NodeReport) -> JsonObject:
        topology = document(self._node, report)
        topology["metadata"]["annotations"] |= self._stamp()
        if self._owner:
            owner = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": self._owner}
            topology["metadata"]["ownerReferences"] = [owner]
        return topology

    def _stamp(self) -> dict[str, str]:
        return {OBSERVED_AT: stamp(self._now())}

    async def _has_another_owner(self) -> bool:
        """Return whether the Node was replaced: the object may have been deleted with the old one."""
        before, self._owner_due = self._owner, float("-inf")
        await self._learn_owner()
        return self._owner != before

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


_CREATED = 201


def stamp(moment: datetime) -> str:
    """Return a UTC time as Kubernetes writes it, to the second."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
