"""
What is assigned and reserved on all nodes, as pods and topologies come and go.

Whoever ranks and binds asks the same nodes again and again, so what is free on a node is worked out once and
kept until something about that node changes. Nothing here is remembered that could not be learned anew: a
reservation lives until its pod is seen bound, and then the pod itself says what it holds.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from numalign.decision.evaluate import NO_INTENT
from numalign.ledger import claims, observations, ordering
from numalign.ledger.free import MOST_RECENT, free_capacity
from numalign.ledger.model import (
    SEEN,
    AssignedPod,
    Basis,
    FingerprintReader,
    FreeCapacity,
    NodeInfo,
    PlacementRecord,
    Prediction,
    Source,
    Stage,
)
from numalign.ledger.observations import RELEASED, ObservedPods
from numalign.model.demand import Demand
from numalign.model.intent import Intent
from numalign.model.node import Node, alike

LAG_SECONDS = 75.0
"""After how long a topology accounts for a pod: exporters publish once a minute."""

RELEASE_SECONDS = 10.0
"""How long before the API server hears of a pod's end its kubelet may have let go of it."""

NEWS_SECONDS = 2.0
"""How long the news of a pod's end take, nearly always."""

UNKNOWN = "unknown"
"""In place of a source, of pods of which nobody knows what they hold."""

KEPT_SECONDS = 60.0
"""How long a reservation is kept for a pod that nobody sees bound: a scheduler gives up earlier."""


@dataclass(slots=True)
class _NodeEntry:
    """What is known of one node; `node` is None as long as its topology is not.

    `counted` are the assigned pods as they count there, by the `facts` of the node. `told` is what the agent
    beside its kubelet says now, `observed` what of that is believed, and `last` what was believed last of
    pods that are there still and that are not in it any more. `told` is None where no agent says anything.
    """

    node: Node | None = None
    fingerprint: FingerprintReader | None = None
    facts: claims.StaticFacts | None = None
    assigned_pods: dict[str, AssignedPod] = field(default_factory=dict)
    counted: dict[str, AssignedPod] = field(default_factory=dict)
    departed: dict[str, AssignedPod] = field(default_factory=dict)
    told: ObservedPods | None = None
    observed: ObservedPods = field(default_factory=dict)
    last: dict[str, PlacementRecord] = field(default_factory=dict)
    info: NodeInfo | None = None
    free: FreeCapacity | None = None
    before: tuple[NodeInfo, FreeCapacity] | None = None
    until: float = math.inf

    def relabel(self, node: Node) -> None:
        """Take a node that differs from this one in its labels and in who may go there alone."""
        self.node = node
        self.info = self.info and replace(self.info, node=node)
        self.free = self.free and _relabelled(self.free, node)
        if self.before:
            info, free = self.before
            self.before = replace(info, node=node), _relabelled(free, node)

    def seen(self, pod: AssignedPod) -> PlacementRecord | None:
        """Return what the kubelet has down for a pod, as far as its agent ever said.

        An agent leaves out pods of which it is not sure. But a pod that was deleted and is left out is gone,
        as long as there is an agent: one that was taken away says nothing of any pod.
        """
        if record := self.observed.get(pod.uid):
            return record
        last = self.last.get(pod.uid)
        left_out = self.told is not None and pod.uid not in self.told
        return RELEASED if last and pod.terminating and left_out else last

    def impossible(self, pod: AssignedPod) -> frozenset[str]:
        """Return the resources of a pod of which the agent says what cannot be."""
        told = (self.told or {}).get(pod.uid)
        if told is None or pod.uid in self.observed:
            return frozenset()
        return frozenset(name for bag in told.held.values() for name in bag)

    def word_on(self, pod: AssignedPod) -> tuple[PlacementRecord | None, frozenset[str]]:
        """Return what there is of the agent that a pod counts by."""
        return self.seen(pod), self.impossible(pod)


