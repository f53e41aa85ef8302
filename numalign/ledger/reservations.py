"""
What is assigned and reserved on all nodes, as pods and topologies come and go.

Ranking and binding ask about the same nodes again and again, so the free capacity of a node is computed once
and cached until the node changes. No state is kept that could not be learned again: a reservation lasts until
its pod is seen bound, and then the pod itself has the record of what it holds.
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
"""How long before the API server is notified of a pod's end its kubelet may have released it."""

NOTIFICATION_SECONDS = 2.0
"""How long the notification of a pod's end takes in nearly all cases."""

UNKNOWN = "unknown"
"""In place of a source, for pods whose holdings are unknown."""

KEPT_SECONDS = 60.0
"""How long a reservation is kept for a pod that is not seen bound: a scheduler gives up earlier."""


@dataclass(slots=True)
class _NodeEntry:
    """What is known of one node; `node` is None as long as its topology is not known.

    `counted` are the assigned pods as they count there, by the `facts` of the node. `reported` is the current
    report of the node's agent, `observed` the trusted part of it, and `last` the last trusted reports on pods
    that are still there but not in `observed` any more. `reported` is None if no agent reports.
    """

    node: Node | None = None
    fingerprint: FingerprintReader | None = None
    facts: tuple[object, ...] | None = None
    assigned_pods: dict[str, AssignedPod] = field(default_factory=dict)
    counted: dict[str, AssignedPod] = field(default_factory=dict)
    departed: dict[str, AssignedPod] = field(default_factory=dict)
    reported: ObservedPods | None = None
    observed: ObservedPods = field(default_factory=dict)
    last: dict[str, PlacementRecord] = field(default_factory=dict)
    info: NodeInfo | None = None
    free: FreeCapacity | None = None
    before: tuple[NodeInfo, FreeCapacity] | None = None
    until: float = math.inf

    def seen(self, pod: AssignedPod) -> PlacementRecord | None:
        """Return what the kubelet recorded for a pod, as far as its agent ever reported it.

        An agent omits pods of which it is not sure. But a deleted pod that is omitted is gone, as long as
        there is an agent: without an agent there are no reports on any pod.
        """
        if record := self.observed.get(pod.uid):
            return record
        last = self.last.get(pod.uid)
        left_out = self.reported is not None and pod.uid not in self.reported
        return RELEASED if last and pod.terminating and left_out else last

    def reports_on(self, pod: AssignedPod) -> tuple[PlacementRecord | None, frozenset[str]]:
        """Return what was seen of a pod, and the resources for which the agent's report is impossible."""
        record = None if pod.uid in self.observed else (self.reported or {}).get(pod.uid)
        return self.seen(pod), frozenset().union(*record.held.values() if record else ())


