"""
What all nodes have promised, as pods and topologies come and go.

Whoever ranks and binds asks the same nodes again and again, so what is free on a node is worked out once and
kept until something about that node changes. Nothing here is remembered that could not be learned anew: a
promise lives until its pod is seen bound, and then the pod itself says what it holds.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypedDict

from numalign.decision.evaluate import NO_INTENT
from numalign.ledger import claims
from numalign.ledger.free import MOST_RECENT, free_capacity
from numalign.ledger.model import (
    AssignedPod,
    Basis,
    FingerprintReader,
    FreeCapacity,
    NodeInfo,
    PlacementRecord,
    Prediction,
    Source,
    Stage,
    judged,
)
from numalign.ledger.ordering import at_risk, doubted, predict
from numalign.model.demand import Demand
from numalign.model.intent import Intent
from numalign.model.node import Node, alike
from numalign.model.placement import Held

LAG_SECONDS = 75.0
"""After how long a topology accounts for a pod: exporters publish once a minute."""

RELEASE_SECONDS = 10.0
"""How long before the API server hears of a pod's end its kubelet may have let go of it."""

NEWS_SECONDS = 2.0
"""How long the news of a pod's end take, nearly always."""

KEPT_SECONDS = 60.0
"""How long a promise is kept for a pod that nobody sees bound: a scheduler gives up earlier."""


@dataclass(slots=True)
class _Book:
    """What is known of one node; `node` is None as long as its topology is not.

    `judged` are the residents as they count there, the `ground` of that judgement kept beside them.
    """

    node: Node | None = None
    told: FingerprintReader | None = None
    ground: claims.Ground | None = None
    assigned_pods: dict[str, AssignedPod] = field(default_factory=dict)
    judged: dict[str, AssignedPod] = field(default_factory=dict)
    left: dict[str, AssignedPod] = field(default_factory=dict)
    account: NodeInfo | None = None
    standing: FreeCapacity | None = None
    before: tuple[NodeInfo, FreeCapacity] | None = None
    until: float = math.inf

    def rename(self, node: Node) -> None:
        """The node is what it was, but for its labels and who may go there."""
        self.node = node
        self.account = self.account and replace(self.account, node=node)
        self.standing = self.standing and _of(self.standing, node)
        if self.before:
            account, found = self.before
            self.before = replace(account, node=node), _of(found, node)

    def judge(self, assigned_pod: AssignedPod) -> AssignedPod:
        """Note a resident as it counts here."""
        found = self.judged[assigned_pod.uid] = judged(self.node, assigned_pod) if self.node else assigned_pod
        return found