class Reservations:
    """The ledger of every node. Times are seconds of the caller's clock, and never go back.

    `lag` is after how many seconds a topology accounts for a pod at the latest, `kept` how long a reservation
    waits for its pod.
    """

    def __init__(self, *, lag: float = LAG_SECONDS, kept: float = KEPT_SECONDS) -> None:
        self._lag = lag
        self._kept = kept
        self._entries: dict[str, _NodeEntry] = {}
        self._node_of: dict[str, str] = {}
        self._reserved: set[str] = set()
        self._refuted: set[str] = set()
        self._turn = 0
        self._complete = True
        self._callbacks: list[Callable[[str], object]] = []

    @property
    def lag(self) -> float:
        """After how many seconds a topology accounts for a pod at the latest."""
        return self._lag

    def on_change(self, callback: Callable[[str], object]) -> None:
        """Call back with a node's name whenever nothing that was worked out for it holds any more.

        What time alone changes is not reported: see `valid_until`.
        """
        self._callbacks.append(callback)

    def _changed(self, name: str) -> None:
        entry = self._entries[name]
        entry.info = entry.free = None
        self._call_back(name)

    def _call_back(self, name: str) -> None:
        for callback in self._callbacks:
            callback(name)

    # Nodes.

    def update_node(self, node: Node, fingerprint: FingerprintReader | None = None) -> None:
        """Take what a topology says of a node, and what reads the fingerprint of the pods it accounts for."""
        entry = self._entry(node.name)
        if entry.node is node and entry.fingerprint == fingerprint:
            return
        if entry.fingerprint == fingerprint and alike(entry.node, node):
            entry.relabel(node)
            self._call_back(node.name)
            return
        entry.node, entry.fingerprint = node, fingerprint
        facts = claims.static_facts(node)
        if entry.facts != facts:
            entry.facts = facts
            self._observe(entry)
            for assigned_pod in entry.assigned_pods.values():
                self._count(entry, assigned_pod)
        self._changed(node.name)

    def update_observed(self, name: str, told: ObservedPods | None, *, now: float) -> None:
        """Take what the agent beside a node's kubelet says of its pods, by uid; of no other node's pods.

        It is None where there is no agent, or nothing of it can be read: who says nothing lets go of nothing.
        Of a pod that is not in it any more nothing is forgotten, until it leaves or was deleted, or others
        have what it had.
        """
        entry = self._entries.get(name)
        if entry is None or entry.told == told:
            return
        before = {uid: entry.word_on(pod) for uid, pod in entry.assigned_pods.items()}
        entry.told = told
        self._observe(entry)
        changed = [uid for uid, pod in entry.assigned_pods.items() if entry.word_on(pod) != before[uid]]
        released = [uid for uid in changed if entry.seen(entry.assigned_pods[uid]) is RELEASED]
        for uid in changed:
            if uid not in released:
                self._count(entry, entry.assigned_pods[uid])
        if changed:
            self._changed(name)
        for uid in released:
            self._release(name, uid, now=now)

    def _release(self, name: str, uid: str, *, now: float) -> None:
        """Take that a kubelet has let go of a pod that is there still; others may have found its room."""
        self._doubt(name, uid, now=now)
        entry = self._entries[name]
        self._count(entry, entry.assigned_pods[uid])
        self._changed(name)

    def _observe(self, entry: _NodeEntry) -> None:
        """Believe what the agent says as far as it can be so on the node as it is now."""
        node = entry.node
        if node is None:
            return
        seen = entry.last | {uid: entry.observed[uid] for uid in entry.observed if uid in entry.assigned_pods}
        now = observations.believed(node, entry.told or {})
        entry.observed = now
        last = {uid: record for uid, record in seen.items() if uid not in now}
        gone = observations.given_away(node, last, now.values())
        entry.last = last | dict.fromkeys(gone, RELEASED)

    def remove_nodes(self, names: Iterable[str]) -> None:
        """Forget the topologies of these nodes; their pods stay."""
        for name in names:
            entry = self._entry(name)
            entry.node = entry.fingerprint = entry.facts = None
            entry.told = None
            self._changed(name)
            if not entry.assigned_pods:
                del self._entries[name]

    def set_complete(self, complete: bool) -> None:  # noqa: FBT001  the one thing that it is about
        """Take whether every pod on every node is listed; a file may hold topologies alone."""
        if complete is not self._complete:
            self._complete = complete
            for name in self._entries:
                self._changed(name)

    # Pods on nodes.

    def update_pod(self, name: str, assigned_pod: AssignedPod) -> None:
        """Take a pod that is bound to or admitted by this node; what was reserved for it there stays."""
        before = self.assigned_pod(assigned_pod.uid)
        if before and self._node_of[assigned_pod.uid] == name:
            assigned_pod = _continued(before, assigned_pod)
            if assigned_pod == before:
                return
        elif before:
            self._remove(assigned_pod.uid)
            assigned_pod = self._moved(name, assigned_pod)
        self._enter(name, assigned_pod)

    def _moved(self, name: str, assigned_pod: AssignedPod) -> AssignedPod:
        """A pod with a reservation elsewhere: what it gets here is guessed, for the kubelet decides now."""
        if assigned_pod.record or assigned_pod.demand is None:
            return assigned_pod
        created, now = assigned_pod.created, assigned_pod.since
        prediction = self.predict(name, assigned_pod.demand, created=created, now=now)
        return replace(assigned_pod, guess=prediction.held) if prediction else assigned_pod

    def update_intent(self, uid: str, intent: Intent) -> None:
        """Take what somebody asks of a pod's placement from now on."""
        assigned_pod = self.assigned_pod(uid)
        if assigned_pod and assigned_pod.intent != intent:
            self._enter(self._node_of[uid], replace(assigned_pod, intent=intent))

    def mark_terminating(self, uid: str, *, now: float) -> None:
        """Take that a pod was deleted: from now on its kubelet may let go of it at any time."""
        if uid in self._node_of:
            self._doubt(self._node_of[uid], uid, now=now)

    def remove_pod(self, uid: str, *, now: float) -> None:
        """Take that a pod is gone, or has ended: it holds nothing any more."""
        assigned_pod = self.assigned_pod(uid)
        if assigned_pod is None:
            return
        name = self._node_of[uid]
        self._doubt(name, uid, now=now)
        counted = self._entries[name].counted[uid]
        self._remove(uid)
        entry = self._entries.get(name)
        if entry and entry.node and not assigned_pod.reserved:
            entry.departed[uid] = counted
            while len(entry.departed) > MOST_RECENT:
                del entry.departed[next(iter(entry.departed))]

    def _doubt(self, name: str, leaver: str, *, now: float) -> None:
        """No longer build on what was predicted of pods that may have found the leaver's room."""
        info = self.node_info(name)
        if info is None:
            return
        entry = self._entries[name]
        for uid in ordering.doubted(info, leaver, now=now, within=RELEASE_SECONDS):
            pod, guess = entry.assigned_pods[uid], entry.counted[uid].expected
            entry.assigned_pods[uid] = replace(pod, record=None, guess=guess, doubtful=True)
            self._count(entry, entry.assigned_pods[uid])
            self._changed(name)

    # Reservations.

    def reserve(self, name: str, assigned_pod: AssignedPod, prediction: Prediction | None) -> None:
        """Reserve for a pod what a node was predicted to give it, in place of an earlier reservation.

        Without a prediction nobody knows the node: the pod is expected there, and holds nobody knows what.
        """
        self._remove(assigned_pod.uid)
        self._turn += 1
        self._enter(name, _given(replace(assigned_pod, stage=Stage.RESERVED, turn=self._turn), prediction))

    def take_over(self, name: str, assigned_pod: AssignedPod) -> None:
        """Take a reservation that somebody else made, as he wrote it down; nobody knows when it is bound."""
        self._remove(assigned_pod.uid)
        self._turn += 1
        self._enter(name, replace(assigned_pod, stage=Stage.RESERVED, turn=self._turn, unconfirmed=True))

    def update_reservation(self, uid: str, prediction: Prediction) -> None:
        """Reserve what is predicted by now for a pod that has a reservation, which keeps its turn."""
        assigned_pod = self.assigned_pod(uid)
        if assigned_pod and assigned_pod.reserved:
            updated = _given(replace(assigned_pod, doubtful=False), prediction)
            if updated != assigned_pod:
                self._enter(self._node_of[uid], updated)

    def mark_unconfirmed(self, uid: str) -> None:
        """Take that nobody knows whether a pod with a reservation was bound, until it is seen."""
        assigned_pod = self.assigned_pod(uid)
        if assigned_pod and assigned_pod.reserved:
            self._enter(self._node_of[uid], replace(assigned_pod, unconfirmed=True))

    def unreserve(self, uid: str) -> None:
        """Remove the reservation of a pod; nothing happens to one that is on a node already."""
        if uid in self._reserved:
            self._remove(uid)

    def expire(self, now: float) -> tuple[AssignedPod, ...]:
        """Remove the reservations of pods that were not seen in time, and return these pods."""
        late = tuple(pod for pod in self.reserved() if now - pod.since >= self._kept)
        for pod in late:
            self._remove(pod.uid)
        return late

    def reserved(self) -> tuple[AssignedPod, ...]:
        """Return the pods that have a reservation and are not seen on a node."""
        return tuple(self._entries[self._node_of[uid]].assigned_pods[uid] for uid in self._reserved)

    def is_reserved(self, uid: str) -> bool:
        """Return whether a pod has a reservation and is not seen on a node."""
        return uid in self._reserved

    def reserved_since(self, uid: str) -> tuple[str, ...]:
        """Return the uids of a pod and of those that came to its node by a later reservation."""
        assigned_pod = self.assigned_pod(uid)
        if assigned_pod is None:
            return ()
        pods = self._entries[self._node_of[uid]].assigned_pods.values()
        return tuple(pod.uid for pod in pods if pod.uid == uid or pod.turn > assigned_pod.turn)

    # What is known, and what follows from it.

    def node_names(self) -> Iterator[str]:
        """Return the names of all nodes whose topology is known."""
        return (name for name, entry in self._entries.items() if entry.node)

    def node_of(self, uid: str) -> str | None:
        """Return the name of the node that a pod is on, or has a reservation on."""
        return self._node_of.get(uid)

    def assigned_pod(self, uid: str) -> AssignedPod | None:
        """Return a pod on a node, or one with a reservation."""
        name = self._node_of.get(uid)
        return None if name is None else self._entries[name].assigned_pods[uid]

    def assigned_pods(self) -> Iterator[AssignedPod]:
        """Return all pods on nodes and on their way to them."""
        return (pod for entry in self._entries.values() for pod in entry.assigned_pods.values())

    def assigned_to(self, name: str) -> Collection[AssignedPod]:
        """Return the pods on one node and on their way there."""
        entry = self._entries.get(name)
        return entry.assigned_pods.values() if entry else ()

    def counted_pods(self) -> Iterator[AssignedPod]:
        """Return the same pods as they count on their nodes."""
        return (pod for entry in self._entries.values() for pod in entry.counted.values())

    def observed(self, uid: str) -> PlacementRecord | None:
        """What the agent beside its kubelet says of a pod on its node; None as long as that is nothing."""
        name = self._node_of.get(uid)
        return None if name is None else self._entries[name].observed.get(uid)

    def is_observed(self, name: str) -> bool:
        """Return whether an agent says what the pods of a node hold."""
        entry = self._entries.get(name)
        return bool(entry and entry.told)

    def refuted(self) -> Iterator[tuple[str, AssignedPod]]:
        """Pods whose record says what cannot be, as they count on their node, each with its node's name."""
        for uid in self._refuted:
            name = self._node_of[uid]
            yield name, self._entries[name].counted[uid]

    def count_refuted(self) -> int:
        """Return how many of these there are."""
        return len(self._refuted)

    def count_by_basis(self) -> dict[Basis, int]:
        """How many nodes' free capacity rests on which basis, of those asked about since anything changed."""
        counts = dict.fromkeys(Basis, 0)
        for entry in self._entries.values():
            if entry.free:
                counts[entry.free.basis] += 1
        return counts

    def count_by_source(self, names: Iterable[str]) -> Mapping[str, int]:
        """How it is known of how many pods what they hold, of those on these nodes that hold anything.

        Of a pod that counts as `unknown` nobody knows all that it holds.
        """
        infos = filter(None, map(self.node_info, names))
        counts = Counter(_source(pod, info.node) for info in infos for pod in info.assigned_pods)
        return {source: counts[source] for source in (*Source, UNKNOWN) if counts[source]}

    def node_info(self, name: str) -> NodeInfo | None:
        """Return all that is known of a node; None if its topology is not."""
        entry = self._entries.get(name)
        if entry is None or entry.node is None:
            return None
        if entry.info is None:
            pods, departed = tuple(entry.counted.values()), tuple(entry.departed.values())
            entry.info = NodeInfo(entry.node, pods, departed, entry.fingerprint, self._complete)
        return entry.info

    def free_capacity(self, name: str, *, now: float) -> FreeCapacity | None:
        """Return what is free on a node; None if its topology is not known."""
        info = self.node_info(name)
        if info is None:
            return None
        entry = self._entries[name]
        if entry.free is None or now >= entry.until:
            entry.free = free_capacity(info, now=now, lag=self._lag, before=entry.before)
            entry.before = info, entry.free
            entry.until = math.inf
            if entry.free.basis is Basis.REPORTED:
                ends = (pod.since + self._lag for pod in info.assigned_pods if pod.admitted)
                entry.until = min((end for end in ends if end > now), default=math.inf)
        return entry.free

    def valid_until(self, name: str) -> float:
        """When time alone will change what `free_capacity` returned last; infinite if it never will."""
        entry = self._entries.get(name)
        return entry.until if entry and entry.free else math.inf

    def predict(  # noqa: PLR0913  a node, a pod, and the time
        self,
        name: str,
        demand: Demand,
        intent: Intent = NO_INTENT,
        *,
        created: int = 0,
        now: float,
        without: Iterable[str] = (),
    ) -> Prediction | None:
        """What a node answers a pod, once those in `without` are gone; None if its topology is not known."""
        info = self.node_info(name)
        if info is None:
            return None
        gone = [uid for uid in without if self._node_of.get(uid) == name]
        free = None if gone else self.free_capacity(name, now=now)
        if gone:
            reserved = self._reserved.intersection(gone)
            info = info.without(reserved).after(set(gone) - reserved)
        return ordering.predict(info, demand, intent, created=created, now=now, lag=self._lag, free=free)

    def at_risk(
        self,
        name: str,
        demand: Demand,
        intent: Intent = NO_INTENT,
        *,
        now: float,
        without: Iterable[str] = (),
    ) -> tuple[AssignedPod, ...]:
        """Pods taken in lately, but those in `without`, that may sit where this one would be refused."""
        info = self.node_info(name)
        if info is None:
            return ()
        return ordering.at_risk(info.without(without), demand, intent, now=now, within=NEWS_SECONDS)

    # Bookkeeping.

    def _entry(self, name: str) -> _NodeEntry:
        return self._entries.setdefault(name, _NodeEntry())

    def _count(self, entry: _NodeEntry, assigned_pod: AssignedPod) -> None:
        """Keep a pod as it counts on its node."""
        seen, impossible = entry.word_on(assigned_pod) if entry.node else (None, frozenset[str]())
        counted = assigned_pod.counted_on(entry.node) if entry.node and not seen else assigned_pod
        if seen:
            counted = counted.observed_as(seen)
        if impossible:
            counted = replace(counted, refuted=counted.refuted | impossible)
        entry.counted[assigned_pod.uid] = counted
        (self._refuted.add if counted.refuted else self._refuted.discard)(assigned_pod.uid)

    def _enter(self, name: str, assigned_pod: AssignedPod) -> None:
        entry, uid = self._entry(name), assigned_pod.uid
        before = entry.assigned_pods.get(uid)
        entry.assigned_pods[uid] = assigned_pod
        if before and entry.counted[uid] is before and _claims_the_same(before, assigned_pod):
            # All of it was believed, and is for the same reasons.
            entry.counted[uid] = assigned_pod
        else:
            self._count(entry, assigned_pod)
        entry.departed.pop(uid, None)
        self._changed(name)
        self._node_of[uid] = name
        (self._reserved.add if assigned_pod.reserved else self._reserved.discard)(uid)

    def _remove(self, uid: str) -> None:
        name = self._node_of.pop(uid, None)
        if name is None:
            return
        entry = self._entries[name]
        del entry.assigned_pods[uid], entry.counted[uid]
        entry.last.pop(uid, None)
        self._changed(name)
        self._reserved.discard(uid)
        self._refuted.discard(uid)
        if entry.node is None and not entry.assigned_pods:
            del self._entries[name]


