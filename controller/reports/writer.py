"""
Keep policy reports up to date.

Reports are for people and for the programs that show them; no decision depends on them. So the leader writes
them slowly, if the API server serves their kinds, and only when their content changes. Stored reports are
read when a replica starts to lead, and now and then after that: the digest in an annotation identifies what
was written, and the results show whether that was changed.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from prometheus_client import CollectorRegistry, Gauge

from controller.reports.policy_report import (
    API_VERSION,
    GROUP,
    NAME,
    OWNED,
    VERSION,
    PolicyReport,
    digest_of,
)
from numalign.kube.client import Api, Patch, Query
from numalign.kube.decode.parts import Part
from numalign.kube.errors import ClusterError, Conflict, Forbidden, NotFound
from numalign.kube.writes import FailureLog, answer, counter
from numalign.runtime.clock import Sleep
from numalign.runtime.logs import MANY_LINES, Log, QuietLog
from numalign.runtime.metrics import PREFIX

TURN_SECONDS = 1.0

PER_TURN = 2
"""Most writes in a turn; a report may be large, and each write is an event for all clients that watch
reports."""

JUDGED_SECONDS = 30.0
"""Interval in seconds between evaluations of pods and nodes."""

SPACING_SECONDS = 60.0
"""Shortest interval in seconds between two writes of the same report, also after a failure."""

REREAD_SECONDS = 600.0
"""Interval in seconds between reads of the stored reports."""

SERVED_SECONDS = 30.0
"""Interval in seconds for checking whether the kinds are served, and for reading until it succeeds."""

KINDS = frozenset({"policyreports", "clusterpolicyreports"})

ANSWER_SECONDS = 10.0
"""Timeout of API requests in seconds: shorter than the time after which another replica leads."""

PAGE = 5
"""Reports per page of a list."""

MANAGER = "numalign-controller"
OWNER = "numalign-reports"
"""The ClusterRole that allows writing reports, and owns them: they are deleted together with it."""

_GROUP_PATH = f"/apis/{GROUP}/{VERSION}"
_OWNER_PATH = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{OWNER}"


@dataclass(frozen=True, slots=True)
class StoredReport:
    """A stored report of ours; the digest is "" if its content is not what was written."""

    uid: str
    digest: str


@dataclass(eq=False, kw_only=True)
class ReportWriter:
    """Writes the `reports` while `leading` returns True. `clock` is in seconds, `wall` since 1970."""

    api: Api
    reports: Callable[[], Awaitable[Mapping[str, PolicyReport] | None]]
    leading: Callable[[], bool]
    log: Log
    registry: CollectorRegistry
    clock: Callable[[], float]
    wall: Callable[[], float]
    sleep: Sleep = asyncio.sleep
    _served: frozenset[str] = field(init=False, default=frozenset())
    _stored: dict[str, StoredReport] | None = field(init=False, default=None)
    _wanted: Mapping[str, PolicyReport] = field(init=False, default_factory=dict)
    _owner: Mapping[str, str] | None = field(init=False, default=None)
    _next: dict[str, float] = field(init=False, default_factory=dict)
    _soonest: dict[str, float] = field(init=False, default_factory=dict)
    _left_out: dict[str, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._quiet_log = QuietLog(self.log, lines=MANY_LINES)
        self._errors = FailureLog(self.log, lines=MANY_LINES)
        self._writes = counter(
            f"{PREFIX}report_writes",
            "Writes of policy reports, by result.",
            ["result"],
            ("written", "removed", "gone", "forbidden", "failed"),
            self.registry,
        )
        text = "Results that do not fit into the policy reports of their namespaces."
        left_out = Gauge(f"{PREFIX}report_results_left_out", text, registry=self.registry)
        left_out.set_function(lambda: sum(self._left_out.values()))

    async def run(self) -> None:
        """Keep reports up to date; never returns, and no failure of the cluster ends it."""
        while True:
            try:
                await self.turn()
            except ClusterError as error:
                self._failed("all of them", error)
            except Exception as error:  # noqa: BLE001  no object in a cluster may end the program again and again
                self.log.failed("report.internal_error", error)
            await self.sleep(TURN_SECONDS)

    async def turn(self) -> None:
        """Check what is due, and write what a second allows."""
        if not self.leading():
            # Another leader may write something else meanwhile.
            self._stored = None
            self._next = {}
            return
        if not await self._is_served() or not await self._is_read():
            return
        if self._is_due("judged", JUDGED_SECONDS):
            wanted = await self.reports()
            if wanted is None:
                self._next["judged"] = -math.inf
                return
            self._wanted = wanted
        # The namespaces whose report differs from the stored one, and may be written again.
        now, stored, due = self.clock(), self._stored or {}, list[str]()
        self._soonest = {name: at for name, at in self._soonest.items() if at > now}
        for name in sorted({*self._wanted, *stored}):
            report, there = self._wanted.get(name), stored.get(name)
            differs = (report.digest if report else None) != (there.digest if there else None)
            if differs and _plural(name) in self._served and name not in self._soonest:
                due.append(name)
        for namespace in due[:PER_TURN]:
            # Leadership may change during a write.
            if not self.leading():
                return
            await self._write(namespace)

    def _is_due(self, what: str, every: float) -> bool:
        """Return whether something is due; if so, set the next time."""
        now = self.clock()
        if now < self._next.get(what, -math.inf):
            return False
        self._next[what] = now + every
        return True

    async def _is_served(self) -> bool:
        if len(self._served) < len(KINDS) and self._is_due("served", SERVED_SECONDS):
            try:
                group = await self._get(_GROUP_PATH, what=API_VERSION)
            except NotFound:
                return False
            names = {each["name"].text() for each in group["resources"].objects()}
            if names & KINDS != self._served:
                self._served = frozenset(names & KINDS)
                self.log.info("report.served", kinds=sorted(self._served))
        return bool(self._served)

    async def _is_read(self) -> bool:
        if self._is_due("read", SERVED_SECONDS if self._stored is None else REREAD_SECONDS):
            try:
                stored = {namespace: report async for namespace, report in self._each_stored()}
                self._owner = await self._owner_of_reports()
            except NotFound:
                # The kinds are gone with their CRD.
                self._served, self._stored = frozenset(), None
            else:
                self._stored = stored
                self._next["read"] = self.clock() + REREAD_SECONDS
        return self._stored is not None

    async def _each_stored(self) -> AsyncIterator[tuple[str, StoredReport]]:
        for plural in sorted(self._served):
            token, more = "", True
            while more:
                query = [("labelSelector", f"{OWNED}={NAME}"), ("limit", str(PAGE))]
                query += [("continue", token)] if token else []
                page = await self._get(f"{_GROUP_PATH}/{plural}", query, what=plural)
                for item in page["items"].objects():
                    metadata = item["metadata"]
                    if metadata["name"].text() == NAME and metadata["labels"][OWNED].text() == NAME:
                        report = StoredReport(metadata["uid"].text(), digest_of(item))
                        yield metadata["namespace"].text(), report
                token = page["metadata"]["continue"].text()
                more = bool(token)

    async def _owner_of_reports(self) -> Mapping[str, str] | None:
        """Return a reference to the ClusterRole; None if it does not exist or must not be read."""
        try:
            role = await self._get(_OWNER_PATH, what=f"clusterrole {OWNER}")
        except NotFound:
            return None
        except Forbidden as error:
            self._quiet_log.warning("report.no_owner", error=str(error))
            return None
        uid = role["metadata"]["uid"].text()
        version = "rbac.authorization.k8s.io/v1"
        return {"apiVersion": version, "kind": "ClusterRole", "name": OWNER, "uid": uid}

    async def _get(self, path: str, query: Query = (), *, what: str) -> Part:
        return Part(await answer(self.api.get(path, query, what=what), within=ANSWER_SECONDS))

    async def _write(self, namespace: str) -> None:
        self._soonest[namespace] = self.clock() + SPACING_SECONDS
        wanted, stored = self._wanted.get(namespace), self._stored
        what = f"policyreport {namespace}/{NAME}" if namespace else f"clusterpolicyreport {NAME}"
        place = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        path = f"{_GROUP_PATH}{place}/{_plural(namespace)}/{NAME}"
        if stored is None:
            return
        try:
            if wanted:
                body, left_out = await asyncio.to_thread(wanted.written, now=self.wall(), owner=self._owner)
                query = [("fieldManager", MANAGER), ("force", "true")]
                patch = self.api.patch(path, body, query, how=Patch.APPLY, what=what)
                made = Part(await answer(patch, within=ANSWER_SECONDS))
                stored[namespace] = StoredReport(made["metadata"]["uid"].text(), wanted.digest)
                self._left_out[namespace] = left_out
                self._writes.labels("written").inc()
                self.log.info("report.written", report=what, summary=body["summary"], left_out=left_out)
            else:
                preconditions = {"uid": stored[namespace].uid}
                options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
                await answer(self.api.delete(path, options, what=what), within=ANSWER_SECONDS)
                del stored[namespace]
                self._left_out.pop(namespace, None)
                self._writes.labels("removed").inc()
                self.log.info("report.removed", report=what)
        except (NotFound, Conflict) as error:
            # The namespace or the kind is being deleted, or another program was faster.
            self._writes.labels("gone").inc()
            self.log.debug("report.gone", report=what, error=str(error))
            self._served, self._stored, self._next = frozenset(), None, {}
        except ClusterError as error:
            self._failed(what, error)
        else:
            self._errors.succeeded()

    def _failed(self, what: str, error: ClusterError) -> None:
        if isinstance(error, Forbidden):
            result = self._errors.forbidden("report.forbidden", error)
        else:
            result = self._errors.failed("report.failed", error, report=what)
        self._writes.labels(result).inc()


def _plural(namespace: str) -> str:
    return "policyreports" if namespace else "clusterpolicyreports"
