"""
The device manager, as far as counts per zone tell.

Restates topology_hints.go and devicesToAllocate of pkg/kubelet/cm/devicemanager. A resource that no zone
lists has no topology: it is given out without hints, and nothing is said of it here. Which of several equal
devices is taken is the kubelet's free choice; the lowest zone is as good as any and the same every time.
"""

from collections.abc import Iterable, Mapping

from numalign.rules.demand import Step
from numalign.rules.kubelet import masks
from numalign.rules.kubelet.masks import Mask
from numalign.rules.kubelet.merge import Offer, offer
from numalign.rules.kubelet.pool import Amounts, Pool, add, draw, pool, subtract
from numalign.rules.topology import Node

Pools = Mapping[str, Pool]
"""By resource name."""


def of(node: Node, names: Iterable[str]) -> Pools:
    """The devices of those among these names that have a topology on this node."""
    return {
        name: pool(
            total=(zone.capacity.get(name, 0) for zone in node.zones),
            free=(zone.free.get(name, 0) for zone in node.zones),
        )
        for name in sorted(names)
        if name in node.devices
    }


def offers(devices: Pools, step: Step) -> list[Offer]:
    """The hints for each device resource that a step asks for."""
    return [
        offer(name, held.serving(step.devices[name]), width(held.total, step.devices[name]))
        for name, held in devices.items()
        if name in step.devices
    ]


def width(total: Amounts, asked: int) -> int:
    """The fewest zones whose devices, busy ones included, reach what is asked."""
    return masks.fewest(total, asked) or len(total)


def allocate(devices: Pools, step: Step, mask: Mask | None) -> tuple[Pools, dict[str, Amounts]] | str:
    """What a container gets of each resource; or the name of the first one of which there are too few."""
    after, taken = dict(devices), {}
    for name in sorted(devices.keys() & step.devices.keys()):
        got = _take(devices[name], step.devices[name], mask)
        if sum(got) < step.devices[name]:
            return name
        taken[name] = got
        after[name] = devices[name].charged(got, step.role)
    return after, taken


def _take(held: Pool, asked: int, mask: Mask | None) -> Amounts:
    """What can be used again first, then what lies inside the affinity, then anything."""
    everywhere = range(len(held.free))
    taken = draw(held.reusable, everywhere, asked)
    for zones in (() if mask is None else masks.members(mask), everywhere):
        taken = add(taken, draw(subtract(held.available, taken), zones, asked - sum(taken)))
    return taken
