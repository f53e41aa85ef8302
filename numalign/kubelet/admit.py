"""
The admission of one pod by the topology manager and the three managers, container by container.

Restates Admit of topologymanager/scope_container.go and scope_pod.go. Container scope asks for hints before
each container, when earlier ones already hold resources; pod scope asks once and binds every container to the
same set of zones. Both allocate per container.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import NamedTuple

from numalign.kubelet import (
    bitmask,
    cpu_manager,
    device_manager,
    hint_sets,
    hinted_zones,
    memory_manager,
    pod_level,
    work_limit,
)
from numalign.kubelet.admission_errors import Rejection, RejectionReason
from numalign.kubelet.bitmask import ZoneAmounts
from numalign.kubelet.device_manager import Allocation
from numalign.kubelet.managers_state import (
    Assignments,
    Entry,
    ManagersState,
    assignments_since,
    read_state,
    removed,
    with_state,
)
from numalign.kubelet.numa_scores import tie_break
from numalign.kubelet.topology_manager import (
    Decision,
    NumaInfo,
    ResourceHints,
    TopologyHint,
    impossible,
    merging,
)
from numalign.model.bitset import bits
from numalign.model.demand import Demand, PodLevel, Step, by_plugins, with_init_memory
from numalign.model.intent import Policy, Scope
from numalign.model.machine import CpuSet
from numalign.model.node import Node
from numalign.model.options import FeatureGate, KubeletChange, TopologyOption
from numalign.model.placement import Grant, Placement, ZoneSet
from numalign.model.resources import CPU, EMPTY, MILLI, Kind, Resources, ZoneId, kind
from numalign.model.steps import Steps, finished


class PodAdmitResult(NamedTuple):
    """The result of an admission: a refusal, or the placement that `charge` then applies to the node.

    `before` and `after` are the managers' state. For a refused pod `after` is the state before the refused
    step: its earlier containers were served, and `held` is what they leave allocated until the next
    admission.
    """

    refusal: Rejection | None
    placement: Placement
    before: ManagersState
    after: ManagersState
    held: Assignments


class _Given(NamedTuple):
    step: Step
    affinity: TopologyHint
    cpus: CpuSet
    devices: Mapping[str, Allocation]


def admit(node: Node, demand: Demand) -> PodAdmitResult:
    """Return how this node's kubelet admits a pod; refused with `NOT_ANSWERED` if that takes too long."""
    return finished(admitting(node, demand))


def admitting(node: Node, demand: Demand) -> Steps[PodAdmitResult]:
    """Admit as `admit` does, container by container."""
    demand = effective_demand(node, demand)
    # Only devices that the pod names: reading all of a node takes time, and no others change.
    start = read_state(node, demand.whole.devices)
    if not work_limit.answerable(node, demand):
        return _refused(Rejection(RejectionReason.NOT_ANSWERED, demand.whole), start, start)
    # Policy none asks for no hints, so the scope makes no difference.
    if node.scope is Scope.CONTAINER or node.policy is Policy.NONE:
        return (yield from _by_container(node, demand, start, shared=None))
    level = level_of(node, demand)
    # In pod scope with the feature gate, the pod-level validation runs before the hints are generated.
    crowded = level.crowded if level else frozenset()
    decision = yield from _decide(node, start, demand.whole, crowded)
    # scope_pod.go merges before it allocates anything, so a pod refused here holds nothing.
    if not decision.admitted:
        refusal = Rejection(RejectionReason.TOPOLOGY_AFFINITY, demand.whole, tuple(sorted(crowded)))
        return _refused(refusal, start, start)
    # AllocatePod then serves the pod once, in place of an Allocate for each container.
    if level:
        return _as_one(node, demand, start, decision.affinity, crowded)
    return (yield from _by_container(node, demand, start, shared=decision))