class Reservations:
    """The ledger of every node. Times are seconds of the caller's clock, and never go back.

    `lag` is after how many seconds a topology accounts for a pod at the latest, `kept` how long a reservation
    waits for its pod.
    """

    def __init__(self, *, lag: float = LAG_SECONDS, kept: float = KEPT_SECONDS) -> None:
        self.lag = lag
        self.kept = kept
        self._entries: dict[str, _NodeEntry] = {}
        self._node_of: dict[str, str] = {}
        self._reserved: set[str] = set()
        self._refuted: set[str] = set()
        self._exclusive: dict[str, tuple[str, int]] = {}
        self._exclusive_of = Counter[str]()
        self._turn = 0
        self._complete = True
        self._callbacks: list[Callable[[str], object]] = []

    def on_change(self, callback: Callable[[str], object]) -> None:
        """Register a callback that gets a node's name whenever results for it become invalid.

        Changes by time alone are not reported: see `valid_until`.
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
        """Take a node from its topology, and the reader of the fingerprint of the pods it accounts for."""
        entry = self._entry(node.name)
        if entry.node is node and entry.fingerprint == fingerprint:
            return
        if entry.fingerprint == fingerprint and alike(entry.node, node):
            # Only its labels and attributes are others.
            entry.node = node
            entry.info = entry.info and replace(entry.info, node=node)
            entry.free = entry.free and _relabelled(entry.free, node)
            if entry.before:
                info, free = entry.before
                entry.before = replace(info, node=node), _relabelled(free, node)
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

    def update_observed(self, name: str, reported: ObservedPods | None, *, now: float) -> None:
        """Take the report of a node's agent on its pods, by uid; not on pods of other nodes.

        `reported` is None if there is no agent, or its report cannot be read: a missing report releases
        nothing. A pod that is no longer in the report is not forgotten until it leaves or is deleted, or
        others hold what it had.
        """
        entry = self._entries.get(name)
        if entry is None or entry.reported == reported:
            return
        before = {uid: entry.reports_on(pod) for uid, pod in entry.assigned_pods.items()}
        entry.reported = reported
        self._observe(entry)
        changed = [uid for uid, pod in entry.assigned_pods.items() if entry.reports_on(pod) != before[uid]]
        released = [uid for uid in changed if entry.seen(entry.assigned_pods[uid]) is RELEASED]
        for uid in changed:
            if uid not in released:
                self._count(entry, entry.assigned_pods[uid])
        if changed:
            self._changed(name)
        for uid in released:
            # The pod still exists, and others may have got its room.
            self._doubt(name, uid, now=now)
            self._count(entry, entry.assigned_pods[uid])
            self._changed(name)

    def _observe(self, entry: _NodeEntry) -> None:
        """Trust the agent's report as far as it is possible on the node as it is now."""
        if entry.node is None:
            return
        seen = entry.last | {uid: entry.observed[uid] for uid in entry.observed if uid in entry.assigned_pods}
        entry.observed = now = observations.possible_reports(entry.node, entry.reported or {})
        last = {uid: record for uid, record in seen.items() if uid not in now}
        gone = observations.given_away(entry.node, last, now.values())
        entry.last = last | dict.fromkeys(gone, RELEASED)

    def remove_node(self, name: str) -> None:
        """Forget the topology of a node; its pods stay."""
        entry = self._entry(name)
        entry.node = entry.fingerprint = entry.facts = None
        entry.reported = None
        for assigned_pod in entry.assigned_pods.values():
            self._count_cpus(entry, assigned_pod)
        self._changed(name)
        if not entry.assigned_pods:
            del self._entries[name]

    def set_complete(self, complete: bool) -> None:  # noqa: FBT001  the one thing that it is about
        """Set whether every pod on every node is listed; a file may contain only topologies."""
        if complete is not self._complete:
            self._complete = complete
            for name in self._entries:
                self._changed(name)

    # Pods on nodes.

    def update_pod(self, name: str, assigned_pod: AssignedPod) -> None:
        """Take a pod that is bound to or admitted by this node; its reservation there stays."""
        before = self.assigned_pod(assigned_pod.uid)
        if before and self._node_of[assigned_pod.uid] == name:
            assigned_pod = _continued(before, assigned_pod)
            if assigned_pod == before:
                return
        elif before:
            self._remove(assigned_pod.uid)
            if not assigned_pod.record and assigned_pod.demand:
                # It had a reservation on another node, and its kubelet decides now.
                created, now = assigned_pod.created, assigned_pod.since
                if prediction := self.predict(name, assigned_pod.demand, created=created, now=now):
                    assigned_pod = replace(assigned_pod, guess=prediction.held)
        self._enter(name, assigned_pod)

    def update_intent(self, uid: str, intent: Intent) -> None:
        """Set the intent of a pod from now on."""
        assigned_pod = self.assigned_pod(uid)
        if assigned_pod and assigned_pod.intent != intent:
            self._enter(self._node_of[uid], replace(assigned_pod, intent=intent))

    def mark_terminating(self, uid: str, *, now: float) -> None:
        """Note that a pod was deleted: from now on its kubelet may release it at any time."""
        if uid in self._node_of:
            self._doubt(self._node_of[uid], uid, now=now)

    def remove_pod(self, uid: str, *, now: float) -> None:
        """Note that a pod is gone or has ended: it no longer holds anything."""
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
        """Stop relying on predictions for pods that may have got the leaver's room."""
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
        """Reserve what a node is predicted to give a pod, in place of an earlier reservation.

        Without a prediction the node is unknown: the pod is expected there, and what it holds is unknown.
        """
        self._remove(assigned_pod.uid)
        self._turn += 1
        self._enter(name, _given(replace(assigned_pod, stage=Stage.RESERVED, turn=self._turn), prediction))

    def take_over(self, name: str, assigned_pod: AssignedPod) -> None:
        """Take over a reservation of another process, as recorded; when it is bound is unknown."""
        self._remove(assigned_pod.uid)
        self._turn += 1
        self._enter(name, replace(assigned_pod, stage=Stage.RESERVED, turn=self._turn, unconfirmed=True))

    def update_reservation(self, uid: str, prediction: Prediction) -> None:
        """Update the reservation of a pod to a new prediction; it keeps its turn."""
        assigned_pod = self.assigned_pod(uid)
        if assigned_pod and assigned_pod.reserved:
            updated = _given(replace(assigned_pod, doubtful=False), prediction)
            if updated != assigned_pod:
                self._enter(self._node_of[uid], updated)

    def mark_unconfirmed(self, uid: str) -> None:
        """Note that it is unknown whether a pod with a reservation was bound, until it is seen."""
        assigned_pod = self.assigned_pod(uid)
        if assigned_pod and assigned_pod.reserved:
            self._enter(self._node_of[uid], replace(assigned_pod, unconfirmed=True))

    def unreserve(self, uid: str) -> None:
        """Remove the reservation of a pod; no effect on one that is on a node already."""
        if uid in self._reserved:
            self._remove(uid)

    def expire(self, now: float) -> tuple[AssignedPod, ...]:
        """Remove the reservations of pods that were not seen in time, and return these pods."""
        late = tuple(pod for pod in self.reserved() if now - pod.since >= self.kept)
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
        """Return all pods on nodes and pods with reservations."""
        return (pod for entry in self._entries.values() for pod in entry.assigned_pods.values())

    def assigned_to(self, name: str) -> Collection[AssignedPod]:
        """Return the pods on one node, and those with reservations there."""
        entry = self._entries.get(name)
        return entry.assigned_pods.values() if entry else ()

    def counted_pods(self) -> Iterator[AssignedPod]:
        """Return the same pods as they count on their nodes."""
        return (pod for entry in self._entries.values() for pod in entry.counted.values())

    def observed(self, uid: str) -> PlacementRecord | None:
        """Return the agent's trusted report on a pod; None if there is none."""
        name = self._node_of.get(uid)
        return None if name is None else self._entries[name].observed.get(uid)

    def is_observed(self, name: str) -> bool:
        """Return whether an agent reports what the pods of a node hold."""
        entry = self._entries.get(name)
        return bool(entry and entry.reported)

    def refuted(self) -> Iterator[tuple[str, AssignedPod]]:
        """Yield pods whose record is impossible, as they count on their node, each with its node's name."""
        for uid in self._refuted:
            name = self._node_of[uid]
            yield name, self._entries[name].counted[uid]

    def exclusive_cpus(self, namespace: str, *, without: Iterable[str] = ()) -> int:
        """Return how many CPUs the pods of a namespace pin or have reserved, once some pods are gone.

        A place for a pod that does not exist yet counts for nobody.
        """
        gone = (self._exclusive.get(uid, ("", 0)) for uid in frozenset(without))
        return self._exclusive_of[namespace] - sum(cpus for of, cpus in gone if of == namespace)

    def count_refuted(self) -> int:
        """Return the number of refuted pods."""
        return len(self._refuted)

    def count_by_basis(self) -> dict[Basis, int]:
        """Return the number of nodes by the basis of their free capacity, of those that have a cached one."""
        counts = dict.fromkeys(Basis, 0)
        for entry in self._entries.values():
            if entry.free:
                counts[entry.free.basis] += 1
        return counts

    def count_by_source(self, names: Iterable[str]) -> Mapping[str, int]:
        """Return how many pods hold exclusive resources on these nodes, by source, and those `UNKNOWN`."""
        counts = Counter[str]()
        for info in filter(None, map(self.node_info, names)):
            for pod in info.assigned_pods:
                if pod.record and not pod.record.unknown:
                    counts[pod.record.source] += bool(pod.record.held)
                else:
                    counts[UNKNOWN] += pod.holds(info.node)
        return {source: counts[source] for source in (*Source, UNKNOWN) if counts[source]}

    def node(self, name: str) -> Node | None:
        """Return a node as its topology describes it; None if that is not known."""
        entry = self._entries.get(name)
        return entry.node if entry else None

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
            entry.free = free_capacity(info, now=now, lag=self.lag, before=entry.before)
            entry.before = info, entry.free
            entry.until = math.inf
            if entry.free.basis is Basis.REPORTED:
                ends = (pod.since + self.lag for pod in info.assigned_pods if pod.admitted)
                entry.until = min((end for end in ends if end > now), default=math.inf)
        return entry.free

    def valid_until(self, name: str) -> float:
        """Return when time alone will change the last `free_capacity`; infinite if it never will."""
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
        """Return the prediction for a pod after those in `without` are gone; None if the node is unknown."""
        info = self.node_info(name)
        if info is None:
            return None
        gone = [uid for uid in without if self._node_of.get(uid) == name]
        free = None if gone else self.free_capacity(name, now=now)
        if gone:
            reserved = self._reserved.intersection(gone)
            info = info.without(reserved).after(set(gone) - reserved)
        return ordering.predict(info, demand, intent, created=created, now=now, lag=self.lag, free=free)

    def at_risk(
        self, name: str, demand: Demand, intent: Intent, *, now: float, without: Iterable[str] = ()
    ) -> tuple[AssignedPod, ...]:
        """Return recently admitted pods, except `without`, that may be where this one would be refused."""
        info = self.node_info(name)
        if info is None:
            return ()
        return ordering.at_risk(info.without(without), demand, intent, now=now, within=NOTIFICATION_SECONDS)

    # Bookkeeping.

    def _entry(self, name: str) -> _NodeEntry:
        return self._entries.setdefault(name, _NodeEntry())

    def _count(self, entry: _NodeEntry, assigned_pod: AssignedPod) -> None:
        """Store a pod as it counts on its node."""
        seen, impossible = entry.reports_on(assigned_pod) if entry.node else (None, frozenset[str]())
        counted = assigned_pod.counted_on(entry.node) if entry.node and not seen else assigned_pod
        if seen:
            # Its kubelet has admitted it, and is authoritative.
            admitted = replace(assigned_pod, stage=Stage.ADMITTED, doubtful=False, unconfirmed=False)
            counted = replace(admitted, record=seen, guess=None, refuted=frozenset())
        if impossible:
            counted = replace(counted, refuted=counted.refuted | impossible)
        entry.counted[assigned_pod.uid] = counted
        self._count_cpus(entry, assigned_pod)
        (self._refuted.add if counted.refuted else self._refuted.discard)(assigned_pod.uid)

    def _count_cpus(self, entry: _NodeEntry, pod: AssignedPod) -> None:
        self._forget_cpus(pod.uid)
        if pod.demand and not pod.awaited and (cpus := claims.exclusive_cpus(entry.node, pod.demand)):
            namespace, _ = pod.name
            self._exclusive[pod.uid] = namespace, cpus
            self._exclusive_of[namespace] += cpus

    def _forget_cpus(self, uid: str) -> None:
        namespace, cpus = self._exclusive.pop(uid, ("", 0))
        self._exclusive_of[namespace] -= cpus
        if not self._exclusive_of[namespace]:
            del self._exclusive_of[namespace]

    def _enter(self, name: str, assigned_pod: AssignedPod) -> None:
        entry, uid = self._entry(name), assigned_pod.uid
        before = entry.assigned_pods.get(uid)
        entry.assigned_pods[uid] = assigned_pod
        if (
            before
            and entry.counted[uid] is before
            and (before.record and before.record.held) == (assigned_pod.record and assigned_pod.record.held)
            and before.demand == assigned_pod.demand
        ):
            # All of the record was trusted, and still is for the same reasons.
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
        self._forget_cpus(uid)
        del entry.assigned_pods[uid], entry.counted[uid]
        entry.last.pop(uid, None)
        self._changed(name)
        self._reserved.discard(uid)
        self._refuted.discard(uid)
        if entry.node is None and not entry.assigned_pods:
            del self._entries[name]


