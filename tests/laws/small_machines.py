"""Machines so small that every state can be tried: what is free of each resource in each zone."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from numalign.cache import Question
from numalign.model import demand as demands
from numalign.model.intent import Intent, Policy, Scope
from numalign.model.node import MemoryManager, Node, Zone
from numalign.model.pod import Container, Pod, Role
from numalign.model.resources import CPU, MEMORY, MILLI, Resources, ZoneId
from tests.laws.fleets import Pick
from tests.worlds.notation import GPU, zone_ids

_CPUS, _GPUS = [2, 3, 4, 4, 6], [0, 1, 2, 2, 4]
_RESERVED = [0, 0, 1, 2]
_CONTAINERS = [
    (Role.APP,),
    (Role.INIT, Role.APP),
    (Role.INIT, Role.APP),
    (Role.APP, Role.APP),
    (Role.SIDECAR, Role.APP),
    (Role.INIT, Role.APP, Role.APP),
    (Role.APP, Role.APP, Role.APP),
]
_POLICIES = [Policy.SINGLE_NUMA_NODE, Policy.SINGLE_NUMA_NODE, Policy.RESTRICTED, Policy.BEST_EFFORT]


def small(pick: Pick) -> tuple[Node, Question]:
    """An empty machine of two zones with CPUs and GPUs, and a pod."""
    node = Node(
        "node",
        tuple(_zone(pick, at) for at in zone_ids(0, 1)),
        policy=pick(_POLICIES),
        scope=pick([Scope.CONTAINER, Scope.CONTAINER, Scope.POD]),
        memory_manager=MemoryManager.NONE,
    )
    containers = tuple(_container(pick, f"c{at}", role) for at, role in enumerate(pick(_CONTAINERS)))
    intent = Intent(pick(_POLICIES), scope=pick([None, None, Scope.POD]))
    return node, Question(demands.of(Pod("pod", containers=containers)), intent)


def states(node: Node) -> Iterator[Node]:
    """Every state of an empty machine, the empty one first."""
    for free in product(*map(_free, node.zones)):
        zones = zip(node.zones, free, strict=True)
        yield replace(node, zones=tuple(replace(zone, free=amounts) for zone, amounts in zones))


def _free(zone: Zone) -> list[Resources]:
    cpus = range(zone.allocatable[CPU], -1, -MILLI)
    return [Resources({CPU: cpu, GPU: gpu}) for cpu in cpus for gpu in range(zone.allocatable[GPU], -1, -1)]


def _zone(pick: Pick, at: ZoneId) -> Zone:
    cpus, gpus = pick(_CPUS), pick(_GPUS)
    capacity = Resources({CPU: cpus * MILLI, GPU: gpus})
    allocatable = Resources({CPU: max(0, cpus - pick(_RESERVED)) * MILLI, GPU: gpus})
    return Zone(at, f"node-{at}", capacity, allocatable, allocatable)


def _container(pick: Pick, name: str, role: Role) -> Container:
    amounts = Resources({CPU: pick([1, 1, 2, 3, 4]) * MILLI, MEMORY: 2**30, GPU: pick([0, 0, 1, 2])})
    return Container(name, role, amounts.positive(), amounts.positive())
