"""
The CPUs that the CPU manager takes if it has a choice (takeByTopology).

A pod is admitted by amounts, but the CPUs that it gets decide what the next pod finds: a partly used zone, a
split core. So the choice of the static policy is restated here, CPU by CPU, including its quirks (kubernetes,
pkg/kubelet/cm/cpumanager/cpu_assignment.go, v1.32 to v1.36).

Packing goes from whole zones and sockets down to single threads; of equal units the one with the fewest free
CPUs comes first. The size of a whole socket or core is an average of the machine. So where sockets or cores
differ in size the kubelet can take a CPU that was not available, and so does this code.
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
    """The cpuManagerPolicyOptions that decide which CPUs are taken.

    `distribute` is distribute-cpus-across-numa, in steps of `group` CPUs: the threads of a core under
    full-pcpus-only, else one. `spread` is distribute-cpus-across-cores. `by_cache` is
    prefer-align-cpus-by-uncorecache, which `distribute` ignores; with `odd_cache_share` a part of a cache can
    also serve an odd number of CPUs.
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

    Return no CPU if the kubelet does not admit the pod: there are too few, or its own quirks spoil the
    distribution. Where a cache spans several zones, `by_cache` can return fewer than `count`. Sockets have to
    be within zones, or zones within sockets.
    """
    if not 0 < count <= available.bit_count():
        return 0
    # The order of steps depends only on the machine and its options, so it is built once for each.
    steps = _steps(options, numa_first=_numa_first(topology))
    # A request that is not a multiple of the group is packed: takeByTopologyNUMADistributed begins with that.
    if options.distribute and not count % options.group:
        return _numa_distributed(topology, available, count, options.group, steps)
    return _numa_packed(topology, available, count, steps)


def choices(topology: CpuTopology, available: CpuSet, count: int, options: StaticPolicyOptions) -> int:
    """Return how many distributions `take_by_topology` compares; 0 for packing."""
    if not options.distribute or count % options.group or not 0 < count <= available.bit_count():
        return 0
    room = _room(_sorted_numa_nodes(topology, available), available)
    groups = _groups_per_zone(topology, options.group)
    return cpu_distribution.choices(room, count, group=options.group, groups_per_zone=groups)


TakeStep = Callable[[CpuTopology, CpuSet, int], Iterable[CpuSet]]
"""What one step takes, unit by unit, from the free CPUs for a number of needed CPUs."""


def _numa_packed(topology: CpuTopology, free: CpuSet, needed: int, steps: Iterable[TakeStep]) -> CpuSet:
    """Restate takeByTopologyNUMAPacked: each step takes what it can of what earlier steps left."""
    taken = 0
    for step in steps:
        for unit in step(topology, free & ~taken, needed) if needed else ():
            taken |= unit
            # A unit of an uneven machine can have more than is needed, which also ends the packing.
            needed -= unit.bit_count()
    return taken


def _numa_distributed(
    topology: CpuTopology, free: CpuSet, count: int, group: int, steps: Iterable[TakeStep]
) -> CpuSet:
    """Restate takeByTopologyNUMADistributed: an even share from some zones, then the remainder in turns."""
    # Zones without free CPUs are not among them, so they are not distributed over either.
    zones = _sorted_numa_nodes(topology, free)
    per_zone = _groups_per_zone(topology, group)
    best = cpu_distribution.distribution(_room(zones, free), count, group=group, groups_per_zone=per_zone)
    if best is None:
        return _numa_packed(topology, free, count, steps)
    # Inside a zone its share is packed, as if there were no other zone.
    taken = _from_each(topology, free, [zones[at] for at in best.zones], best.share, steps)
    # The remainder is taken one group at a time, so that no zone gives two before another gives one.
    turns = cpu_distribution.turns(_room(zones, free & ~taken), best.remainder, best.groups, group)
    taken |= _from_each(topology, free & ~taken, [zones[at] for at in turns], group, steps)
    # The kubelet counts at the end; what its own quirks spoiled is an error of the allocation.
    return taken if taken.bit_count() == count else 0


def _groups_per_zone(topology: CpuTopology, group: int) -> int:
    """Restate rangeNUMANodesNeededToSatisfy: divided by the zones that have CPUs, rounded up twice."""
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
    """Restate takeFullFirstLevel and takeFullSecondLevel; caches between them and cores, then the rest."""
    # numaFirst and socketsFirst differ in which of the two is the first level.
    units = (_full_numa_nodes, _full_sockets) if numa_first else (_full_sockets, _full_numa_nodes)
    # The kubelet does not start with both options, but part of a distribution is packed without caches.
    by_cache = options.by_cache and not options.distribute
    caches = (_UNCORE_CACHES[options.odd_cache_share],) if by_cache else ()
    return (*units, *caches, *_CORES_AND_CPUS[options.spread])


def _full_numa_nodes(topology: CpuTopology, free: CpuSet, needed: int) -> Iterable[CpuSet]:
    """Restate takeFullNUMANodes: zones whose CPUs are all free, so none with a reserved CPU."""
    full = [zone for zone in topology.zones if zone & free == zone and 0 < zone.bit_count() <= needed]
    return (
        _fitting((zone for zone in _sorted_numa_nodes(topology, free) if zone in full), needed)
        if full
        else ()
    )


def _full_sockets(topology: CpuTopology, free: CpuSet, needed: int) -> Iterable[CpuSet]:
    """Restate takeFullSockets.

    By isSocketFree, a socket is free if it has as many free CPUs as the average socket. All its CPUs are
    taken, free or not.
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
    """Restate takeFullCores: isCoreFree also compares with the average core."""
    # CPUsPerCore is an average too: on a machine of uneven cores only some are ever whole.
    size = topology.threads_per_core
    units = _innermost(topology, free) if needed >= size else ()
    cores = (
        core for unit in units for core in _cores(topology, unit) if (core & unit & free).bit_count() == size
    )
    return _fitting(cores, needed, smallest=size)


