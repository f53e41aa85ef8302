"""
The admission of one pod: what the topology manager and the three managers would do, container by container.

Restates Admit of topologymanager/scope_container.go and scope_pod.go. Container scope asks for hints before
each container, when earlier ones already hold something; pod scope asks once and binds every container to
the same set of zones. Amounts are given out per container in both.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from numalign.rules.demand import Demand, Step
from numalign.rules.intent import Policy, Scope
from numalign.rules.kubelet import cpu, device, masks, memory
from numalign.rules.kubelet.masks import Mask
from numalign.rules.kubelet.memory import Memory
from numalign.rules.kubelet.merge import Decision, Merged, Offer, decide
from numalign.rules.kubelet.pool import Amounts, Pool
from numalign.rules.placement import Grant, Placement, ZoneSet
from numalign.rules.resources import CPU, Resources, ZoneId
from numalign.rules.topology import Node, Zone


class Reason(StrEnum):
    """The reasons that a kubelet writes into the status of a pod that it refuses."""

    TOPOLOGY_AFFINITY = "TopologyAffinityError"
    UNEXPECTED_ADMISSION = "UnexpectedAdmissionError"


@dataclass(frozen=True, slots=True)
class Refused:
    """Why the kubelet refuses a pod: at which step, and for lack of which resource if it is one."""

    reason: Reason
    step: Step
    resource: str | None = None


@dataclass(frozen=True, slots=True)
class Books:
    """What all managers know while one pod is admitted; None where a manager is off."""

    cpus: Pool | None
    memory: Memory | None
    devices: Mapping[str, Pool]


@dataclass(frozen=True, slots=True)
class Admission:
    """What the kubelet makes of a pod: a refusal, or the placement that `charge` then books."""

    refusal: Refused | None
    placement: Placement
    books: Books


def admit(node: Node, demand: Demand) -> Admission:
    """Ask this node's kubelet to admit a pod on top of what it already gave out."""
    start = _books_of(node, demand.whole.devices)
    books, grants = start, []
    shared = _decide(node, start, demand.whole) if node.scope is Scope.POD else None
    if shared and not shared.admitted:
        return _refused(start, Refused(Reason.TOPOLOGY_AFFINITY, demand.whole))
    for step in demand.steps:
        decision = shared or _decide(node, books, step)
        if not decision.admitted:
            return _refused(start, Refused(Reason.TOPOLOGY_AFFINITY, step))
        outcome = _allocate(node, books, step, decision.affinity)
        if isinstance(outcome, Refused):
            return _refused(start, outcome)
        books, grant = outcome
        grants.append(grant)
    settled = replace(books, memory=books.memory and memory.started(books.memory))
    placement = Placement(tuple(grants), _kept(node, start, settled))
    return Admission(None, placement, settled)


def charge(node: Node, admission: Admission) -> Node:
    """The node with the pod on it and all its containers running; unchanged for a pod that was refused."""
    order = _order(node)
    zones = enumerate(node.zones)
    return replace(node, zones=tuple(_charged(zone, at, admission.books, order) for at, zone in zones))


def widths(node: Node, step: Step) -> dict[str, int]:
    """For each resource of a step that the node aligns: the fewest zones that could hold it by hardware."""
    books = _books_of(node, step.devices)
    held = books.devices.items()
    by_device = {name: device.width(pool.total, step.devices[name]) for name, pool in held}
    by_cpu = {CPU: cpu.width(books.cpus.total, step.cpu)} if books.cpus and step.cpu else {}
    by_memory = dict.fromkeys(step.memory, memory.width(books.memory, step.memory)) if books.memory else {}
    return {**by_device, **by_cpu, **by_memory}


def _books_of(node: Node, devices: Mapping[str, int]) -> Books:
    return Books(cpu.of(node), memory.of(node), device.of(node, devices))


def _decide(node: Node, books: Books, step: Step) -> Decision:
    """Ask the hint providers in the kubelet's order; policy none asks nobody."""
    offers: list[Offer] = []
    if node.policy is not Policy.NONE:
        offers += device.offers(books.devices, step, scope=node.scope)
        offers += cpu.offers(books.cpus, step) if books.cpus else []
        offers += memory.offers(books.memory, step.memory) if books.memory and step.memory else []
    return decide(node.policy, offers, len(node.zones))


