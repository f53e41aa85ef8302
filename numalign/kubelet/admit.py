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
    hint_sets,
    memory_manager,
    pod_level,
    work_limit,
)
from numalign.kubelet.admission_errors import Rejection, RejectionReason
from numalign.kubelet.cpu_manager import CpuState
from numalign.kubelet.device_manager import Allocation, DeviceState
from numalign.kubelet.managers_state import (
    Assignments,
    Entry,
    ManagersState,
    assignments_since,
    read_state,
    removed,
    with_state,
)
from numalign.kubelet.memory_manager import MemoryState
from numalign.kubelet.topology_manager import (
    Decision,
    NumaInfo,
    ResourceHints,
    TopologyHint,
    impossible,
    merging,
)
from numalign.kubelet.zone_amounts import ZoneAmounts
from numalign.model.demand import Demand, Step, by_plugins
from numalign.model.intent import Policy, Scope
from numalign.model.machine import CpuSet
from numalign.model.node import Node
from numalign.model.options import FeatureGate, TopologyOption
from numalign.model.placement import Grant, Placement, ZoneSet
from numalign.model.resources import CPU, MILLI, Resources
from numalign.model.steps import Steps, finished

NO_PLACEMENT = Placement()
"""What a refused pod gets."""


class PodAdmitResult(NamedTuple):
    """What the kubelet makes of a pod: a refusal, or the placement that `charge` then state.

    `before` and `after` are the managers' state. Of a refused pod `after` is what the refused step found:
    its earlier containers were served, and `held` is what they leave behind until the next admission.
    """

    refusal: Rejection | None
    placement: Placement
    before: ManagersState
    after: ManagersState
    held: Assignments


class _Gift(NamedTuple):
    """What one container was given of CPUs and devices under its affinity."""

    step: Step
    affinity: TopologyHint
    cpus: CpuSet
    devices: Mapping[str, Allocation]


def admit(node: Node, demand: Demand) -> PodAdmitResult:
    """Ask this node's kubelet to admit a pod on top of what it already gave out.

    What takes too long to work out (`work`) is refused as not answered.
    """
    return finished(admitting(node, demand))


def admitting(node: Node, demand: Demand) -> Steps[PodAdmitResult]:
    """The same container by container."""
    asked = effective_demand(node, demand)
    start = read_state(node, asked.whole.devices)
    if not work_limit.answerable(node, asked):
        return _refused(Rejection(RejectionReason.NOT_ANSWERED, asked.whole), start, start)
    if node.scope is Scope.CONTAINER or node.policy is Policy.NONE:
        return (yield from _each(node, asked, start, shared=None))
    decision = yield from _decide(node, start, asked.whole, _crowded(node, asked))
    if not decision.admitted:
        crowded = tuple(sorted(_crowded(node, asked)))
        return _refused(Rejection(RejectionReason.TOPOLOGY_AFFINITY, asked.whole, crowded), start, start)
    if _stands_as_one(node, asked):
        return _together(node, asked, start, decision.affinity)
    return (yield from _each(node, asked, start, shared=decision))


def effective_demand(node: Node, demand: Demand) -> Demand:
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
    return demand.pod_level is not None and node.options.on(FeatureGate.POD_LEVEL_MANAGERS)


def _crowded(node: Node, demand: Demand) -> frozenset[str]:
    level = demand.pod_level
    return level.crowded if level and _stands_as_one(node, demand) else frozenset()


def _each(node: Node, demand: Demand, start: ManagersState, shared: Decision | None) -> Steps[PodAdmitResult]:
    """Serve one container after another, each with an affinity of its own unless they share one."""
    state, gifts = start, list[_Gift]()
    for step in demand.steps:
        if gifts:
            yield
        decision = shared or (yield from _decide(node, state, step))
        if not decision.admitted:
            return _refused(Rejection(RejectionReason.TOPOLOGY_AFFINITY, step), start, state)
        outcome = _allocate(state, step, decision.affinity)
        if isinstance(outcome, Rejection):
            return _refused(outcome, start, state)
        state, gift = outcome
        gifts.append(gift)
    # A later container may have taken over an init container's memory, so blocks are read at the end.
    blocks = _blocks(state)
    grants = tuple(_granted(node, gift, state, blocks[gift.step.container]) for gift in gifts)
    settled = _started(state)
    held = assignments_since(start, settled)
    # A container alone holds what it was given.
    kept = grants[0].amounts if len(grants) == 1 else _kept(node, settled, held)
    return PodAdmitResult(None, Placement(grants, kept), start, settled, held)


