"""
How much of a pod's record is trusted: as much as matches the pod's own request.

A record is an annotation, and a user who may write annotations can claim a whole node for a tiny pod, or
nothing for a huge one. But the amounts that a kubelet gives a pod follow from its requests; only the zones do
not. So for every resource that the node's managers allocate, a record is trusted if its amounts are exactly
what they give the pod, and if its zones could hold them: memory on no more zones than its policy would have
used, since a block binds them together. If a resource is not trusted, it is unknown what the pod holds of it.
Resources that no manager allocates are ignored.

This is decided resource by resource, since some exporters omit resources by design: KAI's lists neither
memory nor devices that span several zones, nor what its scheduler is configured to ignore.
"""

from collections.abc import Collection, Iterable
from itertools import accumulate, chain
from types import MappingProxyType
from typing import NamedTuple

from numalign.kubelet import admit as kubelet
from numalign.model.demand import Demand
from numalign.model.intent import Policy, Scope
from numalign.model.node import CpuManager, MemoryManager, Node
from numalign.model.placement import Held
from numalign.model.pod import Role, peak
from numalign.model.resources import CPU, MILLI, Kind, Resources, kind


class Due(NamedTuple):
    """What the managers of a node give a pod of their resources, without zeros.

    `running` is what its containers and sidecars get. `finished` is what its init containers get one by one:
    their CPUs and devices may stay with the pod, as far as no later container reuses them.
    """

    running: Resources
    finished: Resources

    @property
    def all(self) -> Resources:
        """The most that it can ever be."""
        return self.running.plus(self.finished)

    @property
    def left_behind(self) -> Resources:
        """The most that finished init containers leave to their pod; exporters list only running ones."""
        return Resources(
            {name: self.finished[name] for name in self.finished if kind(name) is not Kind.MEMORY}
        )


class CheckedRecord(NamedTuple):
    """The trusted part of a record, and the resources for which it is `refuted`."""

    held: Held
    refuted: frozenset[str]


def given_out(node: Node, name: str) -> bool:
    """Return whether a manager of this node's kubelet allocates this resource exclusively, by zones."""
    match kind(name):
        case Kind.CPU:
            return node.cpu_manager is CpuManager.STATIC
        case Kind.MEMORY:
            return node.memory_manager is MemoryManager.STATIC
        case Kind.DEVICE:
            return name in node.devices
        case Kind.NODE:
            return False


def static_facts(node: Node) -> tuple[object, ...]:
    """Return all that trust depends on, whichever pods come and go: if it is the same, so is the result."""
    every = chain(node.zones, node.health.zones if node.health else ())
    zones = tuple((zone.name, zone.capacity, zone.allocatable) for zone in every)
    managers = (node.cpu_manager, node.memory_manager)
    return node.policy, node.scope, managers, node.options, zones, node.machine, may_pin_cpus(node)


def steps(node: Node, demand: Demand) -> Iterable[tuple[Role, Resources]]:
    """Return what the managers of a node allocate for a pod, one request after another."""
    effective = kubelet.effective_demand(node, demand)
    by_container = node.scope is Scope.CONTAINER or node.policy is Policy.NONE
    if by_container or not kubelet.level_of(node, demand):
        return ((step.role, step.requests) for step in effective.steps)
    # Served as a whole, it gets no devices.
    return ((Role.APP, effective.whole.exclusive),)


def may_pin_cpus(node: Node) -> bool:
    """Return whether a node's kubelet has a static CPU manager, or may have one as far as is known."""
    return given_out(node, CPU) or CPU in node.uncertain


def exclusive_cpus(node: Node | None, demand: Demand) -> int:
    """Return the most whole CPUs that a node pins for a pod at once; if it is unknown, that any may pin.

    Of pods with pod-level resources only some kubelets pin any.
    """
    if node and not may_pin_cpus(node):
        return 0
    # The managers of most kubelets ignore pods with pod-level resources, and a tenant may create large ones.
    if node is None or not kubelet.level_of(node, demand):
        return demand.exclusive_cpus
    return peak(steps(node, demand)).get(CPU, 0) // MILLI


