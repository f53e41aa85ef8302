"""
The pods that wait behind the gate, in the order in which they are placed.

Higher priorities come first and, within one priority, older pods, as in the queue of kube-scheduler. A pod
without a node waits before the next attempt, with growing pauses, so that many pods that fit nowhere leave
time for others.
"""

import math
from bisect import bisect_left, insort
from dataclasses import dataclass, field

from numalign.kube.pod_informer import PodInfo
from numalign.kube.writes import backoff
from numalign.model.intent import PLACEMENT_GATE

FIRST_WAIT, LONGEST_WAIT = 0.25, 4.0
"""First and longest pause in seconds before a pod that fitted nowhere is tried again."""

FIRST_RETRY, LONGEST_RETRY = 1.0, 20.0
"""First and longest pause in seconds before a failed write is retried."""

FIRST_LOOK, LONGEST_LOOK = 5.0, 60.0
"""First and longest pause in seconds before a gate that must stay is looked at again."""

NEWS_LOST_SECONDS = 30.0
"""Seconds without a watch event after which a lifted gate is no longer assumed to be lifted."""

_SortKey = tuple[int, int, str, str]
"""The sort key of the queue; the UID is last."""


@dataclass(slots=True)
class GatedPod:
    """
    A pod behind the gate. Times are seconds of a clock.

    Its patience starts at `since`, which is infinite while other gates hold it too. It is tried again from
    `due` on, and its gate is lifted from `retry` on: failures while pinning do not delay that. `why` is why
    the last attempt failed; while `room` is True, the reason was not a lack of room, as far as is known. It
    is `lacking` if that is known to be the reason, and `over_quota` if it is the quota of its namespace. A
    gate that must stay is looked at again at `kept_until`; `kept` are the reasons that it had.
    """

    pod: PodInfo
    since: float
    due: float = -math.inf
    retry: float = -math.inf
    attempts: int = 0
    failures: int = 0
    why: str = ""
    room: bool = True
    lacking: bool = False
    kept_until: float = -math.inf
    looks: int = 0
    kept: frozenset[str] = frozenset()
    over_quota: bool = False

    @property
    def alone(self) -> bool:
        """Return whether no other gate holds it."""
        return self.since < math.inf

    def is_overdue(self, patience: float, *, now: float) -> bool:
        """Return whether it has waited longer than `patience`, and its gate may be lifted."""
        return now >= max(self.since + patience, self.retry, self.kept_until)

    def unschedulable(self, why: str, *, now: float) -> None:
        """Try it again later, with growing pauses: no node has room for it."""
        self._later(why, now=now)
        self.lacks_room(why)

    def lacks_room(self, why: str) -> None:
        """Note that no node has room for it."""
        self.why, self.room, self.lacking = why, False, True

    def postponed(self, why: str, *, now: float) -> None:
        """Try it again later, with growing pauses: a node had room, but not yet."""
        self._later(why, now=now)
        self.room, self.lacking = True, False

    def waits_for_quota(self, why: str, *, now: float) -> None:
        """Try it again later, with growing pauses, and start its patience then: its quota is used up."""
        self.postponed(why, now=now)
        self.since, self.over_quota = now, True

    def _later(self, why: str, *, now: float) -> None:
        self.due = now + backoff(self.attempts, FIRST_WAIT, LONGEST_WAIT)
        self.attempts, self.why, self.over_quota = self.attempts + 1, why, False

    def not_evaluated(self, *, now: float) -> None:
        """Try it again later, with growing pauses, because it could not be evaluated."""
        self.room = self.lacking = False
        self.due = now + backoff(self.attempts, FIRST_RETRY, LONGEST_RETRY)
        self.attempts += 1

    def failed(self, *, now: float) -> None:
        """Delay the next attempt to lift its gate, with growing pauses."""
        self.retry = now + backoff(self.failures, FIRST_RETRY, LONGEST_RETRY)
        self.failures += 1

    def keeps(self, reason: str, *, now: float) -> bool:
        """Look at its gate again later, with growing pauses; return whether this reason is new."""
        new = reason not in self.kept
        self.kept |= {reason}
        self.kept_until = now + backoff(self.looks, FIRST_LOOK, LONGEST_LOOK)
        self.looks += 1
        return new

    @property
    def sort_key(self) -> _SortKey:
        """Return its sort key in the queue."""
        return -self.pod.priority, self.pod.created, f"{self.pod.namespace}/{self.pod.name}", self.pod.uid


@dataclass(slots=True)
class GateQueue:
    """The gated pods by UID, and their order."""

    _pods: dict[str, GatedPod] = field(default_factory=dict)
    _order: list[_SortKey] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._pods)

    def update(self, pod: PodInfo, *, now: float) -> None:
        """
        Add or update a pod.

        The patience of a pod starts when it is first seen with our gate alone, so after a restart again: when
        it was created is known only by the clock of another machine.
        """
        if not waits(pod):
            self.drop(pod.uid)
            return
        before = self._pods.get(pod.uid)
        alone = pod.gates == (PLACEMENT_GATE,)
        if before is None:
            entry = GatedPod(pod, now if alone else math.inf)
        else:
            self._order.pop(bisect_left(self._order, before.sort_key))
            entry = before
            entry.since = math.inf if not alone else min(before.since, now)
            entry.pod = pod
            # Its requests may have changed.
            entry.due = -math.inf
        self._pods[pod.uid] = entry
        insort(self._order, entry.sort_key)

    def drop(self, uid: str) -> None:
        """Remove a pod."""
        if entry := self._pods.pop(uid, None):
            self._order.pop(bisect_left(self._order, entry.sort_key))

    def get(self, uid: str) -> GatedPod | None:
        """Return a waiting pod."""
        return self._pods.get(uid)

    def lacking(self) -> frozenset[str]:
        """Return the namespaces of pods for which the last attempt found no room."""
        waiting = (gated for gated in self._pods.values() if gated.alone and gated.lacking)
        return frozenset(gated.pod.namespace for gated in waiting)

    def in_order(self) -> list[GatedPod]:
        """Return all waiting pods, in order."""
        return [self._pods[place[-1]] for place in self._order]


def waits(pod: PodInfo) -> bool:
    """Return whether our gate holds a pod that is neither bound, ended nor being deleted."""
    return PLACEMENT_GATE in pod.gates and not (pod.node or pod.ended or pod.leaving)