def _started(state: ManagersState) -> ManagersState:
    """The state once all containers run."""
    running = state.memory and memory_manager.containers_started(state.memory)
    return state if running is state.memory else state._replace(memory=running)


def _together(node: Node, demand: Demand, start: ManagersState, affinity: TopologyHint) -> PodAdmitResult:
    """Serve the pod as a whole, without devices, and let its containers divide it (AllocatePod)."""
    crowded = _crowded(node, demand)
    served = pod_level.allocate_cpus(start, demand, affinity, crowded)
    if isinstance(served, RejectionReason):
        return _refused(Rejection(served, demand.whole, (CPU,)), start, start)
    state, parts = served
    kept = pod_level.allocate_memory(state, demand, affinity, crowded)
    if isinstance(kept, RejectionReason):
        given = state.cpus.given if state.cpus else 0
        return _refused(Rejection(kept, demand.whole, tuple(demand.whole.memory), given), start, start)
    settled, blocks = kept
    gifts = (_Gift(step, affinity, parts.get(step.container, 0), {}) for step in demand.steps)
    grants = tuple(_granted(node, gift, settled, blocks.get(gift.step.container, ())) for gift in gifts)
    held = assignments_since(start, settled)
    gift = _Gift(demand.whole, affinity, held.cpus, {})
    whole = _granted(node, gift, settled, _blocks(settled)[demand.whole.container])
    return PodAdmitResult(None, Placement(grants, whole.amounts, whole), start, settled, held)


def charge(node: Node, admission: PodAdmitResult) -> Node:
    """The node with the pod on it and all its containers running; the same node for a refused pod."""
    return node if admission.refusal else after_admission(node, admission)


def after_admission(node: Node, admission: PodAdmitResult) -> Node:
    """The node as the last step of an admission left it or, if it was refused, found it."""
    return with_state(node, admission.before, admission.after)


def release(node: Node, leaving: Iterable[Assignments]) -> Node:
    """The node after the managers dropped pods that are gone, one after another (removeStaleState)."""
    gone = list(leaving)
    if not gone:
        return node
    before = read_state(node, {name for held in gone for name in held.devices})
    return with_state(node, before, reduce(removed, gone, before))


