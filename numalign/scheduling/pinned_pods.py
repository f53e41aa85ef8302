"""
Pods that a controller has pinned, as other replicas and other programs see them.

Whoever pins a pod has reserved its zones in a memory of his own. What others know of that stands on the pod:
the node that its affinity names, when that was written, and the record of its placement. A tenant may write
the same, so it counts only where gates are used at all, for a pod that waits for nothing but its scheduler,
for a short time and once: who pins a pod again and again, by hand, keeps nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from numalign.kube.pod_informer import PodInfo
from numalign.ledger.model import AssignedPod
from numalign.ledger.reservations import Reservations

PIN_SECONDS = 60.0
"""How long a pin is believed, since it was written."""

SKEW_SECONDS = 2.0
"""By how much two clocks may differ: of whoever wrote it, of an API server, and here."""


@dataclass(eq=False, kw_only=True, slots=True)
class PinnedReservations:
    """Reserves for pinned pods what others reserved for them.

    `gated` says whether gates are used in a namespace, `assigned` gives a pod as the ledger is to keep it,
    since so many seconds. `clock` is in seconds, `wall` since 1970.
    """

    reservations: Reservations
    gated: Callable[[str], bool]
    assigned: Callable[[PodInfo, float], AssignedPod | None]
    clock: Callable[[], float]
    wall: Callable[[], float]
    _waiting: dict[str, PodInfo] = field(init=False, default_factory=dict)
    _believed: set[str] = field(init=False, default_factory=set)
    _until: dict[str, float] = field(init=False, default_factory=dict)

    def update_pod(self, pod: PodInfo) -> None:
        """A pod that is on no node is there like this."""
        self._waiting.pop(pod.uid, None)
        if pod.pinned and not pod.gates and not pod.leaving and pod.uid not in self._believed:
            self._waiting[pod.uid] = pod
            self._look(pod)

    def settle(self, uid: str) -> None:
        """A pod is on a node, has ended or is gone."""
        self._waiting.pop(uid, None)
        self._until.pop(uid, None)
        self._believed.discard(uid)

    def look(self) -> None:
        """Look again at those of which too little was known: namespaces and nodes may be others by now."""
        for pod in [*self._waiting.values()]:
            self._look(pod)

    def expire(self) -> None:
        """Give up what was reserved here for pods that nobody has bound since."""
        now = self.clock()
        for uid in [uid for uid, until in self._until.items() if now >= until]:
            until, assigned_pod = self._until.pop(uid), self.reservations.assigned_pod(uid)
            # Whoever binds the pod at this moment has reserved for it anew.
            if assigned_pod and assigned_pod.since + PIN_SECONDS <= until:
                self.reservations.unreserve(uid)

    def _look(self, pod: PodInfo) -> None:
        age = self.wall() - pod.pinned_at
        # When a pod was created is said by another clock than when it was pinned.
        before_it_was = pod.pinned_at < pod.created - SKEW_SECONDS
        if age >= PIN_SECONDS or age < -SKEW_SECONDS or before_it_was:
            del self._waiting[pod.uid]
        elif self.reservations.node_of(pod.uid) == pod.pinned:
            # It was reserved right here.
            self._believe(pod)
        elif self.gated(pod.namespace) and (assigned_pod := self.assigned(pod, max(0.0, age))):
            self.reservations.take_over(pod.pinned, assigned_pod)
            self._believe(pod)
            self._until[pod.uid] = assigned_pod.since + PIN_SECONDS

    def _believe(self, pod: PodInfo) -> None:
        del self._waiting[pod.uid]
        self._believed.add(pod.uid)