class Reservations:
    """The ledger of every node. Times are seconds of the caller's clock, and never go back.

    `lag` is after how many seconds a topology accounts for a pod at the latest, `kept` how long a promise
    waits for its pod.
    """

    def __init__(self, *, lag: float = LAG_SECONDS, kept: float = KEPT_SECONDS) -> None:
        self._lag = lag
        self._kept = kept
        self._books: dict[str, _Book] = {}
        self._places: dict[str, str] = {}
        self._promised: set[str] = set()
        self._refuted: set[str] = set()
        self._turn = 0
        self._complete = True
        self._hear: list[Callable[[str], object]] = []

    def listen(self, hear: Callable[[str], object]) -> None:
        """Tell from now on, each time, of which node nothing that was worked out holds any more.

        What time alone changes is not told: see `until`.
        """
        self._hear.append(hear)

    def _changed(self, name: str) -> None:
        book = self._books[name]
        book.account = book.standing = None
        self._tell(name)

    def _tell(self, name: str) -> None:
        for hear in self._hear:
            hear(name)

    # What is learned.

    def report(self, node: Node, told: FingerprintReader | None = None) -> None:
        """A topology says this of a node; `told` reads the fingerprint of the pods that it accounts for."""
        book = self._book(node.name)
        if book.node is node and book.told is told:
            return
        if book.told is told and alike(book.node, node):
            book.rename(node)
            self._tell(node.name)
            return
        book.node, book.told = node, told
        self._stand_on(book, claims.ground(node))
        self._changed(node.name)

    def _stand_on(self, book: _Book, ground: claims.Ground) -> None:
        """Judge all that is there anew, if the node is another one by now."""
        if book.ground != ground:
            book.ground = ground
            for each in book.assigned_pods.values():
                self._judge(book, each)

    def _judge(self, book: _Book, assigned_pod: AssignedPod) -> None:
        refuted = book.judge(assigned_pod).refuted
        (self._refuted.add if refuted else self._refuted.discard)(assigned_pod.uid)

    def told_of_all(self, complete: bool) -> None:  # noqa: FBT001  the one thing that it is about
        """Whether every pod on every node is told of; a file may hold topologies alone."""
        if complete is not self._complete:
            self._complete = complete
            for name in self._books:
                self._changed(name)

    def unreport(self, names: Iterable[str]) -> None:
        """These nodes have no topology any more; their pods stay."""
        for name in names:
            book = self._book(name)
            book.node = book.told = book.ground = None
            self._changed(name)
            if not book.assigned_pods:
                del self._books[name]

    def reported(self) -> Iterator[str]:
        """The names of all nodes whose topology is known."""
        return (name for name, book in self._books.items() if book.node)

    def put(self, place: str, assigned_pod: AssignedPod) -> None:
        """A pod is on a node, bound or admitted; what it was promised there goes on counting for it."""
        before = self._find(assigned_pod.uid)
        if before and self._places[assigned_pod.uid] == place:
            assigned_pod = _continued(before, assigned_pod)
            if assigned_pod == before:
                return
        elif before:
            self._remove(assigned_pod.uid)
            assigned_pod = self._moved(place, assigned_pod)
        self._enter(place, assigned_pod)

    def leaving(self, uid: str, *, now: float) -> None:
        """A pod was deleted: from now on its kubelet may let go of it at any moment."""
        if uid in self._places:
            self._doubt(self._places[uid], uid, now=now)

    def _moved(self, place: str, assigned_pod: AssignedPod) -> AssignedPod:
        """A pod that was promised another node: what it gets here is guessed, for the kubelet decides now."""
        if assigned_pod.record or assigned_pod.demand is None:
            return assigned_pod
        found = self.offer(place, assigned_pod.demand, created=assigned_pod.created, now=assigned_pod.since)
        return replace(assigned_pod, guess=found.place) if found else assigned_pod

    def drop(self, uid: str, *, now: float) -> None:
        """A pod is gone, or has ended: it holds nothing any more."""
        assigned_pod = self._find(uid)
        if assigned_pod is None:
            return
        place = self._places[uid]
        self._doubt(place, uid, now=now)
        known = self._books[place].judged[uid]
        self._remove(uid)
        book = self._books.get(place)
        if book and book.node and assigned_pod.stage is not Stage.PROMISED:
            book.left[uid] = known
            while len(book.left) > MOST_RECENT:
                del book.left[next(iter(book.left))]

    def _doubt(self, place: str, leaver: str, *, now: float) -> None:
        """No longer build on what was predicted of pods that may have found the leaver's room."""
        account = self.account(place)
        if account is None:
            return
        book = self._books[place]
        for uid in doubted(account, leaver, now=now, within=RELEASE_SECONDS):
            each, guess = book.assigned_pods[uid], book.judged[uid].promised
            book.assigned_pods[uid] = replace(each, record=None, guess=guess, doubtful=True)
            self._judge(book, book.assigned_pods[uid])
            self._changed(place)

    # What is promised.

    def promise(self, place: str, assigned_pod: AssignedPod, offer: Prediction | None) -> None:
        """Keep for a pod what a node offered to it; an earlier promise to it is withdrawn.

        None is the offer of a node that nobody knows: the pod is expected there, and holds nobody knows what.
        """
        self._remove(assigned_pod.uid)
        self._turn += 1
        held = _kept(offer)
        self._enter(place, replace(assigned_pod, stage=Stage.PROMISED, turn=self._turn, **held))

    def amend(self, uid: str, offer: Prediction) -> None:
        """Keep what the node offers now to a pod that was promised something there already."""
        assigned_pod = self._find(uid)
        if assigned_pod and assigned_pod.stage is Stage.PROMISED:
            amended = replace(assigned_pod, doubtful=False, **_kept(offer))
            if amended != assigned_pod:
                self._enter(self._places[uid], amended)

    def set_adrift(self, uid: str) -> None:
        """Nobody knows whether a pod was bound to where it was promised zones, until it is seen."""
        assigned_pod = self._find(uid)
        if assigned_pod and assigned_pod.stage is Stage.PROMISED:
            self._enter(self._places[uid], replace(assigned_pod, adrift=True))

    def since(self, uid: str) -> tuple[str, ...]:
        """A pod that was promised a node, and those that were promised the same node after it."""
        assigned_pod = self._find(uid)
        if assigned_pod is None:
            return ()
        here = self._books[self._places[uid]].assigned_pods.values()
        return tuple(each.uid for each in here if each.uid == uid or each.turn > assigned_pod.turn)

    def withdraw(self, uid: str) -> None:
        """A promise is off; nothing happens to a pod that is on a node already."""
        assigned_pod = self._find(uid)
        if assigned_pod and assigned_pod.stage is Stage.PROMISED:
            self._remove(uid)

    def expire(self, now: float) -> tuple[AssignedPod, ...]:
        """Give up promises whose pod was not seen in time, and tell which."""
        late = tuple(each for each in self.promised() if now - each.since >= self._kept)
        for each in late:
            self.withdraw(each.uid)
        return late

    def promised(self) -> tuple[AssignedPod, ...]:
        """Pods that were promised a node and are not seen on one."""
        return tuple(self._books[self._places[uid]].assigned_pods[uid] for uid in self._promised)

    def refuted(self) -> Iterator[tuple[str, AssignedPod]]:
        """Pods whose record says what cannot be, as they count on their node, each with its node's name."""
        for uid in self._refuted:
            place = self._places[uid]
            yield place, self._books[place].judged[uid]

    def count_refuted(self) -> int:
        """How many of these there are."""
        return len(self._refuted)

    # What is asked.

    def is_promised(self, uid: str) -> bool:
        """Whether a pod was promised a node and is not seen on one."""
        return uid in self._promised

    def place_of(self, uid: str) -> str | None:
        """The node that a pod is on, or was promised to."""
        return self._places.get(uid)

    def assigned_pod(self, uid: str) -> AssignedPod | None:
        """A pod on a node, or one that was promised to it."""
        return self._find(uid)

    def assigned_pods(self) -> Iterator[AssignedPod]:
        """All pods on nodes and on their way to them."""
        return (each for book in self._books.values() for each in book.assigned_pods.values())

    def account(self, name: str) -> NodeInfo | None:
        """All that is known of a node; None if its topology is not."""
        book = self._books.get(name)
        if book is None or book.node is None:
            return None
        if book.account is None:
            assigned_pods, left = tuple(book.judged.values()), tuple(book.left.values())
            book.account = NodeInfo(book.node, assigned_pods, left, book.told, self._complete)
        return book.account

    def standing(self, name: str, *, now: float) -> FreeCapacity | None:
        """What is free on a node; None if its topology is not known."""
        account = self.account(name)
        if account is None:
            return None
        book = self._books[name]
        if book.standing is None or now >= book.until:
            book.standing = free_capacity(account, now=now, lag=self._lag, before=book.before)
            book.before = account, book.standing
            book.until = self._until(book.standing, account, now)
        return book.standing

    def until(self, name: str) -> float:
        """When time alone will change the standing that was worked out last; endless if it never will."""
        book = self._books.get(name)
        return book.until if book and book.standing else math.inf

    def offer(  # noqa: PLR0913  a node, a pod, and the time
        self,
        name: str,
        demand: Demand,
        intent: Intent = NO_INTENT,
        *,
        created: int = 0,
        now: float,
        beside: Iterable[str] = (),
    ) -> Prediction | None:
        """What a node says to a pod, once those `beside` it have left; None if it is unknown."""
        account = self.account(name)
        if account is None:
            return None
        gone = [uid for uid in beside if self._places.get(uid) == name]
        place = None if gone else self.standing(name, now=now)
        here = _once_gone(account, gone) if gone else account
        return predict(here, demand, intent, created=created, now=now, lag=self._lag, place=place)

    def at_risk(
        self, name: str, demand: Demand, *, now: float, beside: Iterable[str] = ()
    ) -> tuple[AssignedPod, ...]:
        """Pods taken in lately that may sit where this one would be refused, those `beside` it left out."""
        account = self.account(name)
        if account is None:
            return ()
        return at_risk(account.without(beside), demand, now=now, within=NEWS_SECONDS)

    def bases(self) -> dict[Basis, int]:
        """How many nodes stand on which basis, of those that were asked since anything changed there."""
        counts = dict.fromkeys(Basis, 0)
        for book in self._books.values():
            if book.standing:
                counts[book.standing.basis] += 1
        return counts

    def _until(self, found: FreeCapacity, account: NodeInfo, now: float) -> float:
        """When time alone will change what was found."""
        if found.basis is not Basis.REPORTED:
            return math.inf
        ends = (each.since + self._lag for each in account.assigned_pods if each.settled)
        return min((end for end in ends if end > now), default=math.inf)

    def _book(self, name: str) -> _Book:
        return self._books.setdefault(name, _Book())

    def _find(self, uid: str) -> AssignedPod | None:
        place = self._places.get(uid)
        return None if place is None else self._books[place].assigned_pods[uid]

    def _enter(self, place: str, assigned_pod: AssignedPod) -> None:
        book = self._book(place)
        book.assigned_pods[assigned_pod.uid] = assigned_pod
        self._judge(book, assigned_pod)
        book.left.pop(assigned_pod.uid, None)
        self._changed(place)
        self._places[assigned_pod.uid] = place
        (self._promised.add if assigned_pod.stage is Stage.PROMISED else self._promised.discard)(
            assigned_pod.uid
        )

    def _remove(self, uid: str) -> None:
        place = self._places.pop(uid, None)
        if place is not None:
            book = self._books[place]
            del book.assigned_pods[uid], book.judged[uid]
            self._changed(place)
            self._promised.discard(uid)
            self._refuted.discard(uid)
            if book.node is None and not book.assigned_pods:
                del self._books[place]


