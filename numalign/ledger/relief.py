"""
An upper bound of what removing pods could free on a node.

Applying the rules to every choice of pods on thousands of nodes would take minutes, and most choices are
impossible by their amounts alone. So amounts are added up first, always in favour of the incoming pod: the
rules would also refuse whatever is excluded here, and they decide all the rest.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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
        # All leavers may be needed: the number follows from the largest amounts alone, wherever they are.
        sizes = range(len(self.leavers))
        enough = (size for size in sizes if self._enough(self.leavers, partial(_largest, size)))
        return next(enough, len(self.leavers))

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


def _largest(count: int, amounts: list[int]) -> int:
    return sum(sorted(amounts, reverse=True)[:count])
