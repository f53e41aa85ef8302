"""
Which CPUs the CPU manager takes when it may choose.

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
    """The policy options that decide which CPUs are taken.

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
    layout: CpuTopology, available: CpuSet, count: int, strategy: StaticPolicyOptions
) -> CpuSet:
    """Choose so many of the available CPUs as the kubelet would.

    Nothing comes back where the kubelet does not admit the pod: there are too few, or its own accidents spoil
    what it wanted to distribute. Where a cache reaches over several zones, `by_cache` can end with fewer than
    asked for. Sockets are expected to lie within zones, or zones within sockets.
    """
    if not 0 < count <= available.bit_count():
        return 0
    steps = _steps(strategy, zones_first=_zones_first(layout))
    if strategy.distribute and not count % strategy.group:
        return _distributed(layout, available, count, strategy.group, steps)
    return _packed(layout, available, count, steps)


def choices(layout: CpuTopology, available: CpuSet, count: int, strategy: StaticPolicyOptions) -> int:
    """How many ways `take` compares to distribute so many CPUs; of packing there is one."""
    if not strategy.distribute or count % strategy.group or not 0 < count <= available.bit_count():
        return 0
    room = _room(_zones(layout, available), available)
    return cpu_distribution.choices(
        room, count, group=strategy.group, groups_per_zone=_per_zone(layout, strategy.group)
    )


# --- Packing


Step = Callable[[CpuTopology, CpuSet, int], Iterable[CpuSet]]
"""What one step takes, unit by unit, of the CPUs that are free while so many are needed."""


def _packed(layout: CpuTopology, free: CpuSet, needed: int, steps: Iterable[Step]) -> CpuSet:
    taken = 0
    for step in steps:
        for unit in step(layout, free & ~taken, needed) if needed else ():
            taken |= unit
            needed -= unit.bit_count()
    return taken


def _distributed(layout: CpuTopology, free: CpuSet, count: int, group: int, steps: Iterable[Step]) -> CpuSet:
    zones = _zones(layout, free)
    per_zone = _per_zone(layout, group)
    plan = cpu_distribution.distribution(_room(zones, free), count, group=group, groups_per_zone=per_zone)
    if plan is None:
        return _packed(layout, free, count, steps)
    taken = _from_each(layout, free, [zones[at] for at in plan.zones], plan.share, steps)
    turns = cpu_distribution.turns(_room(zones, free & ~taken), plan.extra, plan.groups, group)
    taken |= _from_each(layout, free & ~taken, [zones[at] for at in turns], group, steps)
    return taken if taken.bit_count() == count else 0


def _per_zone(layout: CpuTopology, group: int) -> int:
    return _ceil(_ceil(sum(layout.sizes), group), layout.zones_with_cpus)


def _from_each(
    layout: CpuTopology, free: CpuSet, zones: Iterable[CpuSet], amount: int, steps: Iterable[Step]
) -> CpuSet:
    taken = 0
    for zone in zones:
        taken |= _packed(layout, zone & free & ~taken, amount, steps)
    return taken


def _room(zones: Iterable[CpuSet], free: CpuSet) -> list[int]:
    return [(zone & free).bit_count() for zone in zones]


@lru_cache(maxsize=64)
def _steps(strategy: StaticPolicyOptions, *, zones_first: bool) -> tuple[Step, ...]:
    units = (_whole_zones, _whole_sockets) if zones_first else (_whole_sockets, _whole_zones)
    by_cache = strategy.by_cache and not strategy.distribute
    caches = (_CACHES[strategy.odd_cache_share],) if by_cache else ()
    return (*units, *caches, *_THREADS[strategy.spread])


def _whole_zones(layout: CpuTopology, free: CpuSet, needed: int) -> Iterable[CpuSet]:
    whole = [zone for zone in layout.zones if zone & free == zone and 0 < zone.bit_count() <= needed]
    return _fitting((zone for zone in _zones(layout, free) if zone in whole), needed) if whole else ()


def _whole_sockets(layout: CpuTopology, free: CpuSet, needed: int) -> Iterable[CpuSet]:
    size = _mean_size(layout, layout.sockets)
    whole = [one for one in layout.sockets if (one & free).bit_count() == size and one.bit_count() <= needed]
    return _fitting((one for one in _sockets(layout, free) if one in whole), needed) if whole else ()


def _whole_cores(layout: CpuTopology, free: CpuSet, needed: int) -> Iterable[CpuSet]:
    size = layout.threads_per_core
    units = _innermost(layout, free) if needed >= size else ()
    cores = (
        core for unit in units for core in _cores(layout, unit) if (core & unit & free).bit_count() == size
    )
    return _fitting(cores, needed, smallest=size)