def _remaining_cpus(topology: CpuTopology, free: CpuSet, needed: int) -> Iterator[CpuSet]:
    """Restate takeRemainingCPUs, in the order of sortAvailableCPUs: partly used cores come first."""
    # The order of cores is taken once, at the start of the step, and kept while threads are taken.
    cores = ((core & unit & free for core in _cores(topology, unit)) for unit in _innermost(topology, free))
    parts = (sorted(filter(None, threads), key=int.bit_count) for threads in cores)
    return _threads(chain.from_iterable(parts), needed)


def _spread_cpus(topology: CpuTopology, free: CpuSet, needed: int) -> Iterator[CpuSet]:
    """Restate takeRemainingCPUs under distribute-cpus-across-cores: by id in sockets, whatever the core."""
    return _threads((socket & free for socket in _sorted_sockets(topology, free)), needed)


def _threads(parts: Iterable[CpuSet], needed: int) -> Iterator[CpuSet]:
    for part in parts:
        threads = lowest(part, min(needed, part.bit_count()))
        yield threads
        needed -= threads.bit_count()
        if not needed:
            return


def _fitting(units: Iterable[CpuSet], needed: int, *, smallest: int = 1) -> Iterator[CpuSet]:
    """Yield the units that are not larger than what is still needed, one after another (needsAtLeast)."""
    for unit in units:
        if unit.bit_count() <= needed:
            yield unit
            needed -= unit.bit_count()
            if needed < smallest:
                return


# --- Caches: prefer-align-cpus-by-uncorecache


