"""
Keeping policy reports true.

Reports are for people and for the programs that show them; nothing is ever decided by one. So they are
written slowly, by whoever leads, where the API server serves their kinds, and only when they say something
else than before. What stands there is read when a replica begins to lead, and now and then after that: the
digest in an annotation says what was written, and the results whether they still say so.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote

from prometheus_client import CollectorRegistry, Counter, Gauge

from controller.reports.policy_report import (
    API_VERSION,
    GROUP,
    NAME,
    OWNED,
    VERSION,
    PolicyReport,
    digest_of,
)
from numalign.kube.client import Patch, Query
from numalign.kube.decode.parts import Part
from numalign.kube.errors import ClusterError, Conflict, Forbidden, NotFound
from numalign.runtime.clock import Sleep
from numalign.runtime.logs import MANY_LINES, Log, QuietLog
from numalign.runtime.metrics import PREFIX

TURN_SECONDS = 1.0

PER_TURN = 2
"""Writes; a report may be large, and each one is an event for everybody who watches reports."""

JUDGED_SECONDS = 30.0
"""Between two looks at which pods fall short."""

SPACING_SECONDS = 60.0
"""Between two writes of the same report at least, and before one is tried again that failed."""

READ_SECONDS = 600.0
"""Between two looks at the reports that are there."""

SERVED_SECONDS = 30.0
"""Between two looks at whether there are such kinds and which reports there are, while nobody has said."""

KINDS = frozenset({"policyreports", "clusterpolicyreports"})

ANSWER_SECONDS = 10.0
"""How long the API server may take: less than others wait before they lead in our place."""

PAGE = 5
"""Reports that are read at once."""

MANAGER = "numalign-controller"
OWNER = "numalign-reports"
"""The ClusterRole by which reports may be written. They go with it, when that is switched off."""

_GROUP_PATH = f"/apis/{GROUP}/{VERSION}"
_OWNER_PATH = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{OWNER}"


class ReportObjects(Protocol):
    """What of an `Api` is used; the real one raises `ClusterError`."""

    async def get(self, path: str, query: Query = (), *, what: str, most: int | None = None) -> object:
        """What stands at a path."""

    async def patch(self, path: str, body: object, query: Query = (), *, how: Patch, what: str) -> object:
        """Change the object at a path."""

    async def delete(self, path: str, options: object, *, what: str) -> object:
        """Delete the object at a path."""


@dataclass(frozen=True, slots=True)
class StoredReport:
    """A report of ours that is there; the digest is empty where it says something else than we wrote."""

    uid: str
    digest: str


@dataclass(eq=False, kw_only=True)
class ReportWriter:
    """Writes what `reports` gives while `leading` says yes. `clock` is in seconds, `wall` since 1970."""

    api: ReportObjects
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
    _forbidden: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._quiet_log = QuietLog(self.log, lines=MANY_LINES)
        self._writes = Counter(
            f"{PREFIX}report_writes",
            "Writes of policy reports, by result.",
            ["result"],
            registry=self.registry,
        )
        for result in ("written", "removed", "gone", "forbidden", "failed"):
            self._writes.labels(result)
        Gauge(
            f"{PREFIX}report_results_left_out",
            "Results that do not fit into the policy reports of their namespaces.",
            registry=self.registry,
        ).set_function(lambda: sum(self._left_out.values()))

    async def run(self) -> None:
        """Keep reports true; never returns, and no failure of the cluster ends it."""
        while True:
            try:
                await self.turn()
            except Forbidden as error:
                self._may_not(str(error))
            except (ClusterError, TimeoutError) as error:
                self._failed("all of them", error)
            except Exception as error:  # noqa: BLE001  no object in a cluster may end the program again and again
                self.log.failed("report.internal_error", error)
            await self.sleep(TURN_SECONDS)

    async def turn(self) -> None:
        """Look at what is due to be looked at, and write what a second allows."""
        if not self.leading():
            # Whoever leads meanwhile writes something else.
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
        for namespace in [*self._due()][:PER_TURN]:
            # Much can happen while something is written.
            if not self.leading():
                return
            await self._write(namespace)

    def _is_due(self, what: str, every: float) -> bool:
        """Whether it is time for something; if so, the next time is settled."""
        now = self.clock()
        if now < self._next.get(what, -math.inf):
            return False
        self._next[what] = now + every
        return True

    async def _is_served(self) -> bool:
        """Whether the API server has kinds of reports."""
        if len(self._served) < len(KINDS) and self._is_due("served", SERVED_SECONDS):
            try:
                answer = Part(await self._answer(self.api.get(_GROUP_PATH, what=API_VERSION)))
            except NotFound:
                return False
            names = {each["name"].text() for each in answer["resources"].objects()}
            if names & KINDS != self._served:
                self._served = frozenset(names & KINDS)
                self.log.info("report.served", kinds=sorted(self._served))
        return bool(self._served)

    async def _is_read(self) -> bool:
        """Whether it is known which reports are there."""
        if self._is_due("read", SERVED_SECONDS if self._stored is None else READ_SECONDS):
            try:
                await self._read()
            except NotFound:
                # The kinds have gone with their definition.
                self._served, self._stored = frozenset(), None
            else:
                self._next["read"] = self.clock() + READ_SECONDS
        return self._stored is not None

    async def _read(self) -> None:
        """Find out which reports of ours are there, and who owns new ones."""
        stored = {namespace: report async for namespace, report in self._each_stored()}
        try:
            owner = Part(await self._answer(self.api.get(_OWNER_PATH, what=f"clusterrole {OWNER}")))
        except NotFound:
            self._owner = None
        except Forbidden as error:
            self._owner = None
            self._quiet_log.warning("report.no_owner", error=str(error))
        else:
            self._owner = {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "name": OWNER,
                "uid": owner["metadata"]["uid"].text(),
            }
        self._stored = stored

    async def _each_stored(self) -> AsyncIterator[tuple[str, StoredReport]]:
        for plural in sorted(self._served):
            token = ""
            while True:
                query = [("labelSelector", f"{OWNED}={NAME}"), ("limit", str(PAGE))]
                query += [("continue", token)] if token else []
                page = Part(await self._answer(self.api.get(f"{_GROUP_PATH}/{plural}", query, what=plural)))
                for item in page["items"].objects():
                    metadata = item["metadata"]
                    if metadata["name"].text() == NAME and metadata["labels"][OWNED].text() == NAME:
                        report = StoredReport(metadata["uid"].text(), digest_of(item))
                        yield metadata["namespace"].text(), report
                token = page["metadata"]["continue"].text()
                if not token:
                    break

    def _due(self) -> Iterator[str]:
        """The namespaces whose report is another than it should be, and that may be written again."""
        now, stored = self.clock(), self._stored or {}
        self._soonest = {name: at for name, at in self._soonest.items() if at > now}
        for name in sorted({*self._wanted, *stored}):
            if _plural(name) not in self._served or name in self._soonest:
                continue
            wanted, there = self._wanted.get(name), stored.get(name)
            if (wanted.digest if wanted else None) != (there.digest if there else None):
                yield name

    async def _write(self, namespace: str) -> None:
        """Write the report of a namespace as it should be, or remove it."""
        self._soonest[namespace] = self.clock() + SPACING_SECONDS
        wanted, stored = self._wanted.get(namespace), self._stored
        what = f"policyreport {namespace}/{NAME}" if namespace else f"clusterpolicyreport {NAME}"
        if stored is None:
            return
        try:
            if wanted:
                stored[namespace] = await self._apply(wanted, what)
            else:
                await self._remove(stored[namespace], namespace, what)
                del stored[namespace]
        except (NotFound, Conflict) as error:
            # The namespace goes, the kind does, or somebody else was faster.
            self._writes.labels("gone").inc()
            self.log.debug("report.gone", report=what, error=str(error))
            self._served, self._stored, self._next = frozenset(), None, {}
        except Forbidden as error:
            self._may_not(str(error))
        except (ClusterError, TimeoutError) as error:
            self._failed(what, error)
        else:
            self._forbidden = False

    async def _apply(self, wanted: PolicyReport, what: str) -> StoredReport:
        body, left_out = await asyncio.to_thread(wanted.written, now=self.wall(), owner=self._owner)
        query = [("fieldManager", MANAGER), ("force", "true")]
        path = _path(wanted.namespace)
        answer = await self._answer(self.api.patch(path, body, query, how=Patch.APPLY, what=what))
        self._writes.labels("written").inc()
        self._left_out[wanted.namespace] = left_out
        self.log.info("report.written", report=what, summary=body["summary"], left_out=left_out)
        return StoredReport(Part(answer)["metadata"]["uid"].text(), wanted.digest)

    async def _remove(self, stored: StoredReport, namespace: str, what: str) -> None:
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": stored.uid}}
        await self._answer(self.api.delete(_path(namespace), options, what=what))
        self._left_out.pop(namespace, None)
        self._writes.labels("removed").inc()
        self.log.info("report.removed", report=what)

    async def _answer(self, call: Awaitable[object]) -> object:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await call

    def _may_not(self, error: str) -> None:
        self._writes.labels("forbidden").inc()
        if not self._forbidden:
            self._forbidden = True
            self.log.error("report.forbidden", error=error)

    def _failed(self, what: str, error: Exception) -> None:
        self._writes.labels("failed").inc()
        text = str(error) or f"the API server did not answer within {ANSWER_SECONDS:g} s"
        self._quiet_log.warning("report.failed", report=what, error=text)


def _plural(namespace: str) -> str:
    return "policyreports" if namespace else "clusterpolicyreports"


def _path(namespace: str) -> str:
    place = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{_GROUP_PATH}{place}/{_plural(namespace)}/{NAME}"
