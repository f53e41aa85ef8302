"""
Places that are held for pods which do not exist yet.

Before a part of the controller evicts a pod, it reserves the zones where the replacement should go. The
replacement is another pod with another UID, created by the same owner from the same template; that is how it
is recognized. A held place counts in the ledger as any other reservation, with a UID of its own, until the
replacement takes it or its time is over.

Pods of an owner that were already pending when a place was held are not its replacement: they get nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from numalign.cache import Question
from numalign.kube.pod_informer import PodInfo
from numalign.ledger.model import AssignedPod, Prediction, Stage
from numalign.scheduling.node_answers import NodeAnswers
from numalign.scheduling.scheduler_state import PendingPod, SchedulerState

MOST_HELD = 256
"""Most places that are held at a time; no other pod can use them meanwhile."""

RENEW_SECONDS = 20.0
"""Interval in seconds at which to renew a reservation, well before the ledger expires it."""

_PREFIX = "heal:"

OwnerKey = tuple[str, str]
"""Namespace, and the UID of the controller: a UID written in one namespace owns nothing in another."""


def owner_key(pod: PodInfo) -> OwnerKey | None:
    """Return the owner of a pod; None if it has none."""
    return (pod.namespace, pod.owner.uid) if pod.owner and pod.owner.uid else None


@dataclass(frozen=True, slots=True)
class HeldPlace:
    """
    A place on a node for the replacement of a pod, held until a time of the ledger's clock in seconds.

    `waiting` has the owner's pods that had no node when the place was held.
    """

    owner: OwnerKey
    question: Question
    node: str
    reservation: str
    until: float
    renewed: float
    waiting: frozenset[str]


def reservation_of(uid: str) -> str:
    """Return the UID of the ledger's reservation for the replacement of a pod."""
    return f"{_PREFIX}{uid}"


@dataclass(eq=False)
class HeldPlaces:
    """All held places. `clock` is that of the ledger."""

    state: SchedulerState
    nodes: NodeAnswers
    clock: Callable[[], float]
    _places: dict[str, HeldPlace] = field(init=False, default_factory=dict)
    _takers: dict[str, str] = field(init=False, default_factory=dict)

    def __len__(self) -> int:
        return len(self._places)

    def hold(
        self, pod: PodInfo, pending: PendingPod, node: str, prediction: Prediction, *, until: float
    ) -> bool:
        """Hold a place predicted at this moment for the replacement of a pod; return whether it is held."""
        owner, now = owner_key(pod), self.clock()
        if owner is None or pod.uid in self._places or len(self._places) >= MOST_HELD:
            return False
        if not prediction.reservable:
            return False
        reservation, name = reservation_of(pod.uid), (pod.namespace, pod.name)
        demand = pending.assigned_pod(now=now).demand
        assigned_pod = AssignedPod(
            reservation, name, demand, Stage.RESERVED, since=now, created=pending.created, awaited=True
        )
        self.state.reservations.reserve(node, assigned_pod, prediction)
        waiting = frozenset(
            other.uid for other in self.state.pods.values() if not other.node and owner_key(other) == owner
        )
        self._places[pod.uid] = HeldPlace(owner, pending.question, node, reservation, until, now, waiting)
        return True

    def is_held(self, uid: str) -> bool:
        """Return whether the ledger has a place for the replacement of the pod with this UID."""
        place = self._places.get(uid)
        return place is not None and self.state.reservations.node_of(place.reservation) == place.node

    def take(self, pod: PodInfo, pending: PendingPod) -> str | None:
        """
        Return the node that was held for this pod until now; None if there is none.

        The caller must reserve zones in the same step, so that no other pod gets them.
        """
        uid = self._awaiting(pod, pending)
        if uid is None:
            return None
        node = self._places[uid].node
        self.give_up(uid)
        self._takers[uid] = pod.uid
        return node

    def awaits(self, pod: PodInfo, pending: PendingPod) -> bool:
        """Return whether a place is held for this pod."""
        return self._awaiting(pod, pending) is not None

    def _awaiting(self, pod: PodInfo, pending: PendingPod) -> str | None:
        owner = owner_key(pod)
        if owner is None:
            return None
        fitting = (
            uid
            for uid, place in self._places.items()
            if place.owner == owner and place.question == pending.question
            if pod.uid != uid and pod.uid not in place.waiting
            if not self.nodes.not_eligible([place.node], pending)
        )
        return next(fitting, None)

    def taken_by(self, uid: str) -> str | None:
        """Return the UID of the pod that took the place held for the replacement of the pod with this UID."""
        return self._takers.get(uid)

    def give_up(self, uid: str) -> None:
        """Release the place held for the replacement of the pod with this UID, and forget who took it."""
        self._takers.pop(uid, None)
        if place := self._places.pop(uid, None):
            self.state.reservations.unreserve(place.reservation)

    def give_up_all(self) -> None:
        """Release everything: another leader does not know of it."""
        for uid in [*self._places, *self._takers]:
            self.give_up(uid)

    def expire(self) -> tuple[str, ...]:
        """Renew held places, and release those not taken in time; return the UIDs of the pods replaced."""
        now = self.clock()
        late = tuple(uid for uid, place in self._places.items() if now >= place.until)
        for uid in late:
            self.give_up(uid)
        reservations = self.state.reservations
        for uid, place in [*self._places.items()]:
            if now - place.renewed < RENEW_SECONDS:
                continue
            assigned_pod, question = reservations.assigned_pod(place.reservation), place.question
            prediction = reservations.predict(
                place.node, question.demand, question.intent, now=now, without=(place.reservation,)
            )
            if assigned_pod is None or prediction is None or not prediction.verdict.admitted:
                # The node no longer has room.
                self.give_up(uid)
                continue
            reservations.reserve(place.node, replace(assigned_pod, since=now), prediction)
            self._places[uid] = replace(place, renewed=now)
        return late
