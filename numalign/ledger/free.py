"""
What is free on a node.

A topology object lags behind its kubelet by seconds or a minute, and a scheduler places pods in between. So
what is free is computed from the best facts, in one of three ways:

1. observed: what every pod on the node holds is known, so it is subtracted from what the kubelet may
   allocate, without waiting for a topology;
2. anchored: the topology carries a fingerprint of the pods that it accounts for, so only the others are
   subtracted, and those that left since are added;
3. reported: what the topology reports as free, less all that came since and may not be in it yet.

Nothing is ever guessed in favour of a pod. A pod with unknown resources counts in full on every zone, and
what leaves is added back only where it is known to have been taken; of two lower bounds the higher one
counts. All of it follows from facts about pods and topologies, so the order in which they become known does
not matter, and a restarted process gets the same result.

The same holds for the zones that pods with an intent hold. Unknown facts count against an exclusive pod,
never against others: one on unknown zones reserves no zone. Its predicted zones count even if not certain: it
was admitted by the same prediction.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import eq

from numalign.decision.own_zones import NO_ZONES, Zones, own_zones
from numalign.kubelet import admit as kubelet
from numalign.kubelet import work_limit
from numalign.ledger import arithmetic, claims
from numalign.ledger.arithmetic import Amounts
from numalign.ledger.model import AssignedPod, Basis, FreeCapacity, NodeInfo, Source, Stage
from numalign.model.bitset import union
from numalign.model.demand import Demand
from numalign.model.intent import Policy
from numalign.model.node import Known, MemoryManager, Node
from numalign.model.placement import Held, ZoneSet
from numalign.model.resources import CPU, EMPTY, Kind, Resources, ZoneId, kind

MOST_RECENT = 6
"""How many of the latest pods that came, and that left, may or may not be in a topology yet."""

_LENIENT = frozenset({Policy.NONE, Policy.BEST_EFFORT})
"""Under these policies the zones of a group still serve pods that use all of them."""

_Counted = tuple[Node, Basis, bool]
"""A node with its free amounts, their basis, and whether they are exactly the kubelet's."""


def free_capacity(
    info: NodeInfo, *, now: float, lag: float, before: tuple[NodeInfo, FreeCapacity] | None = None
) -> FreeCapacity:
    """Return what is free on a node.

    `lag` is after how many seconds a topology accounts for a pod at the latest. `before` is what was known of
    the node earlier, and the result then.
    """
    holding = tuple(pod for pod in info.assigned_pods if pod.holds(info.node))
    pending = tuple(sorted((pod for pod in holding if not pod.admitted), key=AssignedPod.in_turn))
    if before and before[1].basis is Basis.OBSERVED and _hold_the_same(before[0], info):
        return replace(before[1], pending=pending)
    counted, machine = _observed(info, holding), info.node.machine
    if counted is None and machine is None:
        counted = _anchored(info, holding) or _reported(info, holding, before=now - lag)
    elif counted is None and holding:
        # A fingerprint does not match the free amounts of a machine: its agent's reports on pods are
        # included. Only amounts are known then, not which CPUs are free.
        threads = machine.topology.threads_per_core if machine else info.node.threads
        node = replace(info.node, machine=None, stock=None, known=Known.CONFIGURED, threads=threads)
        counted = _reported(replace(info, node=node), holding, before=now - lag)
    node, basis, exact = counted or (info.node, Basis.REPORTED, False)
    return FreeCapacity(with_occupants(node, info.assigned_pods, exact=exact), basis, exact, pending)


def _hold_the_same(one: NodeInfo, other: NodeInfo) -> bool:
    """Return whether the pods are the same, and no topology accounts for them: only stages may differ."""
    if one.node is not other.node or one.fingerprint or other.fingerprint:
        return False

    def facts(pod: AssignedPod) -> object:
        record = pod.record and (pod.record.held, pod.record.unknown, pod.record.cpus)
        return pod.demand, pod.intent, record

    pods, others = one.assigned_pods, other.assigned_pods
    same_number = one.complete and other.complete and len(pods) == len(others)
    return same_number and all(map(eq, map(facts, pods), map(facts, others)))


