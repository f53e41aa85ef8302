"""
How many zones a pod may use, which ones are its own, and whether it may have them exclusively.

A pod's own zones are those in which it holds resources that its intent concerns. An exclusive pod shares them
with no other pod that has an intent; pods without one are not restricted, so they may use any zone.

The kubelet does not know exclusive zones. So the predicted placement is checked, and only pods that hold
zones now can conflict: on an empty node there are none, so this is never a permanent refusal.

If the zones of an exclusive pod are not certain, it has to be alone in all possible ones. Other pods are
refused only for their predicted zones.
"""

from collections.abc import Iterable, Mapping

from numalign.kubelet.admit import min_widths
from numalign.model.demand import Demand, Step
from numalign.model.intent import Intent, Policy
from numalign.model.node import Node
from numalign.model.placement import Placement, ZoneSet
from numalign.model.resources import Resources, ZoneId

Zones = frozenset[ZoneId]

NO_ZONES: Zones = frozenset()


def fewest_zones(node: Node, step: Step, policy: Policy, names: Iterable[str]) -> int | None:
    """Return the number of zones that a policy allows for these resources of a step; None if not known.

    For all policies but `single-numa-node` that is the fewest that could hold one of them by hardware.
    """
    if policy is Policy.SINGLE_NUMA_NODE:
        return 1
    widths = min_widths(node, step)
    return min((widths[name] for name in names if name in widths), default=None)


def own_zones(node: Node, demand: Demand, intent: Intent, held: Mapping[ZoneSet, Resources]) -> Zones:
    """Return the zones in which a pod with these amounts holds resources that its intent concerns."""
    if intent.policy is Policy.NONE:
        return NO_ZONES
    if node.single:
        # All that is requested of such a node comes from its zone, whether or not a manager allocates it.
        asked = any(intent.concerns(name) for step in demand.steps for name in step.requests)
        return frozenset(node.ids) if asked else NO_ZONES
    return frozenset(zone for zones, bag in held.items() if any(map(intent.concerns, bag)) for zone in zones)


def occupied_by_others(node: Node, demand: Demand, intent: Intent, placement: Placement) -> Zones:
    """Return the possible zones of an exclusive pod that hold another pod with an intent."""
    if not (intent.exclusive and node.occupied):
        return NO_ZONES
    zones = own_zones(node, demand, intent, placement.kept)
    chosen = (name for grant in placement.grants for name in grant.chosen)
    if zones and any(map(intent.concerns, chosen)):
        zones = frozenset(node.ids)
    return zones & node.occupied


def held_by_another(node: Node, demand: Demand, intent: Intent, placement: Placement) -> Zones:
    """Return the zones of a pod with an intent that another pod holds exclusively."""
    if not node.exclusive:
        return NO_ZONES
    return own_zones(node, demand, intent, placement.kept) & node.exclusive
