"""
The CPUs that the CPU manager takes if it has a choice (takeByTopology).

A pod is admitted by amounts, but the CPUs that it gets decide what the next pod finds: a partly used zone, a
split core. So the choice of the static policy is restated here, CPU by CPU, including its quirks (kubernetes,
pkg/kubelet/cm/cpumanager/cpu_assignment.go, v1.32 to v1.38.0-beta.0).

Packing goes from whole zones and sockets down to single threads; of equal units the one with the fewest free
CPUs comes first. Up to 1.37 the size of a whole socket or core is an average of the machine. So where sockets
or cores differ in size the kubelet can take a CPU that was not available, and so does this code.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, islice, zip_longest

from numalign.kubelet import cpu_distribution
from numalign.kubelet.cpu_distribution import DistributionRequest
from numalign.model.bitset import bits, lowest, members, union
from numalign.model.machine import CpuSet, CpuTopology
from numalign.model.options import DEFAULTS, KubeletChange


@dataclass(frozen=True, slots=True)
class StaticPolicyOptions:
    """The cpuManagerPolicyOptions that decide which CPUs are taken.

    `distribute` is distribute-cpus-across-numa, in steps of `group` CPUs: the threads of a core under
    full-pcpus-only, else one. `by_socket` is align-by-socket. `spread` is distribute-cpus-across-cores.
    `by_cache` is prefer-align-cpus-by-uncorecache, which `distribute` ignores. `changes` are those of the
    kubelet's version.
    """

    distribute: bool = False
    group: int = 1
    by_socket: bool = False
    spread: bool = False
    by_cache: bool = False
    changes: frozenset[KubeletChange] = DEFAULTS.changes


def take_by_topology(
    topology: CpuTopology, available: CpuSet, count: int, options: StaticPolicyOptions, hint_width: int = 0
) -> CpuSet:
    """Return the CPUs that the kubelet chooses among the available ones (takeByTopology).

    `hint_width` is the number of zones of the hint that is followed, 0 if none is.
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
        request = _request(topology, available, count, options, hint_width)
        return _numa_distributed(topology, available, request, steps)
    return _numa_packed(topology, available, count, steps)


def choices(
    topology: CpuTopology, available: CpuSet, count: int, options: StaticPolicyOptions, hint_width: int = 0
) -> int:
    """Return how many distributions `take_by_topology` compares; 0 for packing."""
    if not options.distribute or count % options.group or not 0 < count <= available.bit_count():
        return 0
    return cpu_distribution.choices(_request(topology, available, count, options, hint_width))


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
    topology: CpuTopology, free: CpuSet, request: DistributionRequest, steps: Iterable[TakeStep]
) -> CpuSet:
    """Restate takeByTopologyNUMADistributed: an even share from some zones, then the remainder in turns."""
    best = cpu_distribution.distribution(request)
    if best is None:
        return _numa_packed(topology, free, request.count, steps)
    zones = _sorted_numa_nodes(topology, free)
    # Inside a zone its share is packed, as if there were no other zone.
    taken = _from_each(topology, free, [zones[at] for at in best.zones], best.share, steps)
    # The remainder is taken one group at a time, so that no zone gives two before another gives one.
    left = [(zone & free & ~taken).bit_count() for zone in zones]
    turns = cpu_distribution.turns(left, best.remainder, best.groups, request.group)
    taken |= _from_each(topology, free & ~taken, [zones[at] for at in turns], request.group, steps)
    # The kubelet counts at the end; what its own quirks spoiled is an error of the allocation.
    return taken if taken.bit_count() == request.count else 0


