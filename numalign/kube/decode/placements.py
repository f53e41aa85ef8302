"""
Placements as `numalign.io/placement` holds them.

The annotation outlives the process that wrote it and is read by people and other programs, so it names zones
as the node's topology names them and amounts as Kubernetes writes them.
"""

from typing import Any

from numalign.model.node import Node
from numalign.model.placement import Placement
from numalign.model.resources import render as quantity


def render(node: Node, placement: Placement) -> list[dict[str, Any]]:
    """What the pod keeps, one entry for each set of zones that gives it something."""
    names = {zone.id: zone.name for zone in node.zones}
    return [
        {
            "zones": [names[zone] for zone in zones],
            "amount": {name: quantity(name, amount) for name, amount in amounts.items()},
        }
        for zones, amounts in sorted(placement.kept.items())
    ]
