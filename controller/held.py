"""
Places that are held for pods which are not there yet.

Whoever asks a pod to go wants its replacement to land where it was meant to: on the node whose zones were
reserved before anything was ended. The replacement is another pod with another uid, made by the same owner
of the same template; that is how it is known when it comes. What is held counts in the ledger as any other
reservation, under a uid of its own, until the replacement takes it or its time is over.

Pods of an owner that waited already when a place was held are not its replacement: they take nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from numalign.cache import Question
from numalign.kube.pod_informer import PodInfo
from numalign.ledger.model import AssignedPod, Prediction, Stage
from numalign.scheduling.node_answers import NodeAnswers
from numalign.scheduling.scheduler_state import PendingPod, SchedulerState

MOST_HELD = 256
"""Places at a time; each is part of a node that nobody else can have meanwhile."""

RENEW_SECONDS = 20.0
"""How often a reservation is made anew, well before the ledger gives it up."""

_PREFIX = "heal:"

OwnerKey = tuple[str, str]
"""Namespace, and the uid of the controller: whoever writes a uid in one namespace owns nothing in another."""


def owner_key(pod: PodInfo) -> OwnerKey | None:
    """Whose pod it is; None for one of nobody."""
    return (pod.namespace, pod.owner.uid) if pod.owner and pod.owner.uid else None


@dataclass(frozen=True, slots=True)
class HeldPlace:
    """What is held on a node for the replacement of a pod, until then in seconds of the ledger's clock.

    `waiting` are the owner's pods that had no node when it was held.
    """

    owner: OwnerKey
    question: Question
    node: str
    reservation: str
    until: float
    renewed: float
    waiting: frozenset[str]


def reservation_of(uid: str) -> str:
    """The uid under which the ledger has what is held for the replacement of a pod."""
    return f"{_PREFIX}{uid}"


@dataclass(eq=False)
class HeldPlaces:
    """All that is held. `clock` is that of the ledger."""

    state: SchedulerState
    nodes: NodeAnswers
    clock: Callable[[], float]
    _places: dict[str, HeldPlace] = field(init=False, default_factory=dict)
    _takers: dict[str, str] = field(init=False, default_factory=dict)

    def __len__(self) -> int:
        """How many places are held."""
        return len(self._places)

    def hold(
        self, pod: PodInfo, pending: PendingPod, node: str, prediction: Prediction, *, until: float
    ) -> bool:
        """Hold what was predicted at this very moment for the replacement of a pod; False if it cannot be."""
        owner, now = owner_key(pod), self.clock()
        if owner is None or pod.uid in self._places or len(self._places) >= MOST_HELD:
            return False
        if not prediction.reservable:
            return False
        reservation = reservation_of(pod.uid)
        demand = pending.assigned_pod(now=now).demand
        name = (pod.namespace, pod.name)
        assigned_pod = AssignedPod(
            reservation, name, demand, Stage.RESERVED, since=now, created=pending.created
        )
        self.state.reservations.reserve(node, assigned_pod, prediction)
        waiting = frozenset(
            other.uid for other in self.state.pods.values() if not other.node and owner_key(other) == owner
        )
        self._places[pod.uid] = HeldPlace(owner, pending.question, node, reservation, until, now, waiting)
        return True

    def is_held(self, uid: str) -> bool:
        """Whether a place is held for the replacement of the pod with this uid, and the ledger has it."""
        place = self._places.get(uid)
        return place is not None and self.state.reservations.node_of(place.reservation) == place.node

    def node_of(self, uid: str) -> str | None:
        """Where a place is held for the replacement of the pod with this uid."""
        place = self._places.get(uid)
        return place.node if place else None

    def take(self, pod: PodInfo, pending: PendingPod) -> str | None:
        """The node that is held for this pod, and from this moment on is not; None if there is none.

        Whoever takes it reserves in the same step, so that nobody comes in between.
        """
        uid = self._awaiting(pod, pending)
        if uid is None:
            return None
        node = self._places[uid].node
        self.give_up(uid)
        self._takers[uid] = pod.uid
        return node

    def awaits(self, pod: PodInfo, pending: PendingPod) -> bool:
        """Whether a place is held for this pod."""
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
        """The uid of the pod that took what was held for the replacement of the one with this uid."""
        return self._takers.get(uid)

    def give_up(self, uid: str) -> None:
        """Hold nothing any more for the replacement of the pod with this uid, and forget who took it."""
        self._takers.pop(uid, None)
        if place := self._places.pop(uid, None):
            self.state.reservations.unreserve(place.reservation)

    def give_up_all(self) -> None:
        """Hold nothing any more: whoever leads now knows of none of it."""
        for uid in [*self._places, *self._takers]:
            self.give_up(uid)

    def expire(self) -> tuple[str, ...]:
        """Keep up what is held, and give up what nobody came for in time; the uids of the pods it was for."""
        now = self.clock()
        late = tuple(uid for uid, place in self._places.items() if now >= place.until)
        for uid in late:
            self.give_up(uid)
        for uid, place in [*self._places.items()]:
            if now - place.renewed >= RENEW_SECONDS:
                self._renew(uid, place, now)
        return late

    def _renew(self, uid: str, place: HeldPlace, now: float) -> None:
        """Reserve the same once more; a node that cannot give it any more does not hold it."""
        assigned_pod = self.state.reservations.assigned_pod(place.reservation)
        question = place.question
        prediction = self.state.reservations.predict(
            place.node, question.demand, question.intent, now=now, without=(place.reservation,)
        )
        if assigned_pod is None or prediction is None or not prediction.verdict.admitted:
            self.give_up(uid)
            return
        self.state.reservations.reserve(place.node, replace(assigned_pod, since=now), prediction)
        self._places[uid] = replace(place, renewed=now)