def _request(
    topology: CpuTopology, free: CpuSet, count: int, options: StaticPolicyOptions, hint_width: int
) -> DistributionRequest:
    zones = _sorted_numa_nodes(topology, free)
    room = [(zone & free).bit_count() for zone in zones]
    sockets = None
    if options.by_socket and KubeletChange.SOCKET_SHARE in options.changes:
        numbered = list(enumerate(topology.sockets))
        sockets = [bits(at for at, socket in numbered if socket & zone) for zone in zones]
    return DistributionRequest(
        room=room,
        count=count,
        group=options.group,
        widths=_widths(topology, room, count, options, hint_width),
        changes=options.changes,
        sockets=sockets,
    )


def _widths(
    topology: CpuTopology, room: Sequence[int], count: int, options: StaticPolicyOptions, hint_width: int
) -> range:
    """Return the numbers of zones that are tried (rangeNUMANodesNeededToSatisfy)."""
    # Divided by the zones that have CPUs, rounded up twice.
    per_zone = _ceil(_ceil(sum(topology.sizes), options.group), topology.zones_with_cpus)
    groups = count // options.group
    least, most = _ceil(groups, per_zone), min(groups, len(room))
    # A hint that is wider than possible is ignored.
    follows = KubeletChange.HINT_WIDTH in options.changes and least < hint_width <= most
    return range(hint_width if follows else least, most + 1)


def _from_each(
    topology: CpuTopology, free: CpuSet, zones: Iterable[CpuSet], amount: int, steps: Iterable[TakeStep]
) -> CpuSet:
    taken = 0
    for zone in zones:
        taken |= _numa_packed(topology, zone & free & ~taken, amount, steps)
    return taken


@lru_cache(maxsize=64)
def _steps(options: StaticPolicyOptions, *, numa_first: bool) -> tuple[TakeStep, ...]:
    """Restate takeFullFirstLevel and takeFullSecondLevel; caches between them and cores, then the rest."""
    # numaFirst and socketsFirst differ in which of the two is the first level.
    sockets = _own_sockets if KubeletChange.OWN_SIZE in options.changes else _full_sockets
    units = (_full_numa_nodes, sockets) if numa_first else (sockets, _full_numa_nodes)
    # The kubelet does not start with both options, but part of a distribution is packed without caches.
    by_cache = options.by_cache and not options.distribute
    caches = (partial(_uncore_caches, changes=options.changes),) if by_cache else ()
    if options.spread:
        in_turn = KubeletChange.SPREAD_IN_TURN in options.changes
        return (*units, *caches, _cores_in_turn if in_turn else _spread_cpus)
    cores = _own_cores if KubeletChange.OWN_SIZE in options.changes else _full_cores
    return (*units, *caches, cores, _remaining_cpus)


def _full_numa_nodes(topology: CpuTopology, free: CpuSet, needed: int) -> Iterable[CpuSet]:
    """Restate takeFullNUMANodes: zones whose CPUs are all free, so none with a reserved CPU."""
    full = [zone for zone in topology.zones if zone & free == zone and 0 < zone.bit_count() <= needed]
    # Most steps find nothing, and then there is nothing to sort.
    order = _sorted_numa_nodes(topology, free) if full else ()
    return _fitting((zone for zone in order if zone in full), needed)


def _full_sockets(topology: CpuTopology, free: CpuSet, needed: int) -> Iterable[CpuSet]:
    """Restate takeFullSockets up to 1.37: by isSocketFree, a socket with as many free CPUs as the average."""
    # All CPUs of such a socket are taken, free or not.
    size = _mean_size(topology, topology.sockets)
    full = [
        socket
        for socket in topology.sockets
        if (socket & free).bit_count() == size and socket.bit_count() <= needed
    ]
    order = _sorted_sockets(topology, free) if full else ()
    return _fitting((socket for socket in order if socket in full), needed)


def _own_sockets(topology: CpuTopology, free: CpuSet, needed: int) -> Iterable[CpuSet]:
    """Restate takeFullSockets: sockets whose CPUs are all free."""
    return _fitting((socket for socket in _sorted_sockets(topology, free) if socket & free == socket), needed)