def holds(node: Node, demand: Demand) -> bool:
    """Return whether the managers of this node's kubelet would give the pod exclusive resources."""
    return any(given_out(node, name) for _, requests in steps(node, demand) for name in requests)


def exclusive(node: Node, demand: Demand) -> bool:
    """Return whether an exporter counts a pod among those with exclusive resources.

    It counts what the kubelet lists of its containers, not of init containers (Verify of
    resource-topology-exporter, pkg/podres/filter/numalocality).
    """
    return any(
        given_out(node, name) for step in demand.steps if step.role is not Role.INIT for name in step.requests
    )


def due(node: Node, demand: Demand) -> Due:
    """Return what a pod gets on a node, if it is admitted."""
    sums: dict[bool, dict[str, int]] = {True: {}, False: {}}
    for role, requests in steps(node, demand):
        total = sums[role is Role.INIT]
        for name, amount in requests.items():
            if amount and given_out(node, name):
                total[name] = total.get(name, 0) + amount
    return Due(Resources(sums[False]), Resources(sums[True]))


def checked(node: Node, demand: Demand, held: Held) -> CheckedRecord:
    """Return the trusted part of a record of a pod with this demand.

    A record that names a missing zone is not trusted at all.
    """
    given = due(node, demand)
    names = {zone.name for zone in node.zones}
    claimed = dict.fromkeys(given.running, 0)
    refuted = set(_too_wide(node, demand, held))
    for zones, amounts in held.items():
        if not names.issuperset(zones):
            return CheckedRecord({}, frozenset(given.all))
        for name, amount in amounts.items():
            if given_out(node, name):
                claimed[name] = claimed.get(name, 0) + amount
                if amount > capacity(node, zones, name):
                    refuted.add(name)
    left_behind = given.left_behind
    for name, amount in claimed.items():
        beyond = amount - given.running.get(name, 0)
        if not 0 <= beyond <= left_behind.get(name, 0):
            refuted.add(name)
    trusted = claimed.keys() - refuted
    if any(not amounts.keys() <= trusted for amounts in held.values()):
        # Otherwise it stays the same object, which is how others see that all of it is trusted.
        bags = {zones: {name: bag[name] for name in bag if name in trusted} for zones, bag in held.items()}
        held = MappingProxyType({zones: Resources(bag) for zones, bag in bags.items() if bag})
    return CheckedRecord(held, frozenset(refuted))


def capacity(node: Node, zones: Collection[str], name: str) -> int:
    """Return how much of a resource these zones have, used or not; of no zones, without a known place.

    For a degraded node it counts what was there before: pods keep the devices that were allocated to them.
    """
    if not zones:
        return unzoned(node, name)
    hardware = (node.health or node).zones
    return sum(zone.capacity.get(name, 0) for zone in hardware if zone.name in zones)


def unzoned(node: Node, name: str) -> int:
    """Return how many devices of a resource have no known zone; only a described machine has such devices."""
    places = dict(node.machine.devices).get(name, ()) if node.machine else ()
    return sum(place.total for place in places if not place.known)


def _too_wide(node: Node, demand: Demand, held: Held) -> frozenset[str]:
    """Return the memory on more zones than a policy that enforces the fewest would have used."""
    blocks = [
        (len(zones), name)
        for zones, amounts in held.items()
        if len(zones) > 1
        for name in amounts
        if kind(name) is Kind.MEMORY
    ]
    if not blocks or node.policy not in _STRICT_POLICIES:
        return frozenset()
    effective = kubelet.effective_demand(node, demand)
    most = 0
    for step in (*effective.steps, effective.whole):
        memory = step.memory
        if any(all(zone.allocatable.get(name, 0) >= memory[name] for name in memory) for zone in node.zones):
            most = max(most, 1)
            continue
        # Each kind of memory on zones of its own is an upper bound.
        fewest = 0
        for name, amount in memory.items():
            most_first = sorted((zone.allocatable.get(name, 0) for zone in node.zones), reverse=True)
            fewest += 1 + sum(together < amount for together in accumulate(most_first))
        most = max(most, fewest)
    return frozenset(name for width, name in blocks if width > most)


_STRICT_POLICIES = frozenset({Policy.RESTRICTED, Policy.SINGLE_NUMA_NODE})