def _uncore_caches(topology: CpuTopology, free: CpuSet, needed: int, *, odd: bool) -> list[CpuSet]:
    """Take whole caches first, then a part of one cache that serves exactly the rest."""
    order = _within(_sorted_numa_nodes(topology, free), topology.caches, free)
    whole = [cache for cache in order if cache & free == cache]
    # A request below the average cache goes straight to parts, even if a smaller cache is free.
    taken = list(_fitting(whole, needed)) if needed >= _mean_size(topology, topology.caches) else []
    missing = needed - sum(map(int.bit_count, taken))
    parts = (_cache_share(topology, cache & free, missing, odd=odd) for cache in order if cache not in taken)
    return [*taken, next((part for part in parts if part.bit_count() == missing), 0)]


def _cache_share(topology: CpuTopology, free: CpuSet, needed: int, *, odd: bool) -> CpuSet:
    """Return the share of a cache from its first cores; up to Kubernetes 1.33 only whole cores."""
    threads = topology.threads_per_core
    cores = (core & free for core in topology.cores if core & free)
    share = union(islice(cores, _ceil(needed, threads) if odd else needed // threads))
    # One thread of the last core is left out, so that the cache serves exactly as many as needed.
    over = odd and needed % 2 and threads > 1 and share.bit_count() > needed
    return lowest(share, share.bit_count() - 1) if over else share


_UNCORE_CACHES: Mapping[bool, TakeStep] = {odd: partial(_uncore_caches, odd=odd) for odd in (False, True)}
_CORES_AND_CPUS: Mapping[bool, tuple[TakeStep, ...]] = {
    False: (_full_cores, _remaining_cpus),
    True: (_spread_cpus,),
}


# --- Order: the fewest free CPUs first, then by id (cpuAccumulator.sort)


def _numa_first(topology: CpuTopology) -> bool:
    """Return whether zones are assumed to contain sockets (numaFirst), rather than sockets zones.

    Only the numbers of both decide.
    """
    return len(topology.sockets) >= topology.zones_with_cpus


def _sorted_numa_nodes(topology: CpuTopology, free: CpuSet) -> list[CpuSet]:
    """Restate sortAvailableNUMANodes."""
    if _numa_first(topology):
        return _emptiest(topology.zones, free)
    return _within(_emptiest(topology.sockets, free), topology.zones, free)


def _sorted_sockets(topology: CpuTopology, free: CpuSet) -> list[CpuSet]:
    """Restate sortAvailableSockets."""
    if _numa_first(topology):
        return _within(_emptiest(topology.zones, free), topology.sockets, free)
    return _emptiest(topology.sockets, free)


def _innermost(topology: CpuTopology, free: CpuSet) -> list[CpuSet]:
    """Return the units that contain cores, in the order of sortAvailableCores."""
    return (_sorted_sockets if _numa_first(topology) else _sorted_numa_nodes)(topology, free)


def _within(outer: Iterable[CpuSet], inner: Sequence[CpuSet], free: CpuSet) -> list[CpuSet]:
    # Only the free part of an outer unit counts: SocketsInNUMANodes and similar functions look at details.
    parts = [around & free for around in outer]
    return [unit for part in parts for unit in _emptiest([unit for unit in inner if unit & part], free)]


def _emptiest(units: Iterable[CpuSet], free: CpuSet) -> list[CpuSet]:
    # Sorting is stable, so equally full units stay in the order of their ids.
    return sorted([unit for unit in units if unit & free], key=lambda unit: (unit & free).bit_count())


def _cores(topology: CpuTopology, unit: CpuSet) -> tuple[CpuSet, ...]:
    """Return the cores from a unit's first to its last one; cores of other units may be between."""
    first = bisect_left(topology.cores, unit & -unit, key=_first_thread)
    return topology.cores[first : bisect_right(topology.cores, unit, lo=first, key=_first_thread)]


def _first_thread(core: CpuSet) -> CpuSet:
    return core & -core


def _mean_size(topology: CpuTopology, units: Sequence[CpuSet]) -> int:
    """Return the average size of these units, rounded down, as CPUsPerSocket and similar functions do."""
    return sum(topology.sizes) // len(units)


def _ceil(amount: int, size: int) -> int:
    return -(-amount // size)
