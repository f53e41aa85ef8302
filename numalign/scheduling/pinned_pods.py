"""
Pods that a controller has pinned, as other replicas and other programs see them.

The program that pins a pod has reserved its zones in its own memory. Others see only the pod: the node in its
affinity, when that was written, and the record of its placement. A tenant may write the same, so it counts
only if gates are used at all, for a pod that waits only for its scheduler, for a short time and once:
repeated pins by hand reserve nothing. The time counts from when the gate of the pod is seen to be gone. Only
if the pod was pinned before it was first seen, as after a restart, the time that was written counts.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from numalign.kube.pod_informer import PodInfo
from numalign.ledger.model import AssignedPod
from numalign.ledger.reservations import Reservations
from numalign.model.intent import PLACEMENT_GATE
from numalign.runtime.clock import SKEW_SECONDS, least_age

PIN_SECONDS = 60.0
"""How long a pin is trusted after it was written."""


@dataclass(eq=False, kw_only=True, slots=True)
class PinnedReservations:
    """Reserves for pinned pods what others reserved for them.

    `gated` is whether gates are used in a namespace, `assigned` returns a pod as the ledger is to store it,
    since so many seconds. `clock` is in seconds, `wall` since 1970.
    """

    reservations: Reservations
    gated: Callable[[str], bool]
    assigned: Callable[[PodInfo, float], AssignedPod | None]
    clock: Callable[[], float]
    wall: Callable[[], float]
    _waiting: dict[str, tuple[PodInfo, float]] = field(init=False, default_factory=dict)
    _accepted: set[str] = field(init=False, default_factory=set)
    _until: dict[str, float] = field(init=False, default_factory=dict)

    def update_pod(self, pod: PodInfo, before: PodInfo | None) -> None:
        """Add or update a pod that is on no node; `before` is as it was, None if not seen before."""
        _, since = self._waiting.pop(pod.uid, (pod, None))
        if not pod.pinned or pod.gates or pod.leaving or pod.uid in self._accepted:
            return
        wall = self.wall()
        written_lately = pod.created - SKEW_SECONDS <= pod.pinned_at <= wall + SKEW_SECONDS
        if since is None and before and PLACEMENT_GATE in before.gates:
            # A pin and the end of a gate are one write.
            since = self.clock()
        elif since is None and not before and written_lately:
            since = self.clock() - least_age(wall, pod.pinned_at)
        if since is not None:
            self._waiting[pod.uid] = pod, since
            self._look(pod, since)

    def settle(self, uid: str) -> None:
        """Note that a pod is on a node, has ended or is gone."""
        self._waiting.pop(uid, None)
        self._until.pop(uid, None)
        self._accepted.discard(uid)

    def look(self) -> None:
        """Check again those with too little information: namespaces and nodes may have changed."""
        for pod, since in [*self._waiting.values()]:
            self._look(pod, since)

    def expire(self) -> None:
        """Release what was reserved here for pods that have not been bound since."""
        now = self.clock()
        for uid in [uid for uid, until in self._until.items() if now >= until]:
            until, assigned_pod = self._until.pop(uid), self.reservations.assigned_pod(uid)
            # A binding in progress has made a new reservation for the pod.
            if assigned_pod and assigned_pod.since + PIN_SECONDS <= until:
                self.reservations.unreserve(uid)

    def _look(self, pod: PodInfo, since: float) -> None:
        age = self.clock() - since
        if age >= PIN_SECONDS:
            del self._waiting[pod.uid]
        elif self.reservations.node_of(pod.uid) == pod.pinned:
            # It was reserved in this process.
            self._accept(pod)
        elif self.gated(pod.namespace) and (assigned_pod := self.assigned(pod, age)):
            self.reservations.take_over(pod.pinned, assigned_pod)
            self._accept(pod)
            self._until[pod.uid] = assigned_pod.since + PIN_SECONDS

    def _accept(self, pod: PodInfo) -> None:
        del self._waiting[pod.uid]
        self._accepted.add(pod.uid)