def _observed(info: NodeInfo, holding: Sequence[AssignedPod]) -> _Counted | None:
    """Return what the kubelet may allocate, less what every pod holds; None unless all is known and fits."""
    if not info.complete:
        return None
    held, unknown = _recorded(info.node, holding)
    if unknown or _overdrawn(info.node, held):
        return None
    node = _allocated(info.node.emptied(), holding, held)
    negative = any(amount < 0 for zone in node.zones for amount in zone.free.values())
    return None if negative or _contradicted(info, node) else (node, Basis.OBSERVED, True)


def _allocated(node: Node, holding: Sequence[AssignedPod], held: Amounts) -> Node:
    """Return the empty node after it allocated all that is held, by ids of CPUs where these are known."""
    records = ((pod, pod.record) for pod in holding if pod.record and node.machine)
    known = [(pod, record.source, record.cpus) for pod, record in records if record.cpus is not None]
    once = twice = 0
    for *_, ids in known:
        once, twice = once | ids, twice | once & ids
    # Of two pods with the same predicted CPUs at most one has them.
    cpus = {pod.uid: ids for pod, source, ids in known if not ids & twice or source is Source.KUBELET}
    if not cpus:
        return arithmetic.allocated(node, held)
    # For the other pods, any CPUs of their zones are equivalent.
    some, _ = _recorded(node, (pod for pod in holding if pod.uid not in cpus))
    others, _ = _recorded(node, (pod for pod in holding if pod.uid in cpus))
    rest = {zones: {name: bag[name] for name in bag if name != CPU} for zones, bag in others.items()}
    amounts = arithmetic.merged([some, {zones: Resources(bag) for zones, bag in rest.items()}])
    return arithmetic.allocated(node, amounts, union(cpus.values()))


def _overdrawn(node: Node, held: Amounts) -> bool:
    """Return whether pods claim more of some zones than is allocatable: then something is wrong."""
    most = {zone.id: zone.allocatable for zone in node.zones}
    return any(
        amount > (sum(most[zone].get(name, 0) for zone in zones) if zones else claims.unzoned(node, name))
        for zones, name, amount in arithmetic.entries(held)
        if claims.given_out(node, name)
    )


def _contradicted(info: NodeInfo, node: Node) -> bool:
    """Return whether a topology that accounts for exactly the present pods has less free.

    It may have more: exporters do not see what finished init containers leave to their pod. Memory is
    ignored, because exporters differ in how they count a block that spans several zones.
    """
    if info.fingerprint is None or not all(pod.admitted for pod in info.assigned_pods):
        return False
    if info.fingerprint(info.node, info.assigned_pods, ()) is None:
        return False
    return any(
        counted.free.get(name, 0) > amount
        for counted, reported in zip(node.zones, info.node.zones, strict=True)
        for name, amount in reported.free.items()
        if claims.given_out(node, name) and kind(name) is not Kind.MEMORY
    )


def _anchored(info: NodeInfo, holding: Sequence[AssignedPod]) -> _Counted | None:
    """Return what the topology reports as free, less what came, plus what left; None if it does not match."""
    if info.fingerprint is None:
        return None
    # It certainly accounts for pods that were admitted long ago, and perhaps for the others.
    settled = sorted(
        (pod for pod in info.assigned_pods if pod.admitted), key=lambda pod: (pod.since, pod.started)
    )
    bound = [pod for pod in info.assigned_pods if pod.stage is Stage.BOUND]
    recent = [*settled[-MOST_RECENT:], *bound, *info.departed[: -MOST_RECENT - 1 : -1]]
    accounted = info.fingerprint(info.node, settled[:-MOST_RECENT], recent)
    if accounted is None:
        return None
    # Of two pods with one name, one gone and one present, it is not known which one it accounts for.
    again = {pod.name for pod in info.departed} & {pod.name for pod in info.assigned_pods}
    sure = accounted - again
    came = [pod for pod in holding if pod.name not in sure]
    gone = [pod for pod in info.departed if pod.holds(info.node) and pod.name in sure]
    listing = [pod for pod in gone if not _unlisted(info.node, pod)]
    back, unknown = _recorded(info.node, listing)
    node = arithmetic.moved(info.node, back, 1)
    node, listed = _less_unlisted(node, (pod for pod in holding if pod not in came))
    node, known = _less(node, came)
    node, grouped = _grouped(node, holding)
    complete = sure == accounted and len(listing) == len(gone) and not unknown
    return node, Basis.ANCHORED, complete and listed and known and grouped