def _relabelled(free: FreeCapacity, node: Node) -> FreeCapacity:
    relabelled = replace(free.node, label=node.label, attributes=node.attributes, health=node.health)
    return replace(free, node=relabelled)


def _continued(before: AssignedPod, now: AssignedPod) -> AssignedPod:
    """Return the pod as seen again on its node: the better facts count, and stages begin only once."""
    record = now.record or before.record
    if now.record and before.record and now.record.held == before.record.held and now.record.cpus is None:
        # The record written at binding has no ids.
        record = replace(now.record, cpus=before.record.cpus)
    if before.doubtful and record and record.source not in SEEN:
        record = None
    return replace(
        now,
        # A kubelet does not take back what its managers allocated: it does not resize such a pod in place.
        demand=before.demand if before.admitted and before.demand else now.demand,
        since=before.since if before.stage is now.stage else now.since,
        turn=before.turn,
        record=record,
        guess=before.guess,
        doubtful=before.doubtful,
        # The notification of its binding may have arrived last of all.
        unconfirmed=before.unconfirmed,
    )


def _given(assigned_pod: AssignedPod, prediction: Prediction | None) -> AssignedPod:
    record, guess = (prediction.record, prediction.held) if prediction else (None, None)
    return replace(assigned_pod, record=record, guess=guess)
