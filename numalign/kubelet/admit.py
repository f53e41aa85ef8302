"""
The admission of one pod: what the topology manager and the three managers would do, container by container.

Restates Admit of topologymanager/scope_container.go and scope_pod.go. Container scope asks for hints before
each container, when earlier ones already hold something; pod scope asks once and binds every container to
the same set of zones. Amounts are given out per container in both.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import NamedTuple

from numalign.kubelet import (
    bitmask,
    cpu_manager,
    device_manager,
    effort,
    hint_sets,
    memory_manager,
    pod_level,
)
from numalign.kubelet.admission_errors import Reason, Refused
from numalign.kubelet.cpu_manager import Cpus
from numalign.kubelet.device_manager import Pool, Taken
from numalign.kubelet.managers_state import Books, Entry, Held, books_of, held_since, restocked, without
from numalign.kubelet.memory_manager import MemoryState
from numalign.kubelet.topology_manager import Decision, Merged, ResourceHints, Zones, deciding, impossible
from numalign.kubelet.zone_amounts import ZoneAmounts
from numalign.model.demand import Demand, Step, by_plugins
from numalign.model.intent import Policy, Scope
from numalign.model.machine import CpuSet
from numalign.model.node import Node
from numalign.model.options import Gate, TopologyOption
from numalign.model.placement import Grant, Placement, ZoneSet
from numalign.model.resources import CPU, MILLI, Resources
from numalign.model.steps import Steps, finished

NO_PLACEMENT = Placement()
"""What a refused pod gets."""


class PodAdmitResult(NamedTuple):
    """What the kubelet makes of a pod: a refusal, or the placement that `charge` then books.

    `before` and `after` are the managers' books. Of a refused pod `after` is what the refused step found:
    its earlier containers were served, and `held` is what they leave behind until the next admission.
    """

    refusal: Refused | None
    placement: Placement
    before: Books
    after: Books
    held: Held


class _Gift(NamedTuple):
    """What one container was given of CPUs and devices under its affinity."""

    step: Step
    affinity: Merged
    cpus: CpuSet
    devices: Mapping[str, Taken]


def admit(node: Node, demand: Demand) -> PodAdmitResult:
    """Ask this node's kubelet to admit a pod on top of what it already gave out.

    What takes too long to work out (`work`) is refused as not answered.
    """
    return finished(admitting(node, demand))


def admitting(node: Node, demand: Demand) -> Steps[PodAdmitResult]:
    """The same container by container."""
    asked = heeded(node, demand)
    start = books_of(node, asked.whole.devices)
    if not effort.answerable(node, asked):
        return _refused(Refused(Reason.NOT_ANSWERED, asked.whole), start, start)
    if node.scope is Scope.CONTAINER or node.policy is Policy.NONE:
        return (yield from _each(node, asked, start, shared=None))
    decision = yield from _decide(node, start, asked.whole, _crowded(node, asked))
    if not decision.admitted:
        crowded = tuple(sorted(_crowded(node, asked)))
        return _refused(Refused(Reason.TOPOLOGY_AFFINITY, asked.whole, crowded), start, start)
    if _stands_as_one(node, asked):
        return _together(node, asked, start, decision.affinity)
    return (yield from _each(node, asked, start, shared=decision))


def heeded(node: Node, demand: Demand) -> Demand:
    """What the managers of this node read in a pod: with their gate on, its resources as a whole.

    Of devices that DRA serves they hear only where a device plugin does.
    """
    if demand.by_dra:
        demand = by_plugins(demand, node.devices)
    level = demand.pod_level
    if level is None or not _stands_as_one(node, demand):
        return demand
    return replace(demand, steps=level.steps, whole=level.whole)


def _stands_as_one(node: Node, demand: Demand) -> bool:
    return demand.pod_level is not None and node.options.on(Gate.POD_LEVEL_MANAGERS)


def _crowded(node: Node, demand: Demand) -> frozenset[str]:
    level = demand.pod_level
    return level.crowded if level and _stands_as_one(node, demand) else frozenset()


def _each(node: Node, demand: Demand, start: Books, shared: Decision | None) -> Steps[PodAdmitResult]:
    """Serve one container after another, each with an affinity of its own unless they share one."""
    books, gifts = start, list[_Gift]()
    for step in demand.steps:
        if gifts:
            yield
        decision = shared or (yield from _decide(node, books, step))
        if not decision.admitted:
            return _refused(Refused(Reason.TOPOLOGY_AFFINITY, step), start, books)
        outcome = _allocate(books, step, decision.affinity)
        if isinstance(outcome, Refused):
            return _refused(outcome, start, books)
        books, gift = outcome
        gifts.append(gift)
    # A later container may have taken over an init container's memory, so blocks are read at the end.
    blocks = _blocks(books)
    grants = tuple(_granted(node, gift, books, blocks[gift.step.container]) for gift in gifts)
    settled = _started(books)
    held = held_since(start, settled)
    # A container alone holds what it was given.
    kept = grants[0].amounts if len(grants) == 1 else _kept(node, settled, held)
    return PodAdmitResult(None, Placement(grants, kept), start, settled, held)


def _started(books: Books) -> Books:
    """The books once all containers run."""
    running = books.memory and memory_manager.started(books.memory)
    return books if running is books.memory else books._replace(memory=running)


def _together(node: Node, demand: Demand, start: Books, affinity: Merged) -> PodAdmitResult:
    """Serve the pod as a whole, without devices, and let its containers divide it (AllocatePod)."""
    crowded = _crowded(node, demand)
    served = pod_level.cpus(start, demand, affinity, crowded)
    if isinstance(served, Reason):
        return _refused(Refused(served, demand.whole, (CPU,)), start, start)
    books, parts = served
    kept = pod_level.memory(books, demand, affinity, crowded)
    if isinstance(kept, Reason):
        given = books.cpus.given if books.cpus else 0
        return _refused(Refused(kept, demand.whole, tuple(demand.whole.memory), given), start, start)
    settled, blocks = kept
    gifts = (_Gift(step, affinity, parts.get(step.container, 0), {}) for step in demand.steps)
    grants = tuple(_granted(node, gift, settled, blocks.get(gift.step.container, ())) for gift in gifts)
    held = held_since(start, settled)
    gift = _Gift(demand.whole, affinity, held.cpus, {})
    whole = _granted(node, gift, settled, _blocks(settled)[demand.whole.container])
    return PodAdmitResult(None, Placement(grants, whole.amounts, whole), start, settled, held)


def charge(node: Node, admission: PodAdmitResult) -> Node:
    """The node with the pod on it and all its containers running; the same node for a refused pod."""
    return node if admission.refusal else found(node, admission)


def found(node: Node, admission: PodAdmitResult) -> Node:
    """The node as the last step of an admission left it or, if it was refused, found it."""
    return restocked(node, admission.before, admission.after)


def release(node: Node, leaving: Iterable[Held]) -> Node:
    """The node after the managers dropped pods that are gone, one after another (removeStaleState)."""
    gone = list(leaving)
    if not gone:
        return node
    before = books_of(node, {name for held in gone for name in held.devices})
    return restocked(node, before, reduce(without, gone, before))


def widths(node: Node, step: Step) -> dict[str, int]:
    """For each resource of a step that the node aligns: the fewest zones that could hold it by hardware."""
    books = books_of(node, step.devices)
    held = books.devices.items()
    by_device = {name: device_manager.width(pool.devices, step.devices[name]) for name, pool in held}
    by_cpu = (
        {CPU: cpu_manager.width(books.cpus.layout.sizes, step.cpu // MILLI)}
        if books.cpus and step.cpu
        else {}
    )
    by_memory = (
        dict.fromkeys(step.memory, memory_manager.width(books.memory, step.memory)) if books.memory else {}
    )
    return {**by_device, **by_cpu, **by_memory}


def together(node: Node, amounts: Mapping[str, int], zones: int) -> bool:
    """Whether any so many zones have all these amounts free, whatever managers make of it."""
    frees = {name: tuple([zone.free.get(name, 0) for zone in node.zones]) for name in amounts}
    enough = [hint_sets.reaching(frees[name], asked) for name, asked in amounts.items()]
    return bool(hint_sets.of_width(reduce(and_, enough, hint_sets.every(len(node.zones))), zones))


def whole_cores(node: Node) -> tuple[int, int]:
    """How many threads a core has, and the millicores free in cores that keep none for the system."""
    cpus = cpu_manager.of(node)
    if cpus is None or not cpus.layout.cores:
        return 1, 0
    return cpus.layout.threads_per_core, cpu_manager.whole_cores(cpus).bit_count() * MILLI


def _refused(refusal: Refused, before: Books, after: Books) -> PodAdmitResult:
    held = held_since(before, after)
    return PodAdmitResult(refusal, NO_PLACEMENT, before, after, held._replace(cpus=held.cpus | refusal.cpus))


def _decide(node: Node, books: Books, step: Step, crowded: frozenset[str] = frozenset()) -> Steps[Decision]:
    """Ask the hint providers in the kubelet's order; policy none asks nobody."""
    offers: list[ResourceHints] = []
    if node.policy is not Policy.NONE:
        offers += device_manager.offers(books.devices, step)
        offers += _cpu_offers(books.cpus, step, crowded) if books.cpus else []
        offers += _memory_offers(books.memory, step, crowded) if books.memory else []
    return (yield from deciding(node.policy, offers, zones_of(node)))


