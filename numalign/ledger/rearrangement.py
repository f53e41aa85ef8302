"""
Predictions after some pods have left and others have come, and the most that removing pods could free.

A search for a better placement tries many rearrangements, of which at most one comes true. So nothing is
reserved here: the ledger is unchanged, and each try is a value of its own.

Applying the rules to every choice of pods on thousands of nodes would take minutes, and most choices are
impossible by their amounts alone. So amounts are added up first, always in favour of the incoming pod: the
rules would also refuse whatever is excluded here, and they decide all the rest.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from types import MappingProxyType

from numalign.decision.evaluate import NO_INTENT
from numalign.kubelet.admit import effective_demand
from numalign.ledger import arithmetic, claims, ordering
from numalign.ledger.free import free_capacity
from numalign.ledger.model import AssignedPod, FreeCapacity, NodeInfo, Prediction, Stage
from numalign.ledger.reservations import Reservations
from numalign.model.demand import Demand, Step
from numalign.model.intent import Intent, Policy, Scope
from numalign.model.node import Node
from numalign.model.resources import EMPTY, Resources, ZoneId

PODS = "pods"
"""The name of the number of pods that a node can run, among its totals."""


@dataclass(frozen=True, slots=True)
class Rearrangement:
    """A ledger at the time `now`, except for the nodes that have `changed`."""

    reservations: Reservations
    now: float
    changed: Mapping[str, NodeInfo] = field(default_factory=dict)

    def info(self, name: str) -> NodeInfo | None:
        """Return all that would be known of a node; None if its topology is not known."""
        return self.changed.get(name) or self.reservations.node_info(name)

    def leaving(self, name: str, uids: Iterable[str]) -> "Rearrangement":
        """Return the same after these pods have left this node, as far as they are on it."""
        info, gone = self.info(name), frozenset(uids)
        leavers = {pod.uid: pod for pod in info.assigned_pods if pod.uid in gone} if info else {}
        if info is None or not leavers:
            return self
        expected = {uid for uid, pod in leavers.items() if pod.reserved}
        return self._with(name, info.without(expected).after(leavers.keys() - expected))

    def coming(self, name: str, pod: AssignedPod, prediction: Prediction) -> "Rearrangement":
        """Return the same with this pod on this node as predicted; unknown amounts count in full."""
        info = self.info(name)
        if info is None:
            return self
        # Fingerprints identify pods by name, and a replacement may have the name of its predecessor.
        newcomer = replace(
            pod,
            uid=f"{pod.uid} again",
            name=(pod.name[0], f"{pod.name[1]} again"),
            stage=Stage.RESERVED,
            since=self.now,
            record=prediction.record,
            guess=prediction.held,
            turn=1 + max((other.turn for other in info.assigned_pods), default=0),
            terminating=False,
        )
        return self._with(name, replace(info, assigned_pods=(*info.assigned_pods, newcomer)))

    def predict(self, name: str, demand: Demand, intent: Intent = NO_INTENT) -> Prediction | None:
        """Return the prediction for a pod on a node; None if its topology is not known."""
        info = self.info(name)
        if info is None:
            return None
        lag = self.reservations.lag
        return ordering.predict(info, demand, intent, now=self.now, lag=lag, free=self.free(name))

    def predict_settled(self, name: str, demand: Demand, intent: Intent = NO_INTENT) -> Prediction | None:
        """Return the prediction after the kubelet has admitted all pending pods, as predicted."""
        info, free = self.info(name), self.free(name)
        if info is None or free is None:
            return None
        lag, settled = self.reservations.lag, replace(free, pending=())
        return ordering.predict(info, demand, intent, now=self.now, lag=lag, free=settled)

    def free(self, name: str) -> FreeCapacity | None:
        """Return what would be free on a node; None if its topology is not known."""
        if name not in self.changed:
            return self.reservations.free_capacity(name, now=self.now)
        return free_capacity(self.changed[name], now=self.now, lag=self.reservations.lag)

    def fits(self, name: str, demand: Demand) -> bool:
        """Return whether the node as a whole would have room for a pod beside all other requests."""
        return self.info(name) is not None and not self.short_of(name, demand)

    def short_of(self, name: str, demand: Demand) -> Resources:
        """Return what the node as a whole would lack for a pod; nothing if its topology is not known."""
        info = self.info(name)
        return short_of(info, demand) if info else EMPTY

    def _with(self, name: str, info: NodeInfo) -> "Rearrangement":
        return replace(self, changed=MappingProxyType({**self.changed, name: info}))


def short_of(info: NodeInfo, demand: Demand) -> Resources:
    """Return what a node as a whole lacks for a pod, whatever its zones have, pod count included.

    Restates fitsRequest of pkg/scheduler/framework/plugins/noderesources/fit.go; nothing if the allocatable
    amounts of the node are not known.
    """
    totals = info.node.totals
    if totals is None:
        return Resources()
    asked = {**effective_demand(info.node, demand).total, PODS: 1}
    lacking = {name: amount - totals[name] for name, amount in asked.items() if amount and name in totals}
    for pod in info.assigned_pods:
        requested = pod.demand.total if pod.demand else Resources()
        for name in lacking:
            lacking[name] += 1 if name == PODS else requested.get(name, 0)
    return Resources({name: amount for name, amount in lacking.items() if amount > 0})


# What leavers could free.

_ByName = Mapping[str, int]
_ByZone = Mapping[ZoneId, _ByName]

_NARROW = frozenset({Policy.RESTRICTED, Policy.SINGLE_NUMA_NODE})


@dataclass(frozen=True, slots=True)
class Leaver:
    """A pod that could leave, and at most how much of the requested resources that would free.

    `zones` are amounts by zone, in full on each zone that they may come from; `requests` those of the node as
    a whole. Nothing is known of an `unread` pod, so it may free everything.
    """

    uid: str
    zones: _ByZone
    requests: _ByName
    unread: bool = False

    def frees(self, zone: ZoneId, name: str) -> int:
        """Return how much of a resource it frees in a zone."""
        amounts = self.zones.get(zone)
        return amounts.get(name, 0) if amounts else 0

    def everywhere(self, name: str) -> int:
        """Return how much of a resource it frees in all zones together."""
        return sum([amounts.get(name, 0) for amounts in self.zones.values()])


@dataclass(frozen=True, slots=True)
class Relief:
    """One node, one incoming pod, and the pods that could leave, the cheapest first.

    `free` is the most that its zones may have free at present. For each part that must come from a single
    zone `lacking` has what each zone lacks for it; `total` is what all zones lack together, and `short` what
    the node as a whole lacks. If the pod is served in `one_zone`, no other zone matters.
    """

    node: Node
    demand: Demand
    free: _ByZone
    lacking: tuple[_ByZone, ...]
    total: _ByName
    short: _ByName
    one_zone: bool
    leavers: tuple[Leaver, ...]

    def suffices(self, chosen: Sequence[Leaver]) -> bool:
        """Return whether the pod may be admitted after these are gone."""
        return any(leaver.unread for leaver in chosen) or self._enough(chosen, sum)

    def _enough(self, leavers: Sequence[Leaver], add: Callable[[list[int]], int]) -> bool:
        """Return whether what these free is enough, once `add` has added up the amounts of each resource."""
        return (
            all(
                any(
                    all(
                        add([leaver.frees(zone, name) for leaver in leavers]) >= lack
                        for name, lack in lacks.items()
                    )
                    for zone, lacks in zones.items()
                )
                for zones in self.lacking
            )
            and all(
                add([leaver.everywhere(name) for leaver in leavers]) >= lack
                for name, lack in self.total.items()
            )
            and all(
                add([leaver.requests.get(name, 0) for leaver in leavers]) >= lack
                for name, lack in self.short.items()
            )
        )

    def choices(self, size: int) -> Iterator[tuple[Leaver, ...]]:
        """Yield all choices of `size` pods that could make a difference, each once."""
        if not self.one_zone:
            yield from combinations(self.leavers, size)
            return
        # There are few zones: a pod is in several pools only if it may hold something in all of these.
        tried = set[tuple[str, ...]]()
        for zone in self.free:
            pool = [
                leaver
                for leaver in self.leavers
                if leaver.unread or zone in leaver.zones or not self.short.keys().isdisjoint(leaver.requests)
            ]
            for chosen in combinations(pool, size):
                key = tuple(leaver.uid for leaver in chosen)
                if key not in tried:
                    tried.add(key)
                    yield chosen

    def least(self) -> int | None:
        """Return a lower bound for the number of leavers; None if not even all of them would do."""
        if not self.suffices(self.leavers):
            return None
        if any(leaver.unread for leaver in self.leavers):
            return 1

        def could_do(size: int) -> bool:
            """Return whether the largest amounts of each resource would be enough, wherever they are."""
            return self._enough(self.leavers, lambda amounts: sum(sorted(amounts, reverse=True)[:size]))

        return next(filter(could_do, range(len(self.leavers))), len(self.leavers))

    def room_for(self, chosen: Sequence[Leaver], other: Demand) -> bool:
        """Return whether there may be room for another pod beside the incoming one after these are gone."""
        if any(leaver.unread for leaver in chosen):
            return True
        # What finished init containers had may be free again when the other one comes.
        kept = claims.due(self.node, self.demand).running
        for name, amount in effective_demand(self.node, other).whole.requests.items():
            free = sum(amounts.get(name, 0) for amounts in self.free.values())
            together = free + sum(leaver.everywhere(name) for leaver in chosen)
            if claims.given_out(self.node, name) and together < kept.get(name, 0) + amount:
                return False
        return True


def relief(
    info: NodeInfo, free: FreeCapacity, demand: Demand, intent: Intent, leavers: Iterable[str]
) -> Relief:
    """Return what removing these pods, by uid, could free for one with this demand."""
    node = info.node
    effective = effective_demand(node, demand)
    names = frozenset(name for step in (*effective.steps, effective.whole) for name in step.requests)
    names = frozenset(name for name in names if claims.given_out(node, name))
    short = short_of(info, demand)
    assigned = {pod.uid: pod for pod in info.assigned_pods}
    could = (_leaver(node, assigned[uid]) for uid in leavers if uid in assigned)
    useful = (
        leaver
        for leaver in could
        if leaver.unread or leaver.zones or not short.keys().isdisjoint(leaver.requests)
    )
    has, units = _most_free(info, free), _units(node, effective, intent)
    total = {name: amount for name, amount in effective.whole.requests.items() if name in names}
    every = {name: sum(amounts.get(name, 0) for amounts in has.values()) for name in total}
    return Relief(
        node,
        demand,
        has,
        tuple({zone: _lacks(amounts, unit) for zone, amounts in has.items()} for unit in units),
        _lacks(every, total),
        short,
        len(units) == 1 and total.keys() <= units[0].keys(),
        tuple(useful),
    )


def _lacks(has: _ByName, wanted: _ByName) -> _ByName:
    return {name: amount - has.get(name, 0) for name, amount in wanted.items() if amount > has.get(name, 0)}


def _most_free(info: NodeInfo, free: FreeCapacity) -> _ByZone:
    """Return what is free by zone, or would be by the records of pods alone: the larger of both."""
    held: dict[ZoneId, Counter[str]] = {zone: Counter() for zone in info.node.ids}
    for pod in info.assigned_pods:
        for zones, amounts in _recorded(info.node, pod).items():
            if len(zones) == 1:
                held[zones[0]].update(amounts)
    current = {zone.id: zone.free for zone in free.node.zones}
    return {
        zone.id: {
            name: max(current[zone.id].get(name, 0), amount - held[zone.id][name])
            for name, amount in zone.allocatable.items()
        }
        for zone in info.node.zones
    }


def _recorded(node: Node, pod: AssignedPod) -> arithmetic.Amounts:
    return (arithmetic.by_id(pod.record.held, node) or {}) if pod.record else {}


def _leaver(node: Node, pod: AssignedPod) -> Leaver:
    if pod.demand is None:
        return Leaver(pod.uid, {}, {}, unread=True)
    zones: dict[ZoneId, Counter[str]] = {}
    for where, amounts in _recorded(node, pod).items():
        for zone in where:
            zones.setdefault(zone, Counter()).update(amounts)
    unknown = pod.record.unknown if pod.record else None
    if unknown is None or unknown:
        due = claims.due(node, pod.demand).all
        anywhere = {name: due[name] for name in due if unknown is None or name in unknown}
        for zone in node.ids if anywhere else ():
            zones.setdefault(zone, Counter()).update(anywhere)
    return Leaver(pod.uid, zones, {**pod.demand.total, PODS: 1})


def _units(node: Node, demand: Demand, intent: Intent) -> Sequence[_ByName]:
    """Return what has to come from one zone, each as a whole, by the node's policy or the intent."""
    by_node, by_intent = list[_ByName](), list[_ByName]()
    for step in _steps(demand, node.scope) if node.policy in _NARROW else ():
        requests = {name: amount for name, amount in step.requests.items() if node.aligns(name)}
        # A restricted kubelet spreads what no zone may allocate enough of.
        spread = node.policy is Policy.RESTRICTED and any(
            all(zone.allocatable.get(name, 0) < amount for zone in node.zones)
            for name, amount in requests.items()
        )
        if requests and not spread:
            by_node.append(requests)
    for step in (
        _steps(demand, intent.scope or node.scope) if intent.policy is Policy.SINGLE_NUMA_NODE else ()
    ):
        concerned = (name for name in step.requests if intent.concerns(name) and node.aligns(name))
        if requests := {name: step.requests[name] for name in concerned}:
            by_intent.append(requests)
    return by_node if by_node == by_intent else [*by_node, *by_intent]


def _steps(demand: Demand, scope: Scope) -> Sequence[Step]:
    return (demand.whole,) if scope is Scope.POD else demand.steps


def needed(leavers: Sequence[Leaver], helps: Callable[[Sequence[Leaver]], bool]) -> Sequence[Leaver]:
    """Return the leavers without those that are not needed to help, the most important spared first."""
    chosen = tuple(leavers)
    for leaver in reversed(leavers):
        fewer = tuple(each for each in chosen if each is not leaver)
        if helps(fewer):
            chosen = fewer
    return chosen