def _reported(info: NodeInfo, holding: Sequence[AssignedPod], *, before: float) -> _Counted:
    """Return what the topology reports as free, less all that may not be in it; what left is not added."""
    recent = [pod for pod in holding if not pod.admitted or pod.since > before]
    node, _ = _less_unlisted(info.node, (pod for pod in holding if pod not in recent))
    node, _ = _less(node, recent)
    node, _ = _grouped(node, holding)
    if info.complete and not _overdrawn(info.node, _recorded(info.node, holding)[0]):
        # What is allocated at most is also a bound for what is free at least.
        counted, _ = _less(info.node.emptied(), holding)
        least = {zone.id: zone.free for zone in counted.zones}
        node = arithmetic.with_free(node, lambda zone: zone.free.most(least[zone.id]))
    return node, Basis.REPORTED, False


def _less(node: Node, pods: Iterable[AssignedPod]) -> tuple[Node, bool]:
    """Return the node less what pods hold, in full on every zone if unknown; and whether it was known."""
    held, unknown = _recorded(node, pods)
    node = arithmetic.moved(node, held, -1)
    for pod in unknown:
        bag = _unknown(node, pod)
        if bag is None:
            return arithmetic.with_free(node, lambda zone: Resources(dict.fromkeys(zone.free, 0))), False
        node = arithmetic.less_everywhere(node, bag)
    return node, not unknown


def _recorded(node: Node, pods: Iterable[AssignedPod]) -> tuple[Amounts, list[AssignedPod]]:
    """Return what pods hold as far as known, and the pods for which it is not fully known."""
    bags, unknown = list[Amounts](), list[AssignedPod]()
    for pod in pods:
        held = arithmetic.by_id(pod.record.held, node) if pod.record else None
        if held is not None:
            bags.append(held)
        if held is None or (pod.record and pod.record.unknown):
            unknown.append(pod)
    return arithmetic.merged(bags), unknown


def _unknown(node: Node, pod: AssignedPod) -> Resources | None:
    """Return what a pod may hold on unknown zones; None if that may be anything."""
    if pod.demand is None:
        return None
    due = claims.due(node, pod.demand).all
    names = pod.record.unknown if pod.record and pod.record.unknown else due.keys()
    return Resources({name: due[name] for name in due if name in names})


def _grouped(node: Node, pods: Iterable[AssignedPod]) -> tuple[Node, bool]:
    """Return the node with the memory manager's groups, which topologies omit; and whether all are known.

    If the zones of a pod's memory are not known, no zone is free to join others. And if the pod's memory may
    form a group, its zones serve nothing else under a policy that enforces narrow hints.
    """
    if node.memory_manager is not MemoryManager.STATIC:
        return node, True
    held, unknown = _recorded(node, pods)
    groups: dict[ZoneId, frozenset[ZoneId]] = {}
    for zones, name, _ in arithmetic.entries(held):
        if kind(name) is Kind.MEMORY:
            groups |= dict.fromkeys(zones, frozenset(zones))
    hiding = [
        pod
        for pod in unknown
        if (bag := _unknown(node, pod)) is None or any(kind(name) is Kind.MEMORY for name in bag)
    ]
    if hiding:
        groups = {zone: frozenset((zone,)) for zone in node.ids} | groups
    marked = (
        replace(zone, cells=groups[zone.id], assignments=1) if zone.id in groups else zone
        for zone in node.zones
    )
    node = replace(node, zones=tuple(marked))
    if node.policy in _LENIENT:
        return node, not hiding
    if all(_narrow(node, pod.demand) for pod in hiding):
        return node, True
    return arithmetic.with_free(
        node,
        lambda zone: Resources(
            {name: 0 if kind(name) is Kind.MEMORY else free for name, free in zone.free.items()}
        ),
    ), False


