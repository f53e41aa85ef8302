"""
Which zones of a node pods with an intent hold, and which of them exclusively.

Unknown facts count against an exclusive pod, because nothing is guessed in its favour, and never against
others: an exclusive pod on unknown zones reserves no zone. Its predicted zones count even if not certain: it
was admitted by the same prediction.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from numalign.decision.own_zones import NO_ZONES, Zones, own_zones
from numalign.ledger import claims
from numalign.ledger.model import AssignedPod
from numalign.model.intent import Policy
from numalign.model.node import Node
from numalign.model.placement import Held, ZoneSet
from numalign.model.resources import Resources, ZoneId


def with_occupants(node: Node, pods: Iterable[AssignedPod], *, exact: bool) -> Node:
    """Return the node with the zones that these pods hold.

    Unless `exact`, no pod can be sure to be alone there.
    """
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
    recorded = _by_id(ids, pod.record.held) if pod.record else None
    predicted = _by_id(ids, pod.guess) if pod.guess and recorded is None else None
    zones = own_zones(node, pod.demand, pod.intent, recorded or predicted or {})
    unknown = pod.record.unknown if pod.record and recorded is not None else claims.due(node, pod.demand).all
    return zones, node.single or not any(map(pod.intent.concerns, unknown))


def _by_id(ids: Mapping[str, ZoneId], held: Held) -> Mapping[ZoneSet, Resources] | None:
    """Return what is held by the ids of zones, in any order; None if one of them does not exist."""
    if not all(name in ids for names in held for name in names):
        return None
    return {tuple([ids[name] for name in names]): bag for names, bag in held.items()}