def _cpu_offers(cpus: Cpus, step: Step, crowded: frozenset[str]) -> list[ResourceHints]:
    return [impossible(CPU)] if CPU in crowded else cpu_manager.offers(cpus, step)


def _memory_offers(held: MemoryState, step: Step, crowded: frozenset[str]) -> list[ResourceHints]:
    if crowded & step.memory.keys():
        return [impossible(name) for name in step.memory]
    return memory_manager.offers(held, step.memory)


def zones_of(node: Node) -> Zones:
    """The zones as the merge compares them; distances that nobody published are all alike."""
    if TopologyOption.PREFER_CLOSEST not in node.options.topology:
        return Zones(len(node.zones))
    costs = [dict(zone.costs) for zone in node.zones]
    far = tuple(tuple(row.get(zone.id, 0) for zone in node.zones) for row in costs)
    return Zones(len(node.zones), far)


def _allocate(books: Books, step: Step, affinity: Merged) -> tuple[Books, _Gift] | Refused:
    """Let each manager give out what the step asks, in the kubelet's order; the first failure refuses."""
    given = device_manager.allocate(books.devices, step, affinity.mask)
    if isinstance(given, str):
        return Refused(Reason.UNEXPECTED_ADMISSION, step, (given,))
    devices, taken = given
    cpus, held, ids = books.cpus, books.memory, 0
    if cpus and step.cpu:
        served = cpu_manager.allocate(cpus, step, affinity.mask)
        if isinstance(served, Reason):
            return Refused(served, step, (CPU,))
        cpus, ids = served
    if held and step.managed:
        held = memory_manager.allocate(held, step, affinity)
        if held is None:
            return Refused(Reason.UNEXPECTED_ADMISSION, step, tuple(step.memory), ids)
    return Books(cpus, held, devices), _Gift(step, affinity, ids, taken)


