"""
The alignment annotations of pods, and an event when they appear.

They are for people and other programs; no decision depends on them, because everyone who may change a pod may
write them. The leader corrects them at a limited rate. If another client keeps changing them back, it waits
longer each time, and a pod that is being moved is not written to.
"""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from controller.healing.evictions import EVICT_SECONDS
from controller.healing.observing import RunningPodAlignments
from controller.healing.owners import Owners
from numalign.decision.alignment import Judgement, why
from numalign.kube.client import Api, Patch, Query
from numalign.kube.errors import ClusterError, Conflict, Forbidden, NotFound
from numalign.kube.events import Event, Type
from numalign.kube.gates import pod_path
from numalign.kube.pod_informer import UNMARKED, AlignmentMark, PodInfo
from numalign.kube.writes import FailureLog, answer, counter
from numalign.model.intent import ALIGNED, ALIGNED_WHY, Policy
from numalign.runtime.clock import Sleep
from numalign.runtime.logs import MANY_LINES, Log
from numalign.runtime.metrics import PREFIX
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


@dataclass(frozen=True, slots=True)
class _LastWrite:
    """When a pod was last written to, and how many seconds to wait from then."""

    at: float = -math.inf
    wait: float = FIRST_WAIT / 2


_NEVER = _LastWrite()


@dataclass(eq=False, kw_only=True)
class MarkWriter:
    """Writes the annotations while `leading` returns true, at most `PER_TURN` in a turn."""

    api: Api
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

    def __post_init__(self) -> None:
        self._errors = FailureLog(self.log, lines=MANY_LINES)
        results, text = (
            ("written", "gone", "forbidden", "failed"),
            "Writes of numalign.io/aligned, by result.",
        )
        self._writes = counter(f"{PREFIX}alignment_marks", text, ["result"], results, self.registry)

    async def run(self) -> None:
        """Keep the annotations correct; never returns."""
        while True:
            await self.turn()
            await self.sleep(TURN_SECONDS)

    async def turn(self) -> None:
        """Judge the pods that changed, and write at most `PER_TURN` annotations."""
        await self.alignments.judge()
        now, due = self.clock(), list[tuple[PodInfo, AlignmentMark]]()
        if len(self._written) > MOST_REMEMBERED:
            self._written = {uid: last for uid, last in self._written.items() if uid in self.state.pods}
        for entry in self.alignments:
            match entry.alignment.judgement:
                case Judgement.MISALIGNED:
                    mark = AlignmentMark("false", why(entry.alignment))
                case Judgement.ALIGNED:
                    mark = UNMARKED
                case _:
                    # It is not judged, so its annotations stay as they are.
                    continue
            # The current pod, with the annotations that other clients wrote.
            current = self.state.pods.get(entry.pod.uid)
            if current and current.mark != mark and self._may_write(current, now):
                due.append((current, mark))
        for pod, mark in due[:PER_TURN]:
            # While the pods before it were written to, the move of this one may have begun.
            if not self._may_write(pod, now):
                continue
            if not self.leading() or not await self._write(pod, mark):
                return

    def written_until(self, uid: str) -> float:
        """Return until when a write to the pod of this UID may be in progress, here or on the API server."""
        return self._written.get(uid, _NEVER).at + LANDED_SECONDS

    def _may_write(self, pod: PodInfo, now: float) -> bool:
        last = self._written.get(pod.uid, _NEVER)
        return now >= last.at + last.wait and not self.owners.is_moving(pod)

    async def _write(self, pod: PodInfo, mark: AlignmentMark) -> bool:
        """Write the annotations of a pod; return whether to continue with the next one."""
        now, last, name = self.clock(), self._written.get(pod.uid, _NEVER), f"{pod.namespace}/{pod.name}"
        # After a long time without a write the wait begins again.
        quiet = now - last.at > 2 * LONGEST_WAIT
        self._written[pod.uid] = _LastWrite(now, FIRST_WAIT if quiet else min(2 * last.wait, LONGEST_WAIT))
        # With its UID, a merge patch changes this pod or none.
        metadata = {"uid": pod.uid, "annotations": {ALIGNED: mark.aligned, ALIGNED_WHY: mark.why}}
        path, what = pod_path(pod.namespace, pod.name), f"the marks of pod {name}"
        patch = self.api.patch(path, {"metadata": metadata}, TIMEOUT, how=Patch.MERGE, what=what)
        result = "written"
        try:
            await answer(patch, within=PATCH_SECONDS)
        except (NotFound, Conflict):
            result = "gone"
        except Forbidden as error:
            result = self._errors.forbidden("mark.forbidden", error)
        except ClusterError as error:
            result = self._errors.failed("mark.failed", error, pod=name)
        else:
            self._errors.succeeded()
            self.log.info("pod.marked", pod=name, reason=mark.why or "aligned again")
            if mark.why and pod.mark.aligned is None:
                entry = self.alignments.get(pod.uid)
                best_effort = entry is not None and entry.pending.question.intent.policy is Policy.BEST_EFFORT
                kind = Type.NORMAL if best_effort else Type.WARNING
                self.publish(Event(pod.namespace, pod.name, pod.uid, kind, EVENT, mark.why))
        self._writes.labels(result).inc()
        return result in ("written", "gone")
