"""
The alignment annotations of pods, and an event when they appear.

They are for people and other programs; no decision depends on them, because everyone who may change a pod may
write them. The leader corrects them at a limited rate. If another client keeps changing them back, it waits
longer each time, and a pod that is being moved is not written to.
"""

import asyncio
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote

from prometheus_client import CollectorRegistry, Counter

from controller.healing.evictions import EVICT_SECONDS
from controller.healing.observing import RunningPodAlignments
from controller.healing.owners import Owners
from numalign.decision.alignment import Judgement, why
from numalign.kube.client import Patch, Query
from numalign.kube.errors import ClusterError, Conflict, Forbidden, NotFound
from numalign.kube.events import Event, Type
from numalign.kube.pod_informer import UNMARKED, AlignmentMark, PodInfo
from numalign.model.intent import ALIGNED, ALIGNED_WHY, Policy
from numalign.runtime.clock import Sleep
from numalign.runtime.logs import MANY_LINES, Log, QuietLog
from numalign.runtime.metrics import PREFIX
from numalign.scheduling.pod_alignments import PodAlignment
from numalign.scheduling.scheduler_state import SchedulerState

EVENT = "NUMAMisaligned"

TURN_SECONDS = 1.0
PER_TURN = 10
"""Most patches in a turn; each one is sent to every watch of pods."""

PATCH_SECONDS = EVICT_SECONDS
"""The timeout of a write in seconds, here and, from its arrival, on the API server.

It is that of an eviction, so that the wait of the next leader covers both.
"""

TIMEOUT: Query = (("timeout", f"{PATCH_SECONDS:g}s"),)
LANDED_SECONDS = 2 * PATCH_SECONDS
"""Seconds after which a write has taken effect or never will."""

FIRST_WAIT, LONGEST_WAIT = 30.0, 1800.0
"""The first and the longest wait in seconds before the same pod is written to again; it doubles each time."""

MOST_REMEMBERED = 65536
"""Pods with a last write; if there are more, those that no longer exist are dropped."""


class PodPatches(Protocol):
    """The part of an `Api` that is used here; `Api` raises `ClusterError`."""

    async def patch(self, path: str, body: object, query: Query = (), *, how: Patch, what: str) -> object:
        """Patch the object at a path."""


@dataclass(frozen=True, slots=True)
class _LastWrite:
    """When a pod was last written to, and how many seconds to wait from then."""

    at: float = -math.inf
    wait: float = FIRST_WAIT / 2

    def next_write(self, now: float) -> "_LastWrite":
        """Return the record of one more write; after a long time without one the wait begins again."""
        quiet = now - self.at > 2 * LONGEST_WAIT
        return _LastWrite(now, FIRST_WAIT if quiet else min(2 * self.wait, LONGEST_WAIT))


_NEVER = _LastWrite()


def due_mark(entry: PodAlignment) -> AlignmentMark | None:
    """Return the annotations that a pod should have; None if it is not judged, to leave them as they are."""
    judgement = entry.alignment.judgement
    if judgement is Judgement.MISALIGNED:
        return AlignmentMark("false", why(entry.alignment))
    return UNMARKED if judgement is Judgement.ALIGNED else None