def _narrow(node: Node, demand: Demand | None) -> bool:
    """Return whether a single zone could hold the memory that a pod requests at once."""
    if demand is None or len(node.zones) > work_limit.MOST_ZONES:
        return False
    effective = kubelet.effective_demand(node, demand)
    widths = (kubelet.min_widths(node, step) for step in (*effective.steps, effective.whole))
    return all(width <= 1 for step in widths for name, width in step.items() if kind(name) is Kind.MEMORY)


def _less_unlisted(node: Node, pods: Iterable[AssignedPod]) -> tuple[Node, bool]:
    """Return the node less what these pods hold and it does not list; and whether that is nothing."""
    hidden = [bag for pod in pods if (bag := _unlisted(node, pod))]
    for bag in hidden:
        node = arithmetic.less_everywhere(node, bag)
    return node, not hidden


def _unlisted(node: Node, pod: AssignedPod) -> Resources:
    """Return what finished init containers may keep at most; exporters see only running containers."""
    return EMPTY if pod.demand is None else claims.due(node, pod.demand).left_behind


# The zones of pods with an intent.


def with_occupants(node: Node, pods: Iterable[AssignedPod], *, exact: bool) -> Node:
    """Return the node with the zones that these pods hold; unless `exact`, none is sure to be alone there."""
    every, occupied, exclusive = frozenset(node.ids), NO_ZONES, NO_ZONES
    ids = {zone.name: zone.id for zone in node.zones}
    for pod in pods:
        if pod.intent.policy is Policy.NONE:
            continue
        zones, complete = _own(node, ids, pod)
        occupied |= zones if complete else every
        if pod.intent.exclusive:
            exclusive |= zones
    if not occupied:
        return node
    return replace(node, occupied=occupied if exact else every, exclusive=exclusive)


def sharing(node: Node, pods: Iterable[AssignedPod], pod: AssignedPod) -> tuple[AssignedPod, ...]:
    """Return the other pods with an intent that hold one of the pod's own zones, as far as known."""
    ids = {zone.name: zone.id for zone in node.zones}
    mine, _ = _own(node, ids, pod)
    others = (other for other in pods if other.uid != pod.uid and other.intent.policy is not Policy.NONE)
    return tuple(other for other in others if mine & _own(node, ids, other)[0])


def nowhere_alone(node: Node) -> Node:
    """Return the node for a pod that may use any of its zones: if one is occupied, all are."""
    return replace(node, occupied=frozenset(node.ids)) if node.occupied else node


def _own(node: Node, ids: Mapping[str, ZoneId], pod: AssignedPod) -> tuple[Zones, bool]:
    """Return a pod's own zones as far as known, and whether these are all."""
    if pod.demand is None:
        return NO_ZONES, False
    recorded = _unsorted_by_id(ids, pod.record.held) if pod.record else None
    predicted = _unsorted_by_id(ids, pod.guess) if pod.guess and recorded is None else None
    zones = own_zones(node, pod.demand, pod.intent, recorded or predicted or {})
    unknown = pod.record.unknown if pod.record and recorded is not None else claims.due(node, pod.demand).all
    return zones, node.single or not any(map(pod.intent.concerns, unknown))


def _unsorted_by_id(ids: Mapping[str, ZoneId], held: Held) -> Mapping[ZoneSet, Resources] | None:
    """Return what is held by the ids of zones, in any order; None if one of them does not exist."""
    if not all(name in ids for names in held for name in names):
        return None
    return {tuple([ids[name] for name in names]): bag for names, bag in held.items()}
