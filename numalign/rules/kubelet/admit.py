"""
The admission of one pod: what the topology manager and the three managers would do, container by container.

Restates Admit of topologymanager/scope_container.go and scope_pod.go. Container scope asks for hints before
each container, when earlier ones already hold something; pod scope asks once and binds every container to
the same set of zones. Amounts are given out per container in both.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from numalign.rules.demand import Demand, Step
from numalign.rules.intent import Policy, Scope
from numalign.rules.kubelet import cpu, device, masks, memory
from numalign.rules.kubelet.memory import Block, Memory
from numalign.rules.kubelet.merge import Decision, Merged, Offer, decide
from numalign.rules.kubelet.pool import Amounts, Pool
from numalign.rules.placement import Grant, Placement, ZoneSet
from numalign.rules.resources import CPU, Resources, ZoneId
from numalign.rules.topology import Node, Zone


class Reason(StrEnum):
    """The reasons that a kubelet writes into the status of a pod that it refuses."""

    TOPOLOGY_AFFINITY = "TopologyAffinityError"
    UNEXPECTED_ADMISSION = "UnexpectedAdmissionError"


NOWHERE = Placement()
"""What a refused pod gets."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why the kubelet refuses a pod: at which step, and which resources it could not allocate, if any."""

    reason: Reason
    step: Step
    resources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Books:
    """What all managers know while one pod is admitted; None where a manager is off."""

    cpus: Pool | None
    memory: Memory | None
    devices: Mapping[str, Pool]


@dataclass(frozen=True, slots=True)
class Admission:
    """What the kubelet makes of a pod: a refusal, or the placement that `charge` then books.

    `before` and `after` are the managers' books. Of a refused pod `after` is what the refused step found:
    its earlier containers were served.
    """

    refusal: Refused | None
    placement: Placement
    before: Books
    after: Books


def admit(node: Node, demand: Demand) -> Admission:
    """Ask this node's kubelet to admit a pod on top of what it already gave out."""
    start = _books_of(node, demand.whole.devices)
    books, gifts = start, []
    shared = _decide(node, start, demand.whole) if node.scope is Scope.POD else None
    if shared and not shared.admitted:
        return Admission(Refused(Reason.TOPOLOGY_AFFINITY, demand.whole), NOWHERE, start, start)
    for step in demand.steps:
        decision = shared or _decide(node, books, step)
        if not decision.admitted:
            return Admission(Refused(Reason.TOPOLOGY_AFFINITY, step), NOWHERE, start, books)
        outcome = _allocate(books, step, decision.affinity)
        if isinstance(outcome, Refused):
            return Admission(outcome, NOWHERE, start, books)
        books, gift = outcome
        gifts.append(gift)
    # A later container may have taken over an init container's memory, so blocks are read at the end.
    grants = tuple(_grant(node, gift, books.memory) for gift in gifts)
    settled = replace(books, memory=books.memory and memory.started(books.memory))
    return Admission(None, Placement(grants, _kept(node, start, settled)), start, settled)


def charge(node: Node, admission: Admission) -> Node:
    """The node with the pod on it and all its containers running; the same node for a refused pod."""
    return node if admission.refusal else found(node, admission)


def found(node: Node, admission: Admission) -> Node:
    """The node as the last step of an admission left it or, if it was refused, found it."""
    zones = enumerate(node.zones)
    order = _order(node)
    return replace(node, zones=tuple(_charged(zone, at, admission, order) for at, zone in zones))


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
        offers += device.offers(books.devices, step)
        offers += cpu.offers(books.cpus, step) if books.cpus else []
        offers += memory.offers(books.memory, step.memory) if books.memory and step.memory else []
    return decide(node.policy, offers, len(node.zones))


@dataclass(frozen=True, slots=True)
class _Gift:
    """What one container was given of CPUs and devices, zone by zone, under its affinity."""

    step: Step
    affinity: Merged
    singles: Mapping[str, Amounts]