@dataclass(eq=False, kw_only=True)
class MarkWriter:
    """Writes the annotations while `leading` returns true, at most `PER_TURN` in a turn."""

    api: PodPatches
    state: SchedulerState
    alignments: RunningPodAlignments
    owners: Owners
    leading: Callable[[], bool]
    publish: Callable[[Event], None]
    log: Log
    registry: CollectorRegistry
    clock: Callable[[], float]
    sleep: Sleep = asyncio.sleep
    _written: dict[str, _LastWrite] = field(init=False, default_factory=dict)
    _forbidden: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._quiet_log = QuietLog(self.log, lines=MANY_LINES)
        self._writes = Counter(
            f"{PREFIX}alignment_marks",
            "Writes of numalign.io/aligned, by result.",
            ["result"],
            registry=self.registry,
        )
        for result in ("written", "gone", "forbidden", "failed"):
            self._writes.labels(result)

    async def run(self) -> None:
        """Keep the annotations correct; never returns."""
        while True:
            await self.turn()
            await self.sleep(TURN_SECONDS)

    async def turn(self) -> None:
        """Judge the pods that changed, and write at most `PER_TURN` annotations."""
        await self.alignments.judge()
        now = self.clock()
        self._forget()
        due = [(pod, mark) for pod, mark in self._due() if self._may_write(pod, now)]
        for pod, mark in due[:PER_TURN]:
            # While the pods before it were written to, the move of this one may have begun.
            if not self._may_write(pod, now):
                continue
            if not self.leading() or not await self._write(pod, mark):
                return

    def written_until(self, uid: str) -> float:
        """Return until when a write to the pod of this UID may be in progress, here or on the API server."""
        return self._written.get(uid, _NEVER).at + LANDED_SECONDS

    def _due(self) -> Iterator[tuple[PodInfo, AlignmentMark]]:
        for entry in self.alignments:
            mark = due_mark(entry)
            # The current pod, with the annotations that other clients wrote.
            pod = self.state.pods.get(entry.pod.uid)
            if mark is not None and pod and pod.mark != mark:
                yield pod, mark

    def _may_write(self, pod: PodInfo, now: float) -> bool:
        last = self._written.get(pod.uid, _NEVER)
        return now >= last.at + last.wait and not self.owners.is_moving(pod)

    def _forget(self) -> None:
        if len(self._written) > MOST_REMEMBERED:
            self._written = {uid: last for uid, last in self._written.items() if uid in self.state.pods}

    async def _write(self, pod: PodInfo, mark: AlignmentMark) -> bool:
        """Write the annotations of a pod; return whether to continue with the next one."""
        self._written[pod.uid] = self._written.get(pod.uid, _NEVER).next_write(self.clock())
        result = await self._result(pod, mark)
        self._writes.labels(result).inc()
        if result == "written":
            self._forbidden = False
            self.log.info("pod.marked", pod=f"{pod.namespace}/{pod.name}", reason=mark.why or "aligned again")
            if mark.why and pod.mark.aligned is None:
                self._publish_event(pod, mark.why)
        return result in ("written", "gone")

    async def _result(self, pod: PodInfo, mark: AlignmentMark) -> str:
        # With its UID, a merge patch changes this pod or none.
        metadata = {"uid": pod.uid, "annotations": {ALIGNED: mark.aligned, ALIGNED_WHY: mark.why}}
        path = f"/api/v1/namespaces/{quote(pod.namespace, safe='')}/pods/{quote(pod.name, safe='')}"
        what = f"the marks of pod {pod.namespace}/{pod.name}"
        try:
            async with asyncio.timeout(PATCH_SECONDS):
                await self.api.patch(path, {"metadata": metadata}, TIMEOUT, how=Patch.MERGE, what=what)
        except (NotFound, Conflict):
            return "gone"
        except Forbidden as error:
            self._log_forbidden(str(error))
            return "forbidden"
        except (ClusterError, TimeoutError) as error:
            text = str(error) or f"the API server did not answer within {PATCH_SECONDS:g} s"
            self._quiet_log.warning("mark.failed", pod=f"{pod.namespace}/{pod.name}", error=text)
            return "failed"
        return "written"

    def _log_forbidden(self, error: str) -> None:
        if not self._forbidden:
            self._forbidden = True
            self.log.error("mark.forbidden", error=error)

    def _publish_event(self, pod: PodInfo, text: str) -> None:
        entry = self.alignments.get(pod.uid)
        best_effort = entry is not None and entry.pending.question.intent.policy is Policy.BEST_EFFORT
        kind = Type.NORMAL if best_effort else Type.WARNING
        self.publish(Event(pod.namespace, pod.name, pod.uid, kind, EVENT, text))
