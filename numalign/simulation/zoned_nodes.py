"""
Nodes of a trace with assumed zones, as the trace does not contain any.

CPUs, memory and GPUs are split as evenly as whole CPUs and GPUs allow, GPUs over the sockets first. Small
nodes are one zone. Shares of GPUs are a resource of zones; a zone has as much of it free as the emptiest of
its GPUs, since a pod's share comes from one device.
"""

from collections.abc import Sequence
from dataclasses import replace

from numalign.cache import Question
from numalign.decision.evaluate import NO_INTENT
from numalign.model import demand
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


def zoned_node(name: str, node: TraceNode, *, zones: int, policy: Policy, scope: Scope) -> Node:
    """Return an empty node with so many zones, one if it is small."""
    count = 1 if node.cpu <= SMALL_CPUS * MILLI else zones
    parts = [
        {CPU: cpus * MILLI, MEMORY: memory * MIB, **_gpus(gpus)}
        for cpus, memory, gpus in zip(
            _split(node.cpu // MILLI, count),
            _split(node.memory // MIB, count),
            _split(node.gpus, count),
            strict=True,
        )
    ]
    return Node(
        name,
        tuple(_zone(at, part, count) for at, part in enumerate(map(Resources, parts))),
        policy=policy,
        scope=scope,
        known=Known.CONFIGURED,
    )


def gpu_zones(node: TraceNode, count: int) -> list[int]:
    """Return the zone of each GPU of a node with so many zones."""
    return [zone for zone, gpus in enumerate(_split(node.gpus, count)) for _ in range(gpus)]


def _gpus(count: int) -> dict[str, int]:
    return {GPU: count, GPU_SHARE: WHOLE_GPU} if count else {}


def _split(total: int, parts: int) -> list[int]:
    """Return parts in whole pieces, with those that have one more spread evenly."""
    return [(at + 1) * total // parts - at * total // parts for at in range(parts)]


def _zone(at: int, amounts: Resources, count: int) -> Zone:
    costs = tuple((ZoneId(to), _cost(at, to, count)) for to in range(count))
    return Zone(ZoneId(at), f"node-{at}", amounts, amounts, amounts, costs)


def _cost(zone: int, other: int, count: int) -> int:
    if zone == other:
        return _HERE
    return _SAME_SOCKET if zone * _SOCKETS // count == other * _SOCKETS // count else _FAR


def with_free_gpus(node: Node, zones: Sequence[int], gpus: Sequence[int]) -> Node:
    """Return the node with so much left of each GPU, in thousandths; `zones` has the zone of each."""
    return replace(
        node,
        # Only amounts count here, not CPUs by their ids.
        stock=None,
        zones=tuple(
            replace(zone, free=Resources({**zone.free, **_free(zone, at, zones, gpus)}))
            for at, zone in enumerate(node.zones)
        ),
    )


def _free(zone: Zone, at: int, zones: Sequence[int], gpus: Sequence[int]) -> dict[str, int]:
    zone_gpus = [left for left, where in zip(gpus, zones, strict=True) if where == at]
    if GPU not in zone.allocatable or not zone_gpus:
        return {}
    return {GPU: zone_gpus.count(WHOLE_GPU), GPU_SHARE: max(zone_gpus)}


def question(pod: TracePod) -> Question:
    """Return the question of a pod: a container without an intent, so that each node's own policy applies."""
    gpus = {GPU_SHARE: pod.share} if pod.shares else {GPU: pod.gpus}
    devices = gpus if pod.gpus else {}
    requests = Resources({CPU: pod.cpu, **({MEMORY: pod.memory} if pod.memory else {}), **devices})
    limits = requests if pod.guaranteed else Resources(devices)
    container = Container("main", requests=requests, limits=limits)
    return Question(demand.of(Pod("pod", containers=(container,))), NO_INTENT)