def _allocate(node: Node, books: Books, step: Step, affinity: Merged) -> tuple[Books, Grant] | Refused:
    """Let each manager give out what the step asks, in the kubelet's order; the first failure refuses."""
    given = device.allocate(books.devices, step, affinity.mask)
    if isinstance(given, str):
        return Refused(Reason.UNEXPECTED_ADMISSION, step, given)
    devices, by_zone = given
    cpus, taken = books.cpus, None
    if cpus and step.cpu:
        found = cpu.allocate(cpus, step, affinity.mask)
        if found is None:
            return Refused(Reason.UNEXPECTED_ADMISSION, step, CPU)
        cpus, taken = found
    held, block = books.memory, None
    if held and step.memory:
        reserved = memory.allocate(held, step, affinity)
        if reserved is None:
            return Refused(Reason.UNEXPECTED_ADMISSION, step, next(iter(step.memory)))
        held, block = reserved
    singles = {**by_zone, **({CPU: taken} if taken else {})}
    grant = _grant(node, step, affinity, _by_zone_set(node, singles, {block: step.memory} if block else {}))
    return Books(cpus, held, devices), grant


def _grant(node: Node, step: Step, affinity: Merged, amounts: Mapping[ZoneSet, Resources]) -> Grant:
    order = _order(node)
    stored = None if affinity.mask is None else masks.ids(affinity.mask, order)
    return Grant(step.container, step.role, stored, affinity.preferred, amounts)


def _by_zone_set(
    node: Node, singles: Mapping[str, Amounts], blocks: Mapping[Mask, Mapping[str, int]]
) -> dict[ZoneSet, Resources]:
    """Amounts under the sets of zones that they come from, the sets in ascending order."""
    found: dict[ZoneSet, dict[str, int]] = {}
    for name, amounts in singles.items():
        for zone, amount in zip(node.zones, amounts, strict=True):
            if amount:
                found.setdefault((zone.id,), {})[name] = amount
    for mask, sizes in blocks.items():
        bag = found.setdefault(masks.ids(mask, _order(node)), {})
        for name, size in sizes.items():
            bag[name] = bag.get(name, 0) + size
    return {zones: Resources(found[zones]) for zones in sorted(found)}


def _kept(node: Node, before: Books, after: Books) -> dict[ZoneSet, Resources]:
    """What has left the free amounts, once all containers run."""
    singles = {name: _difference(before.devices[name], pool) for name, pool in after.devices.items()}
    if before.cpus and after.cpus:
        singles[CPU] = _difference(before.cpus, after.cpus)
    blocks: dict[Mask, dict[str, int]] = {}
    for block in after.memory.blocks if after.memory else ():
        if block.size:
            bag = blocks.setdefault(block.mask, {})
            bag[block.resource] = bag.get(block.resource, 0) + block.size
    return _by_zone_set(node, singles, blocks)


def _difference(before: Pool, after: Pool) -> Amounts:
    return tuple(map(int.__sub__, before.free, after.free))


def _charged(zone: Zone, at: int, books: Books, order: tuple[ZoneId, ...]) -> Zone:
    free = dict(zone.free)
    free |= {name: pool.free[at] for name, pool in books.devices.items() if name in free}
    if books.cpus and CPU in free:
        free[CPU] = books.cpus.free[at]
    if books.memory is None:
        return replace(zone, free=Resources(free))
    free |= {name: amounts[at] for name, amounts in books.memory.free.items() if name in free}
    return replace(
        zone,
        free=Resources(free),
        cells=frozenset(masks.ids(books.memory.cells[at], order)),
        assignments=books.memory.assignments[at],
    )


def _order(node: Node) -> tuple[ZoneId, ...]:
    return tuple(zone.id for zone in node.zones)


def _refused(books: Books, refusal: Refused) -> Admission:
    return Admission(refusal, Placement(), books)
