"""
The pods that wait behind the gate, in the order in which they are looked at.

Higher priorities come first and, of one priority, older pods, as in the queue of kube-scheduler. Whoever was
looked at in vain waits before the next time, longer and longer, so that a crowd that fits nowhere leaves time
for others.
"""

import math
from bisect import bisect_left, insort
from dataclasses import dataclass, field

from numalign.kube.pod_informer import PodInfo
from numalign.model.intent import PLACEMENT_GATE

FIRST_WAIT, LONGEST_WAIT = 0.25, 4.0
"""Seconds until a pod that fitted nowhere is looked at again."""

FIRST_RETRY, LONGEST_RETRY = 1.0, 20.0
"""Seconds until a write that failed is tried again."""

NEWS_LOST_SECONDS = 30.0
"""After how long without news of a gate that was lifted nobody believes any more that it was."""

_QueuePlace = tuple[int, int, str, str]
"""What the queue is sorted by; the uid is last."""


@dataclass(slots=True)
class GatedPod:
    """A pod behind the gate. Times are seconds of a clock.

    Its patience began `since`, infinite as long as other gates keep it too. It is looked at again from `due`
    on, and its gate is lifted from `retry` on: what fails on the way to a pin does not put that off. `why` is
    what was in its way the last time; as long as it has `room` as far as is known, that was no lack of it.
    """

    pod: PodInfo
    since: float
    due: float = -math.inf
    retry: float = -math.inf
    vain: int = 0
    failures: int = 0
    why: str = ""
    room: bool = True

    @property
    def alone(self) -> bool:
        """Whether no other gate keeps it."""
        return self.since < math.inf

    def is_overdue(self, patience: float, *, now: float) -> bool:
        """Whether it has waited for longer than that, and may be let go."""
        return now >= max(self.since + patience, self.retry)

    def fitted_nowhere(self, why: str, *, now: float) -> None:
        """Look at it later, and each time later than before: no node has room for it."""
        self._later(why, now=now)
        self.room = False

    def not_its_turn(self, why: str, *, now: float) -> None:
        """Look at it later, and each time later than before: a node had room, but not yet."""
        self._later(why, now=now)
        self.room = True

    def _later(self, why: str, *, now: float) -> None:
        self.due = now + min(FIRST_WAIT * 2.0 ** min(self.vain, 16), LONGEST_WAIT)
        self.vain, self.why = self.vain + 1, why

    def not_judged(self, *, now: float) -> None:
        """Look at it later, and each time later than before, for nobody could say where it fits."""
        self.room = False
        self.due = now + min(FIRST_RETRY * 2.0 ** min(self.vain, 16), LONGEST_RETRY)
        self.vain += 1

    def failed(self, *, now: float) -> None:
        """Lift its gate once more, if that failed, later, and each time later than before."""
        self.retry = now + min(FIRST_RETRY * 2.0 ** min(self.failures, 16), LONGEST_RETRY)
        self.failures += 1

    def lifted(self, *, now: float) -> None:
        """Wait for the news that its gate is gone."""
        self.retry = now + NEWS_LOST_SECONDS

    @property
    def place(self) -> _QueuePlace:
        """Where it stands in the queue."""
        return -self.pod.priority, self.pod.created, f"{self.pod.namespace}/{self.pod.name}", self.pod.uid


@dataclass(slots=True)
class GateQueue:
    """The gated pods by uid, and their order."""

    _pods: dict[str, GatedPod] = field(default_factory=dict)
    _order: list[_QueuePlace] = field(default_factory=list)

    def __len__(self) -> int:
        """How many pods wait."""
        return len(self._pods)

    def update(self, pod: PodInfo, *, now: float, age: float) -> None:
        """Take a pod as it is; it was created `age` seconds ago.

        The patience of one that is seen alone behind the gate for the first time counts from its creation,
        and that of one that other gates let go from now.
        """
        if not waits(pod):
            self.drop(pod.uid)
            return
        before = self._pods.get(pod.uid)
        alone = pod.gates == (PLACEMENT_GATE,)
        if before is None:
            entry = GatedPod(pod, now - age if alone else math.inf)
        else:
            self._order.pop(bisect_left(self._order, before.place))
            entry = before
            entry.since = math.inf if not alone else min(before.since, now)
            entry.pod = pod
            # What it asks may have changed.
            entry.due = -math.inf
        self._pods[pod.uid] = entry
        insort(self._order, entry.place)

    def drop(self, uid: str) -> None:
        """A pod waits no more."""
        if entry := self._pods.pop(uid, None):
            self._order.pop(bisect_left(self._order, entry.place))

    def get(self, uid: str) -> GatedPod | None:
        """A pod that waits."""
        return self._pods.get(uid)

    def in_order(self) -> list[GatedPod]:
        """All that wait now, in their order."""
        return [self._pods[place[-1]] for place in self._order]


def waits(pod: PodInfo) -> bool:
    """Whether a pod is kept by our gate, and nothing else became of it."""
    return PLACEMENT_GATE in pod.gates and not (pod.node or pod.ended or pod.leaving)