def effective_demand(node: Node, demand: Demand) -> Demand:
    """Return the demand as the managers of this node read it: with the feature gate on, at pod level."""
    # DRA is not a hint provider: the topology manager asks only the three managers. Of what DRA serves they
    # read devices for which the node has, or may have, a device plugin.
    if demand.by_dra:
        demand = by_plugins(demand, node.devices | node.uncertain)
    if level := level_of(node, demand):
        steps = level.steps
        if KubeletChange.NO_MEMORY_NO_BLOCK in node.options.changes:
            steps = tuple(step if step.memory else replace(step, managed=False) for step in steps)
        # Whoever explains the result tells by these steps that the pod-level request counts.
        level = replace(level, steps=steps)
        return replace(demand, steps=steps, whole=level.whole, pod_level=level, init_memory=EMPTY)
    return with_init_memory(demand) if KubeletChange.INIT_ONLY_NAMES in node.options.changes else demand


def level_of(node: Node, demand: Demand) -> PodLevel | None:
    """Return the pod-level request, if the managers of this node serve the pod as one."""
    # PodLevelResourceManagers is off by default, also in 1.37; without it the managers ignore such pods.
    return demand.pod_level if node.options.on(FeatureGate.POD_LEVEL_MANAGERS) else None


def _by_container(
    node: Node, demand: Demand, start: ManagersState, shared: Decision | None
) -> Steps[PodAdmitResult]:
    """Serve one container after another, each with its own affinity unless they share one."""
    state, served = start, list[_Given]()
    # Init containers as listed, sidecars in place among them, then apps: the order of scope_container.go.
    for step in demand.steps:
        if served:
            yield
        # Container scope asks again: by now earlier containers of the pod are in the state.
        decision = shared or (yield from _decide(node, state, step))
        if not decision.admitted:
            return _refused(Rejection(RejectionReason.TOPOLOGY_AFFINITY, step), start, state)
        outcome = _allocate(state, step, decision.affinity)
        # Nothing is rolled back: earlier containers keep what they got until the next admission.
        if isinstance(outcome, Rejection):
            return _refused(outcome, start, state)
        state, given = outcome
        served.append(given)
    # A later container may reuse an init container's memory, so blocks are read at the end.
    memory = _memory_by_container(state)
    grants = tuple(_grant(node, given, state, memory[given.step.container]) for given in served)
    # The next pod gets the memory as it is after AddContainer was called for every container of this one.
    running = state._replace(memory=state.memory and memory_manager.containers_started(state.memory))
    held = assignments_since(start, running)
    # A single container holds what it was given; several hold this once all of them run.
    if len(grants) == 1:
        return PodAdmitResult(None, Placement(grants, grants[0].amounts), start, running, held)
    entries = _entries(running, held.cpus, held.devices)
    entries += [(block.mask, block.resource, block.size) for block in held.blocks if block.size]
    return PodAdmitResult(None, Placement(grants, _by_zone_set(node, entries)), start, running, held)


def _as_one(
    node: Node, demand: Demand, start: ManagersState, affinity: TopologyHint, crowded: frozenset[str]
) -> PodAdmitResult:
    """Serve the pod as a whole, without devices, and divide it among its containers (AllocatePod)."""
    whole = demand.whole
    # The CPU manager before the memory manager, the order in which providers were added.
    with_cpus = pod_level.allocate_cpus(start, demand, affinity, crowded)
    if isinstance(with_cpus, RejectionReason):
        return _refused(Rejection(with_cpus, whole, (CPU,)), start, start)
    state, cpus = with_cpus
    with_memory = pod_level.allocate_memory(state, demand, affinity, crowded)
    if isinstance(with_memory, RejectionReason):
        # The pod's CPUs are stored by then (SetPodCPUSet), and no later error frees them.
        stored = state.cpus.given if state.cpus else 0
        return _refused(Rejection(with_memory, whole, tuple(whole.memory), stored), start, start)
    state, memory = with_memory
    served = (_Given(step, affinity, cpus.get(step.container, 0), {}) for step in demand.steps)
    grants = tuple(_grant(node, given, state, memory.get(given.step.container, ())) for given in served)
    held = assignments_since(start, state)
    given, blocks = _Given(whole, affinity, held.cpus, {}), _memory_by_container(state)[whole.container]
    pod = _grant(node, given, state, blocks)
    return PodAdmitResult(None, Placement(grants, pod.amounts, pod), start, state, held)