def _packed_threads(layout: CpuTopology, free: CpuSet, needed: int) -> Iterator[CpuSet]:
    cores = ((core & unit & free for core in _cores(layout, unit)) for unit in _innermost(layout, free))
    return _threads(
        chain.from_iterable(sorted(filter(None, parts), key=int.bit_count) for parts in cores), needed
    )


def _spread_threads(layout: CpuTopology, free: CpuSet, needed: int) -> Iterator[CpuSet]:
    return _threads((socket & free for socket in _sockets(layout, free)), needed)


def _threads(parts: Iterable[CpuSet], needed: int) -> Iterator[CpuSet]:
    for part in parts:
        threads = lowest(part, min(needed, part.bit_count()))
        yield threads
        needed -= threads.bit_count()
        if not needed:
            return


def _fitting(units: Iterable[CpuSet], needed: int, *, smallest: int = 1) -> Iterator[CpuSet]:
    """Those of the units, one after the other, that are not more than what is still needed."""
    for unit in units:
        if unit.bit_count() <= needed:
            yield unit
            needed -= unit.bit_count()
            if needed < smallest:
                return


# --- Caches


Share = Callable[[CpuTopology, CpuSet, int], CpuSet]
"""What a cache with these CPUs free would give towards so many; it serves only if that is just as many."""


def _by_cache(layout: CpuTopology, free: CpuSet, needed: int, share: Share) -> list[CpuSet]:
    order = _within(_zones(layout, free), layout.caches, free)
    whole = [cache for cache in order if cache & free == cache]
    taken = list(_fitting(whole, needed)) if needed >= _mean_size(layout, layout.caches) else []
    left = needed - sum(map(int.bit_count, taken))
    shares = (share(layout, cache & free, left) for cache in order if cache not in taken)
    return [*taken, next((part for part in shares if part.bit_count() == left), 0)]


def _share_of_cores(layout: CpuTopology, free: CpuSet, needed: int) -> CpuSet:
    return _first_cores(layout, free, needed // layout.threads_per_core)


def _share_rounded_up(layout: CpuTopology, free: CpuSet, needed: int) -> CpuSet:
    share = _first_cores(layout, free, _ceil(needed, layout.threads_per_core))
    over = needed % 2 and layout.threads_per_core > 1 and share.bit_count() > needed
    return lowest(share, share.bit_count() - 1) if over else share


def _first_cores(layout: CpuTopology, free: CpuSet, count: int) -> CpuSet:
    cores = (core & free for core in layout.cores if core & free)
    return union(islice(cores, count))


_CACHES: Mapping[bool, Step] = {
    False: partial(_by_cache, share=_share_of_cores),
    True: partial(_by_cache, share=_share_rounded_up),
}
_THREADS: Mapping[bool, tuple[Step, ...]] = {
    False: (_whole_cores, _packed_threads),
    True: (_spread_threads,),
}


# --- Order: the fewest free CPUs first, then by id


def _zones_first(layout: CpuTopology) -> bool:
    """Whether zones are taken to hold sockets, rather than sockets zones: only their numbers decide."""
    return len(layout.sockets) >= layout.zones_with_cpus


def _zones(layout: CpuTopology, free: CpuSet) -> list[CpuSet]:
    if _zones_first(layout):
        return _emptiest(layout.zones, free)
    return _within(_emptiest(layout.sockets, free), layout.zones, free)


def _sockets(layout: CpuTopology, free: CpuSet) -> list[CpuSet]:
    if _zones_first(layout):
        return _within(_emptiest(layout.zones, free), layout.sockets, free)
    return _emptiest(layout.sockets, free)


def _innermost(layout: CpuTopology, free: CpuSet) -> list[CpuSet]:
    return _sockets(layout, free) if _zones_first(layout) else _zones(layout, free)


def _within(outer: Iterable[CpuSet], inner: Sequence[CpuSet], free: CpuSet) -> list[CpuSet]:
    parts = [around & free for around in outer]
    return [unit for part in parts for unit in _emptiest([one for one in inner if one & part], free)]


def _emptiest(units: Iterable[CpuSet], free: CpuSet) -> list[CpuSet]:
    return sorted([unit for unit in units if unit & free], key=lambda unit: (unit & free).bit_count())


def _cores(layout: CpuTopology, unit: CpuSet) -> tuple[CpuSet, ...]:
    """The cores from a unit's first to its last one; those of other units can lie between."""
    first = bisect_left(layout.cores, unit & -unit, key=_first_thread)
    return layout.cores[first : bisect_right(layout.cores, unit, lo=first, key=_first_thread)]


def _first_thread(core: CpuSet) -> CpuSet:
    return core & -core


def _mean_size(layout: CpuTopology, units: Sequence[CpuSet]) -> int:
    return sum(layout.sizes) // len(units)


def _ceil(amount: int, size: int) -> int:
    return -(-amount // size)
