"""
An upper bound of what removing pods could free on a node.

Applying the rules to every choice of pods on thousands of nodes would take minutes, and most choices are
impossible by their amounts alone. So amounts are added up first, always in favour of the incoming pod: the
rules would also refuse whatever is excluded here, and they decide all the rest.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from numalign.kubelet.admit import effective_demand
from numalign.ledger import arithmetic, claims
from numalign.ledger.model import AssignedPod, FreeCapacity, NodeInfo
from numalign.ledger.rearrangement import PODS, short_of
from numalign.model.demand import Demand, Step
from numalign.model.intent import Intent, Policy, Scope
from numalign.model.node import Node
from numalign.model.resources import ZoneId

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
        if any(leaver.unread for leaver in chosen):
            return True
        return (
            all(
                any(
                    all(
                        sum([leaver.frees(zone, name) for leaver in chosen]) >= lack
                        for name, lack in lacks.items()
                    )
                    for zone, lacks in zones.items()
                )
                for zones in self.lacking
            )
            and all(
                sum([leaver.everywhere(name) for leaver in chosen]) >= lack
                for name, lack in self.total.items()
            )
            and all(
                sum([leaver.requests.get(name, 0) for leaver in chosen]) >= lack
                for name, lack in self.short.items()
            )
        )

    def choices(self, size: int) -> Iterator[tuple[Leaver, ...]]:
        """Yield all choices of `size` pods that could make a difference, each once."""
        pools = [*self._pools()]
        if len(pools) == 1:
            yield from combinations(pools[0], size)
            return
        # There are few zones: a pod is in several pools only if it may hold something in all of these.
        tried = set[tuple[str, ...]]()
        for pool in pools:
            for chosen in combinations(pool, size):
                key = tuple(leaver.uid for leaver in chosen)
                if key not in tried:
                    tried.add(key)
                    yield chosen

    def least(self) -> int | None:
        """Return a lower bound for the number of leavers; None if not even all of them would do."""
        if not self.suffices(self.leavers):
            return None
        # All leavers may be needed: the number follows from the largest amounts alone.
        return next((size for size in range(len(self.leavers)) if self._could_do(size)), len(self.leavers))

    def room_for(self, chosen: Sequence[Leaver], other: Demand) -> bool:
        """Return whether there may be room for another pod beside the incoming one after these are gone."""
        if any(leaver.unread for leaver in chosen):
            return True
        # What finished init containers had may be free again when the other one comes.
        kept, requests = (
            claims.due(self.node, self.demand).running,
            effective_demand(self.node, other).whole.requests,
        )
        return all(
            self._together(name, chosen) >= kept.get(name, 0) + amount
            for name, amount in requests.items()
            if claims.given_out(self.node, name)
        )

    def _could_do(self, size: int) -> bool:
        """Return whether the `size` largest amounts of each resource would be enough, wherever they are."""
        leavers = self.leavers
        if any(leaver.unread for leaver in leavers):
            return size > 0
        return (
            all(
                any(
                    all(
                        _largest((leaver.frees(zone, name) for leaver in leavers), size) >= lack
                        for name, lack in lacks.items()
                    )
                    for zone, lacks in zones.items()
                )
                for zones in self.lacking
            )
            and all(
                _largest((leaver.everywhere(name) for leaver in leavers), size) >= lack
                for name, lack in self.total.items()
            )
            and all(
                _largest((leaver.requests.get(name, 0) for leaver in leavers), size) >= lack
                for name, lack in self.short.items()
            )
        )

    def _pools(self) -> Iterator[Sequence[Leaver]]:
        """Yield the leavers among which to choose: those of one zone, if only one zone is needed."""
        if not self.one_zone:
            yield self.leavers
            return
        for zone in self.free:
            yield [
                leaver
                for leaver in self.leavers
                if leaver.unread or zone in leaver.zones or not self.short.keys().isdisjoint(leaver.requests)
            ]

    def _together(self, name: str, chosen: Sequence[Leaver]) -> int:
        free = sum(self.free[zone].get(name, 0) for zone in self.free)
        return free + sum(leaver.everywhere(name) for leaver in chosen)


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
    """Return the requested amounts beyond what is there."""
    return {name: amount - has.get(name, 0) for name, amount in wanted.items() if amount > has.get(name, 0)}


def _most_free(info: NodeInfo, free: FreeCapacity) -> _ByZone:
    """Return what is free by zone, or would be by the records of pods alone: the larger of both."""
    held: dict[ZoneId, dict[str, int]] = {}
    for pod in info.assigned_pods:
        for zones, amounts in _recorded(info.node, pod).items():
            if len(zones) == 1:
                bag = held.setdefault(zones[0], {})
                for name, amount in amounts.items():
                    bag[name] = bag.get(name, 0) + amount
    current = {zone.id: zone.free for zone in free.node.zones}
    return {
        zone.id: {
            name: max(current[zone.id].get(name, 0), amount - held.get(zone.id, {}).get(name, 0))
            for name, amount in zone.allocatable.items()
        }
        for zone in info.node.zones
    }


def _recorded(node: Node, pod: AssignedPod) -> arithmetic.Amounts:
    return (arithmetic.by_id(pod.record.held, node) or {}) if pod.record else {}


def _leaver(node: Node, pod: AssignedPod) -> Leaver:
    if pod.demand is None:
        return Leaver(pod.uid, {}, {}, unread=True)
    zones: dict[ZoneId, dict[str, int]] = {}
    for where, amounts in _recorded(node, pod).items():
        for zone in where:
            _add(zones.setdefault(zone, {}), amounts)
    unknown = pod.record.unknown if pod.record else None
    if unknown is None or unknown:
        due = claims.due(node, pod.demand).all
        anywhere = {name: due[name] for name in due if unknown is None or name in unknown}
        for zone in node.ids if anywhere else ():
            _add(zones.setdefault(zone, {}), anywhere)
    return Leaver(pod.uid, zones, {**pod.demand.total, PODS: 1})


def _add(bag: dict[str, int], amounts: _ByName) -> None:
    for name, amount in amounts.items():
        bag[name] = bag.get(name, 0) + amount


def _units(node: Node, demand: Demand, intent: Intent) -> Sequence[_ByName]:
    """Return what has to come from one zone, each as a whole, by the node's policy or the intent."""
    by_node = [*_by_node(node, demand)] if node.policy in _NARROW else []
    by_intent = [*_by_intent(node, demand, intent)] if intent.policy is Policy.SINGLE_NUMA_NODE else []
    return by_node if by_node == by_intent else [*by_node, *by_intent]


def _by_node(node: Node, demand: Demand) -> Iterator[_ByName]:
    for step in _steps(demand, node.scope):
        requests = {name: amount for name, amount in step.requests.items() if node.aligns(name)}
        if requests and (node.policy is Policy.SINGLE_NUMA_NODE or _fits_one_zone(node, requests)):
            yield requests


def _by_intent(node: Node, demand: Demand, intent: Intent) -> Iterator[_ByName]:
    for step in _steps(demand, intent.scope or node.scope):
        concerned = (name for name in step.requests if intent.concerns(name) and node.aligns(name))
        if requests := {name: step.requests[name] for name in concerned}:
            yield requests


def _steps(demand: Demand, scope: Scope) -> Sequence[Step]:
    return (demand.whole,) if scope is Scope.POD else demand.steps


def _fits_one_zone(node: Node, requests: _ByName) -> bool:
    """Return whether some zone may allocate enough of each, so that the kubelet does not spread any."""
    return all(
        any(zone.allocatable.get(name, 0) >= amount for zone in node.zones)
        for name, amount in requests.items()
    )


def _largest(amounts: Iterable[int], count: int) -> int:
    return sum(sorted(amounts, reverse=True)[:count])