def _allocate(books: Books, step: Step, affinity: Merged) -> tuple[Books, _Gift] | Refused:
    """Let each manager give out what the step asks, in the kubelet's order; the first failure refuses."""
    given = device.allocate(books.devices, step, affinity.mask)
    if isinstance(given, str):
        return Refused(Reason.UNEXPECTED_ADMISSION, step, (given,))
    devices, singles = given
    cpus, held = books.cpus, books.memory
    if cpus and step.cpu:
        served = cpu.allocate(cpus, step, affinity.mask)
        if served is None:
            return Refused(Reason.UNEXPECTED_ADMISSION, step, (CPU,))
        cpus, singles = served[0], {**singles, CPU: served[1]}
    if held and step.memory:
        held = memory.allocate(held, step, affinity)
        if held is None:
            return Refused(Reason.UNEXPECTED_ADMISSION, step, tuple(step.memory))
    return Books(cpus, held, devices), _Gift(step, affinity, singles)


def _grant(node: Node, gift: _Gift, held: Memory | None) -> Grant:
    step, mask = gift.step, gift.affinity.mask
    stored = None if mask is None else masks.ids(mask, _order(node))
    own = [block for block in held.blocks if block.container == step.container] if held else []
    amounts = _by_zone_set(node, gift.singles, own)
    return Grant(step.container, step.role, stored, gift.affinity.preferred, amounts)


def _by_zone_set(
    node: Node, singles: Mapping[str, Amounts], blocks: Iterable[Block]
) -> dict[ZoneSet, Resources]:
    """Amounts under the sets of zones that they come from, the sets in ascending order."""
    found: dict[ZoneSet, dict[str, int]] = {}
    for name, amounts in singles.items():
        for zone, amount in zip(node.zones, amounts, strict=True):
            if amount:
                found.setdefault((zone.id,), {})[name] = amount
    for block in blocks:
        bag = found.setdefault(masks.ids(block.mask, _order(node)), {})
        bag[block.resource] = bag.get(block.resource, 0) + block.size
    return {zones: Resources(found[zones]) for zones in sorted(found)}


def _kept(node: Node, before: Books, after: Books) -> dict[ZoneSet, Resources]:
    """What has left the free amounts, once all containers run."""
    singles = {name: _difference(before.devices[name], pool) for name, pool in after.devices.items()}
    if before.cpus and after.cpus:
        singles[CPU] = _difference(before.cpus, after.cpus)
    blocks = after.memory.blocks if after.memory else ()
    return _by_zone_set(node, singles, (block for block in blocks if block.size))


def _difference(before: Pool, after: Pool) -> Amounts:
    return tuple(map(int.__sub__, before.free, after.free))


def _charged(zone: Zone, at: int, admission: Admission, order: tuple[ZoneId, ...]) -> Zone:
    before, after = admission.before, admission.after
    spent = {name: pool.free[at] - after.devices[name].free[at] for name, pool in before.devices.items()}
    if before.cpus and after.cpus:
        spent[CPU] = before.cpus.free[at] - after.cpus.free[at]
    if before.memory and after.memory:
        held, left = before.memory.free, after.memory.free
        spent |= {name: amounts[at] - left[name][at] for name, amounts in held.items()}
    free = {name: amount - spent.get(name, 0) for name, amount in zone.free.items()}
    return _grouped(replace(zone, free=Resources(free)), at, admission, order)


def _grouped(zone: Zone, at: int, admission: Admission, order: tuple[ZoneId, ...]) -> Zone:
    """The zone with the memory manager's books of it, where they have changed."""
    before, after = admission.before.memory, admission.after.memory
    if before is None or after is None:
        return zone
    same = before.cells[at] == after.cells[at]
    cells = zone.cells if same else frozenset(masks.ids(after.cells[at], order))
    return replace(zone, cells=cells, assignments=after.assignments[at])


def _order(node: Node) -> tuple[ZoneId, ...]:
    return tuple(zone.id for zone in node.zones)