def _source(pod: AssignedPod, node: Node) -> str | None:
    """How it is known what a pod holds; None of one that holds nothing."""
    if pod.record and not pod.record.unknown:
        return pod.record.source if pod.record.held else None
    return UNKNOWN if pod.holds(node) else None


def _relabelled(free: FreeCapacity, node: Node) -> FreeCapacity:
    """Return what is free, on a node that is alike."""
    relabelled = replace(free.node, label=node.label, attributes=node.attributes, health=node.health)
    return replace(free, node=relabelled)


def _claims_the_same(one: AssignedPod, other: AssignedPod) -> bool:
    """Return whether both ask for the same, and have records of the same."""
    mine, theirs = (pod.record and pod.record.held for pod in (one, other))
    return mine == theirs and one.demand == other.demand


def _continued(before: AssignedPod, now: AssignedPod) -> AssignedPod:
    """A pod that is seen again on its node: what is better known counts, and a stage has begun only once."""
    record = now.record or before.record
    if now.record and before.record and now.record.held == before.record.held and now.record.cpus is None:
        # What was written down at bind has no ids.
        record = replace(now.record, cpus=before.record.cpus)
    if before.doubtful and record and record.source not in SEEN:
        record = None
    return replace(
        now,
        # A kubelet takes back nothing that its managers gave: it does not resize such a pod in place.
        demand=before.demand if before.admitted and before.demand else now.demand,
        since=before.since if before.stage is now.stage else now.since,
        turn=before.turn,
        record=record,
        guess=before.guess,
        doubtful=before.doubtful,
        # Its call may have been the last of all to be heard.
        unconfirmed=before.unconfirmed,
    )


def _given(assigned_pod: AssignedPod, prediction: Prediction | None) -> AssignedPod:
    """Return the pod with what is predicted for it."""
    record, guess = (prediction.record, prediction.held) if prediction else (None, None)
    return replace(assigned_pod, record=record, guess=guess)