def charge(node: Node, admission: PodAdmitResult) -> Node:
    """Return the node with the pod on it and all its containers running; the same node for a refused pod."""
    return node if admission.refusal else after_admission(node, admission)


def after_admission(node: Node, admission: PodAdmitResult) -> Node:
    """Return the node after the last step of an admission, or before the refused step."""
    return with_state(node, admission.before, admission.after)


def release(node: Node, leaving: Iterable[Assignments]) -> Node:
    """Return the node after the managers dropped pods that are gone, one after another (removeStaleState)."""
    # The kubelet drops several pods in random order, which decides how the memory of a group is split.
    gone = list(leaving)
    if not gone:
        return node
    before = read_state(node, {name for held in gone for name in held.devices})
    return with_state(node, before, reduce(removed, gone, before))


def reusable_zones(node: Node, admission: PodAdmitResult) -> frozenset[ZoneId]:
    """Return the zones of the CPUs that the refused container of a pod has to reuse."""
    cpus = admission.after.cpus
    mask = cpu_manager.reusable_zones(cpus) if cpus else 0
    return frozenset(zone.id for at, zone in enumerate(node.zones) if mask >> at & 1)


def min_widths(node: Node, step: Step) -> dict[str, int]:
    """Return the fewest zones that could hold each aligned resource of a step by hardware."""
    # Resources are left out whose sets of zones are too many to visit.
    state, few = read_state(node, step.devices), len(node.zones) <= work_limit.MOST_ZONES
    # minAffinitySize comes from totals: busy and reserved CPUs count, busy and unhealthy devices too.
    widths = {
        name: device_manager.min_affinity_size(pool.devices, step.devices[name])
        for name, pool in state.devices.items()
        if few or len(pool.devices.places) == pool.devices.zones
    }
    if state.cpus and step.cpu:
        widths[CPU] = cpu_manager.min_affinity_size(state.cpus.topology.sizes, step.cpu // MILLI)
    if state.memory and few:
        # calculateHints gives all names of memory the same hints, so they have one width.
        widths |= dict.fromkeys(step.memory, memory_manager.min_affinity_size(state.memory, step.memory))
    return widths


def fits_together(
    node: Node, amounts: Mapping[str, int], zones: int, *, around: frozenset[ZoneId] = frozenset()
) -> bool:
    """Return whether `zones` zones, `around` among them, have these free, whatever the managers do."""
    enough = [
        hint_sets.reaching(tuple([zone.free.get(name, 0) for zone in node.zones]), amount)
        for name, amount in amounts.items()
    ]
    mask = bits(at for at, zone in enumerate(node.zones) if zone.id in around)
    masks = reduce(and_, enough, hint_sets.around(mask, len(node.zones)))
    return bool(hint_sets.of_width(masks, zones))


def fewest_zones_with(node: Node, amounts: Mapping[str, int]) -> int | None:
    """Return the fewest zones that together have these free amounts; None if all zones have too little."""
    # A device between zones counts for each of them, one without NUMA information for any.
    pools, masks = read_state(node, amounts).devices, hint_sets.every(len(node.zones))
    zones = obtainable(node)
    for name, amount in amounts.items():
        pool = pools.get(name)
        if pool is None:
            masks &= hint_sets.reaching(tuple([zone.get(name, 0) for zone in zones]), amount)
        elif device_manager.UNPLACED.isdisjoint(pool.devices.places):
            masks &= pool.devices.reaching(pool.free, amount)
        elif sum(pool.free) < amount:
            return None
    return hint_sets.narrowest_width(masks, 0) or None


def obtainable(node: Node) -> tuple[Mapping[str, int], ...]:
    """Return the most that containers can get of each zone: what is free, or sometimes more CPUs."""
    # With cores or zones of different sizes, the kubelet takes whole ones by their average size, and can take
    # CPUs that are not free (takeByTopology).
    cpus = cpu_manager.state(node)
    if cpus is None or cpus.topology.even:
        return tuple(zone.free for zone in node.zones)
    sizes = cpus.topology.sizes
    return tuple({**zone.free, CPU: size * MILLI} for zone, size in zip(node.zones, sizes, strict=True))


def serves(node: Node, name: str) -> bool:
    """Return whether a manager of this kubelet allocates a resource, with hints or without."""
    state = read_state(node, (name,))
    managers = {Kind.CPU: state.cpus, Kind.MEMORY: state.memory}
    return name in state.devices or managers.get(kind(name)) is not None


def without_zones(node: Node, names: Iterable[str]) -> list[str]:
    """Return those of these resources for which the kubelet generates no hint in any state."""
    pools = read_state(node, names).devices
    return [name for name, pool in pools.items() if pool.devices.aligned and not pool.devices.hosts]


def in_single_zones(node: Node, name: str) -> bool:
    """Return whether each unit of a resource belongs to exactly one zone."""
    pool = read_state(node, (name,)).devices.get(name)
    return pool is None or len(pool.devices.places) == pool.devices.zones


def preferring(node: Node, demand: Demand) -> Steps[bool]:
    """Return whether a strict kubelet finds a preferred hint for each container by itself, or for the pod."""
    # What is free only shrinks when something is in use, and the widths come from totals; so a container
    # without a preferred hint on the empty node has none in any state.
    level = level_of(node, demand)
    units = demand.steps if node.scope is Scope.CONTAINER else (demand.whole,)
    crowded = level.crowded if level and node.scope is Scope.POD else frozenset[str]()
    state = read_state(node, demand.whole.devices)
    for step in units:
        decision = yield from _decide(node, state, step, crowded)
        if not decision.admitted:
            return False
        yield
    return True


def whole_cores(node: Node) -> tuple[int, int]:
    """Return the threads per core, and the free millicores in cores without a reserved thread."""
    cpus = cpu_manager.state(node)
    if cpus is None or not cpus.topology.cores:
        return 1, 0
    return cpus.topology.threads_per_core, cpu_manager.whole_cores(cpus).bit_count() * MILLI


def numa_info(node: Node) -> NumaInfo:
    """Return the zones as the merge compares them; without published distances all are equal."""
    # NewNUMAInfo reads distances only under prefer-closest-numa-nodes.
    distances = None
    if TopologyOption.PREFER_CLOSEST in node.options.topology:
        # By position: CalculateAverageFor reads rows by id, which is wrong where ids have gaps.
        costs = [dict(zone.costs) for zone in node.zones]
        distances = tuple(tuple(row.get(zone.id, 0) for zone in node.zones) for row in costs)
    return NumaInfo(len(node.zones), distances, len(node.others))


def _refused(refusal: Rejection, before: ManagersState, after: ManagersState) -> PodAdmitResult:
    held = assignments_since(before, after)
    # The CPU manager had served the refused step itself before the memory manager failed.
    held = held._replace(cpus=held.cpus | refusal.cpus)
    return PodAdmitResult(refusal, Placement(), before, after, held)


def _decide(
    node: Node, state: ManagersState, step: Step, crowded: frozenset[str] = frozenset()
) -> Steps[Decision]:
    """Ask the hint providers in the kubelet's order, and merge (calculateAffinity)."""
    hints: list[ResourceHints] = []
    # scope_none.go asks no provider for hints and goes straight to Allocate (admitPolicyNone).
    if node.policy is not Policy.NONE:
        hints += device_manager.topology_hints(state.devices, step)
        # Of a pod served as a whole, validatePodScopeResources fails for the crowded resources.
        if state.cpus:
            hints += [impossible(CPU)] if CPU in crowded else cpu_manager.topology_hints(state.cpus, step)
        # One crowded name is enough: GetPodTopologyHints then returns an empty list for every name.
        if state.memory and crowded & step.memory.keys():
            hints += [impossible(name) for name in step.memory]
        elif state.memory:
            hints += memory_manager.topology_hints(state.memory, step.memory)
    return (yield from merging(node.policy, hints, numa_info(node), tie_break(node, state)))


def _allocate(
    state: ManagersState, step: Step, affinity: TopologyHint
) -> tuple[ManagersState, _Given] | Rejection:
    """Let each manager allocate what a step requests, in the kubelet's order; the first failure refuses."""
    # Errors become UnexpectedAdmissionError (GetPodAdmitResult), except those with a reason of their own.
    allocated = device_manager.allocate(state.devices, step, affinity.mask)
    if isinstance(allocated, str):
        return Rejection(RejectionReason.UNEXPECTED_ADMISSION, step, (allocated,))
    # Devices come first, then CPUs, then memory: the order in which providers were added.
    devices, taken = allocated
    cpus, memory, given = state.cpus, state.memory, 0
    # A container without exclusive CPUs gets none, whatever its affinity (Allocate returns at once).
    if cpus and step.cpu:
        served = cpu_manager.allocate(cpus, step, affinity.mask)
        if isinstance(served, RejectionReason):
            return Rejection(served, step, (CPU,))
        cpus, given = served
    # For a Guaranteed pod it handles even a container without memory, and may then find no hint.
    if memory and step.managed:
        memory = memory_manager.allocate(memory, step, affinity)
        if memory is None:
            return Rejection(RejectionReason.UNEXPECTED_ADMISSION, step, tuple(step.memory), given)
    return ManagersState(cpus, memory, devices), _Given(step, affinity, given, taken)


def _memory_by_container(state: ManagersState) -> Mapping[str, list[Entry]]:
    entries = defaultdict[str, list[Entry]](list)
    for block in state.memory.blocks if state.memory else ():
        entries[block.container].append((block.mask, block.resource, block.size))
    return entries


def _grant(node: Node, given: _Given, state: ManagersState, memory: Iterable[Entry]) -> Grant:
    step, mask = given.step, given.affinity.mask
    entries = _entries(state, given.cpus, {name: taken.amounts for name, taken in given.devices.items()})
    return Grant(
        step.container,
        step.role,
        affinity=None if mask is None else bitmask.ids(mask, hinted_zones.order(node)),
        preferred=given.affinity.preferred,
        amounts=_by_zone_set(node, [*entries, *memory]),
        cpus=given.cpus,
        chosen=tuple(name for name, taken in given.devices.items() if taken.chosen),
    )


def _entries(state: ManagersState, cpus: CpuSet, devices: Mapping[str, ZoneAmounts]) -> list[Entry]:
    # By the zones of the CPUs and not by the affinity: allocateCPUs takes the rest from outside it.
    counts = cpu_manager.cpus_per_zone(state.cpus.topology, cpus) if state.cpus else ()
    entries = [(1 << at, CPU, count * MILLI) for at, count in enumerate(counts) if count]
    for name, amounts in devices.items():
        placed = zip(state.devices[name].devices.places, amounts, strict=True)
        entries += [(place & ~device_manager.ELSEWHERE, name, count) for place, count in placed if count]
    return entries


def _by_zone_set(node: Node, entries: Iterable[Entry]) -> dict[ZoneSet, Resources]:
    bags: dict[ZoneSet, dict[str, int]] = {}
    for mask, name, amount in entries:
        amounts = bags.setdefault(bitmask.ids(mask, node.ids), {})
        amounts[name] = amounts.get(name, 0) + amount
    return {zones: Resources(bags[zones]) for zones in sorted(bags)}