def _blocks(books: Books) -> Mapping[str, Sequence[Entry]]:
    """The memory of each container of the pod, by its name."""
    found = defaultdict[str, list[Entry]](list)
    for block in books.memory.blocks if books.memory else ():
        found[block.container].append((block.mask, block.resource, block.size))
    return found


def _granted(node: Node, gift: _Gift, books: Books, memory_of_it: Iterable[Entry]) -> Grant:
    step, mask = gift.step, gift.affinity.mask
    entries = list(_cpu_entries(books.cpus, gift.cpus)) if books.cpus else []
    for name, taken in gift.devices.items():
        entries += _device_entries(books.devices[name], name, taken.amounts)
    return Grant(
        step.container,
        step.role,
        affinity=None if mask is None else bitmask.ids(mask, node.ids),
        preferred=gift.affinity.preferred,
        amounts=_by_zone_set(node, [*entries, *memory_of_it]),
        cpus=gift.cpus,
        chosen=tuple(name for name, taken in gift.devices.items() if taken.chosen),
    )


def _kept(node: Node, books: Books, held: Held) -> Mapping[ZoneSet, Resources]:
    """What the pod holds once all its containers run."""
    entries = list(_cpu_entries(books.cpus, held.cpus)) if books.cpus else []
    for name, amounts in held.devices.items():
        entries += _device_entries(books.devices[name], name, amounts)
    entries += [(block.mask, block.resource, block.size) for block in held.blocks if block.size]
    return _by_zone_set(node, entries)


def _cpu_entries(cpus: Cpus, held: CpuSet) -> Iterable[Entry]:
    counts = enumerate(cpu_manager.by_zone(cpus.layout, held))
    return ((1 << at, CPU, count * MILLI) for at, count in counts if count)


def _device_entries(pool: Pool, name: str, amounts: ZoneAmounts) -> Iterable[Entry]:
    return ((place, name, count) for place, count in zip(pool.devices.places, amounts, strict=True) if count)


def _by_zone_set(node: Node, entries: Iterable[Entry]) -> dict[ZoneSet, Resources]:
    """Amounts under the sets of zones that they come from, the sets in ascending order."""
    found: dict[ZoneSet, dict[str, int]] = {}
    for mask, name, amount in entries:
        bag = found.setdefault(bitmask.ids(mask, node.ids), {})
        bag[name] = bag.get(name, 0) + amount
    return {zones: Resources(found[zones]) for zones in sorted(found)}