def _of(standing: FreeCapacity, node: Node) -> FreeCapacity:
    """What is free, on a node that is alike."""
    here = replace(standing.node, label=node.label, attributes=node.attributes, health=node.health)
    return replace(standing, node=here)


def _once_gone(account: NodeInfo, uids: Iterable[str]) -> NodeInfo:
    """The account without these pods: whoever was on the node leaves, whoever was promised it never came."""
    gone = frozenset(uids)
    promised = {each.uid for each in account.assigned_pods if each.stage is Stage.PROMISED}
    return account.without(gone & promised).after(gone - promised)


def _continued(before: AssignedPod, now: AssignedPod) -> AssignedPod:
    """A pod that is seen again on its node: what is better known counts, and a stage has begun only once."""
    since = before.since if before.stage is now.stage else now.since
    record = now.record or before.record
    if before.doubtful and record and record.source is not Source.OBSERVED:
        record = None
    return replace(
        now,
        # A kubelet takes back nothing that its managers gave: it does not resize such a pod in place.
        demand=before.demand if before.settled and before.demand else now.demand,
        since=since,
        turn=before.turn,
        record=record,
        guess=before.guess,
        doubtful=before.doubtful,
        # Its call may have been the last of all to be heard.
        adrift=before.adrift,
    )


class _Kept(TypedDict):
    record: PlacementRecord | None
    guess: Held | None


def _kept(offer: Prediction | None) -> _Kept:
    if offer is None:
        return _Kept(record=None, guess=None)
    return _Kept(record=offer.record, guess=offer.place)