def _full_cores(topology: CpuTopology, free: CpuSet, needed: int) -> Iterable[CpuSet]:
    """Restate takeFullCores up to 1.37: isCoreFree also compares with the average core."""
    # CPUsPerCore is an average too: on a machine of uneven cores only some are ever whole.
    size = topology.threads_per_core
    units = _innermost(topology, free) if needed >= size else ()
    cores = (
        core for unit in units for core in _cores(topology, unit) if (core & unit & free).bit_count() == size
    )
    return _fitting(cores, needed, smallest=size)


def _own_cores(topology: CpuTopology, free: CpuSet, needed: int) -> Iterable[CpuSet]:
    """Restate takeFullCores: cores whose CPUs are all free."""
    units = (_emptiest(_cores(topology, unit), unit & free) for unit in _innermost(topology, free))
    return _fitting((core for core in chain.from_iterable(units) if core & free == core), needed)


def _remaining_cpus(topology: CpuTopology, free: CpuSet, needed: int) -> Iterator[CpuSet]:
    """Restate takeRemainingCPUs, in the order of sortAvailableCPUs: partly used cores come first."""
    # The order of cores is taken once, at the start of the step, and kept while threads are taken.
    cores = ((core & unit & free for core in _cores(topology, unit)) for unit in _innermost(topology, free))
    parts = (sorted(filter(None, threads), key=int.bit_count) for threads in cores)
    return _threads(chain.from_iterable(parts), needed)


def _spread_cpus(topology: CpuTopology, free: CpuSet, needed: int) -> Iterator[CpuSet]:
    """Restate takeRemainingCPUs under distribute-cpus-across-cores up to 1.37: by id, whatever the core."""
    return _threads((socket & free for socket in _sorted_sockets(topology, free)), needed)


def _cores_in_turn(topology: CpuTopology, free: CpuSet, needed: int) -> Iterator[CpuSet]:
    """Restate takeRemainingCPUs under distribute-cpus-across-cores (sortAvailableCPUsSpread)."""
    sockets = (
        _emptiest(_cores(topology, socket), socket & free) for socket in _sorted_sockets(topology, free)
    )
    turns = (zip_longest(*(members(core & free) for core in cores)) for cores in sockets)
    cpus = chain.from_iterable(chain.from_iterable(turns))
    return _threads((1 << cpu for cpu in cpus if cpu is not None), needed)


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


def _uncore_caches(
    topology: CpuTopology, free: CpuSet, needed: int, *, changes: frozenset[KubeletChange]
) -> list[CpuSet]:
    """Take whole caches first, then a part of one cache that serves exactly the rest."""
    two_passes = KubeletChange.CACHES_IN_TWO_PASSES in changes
    odd = KubeletChange.ODD_CACHE_SHARE in changes
    order = _within(_sorted_numa_nodes(topology, free), topology.caches, free)
    if two_passes:
        order = [*dict.fromkeys(order)]
    whole = [cache for cache in order if cache & free == cache]
    # Up to 1.37 a request below the average cache goes straight to parts, even if a smaller cache is free.
    large = two_passes or needed >= _mean_size(topology, topology.caches)
    taken = list(_fitting(whole, needed)) if large else []
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


# --- Order: the fewest free CPUs first, then by id (cpuAccumulator.sort)


def _numa_first(topology: CpuTopology) -> bool:
    """Return whether zones are assumed to contain sockets (numaFirst), going by their numbers alone."""
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
    first = bisect_left(topology.cores, unit & -unit, key=lambda core: core & -core)
    return topology.cores[first : bisect_right(topology.cores, unit, lo=first, key=lambda core: core & -core)]


def _mean_size(topology: CpuTopology, units: Sequence[CpuSet]) -> int:
    """Return the average size, rounded down, as CPUsPerSocket and similar functions do."""
    return sum(topology.sizes) // len(units)


def _ceil(amount: int, size: int) -> int:
    return -(-amount // size)
