"""
Nodes for a replay: those of a trace, with assumed zones, or those of a cluster, with one kind of GPU.

The trace does not contain zones: CPUs, memory and GPUs are split as evenly as whole CPUs and GPUs allow, GPUs
over the sockets first. Small nodes are one zone. Shares of GPUs are a resource of zones; a zone has as much
of it free as the emptiest of its GPUs, since a pod's share comes from one device.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from numalign.cache import Question
from numalign.decision.evaluate import NO_INTENT
from numalign.model import demand
from numalign.model.attributes import NO_ATTRIBUTES
from numalign.model.intent import Policy, Scope
from numalign.model.node import Known, Node, Zone
from numalign.model.pod import Container, Pod
from numalign.model.resources import CPU, MEMORY, MILLI, Resources, ZoneId
from numalign.simulation.trace import MIB, WHOLE_GPU, TraceNode, TracePod

GPU = "nvidia.com/gpu"
GPU_SHARE = "alibabacloud.com/gpu-milli"
"""A thousandth of a GPU, named as in the simulator of the trace."""

SMALL_CPUS = 16
"""Nodes with at most so many CPUs are one zone."""

_HERE, _SAME_SOCKET, _FAR = 10, 12, 21
_SOCKETS = 2

NOTHING = TracePod(0, 0)


@dataclass(frozen=True, slots=True)
class GpuNode:
    """A node with its zones, what a scheduler counts on it, and the zone of each of its GPUs, by position.

    What already runs there is `held`, as if by a single pod, with these GPUs; it is not free in the zones.
    """

    zoned: Node
    counted: TraceNode
    gpu_zones: Sequence[int]
    held: TracePod = NOTHING
    held_gpus: Sequence[int] = ()


def gpu_node(node: Node, resource: str, model_label: str) -> GpuNode:
    """Return a node of a cluster; its GPUs are `resource`, and their model is the value of `model_label`.

    What is not free in its zones counts as held, in whole GPUs.
    """

    def amounts(listed: Resources) -> Resources:
        kept = {name: listed[name] for name in (CPU, MEMORY) if name in listed}
        gpus = listed.get(resource)
        share = {} if gpus is None else {GPU: gpus, GPU_SHARE: WHOLE_GPU if gpus else 0}
        return Resources({**kept, **share})

    zones = tuple(
        replace(
            zone,
            capacity=amounts(zone.capacity),
            allocatable=amounts(zone.allocatable),
            free=amounts(zone.free),
        )
        for zone in node.zones
    )
    cpu, memory = (sum(zone.allocatable.get(name, 0) for zone in zones) for name in (CPU, MEMORY))
    cpu_free, memory_free = (sum(zone.free.get(name, 0) for zone in zones) for name in (CPU, MEMORY))
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
        TraceNode(cpu, memory, len(gpus), node.attributes.labels.get(model_label, "")),
        [at for at, _ in gpus],
        TracePod(cpu - cpu_free, memory - memory_free, len(taken), WHOLE_GPU if taken else 0),
        taken,
    )


def zoned_node(name: str, node: TraceNode, *, zones: int, policy: Policy, scope: Scope) -> Node:
    """Return an empty node with so many zones, one if it is small."""
    count = 1 if node.cpu <= SMALL_CPUS * MILLI else zones
    cpus, memory = _split(node.cpu // MILLI, count), _split(node.memory // MIB, count)
    parts = list[Zone]()
    for at, gpus in enumerate(_split(node.gpus, count)):
        shared = {GPU: gpus, GPU_SHARE: WHOLE_GPU} if gpus else {}
        amounts = Resources({CPU: cpus[at] * MILLI, MEMORY: memory[at] * MIB, **shared})
        costs = tuple((ZoneId(to), _cost(at, to, count)) for to in range(count))
        parts.append(Zone(ZoneId(at), f"node-{at}", amounts, amounts, amounts, costs))
    return Node(name, tuple(parts), policy=policy, scope=scope, known=Known.CONFIGURED)


def gpu_zones(node: TraceNode, count: int) -> list[int]:
    """Return the zone of each GPU of a node with so many zones."""
    return [zone for zone, gpus in enumerate(_split(node.gpus, count)) for _ in range(gpus)]


def _split(total: int, parts: int) -> list[int]:
    """Return parts in whole pieces, with those that have one more spread evenly."""
    return [(at + 1) * total // parts - at * total // parts for at in range(parts)]


def _cost(zone: int, other: int, count: int) -> int:
    if zone == other:
        return _HERE
    return _SAME_SOCKET if zone * _SOCKETS // count == other * _SOCKETS // count else _FAR


def with_free_gpus(node: Node, zones: Sequence[int], gpus: Sequence[int]) -> Node:
    """Return the node with so much left of each GPU, in thousandths; `zones` has the zone of each."""
    made = list[Zone]()
    for at, zone in enumerate(node.zones):
        in_zone = [left for left, where in zip(gpus, zones, strict=True) if where == at]
        if GPU in zone.allocatable and in_zone:
            free = {**zone.free, GPU: in_zone.count(WHOLE_GPU), GPU_SHARE: max(in_zone)}
            made.append(replace(zone, free=Resources(free)))
        else:
            made.append(zone)
    # Only amounts count here, not CPUs by their ids.
    return replace(node, stock=None, zones=tuple(made))


def question(pod: TracePod) -> Question:
    """Return the question of a pod: a container without an intent, so that each node's own policy applies."""
    gpus = {GPU_SHARE: pod.share} if pod.shares else {GPU: pod.gpus}
    devices = gpus if pod.gpus else {}
    requests = Resources({CPU: pod.cpu, **({MEMORY: pod.memory} if pod.memory else {}), **devices})
    limits = requests if pod.guaranteed else Resources(devices)
    container = Container("main", requests=requests, limits=limits)
    return Question(demand.of(Pod("pod", containers=(container,))), NO_INTENT)
