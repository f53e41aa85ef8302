"""
The zones that are a pod's own, and whether it may have them to itself.

A pod's own zones are those from which it holds what its intent is about. One that is exclusive shares them
with no other pod that has an intent; of pods without one nobody asks anything, so these may come to any zone.
No kubelet knows of this. So it is asked of the placement that is predicted, and only what holds zones now
can speak against it: on an empty node nobody does, so it is never a refusal for good.

Where it is open to which zones an exclusive pod comes, it has to be alone wherever that may be. Others are
refused for what is predicted of them alone.
"""

from collections.abc import Mapping

from numalign.model.demand import Demand
from numalign.model.intent import Intent, Policy
from numalign.model.node import Node
from numalign.model.placement import Placement, ZoneSet
from numalign.model.resources import Resources, ZoneId

Zones = frozenset[ZoneId]

NO_ZONES: Zones = frozenset()


def own_zones(node: Node, demand: Demand, intent: Intent, held: Mapping[ZoneSet, Resources]) -> Zones:
    """Return the zones from which a pod that holds these amounts holds what its intent is about."""
    if intent.policy is Policy.NONE:
        return NO_ZONES
    if len(node.zones) == 1:
        # All that is asked of such a node comes from there, whether or not a manager gives it out.
        asked = any(intent.concerns(name) for step in demand.steps for name in step.asks)
        return frozenset(node.ids) if asked else NO_ZONES
    return frozenset(zone for zones, bag in held.items() if any(map(intent.concerns, bag)) for zone in zones)


def occupied_by_others(node: Node, demand: Demand, intent: Intent, placement: Placement) -> Zones:
    """The zones to which a pod that has to be alone may come, and that hold another pod with an intent."""
    if not (intent.exclusive and node.occupied):
        return NO_ZONES
    zones = own_zones(node, demand, intent, placement.kept)
    chosen = (name for grant in placement.grants for name in grant.chosen)
    if zones and any(map(intent.concerns, chosen)):
        zones = frozenset(node.ids)
    return zones & node.occupied


def held_by_another(node: Node, demand: Demand, intent: Intent, placement: Placement) -> Zones:
    """Return the zones to which a pod with an intent comes, and that another one has to itself."""
    if not node.exclusive:
        return NO_ZONES
    return own_zones(node, demand, intent, placement.kept) & node.exclusive
