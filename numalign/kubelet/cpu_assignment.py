"""
Which CPUs the CPU manager takes when it may choose (takeByTopology).

A pod is admitted by amounts, but which CPUs it got decides what the next one finds: a zone that is broken
into, a core that is split. So the choice of the static policy is restated here, CPU by CPU, its accidents
included (kubernetes, pkg/kubelet/cm/cpumanager/cpu_assignment.go, v1.32 to v1.36).

Packing goes from whole zones and sockets down to single threads, and of equal units the one with the fewest
CPUs left comes first. How much a whole socket or core has is an average of the machine. So where sockets or
cores differ in size the kubelet can take a CPU that was not available, and then so does this.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, islice

from numalign.kubelet import cpu_distribution
from numalign.model.bitset import lowest, union
from numalign.model.machine import CpuSet, CpuTopology


@dataclass(frozen=True, slots=True)
class StaticPolicyOptions:
    """Those of cpuManagerPolicyOptions that decide which CPUs are taken.

    `distribute` is distribute-cpus-across-numa, in steps of `group` CPUs: the threads of a core under
    full-pcpus-only, else one. `spread` is distribute-cpus-across-cores. `by_cache` is
    prefer-align-cpus-by-uncorecache, which `distribute` leaves aside; with `odd_cache_share` a part of a
    cache can serve an odd number of CPUs too.
    """

    distribute: bool = False
    group: int = 1
    spread: bool = False
    by_cache: bool = False
    odd_cache_share: bool = True


def take_by_topology(
    topology: CpuTopology, available: CpuSet, count: int, options: StaticPolicyOptions
) -> CpuSet:
    """Return the CPUs that the kubelet chooses among the available ones (takeByTopology).

    Returns no CPU where the kubelet does not admit the pod: there are too few, or its own accidents spoil
    what it wanted to distribute. Where a cache reaches over several zones, `by_cache` can end with fewer than
    `count`. Sockets are expected to lie within zones, or zones within sockets.
    """
    if not 0 < count <= available.bit_count():
        return 0
    # The order of steps depends on the machine and its options alone, so it is made once for each.
    steps = _steps(options, numa_first=_numa_first(topology))
    # What does not come out even in groups is packed: takeByTopologyNUMADistributed begins with that.
    if options.distribute and not count % options.group:
        return _numa_distributed(topology, available, count, options.group, steps)
    return _numa_packed(topology, available, count, steps)


def choices(topology: CpuTopology, available: CpuSet, count: int, options: StaticPolicyOptions) -> int:
    """How many ways `take_by_topology` compares to distribute so many CPUs; of packing there is one."""
    if not options.distribute or count % options.group or not 0 < count <= available.bit_count():
        return 0
    room = _room(_sorted_numa_nodes(topology, available), available)
    groups = _groups_per_zone(topology, options.group)
    return cpu_distribution.choices(room, count, group=options.group, groups_per_zone=groups)


TakeStep = Callable[[CpuTopology, CpuSet, int], Iterable[CpuSet]]
"""What one step takes, unit by unit, of the CPUs that are free while so many are needed."""


def _numa_packed(topology: CpuTopology, free: CpuSet, needed: int, steps: Iterable[TakeStep]) -> CpuSet:
    """As takeByTopologyNUMAPacked: each step takes what it can of what the steps before it left."""
    taken = 0
    for step in steps:
        for unit in step(topology, free & ~taken, needed) if needed else ():
            taken |= unit
            # A unit of an uneven machine can have more than is needed, which ends the packing as well.
            needed -= unit.bit_count()
    return taken


def _numa_distributed(
    topology: CpuTopology, free: CpuSet, count: int, group: int, steps: Iterable[TakeStep]
) -> CpuSet:
    """As takeByTopologyNUMADistributed: an even share from each of some zones, then what remains in turns."""
    # Zones without free CPUs are not among them, so they are not distributed over either.
    zones = _sorted_numa_nodes(topology, free)
    per_zone = _groups_per_zone(topology, group)
    best = cpu_distribution.distribution(_room(zones, free), count, group=group, groups_per_zone=per_zone)
    if best is None:
        return _numa_packed(topology, free, count, steps)
    # Inside a zone its share is packed, as if there were no other zone.
    taken = _from_each(topology, free, [zones[at] for at in best.zones], best.share, steps)
    # What remains is given a group at a time, so that no zone gives two before another gives one.
    turns = cpu_distribution.turns(_room(zones, free & ~taken), best.remainder, best.groups, group)
    taken |= _from_each(topology, free & ~taken, [zones[at] for at in turns], group, steps)
    # The kubelet counts in the end, and what its own accidents spoiled is an error of the allocation.
    return taken if taken.bit_count() == count else 0


def _groups_per_zone(topology: CpuTopology, group: int) -> int:
    """As rangeNUMANodesNeededToSatisfy: divided by the zones that have CPUs, rounded up twice."""
    return _ceil(_ceil(sum(topology.sizes), group), topology.zones_with_cpus)


def _from_each(
    topology: CpuTopology, free: CpuSet, zones: Iterable[CpuSet], amount: int, steps: Iterable[TakeStep]
) -> CpuSet:
    taken = 0
    for zone in zones:
        taken |= _numa_packed(topology, zone & free & ~taken, amount, steps)
    return taken


def _room(zones: Iterable[CpuSet], free: CpuSet) -> list[int]:
    return [(zone & free).bit_count() for zone in zones]


@lru_cache(maxsize=64)
def _steps(options: StaticPolicyOptions, *, numa_first: bool) -> tuple[TakeStep, ...]:
    """As takeFullFirstLevel and takeFullSecondLevel, caches between them and cores, then what is left."""
    # numaFirst and socketsFirst differ in which of the two is the first level.
    units = (_full_numa_nodes, _full_sockets) if numa_first else (_full_sockets, _full_numa_nodes)
    # The kubelet does not start with both options, but a part of a distribution is packed without caches.
    by_cache = options.by_cache and not options.distribute
    caches = (_UNCORE_CACHES[options.odd_cache_share],) if by_cache else ()
    return (*units, *caches, *_CORES_AND_CPUS[options.spread])


def _full_numa_nodes(topology: CpuTopology, free: CpuSet, needed: int) -> Iterable[CpuSet]:
    """As takeFullNUMANodes: zones of which every CPU is free, so none that keeps a reserved one."""
    full = [zone for zone in topology.zones if zone & free == zone and 0 < zone.bit_count() <= needed]
    return (
        _fitting((zone for zone in _sorted_numa_nodes(topology, free) if zone in full), needed)
        if full
        else ()
    )


def _full_sockets(topology: CpuTopology, free: CpuSet, needed: int) -> Iterable[CpuSet]:
    """As takeFullSockets: by isSocketFree a socket is free that has as many free CPUs as the average socket.

    What is taken are all CPUs of it, whether or not they were free.
    """
    size = _mean_size(topology, topology.sockets)
    full = [
        socket
        for socket in topology.sockets
        if (socket & free).bit_count() == size and socket.bit_count() <= needed
    ]
    return (
        _fitting((socket for socket in _sorted_sockets(topology, free) if socket in full), needed)
        if full
        else ()
    )


def _full_cores(topology: CpuTopology, free: CpuSet, needed: int) -> Iterable[CpuSet]:
    """As takeFullCores: isCoreFree compares with the average core too."""
    # CPUsPerCore is an average too: of uneven cores only some are ever whole.
    size = topology.threads_per_core
    units = _innermost(topology, free) if needed >= size else ()
    cores = (
        core for unit in units for core in _cores(topology, unit) if (core & unit & free).bit_count() == size
    )
    return _fitting(cores, needed, smallest=size)


def _remaining_cpus(topology: CpuTopology, free: CpuSet, needed: int) -> Iterator[CpuSet]:
    """As takeRemainingCPUs, in the order of sortAvailableCPUs: cores that are broken into come first."""
    # The order of cores is taken once, at the start of the step, and kept while threads are taken.
    cores = ((core & unit & free for core in _cores(topology, unit)) for unit in _innermost(topology, free))
    parts = (sorted(filter(None, threads), key=int.bit_count) for threads in cores)
    return _threads(chain.from_iterable(parts), needed)


def _spread_cpus(topology: CpuTopology, free: CpuSet, needed: int) -> Iterator[CpuSet]:
    """As takeRemainingCPUs under distribute-cpus-across-cores: by id within sockets, whatever the core."""
    return _threads((socket & free for socket in _sorted_sockets(topology, free)), needed)


def _threads(parts: Iterable[CpuSet], needed: int) -> Iterator[CpuSet]:
    for part in parts:
        threads = lowest(part, min(needed, part.bit_count()))
        yield threads
        needed -= threads.bit_count()
        if not needed:
            return


def _fitting(units: Iterable[CpuSet], needed: int, *, smallest: int = 1) -> Iterator[CpuSet]:
    """Those of the units, one after the other, that are not more than what is still needed (needsAtLeast)."""
    for unit in units:
        if unit.bit_count() <= needed:
            yield unit
            needed -= unit.bit_count()
            if needed < smallest:
                return


# --- Caches: prefer-align-cpus-by-uncorecache


def _uncore_caches(topology: CpuTopology, free: CpuSet, needed: int, *, odd: bool) -> list[CpuSet]:
    """Whole caches first, then a part of one that serves all of the rest: only just as many will do."""
    order = _within(_sorted_numa_nodes(topology, free), topology.caches, free)
    whole = [cache for cache in order if cache & free == cache]
    # A request below the average cache goes straight to parts, even if some smaller cache is free.
    taken = list(_fitting(whole, needed)) if needed >= _mean_size(topology, topology.caches) else []
    missing = needed - sum(map(int.bit_count, taken))
    parts = (_cache_share(topology, cache & free, missing, odd=odd) for cache in order if cache not in taken)
    return [*taken, next((part for part in parts if part.bit_count() == missing), 0)]


def _cache_share(topology: CpuTopology, free: CpuSet, needed: int, *, odd: bool) -> CpuSet:
    """What a cache gives in its first cores; up to Kubernetes 1.33 it cannot serve a part of a core."""
    threads = topology.threads_per_core
    cores = (core & free for core in topology.cores if core & free)
    share = union(islice(cores, _ceil(needed, threads) if odd else needed // threads))
    # One thread of the last core is left out again, so that the cache serves just as many as needed.
    over = odd and needed % 2 and threads > 1 and share.bit_count() > needed
    return lowest(share, share.bit_count() - 1) if over else share


_UNCORE_CACHES: Mapping[bool, TakeStep] = {odd: partial(_uncore_caches, odd=odd) for odd in (False, True)}
_CORES_AND_CPUS: Mapping[bool, tuple[TakeStep, ...]] = {
    False: (_full_cores, _remaining_cpus),
    True: (_spread_cpus,),
}


# --- Order: the fewest free CPUs first, then by id (cpuAccumulator.sort)


def _numa_first(topology: CpuTopology) -> bool:
    """Whether zones are taken to hold sockets (numaFirst), rather than sockets zones: only numbers decide."""
    return len(topology.sockets) >= topology.zones_with_cpus


def _sorted_numa_nodes(topology: CpuTopology, free: CpuSet) -> list[CpuSet]:
    """As sortAvailableNUMANodes."""
    if _numa_first(topology):
        return _emptiest(topology.zones, free)
    return _within(_emptiest(topology.sockets, free), topology.zones, free)


def _sorted_sockets(topology: CpuTopology, free: CpuSet) -> list[CpuSet]:
    """As sortAvailableSockets."""
    if _numa_first(topology):
        return _within(_emptiest(topology.zones, free), topology.sockets, free)
    return _emptiest(topology.sockets, free)


def _innermost(topology: CpuTopology, free: CpuSet) -> list[CpuSet]:
    """Return the units that cores stand in, in the order of sortAvailableCores."""
    return (_sorted_sockets if _numa_first(topology) else _sorted_numa_nodes)(topology, free)


def _within(outer: Iterable[CpuSet], inner: Sequence[CpuSet], free: CpuSet) -> list[CpuSet]:
    # Only what is free of an outer unit counts: SocketsInNUMANodes and its like look at details.
    parts = [around & free for around in outer]
    return [unit for part in parts for unit in _emptiest([unit for unit in inner if unit & part], free)]


def _emptiest(units: Iterable[CpuSet], free: CpuSet) -> list[CpuSet]:
    # Sorting is stable, so units that are as full stay in the order of their ids.
    return sorted([unit for unit in units if unit & free], key=lambda unit: (unit & free).bit_count())


def _cores(topology: CpuTopology, unit: CpuSet) -> tuple[CpuSet, ...]:
    """Return the cores from a unit's first to its last one; those of other units can lie between."""
    first = bisect_left(topology.cores, unit & -unit, key=_first_thread)
    return topology.cores[first : bisect_right(topology.cores, unit, lo=first, key=_first_thread)]


def _first_thread(core: CpuSet) -> CpuSet:
    return core & -core


def _mean_size(topology: CpuTopology, units: Sequence[CpuSet]) -> int:
    """CPUsPerSocket and its like: of all CPUs, rounded down."""
    return sum(topology.sizes) // len(units)


def _ceil(amount: int, size: int) -> int:
    return -(-amount // size)
