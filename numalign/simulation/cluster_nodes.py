"""Nodes of a cluster for a replay: CPUs, memory and one kind of GPU by zone, less what is in use."""

from collections.abc import Sequence
from dataclasses import replace

from numalign.model.attributes import NO_ATTRIBUTES
from numalign.model.node import Node, Zone
from numalign.model.resources import CPU, MEMORY, Resources
from numalign.simulation.trace import WHOLE_GPU, TraceNode, TracePod
from numalign.simulation.zone_cluster import GpuNode
from numalign.simulation.zoned_nodes import GPU, GPU_SHARE


def gpu_node(node: Node, resource: str, model_label: str) -> GpuNode:
    """Return a node for a replay; its GPUs are `resource`, and their model is the value of `model_label`.

    What is not free in its zones counts as held, in whole GPUs.
    """
    zones = tuple(_zone(zone, resource) for zone in node.zones)
    most, free = _sum([zone.allocatable for zone in zones]), _sum([zone.free for zone in zones])
    gpus = [
        (at, number < zone.free.get(GPU, 0))
        for at, zone in enumerate(zones)
        for number in range(zone.allocatable.get(GPU, 0))
    ]
    taken = [slot for slot, (_, is_free) in enumerate(gpus) if not is_free]
    return GpuNode(
        replace(
            node,
            zones=zones,
            totals=None,
            machine=None,
            stock=None,
            attributes=NO_ATTRIBUTES,
            occupied=frozenset(),
            exclusive=frozenset(),
            health=None,
        ),
        TraceNode(most[CPU], most[MEMORY], len(gpus), node.attributes.labels.get(model_label, "")),
        [at for at, _ in gpus],
        TracePod(most[CPU] - free[CPU], most[MEMORY] - free[MEMORY], len(taken), WHOLE_GPU if taken else 0),
        taken,
    )


def _zone(zone: Zone, resource: str) -> Zone:
    return replace(
        zone,
        capacity=_amounts(zone.capacity, resource),
        allocatable=_amounts(zone.allocatable, resource),
        free=_amounts(zone.free, resource),
    )


def _amounts(amounts: Resources, resource: str) -> Resources:
    kept = {name: amounts[name] for name in (CPU, MEMORY) if name in amounts}
    gpus = amounts.get(resource)
    shares = {} if gpus is None else {GPU: gpus, GPU_SHARE: WHOLE_GPU if gpus else 0}
    return Resources({**kept, **shares})


def _sum(bags: Sequence[Resources]) -> dict[str, int]:
    return {name: sum(bag.get(name, 0) for bag in bags) for name in (CPU, MEMORY)}