def min_widths(node: Node, step: Step) -> dict[str, int]:
    """For each resource of a step that the node aligns: the fewest zones that could hold it by hardware."""
    state = read_state(node, step.devices)
    held = state.devices.items()
    by_device = {
        name: device_manager.min_affinity_size(pool.devices, step.devices[name]) for name, pool in held
    }
    by_cpu = (
        {CPU: cpu_manager.min_affinity_size(state.cpus.topology.sizes, step.cpu // MILLI)}
        if state.cpus and step.cpu
        else {}
    )
    by_memory = (
        dict.fromkeys(step.memory, memory_manager.min_affinity_size(state.memory, step.memory))
        if state.memory
        else {}
    )
    return {**by_device, **by_cpu, **by_memory}


def fits_together(node: Node, amounts: Mapping[str, int], zones: int) -> bool:
    """Whether any so many zones have all these amounts free, whatever managers make of it."""
    frees = {name: tuple([zone.free.get(name, 0) for zone in node.zones]) for name in amounts}
    enough = [hint_sets.reaching(frees[name], asked) for name, asked in amounts.items()]
    return bool(hint_sets.of_width(reduce(and_, enough, hint_sets.every(len(node.zones))), zones))


def whole_cores(node: Node) -> tuple[int, int]:
    """How many threads a core has, and the millicores free in cores that keep none for the system."""
    cpus = cpu_manager.state(node)
    if cpus is None or not cpus.topology.cores:
        return 1, 0
    return cpus.topology.threads_per_core, cpu_manager.whole_cores(cpus).bit_count() * MILLI


def _refused(refusal: Rejection, before: ManagersState, after: ManagersState) -> PodAdmitResult:
    held = assignments_since(before, after)
    return PodAdmitResult(refusal, NO_PLACEMENT, before, after, held._replace(cpus=held.cpus | refusal.cpus))


def _decide(
    node: Node, state: ManagersState, step: Step, crowded: frozenset[str] = frozenset()
) -> Steps[Decision]:
    """Ask the hint providers in the kubelet's order; policy none asks nobody."""
    offers: list[ResourceHints] = []
    if node.policy is not Policy.NONE:
        offers += device_manager.topology_hints(state.devices, step)
        offers += _cpu_offers(state.cpus, step, crowded) if state.cpus else []
        offers += _memory_offers(state.memory, step, crowded) if state.memory else []
    return (yield from merging(node.policy, offers, numa_info(node)))


def _cpu_offers(cpus: CpuState, step: Step, crowded: frozenset[str]) -> list[ResourceHints]:
    return [impossible(CPU)] if CPU in crowded else cpu_manager.topology_hints(cpus, step)


def _memory_offers(held: MemoryState, step: Step, crowded: frozenset[str]) -> list[ResourceHints]:
    if crowded & step.memory.keys():
        return [impossible(name) for name in step.memory]
    return memory_manager.topology_hints(held, step.memory)


def numa_info(node: Node) -> NumaInfo:
    """The zones as the merge compares them; distances that nobody published are all alike."""
    if TopologyOption.PREFER_CLOSEST not in node.options.topology:
        return NumaInfo(len(node.zones))
    costs = [dict(zone.costs) for zone in node.zones]
    far = tuple(tuple(row.get(zone.id, 0) for zone in node.zones) for row in costs)
    return NumaInfo(len(node.zones), far)


def _allocate(
    state: ManagersState, step: Step, affinity: TopologyHint
) -> tuple[ManagersState, _Gift] | Rejection:
    """Let each manager give out what the step asks, in the kubelet's order; the first failure refuses."""
    given = device_manager.allocate(state.devices, step, affinity.mask)
    if isinstance(given, str):
        return Rejection(RejectionReason.UNEXPECTED_ADMISSION, step, (given,))
    devices, taken = given
    cpus, held, ids = state.cpus, state.memory, 0
    if cpus and step.cpu:
        served = cpu_manager.allocate(cpus, step, affinity.mask)
        if isinstance(served, RejectionReason):
            return Rejection(served, step, (CPU,))
        cpus, ids = served
    if held and step.managed:
        held = memory_manager.allocate(held, step, affinity)
        if held is None:
            return Rejection(RejectionReason.UNEXPECTED_ADMISSION, step, tuple(step.memory), ids)
    return ManagersState(cpus, held, devices), _Gift(step, affinity, ids, taken)


def _blocks(state: ManagersState) -> Mapping[str, Sequence[Entry]]:
    """The memory of each container of the pod, by its name."""
    entries = defaultdict[str, list[Entry]](list)
    for block in state.memory.blocks if state.memory else ():
        entries[block.container].append((block.mask, block.resource, block.size))
    return entries


def _granted(node: Node, gift: _Gift, state: ManagersState, memory_of_it: Iterable[Entry]) -> Grant:
    step, mask = gift.step, gift.affinity.mask
    entries = list(_cpu_entries(state.cpus, gift.cpus)) if state.cpus else []
    for name, taken in gift.devices.items():
        entries += _device_entries(state.devices[name], name, taken.amounts)
    return Grant(
        step.container,
        step.role,
        affinity=None if mask is None else bitmask.ids(mask, node.ids),
        preferred=gift.affinity.preferred,
        amounts=_by_zone_set(node, [*entries, *memory_of_it]),
        cpus=gift.cpus,
        chosen=tuple(name for name, taken in gift.devices.items() if taken.chosen),
    )


def _kept(node: Node, state: ManagersState, held: Assignments) -> Mapping[ZoneSet, Resources]:
    """What the pod holds once all its containers run."""
    entries = list(_cpu_entries(state.cpus, held.cpus)) if state.cpus else []
    for name, amounts in held.devices.items():
        entries += _device_entries(state.devices[name], name, amounts)
    entries += [(block.mask, block.resource, block.size) for block in held.blocks if block.size]
    return _by_zone_set(node, entries)


def _cpu_entries(cpus: CpuState, held: CpuSet) -> Iterable[Entry]:
    counts = enumerate(cpu_manager.cpus_per_zone(cpus.topology, held))
    return ((1 << at, CPU, count * MILLI) for at, count in counts if count)


def _device_entries(pool: DeviceState, name: str, amounts: ZoneAmounts) -> Iterable[Entry]:
    return ((place, name, count) for place, count in zip(pool.devices.places, amounts, strict=True) if count)


def _by_zone_set(node: Node, entries: Iterable[Entry]) -> dict[ZoneSet, Resources]:
    """Amounts under the sets of zones that they come from, the sets in ascending order."""
    bags: dict[ZoneSet, dict[str, int]] = {}
    for mask, name, amount in entries:
        bag = bags.setdefault(bitmask.ids(mask, node.ids), {})
        bag[name] = bag.get(name, 0) + amount
    return {zones: Resources(bags[zones]) for zones in sorted(bags)}
