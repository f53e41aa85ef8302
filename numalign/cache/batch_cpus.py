"""
The CPU manager under policy static on many nodes at once.

Restates `kubelet.cpu_manager` and the default packing of `kubelet.cpu_assignment`; both name the kubelet's
functions. All rows of a call have the same number of zones, the same sockets and the same number of threads
per core. Zones, sockets and cores are of equal size, as on most machines that are assumed from counts.

CPUs are counted by the available threads of their core (`CpuColumns`), and these counts decide everything:
among cores of a zone with equally many available threads, the kubelet takes the lowest core first, and of
each core the lowest threads. So the special ones of these threads (an init container had them, or their core
keeps a thread for the system) can be counted too: they are always the first ones, whatever was taken before.
A core that is split is the only one of its zone with so few threads left, because the kubelet splits no core
before it has used up all cores with fewer threads. The result is exact on every row.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np

from numalign.cache import batch_hint_sets
from numalign.cache.arrays import Bools, Ints, Rows
from numalign.model.machine import CpuSet, CpuTopology
from numalign.model.pod import Role


@dataclass(frozen=True, slots=True, eq=False)
class CpuColumns:
    """The CPUs of many nodes while one pod is admitted (`cpu_manager.CpuState`), in whole CPUs.

    `sizes` counts all CPUs of each zone, reserved ones included: (zones, rows). It is 0 for a zone without
    CPUs, and the same for all other zones of a row. `sockets` tells which zones share a socket, by one number
    below `zones` for each zone; these numbers are the order of sockets.

    The others are (threads, zones, rows), where [i] counts the CPUs in cores of which i + 1 threads are
    available. `available` are those that a container of this pod could get; `reusable` are those of them that
    its init containers had, none at first. `split` are the available ones whose core keeps another thread for
    the system; only `breaks_cores` uses them. Arrays are never changed in place.
    """

    sizes: Ints
    sockets: tuple[int, ...]
    available: Ints
    reusable: Ints
    split: Ints

    @property
    def zones(self) -> int:
        """The number of zones of each node."""
        return len(self.sizes)

    def at(self, rows: Rows) -> "CpuColumns":
        """Return the same for some of these rows."""
        return CpuColumns(
            self.sizes[:, rows],
            self.sockets,
            self.available[..., rows],
            self.reusable[..., rows],
            self.split[..., rows],
        )

    def charged(self, taken: Ints, role: Role) -> "CpuColumns":
        """Return the columns after a container is allocated these CPUs, by core (`CpuState.charged`)."""
        if role is Role.INIT:
            # Every container takes the first of the available CPUs, so the CPUs of different ones are nested.
            reusable = np.maximum(self.reusable, taken)
            return CpuColumns(self.sizes, self.sockets, self.available, reusable, self.split)
        left = (_left(counts, taken) for counts in (self.available, self.reusable, self.split))
        return CpuColumns(self.sizes, self.sockets, *left)


class CpuAllocation(NamedTuple):
    """The result of an allocation for one container, by row.

    `taken` counts the CPUs that it gets from each zone, (zones, rows). Where it is not `ok`, the kubelet has
    too few (UNEXPECTED_ADMISSION): the container gets none, and `after` is the state before.
    """

    after: CpuColumns
    taken: Ints
    ok: Bools


def hints(cpus: CpuColumns, request: int) -> Bools:
    """Return the sets of zones that can serve a request of at least 1 CPU: (2^zones, rows).

    Restates generateCPUTopologyHints. Where the manager reports the request as impossible (an empty list of
    hints), a row has no set. Which sets are preferred depends on their width alone.
    """
    possible = batch_hint_sets.reaching(cpus.available.sum(axis=0), request)
    hosts: Bools = cpus.sizes > 0
    if not hosts.all():
        possible &= batch_hint_sets.apart(batch_hint_sets.masks(~hosts), cpus.zones)
    if cpus.reusable.any():
        # A set without a zone of reusable CPUs is skipped, even if it has enough other CPUs.
        possible &= batch_hint_sets.around(batch_hint_sets.masks(cpus.reusable.sum(axis=0) > 0), cpus.zones)
    return possible


def allocate(cpus: CpuColumns, request: Ints | int, mask: Ints, role: Role) -> CpuAllocation:
    """Return the CPUs that a container gets on each row, and the columns after it (Allocate).

    `request` is one number or one per row, 0 where it requests none. `mask` is its affinity as bits by row,
    or -1 where none is stored. CPUs of the affinity are taken first, and the rest from any zone. This ignores
    `full-pcpus-only`: check `breaks_cores` before.
    """
    ok = np.asarray(cpus.available.sum(axis=(0, 1)) >= request)
    needed = np.where(ok, request, 0)
    # -1 has all bits: an affinity to all zones has the same effect as no affinity.
    near = cpus.available * batch_hint_sets.members(mask, cpus.zones)
    first = np.minimum(needed, near.sum(axis=(0, 1)))
    taken = _numa_packed(cpus, near, first)
    beyond = np.flatnonzero(needed > first)
    if len(beyond):
        # This is how best-effort exceeds its affinity: the rest is taken like a request of its own.
        far = (cpus.available - near)[..., beyond]
        taken[..., beyond] += _numa_packed(cpus.at(beyond), far, (needed - first)[beyond])
    return CpuAllocation(cpus.charged(taken, role), taken.sum(axis=0), ok)


def breaks_cores(cpus: CpuColumns, request: int) -> Bools:
    """Return whether `full-pcpus-only` refuses a request (SMT_ALIGNMENT), by row; call it before `allocate`.

    Reusable CPUs of init containers do not count here, nor do CPUs whose core keeps a thread for the system.
    """
    threads = len(cpus.available)
    whole = cpus.available - cpus.reusable - np.maximum(cpus.split - cpus.reusable, 0)
    refused: Bools = (whole.sum(axis=(0, 1)) < request) | (request % threads > 0)
    return refused


def last_ones(free: Ints, threads: int) -> Ints:
    """Return CPUs by core, (threads, zones, rows), if the last ones of each zone are `free`: (zones, rows).

    Free CPUs have these places on an assumed machine of which only amounts are known
    (`assumed_machine.free_cpus`). The `split` ones among them are the last ones too: with F free and A
    allocatable CPUs in a zone, there are max(0, F - A // threads * threads).
    """
    by_core = np.zeros((threads, *free.shape), dtype=free.dtype)
    rest = free % threads
    for left in range(1, threads):
        by_core[left - 1] = np.where(rest == left, left, 0)
    by_core[-1] += free - rest
    return by_core


def by_core(topology: CpuTopology, cpus: CpuSet, threads: int) -> Ints:
    """Return the given CPUs of one node by core, (threads, zones); its cores have `threads` threads.

    `cpu_manager.whole_cores` returns which free CPUs of a node are not `split`.
    """
    counts = np.zeros((threads, len(topology.zones)), dtype=np.int64)
    for at, zone in enumerate(topology.zones):
        for core in topology.cores:
            if held := (core & zone & cpus).bit_count():
                counts[held - 1, at] += held
    return counts


# The choice of CPUs: takeByTopologyNUMAPacked.


class _FreeCpus(NamedTuple):
    """Free CPUs by zone: those of cores whose threads are all free, and those of other (`broken`) cores."""

    whole: Ints
    broken: Ints

    @property
    def every(self) -> Ints:
        """All free CPUs of each zone."""
        return self.whole + self.broken


_TakeStep = Callable[[CpuColumns, _FreeCpus, Ints], Ints]
"""Returns the CPUs that one step takes from each zone, in whole cores, if each row needs so many."""


def _numa_packed(cpus: CpuColumns, free: Ints, needed: Ints) -> Ints:
    """Return the CPUs that are taken, as `cpu_assignment._numa_packed`: each step takes what it can.

    Free and taken CPUs are by core, (threads, zones, rows). No row needs more than it has free.
    """
    before = _FreeCpus(free[-1], free[:-1].sum(axis=0))
    whole = np.zeros_like(before.whole)
    for step in _STEPS:
        missing = needed - whole.sum(axis=0)
        if missing.any():
            whole += step(cpus, before._replace(whole=before.whole - whole), missing)
    taken = np.zeros_like(free)
    taken[-1] = whole
    missing = needed - whole.sum(axis=0)
    if missing.any():
        taken += _remaining_cpus(cpus, free - taken, missing)
    return taken


def _full_sockets(cpus: CpuColumns, free: _FreeCpus, needed: Ints) -> Ints:
    """Take sockets whose CPUs are all free, the lowest first."""
    taken = np.zeros_like(free.whole)
    # Where zones share no socket, zones are taken first, which leaves no free socket that is small enough.
    missing = np.where(_numa_first(cpus), 0, needed)
    for zones in _shared_sockets(cpus.sockets):
        size, whole = cpus.sizes[zones].sum(axis=0), free.whole[zones]
        full = (whole.sum(axis=0) == size) & (size > 0) & (size <= missing)
        taken[zones] = whole * full
        missing = missing - size * full
    return taken


def _full_numa_nodes(cpus: CpuColumns, free: _FreeCpus, needed: Ints) -> Ints:
    """Take zones whose CPUs are all free, so none with a reserved CPU."""
    size = cpus.sizes.max(axis=0)
    full = (free.whole == cpus.sizes) & (cpus.sizes > 0) & (size <= needed)
    taken: Ints = np.zeros_like(free.whole)
    if full.any():
        taken = _in_turn(cpus, free, full.astype(taken.dtype), needed // np.maximum(size, 1)) * size
    return taken


def _full_cores(cpus: CpuColumns, free: _FreeCpus, needed: Ints) -> Ints:
    """Take cores whose threads are all free, zone by zone."""
    threads = len(cpus.available)
    return _in_turn(cpus, free, free.whole // threads, needed // threads) * threads


_STEPS: Sequence[_TakeStep] = (_full_sockets, _full_numa_nodes, _full_cores)


def _remaining_cpus(cpus: CpuColumns, free: Ints, needed: Ints) -> Ints:
    """Take single threads, zone by zone, first from the cores with the fewest left; by core."""
    left = _FreeCpus(free[-1], free[:-1].sum(axis=0))
    taken, missing = np.zeros_like(free), _in_turn(cpus, left, left.every, needed)
    for at, threads in enumerate(free):
        taken[at] = np.minimum(threads, missing)
        missing = missing - taken[at]
    return taken


def _in_turn(cpus: CpuColumns, free: _FreeCpus, units: Ints, needed: Ints) -> Ints:
    """Return how many of the needed units each zone gives; each gives all it has before the next one."""
    if np.count_nonzero(units, axis=0).max(initial=0) > 1:
        needed = needed - np.einsum("ijr,jr->ir", _earlier(cpus, free.every), units)
    given: Ints = np.clip(needed, 0, units)
    return given


def _earlier(cpus: CpuColumns, free: Ints) -> Bools:
    """Return whether the second of two zones comes before the first, by free CPUs: (zones, zones, rows).

    Restates sortAvailableNUMANodes: zones with fewer free CPUs come first; where zones share sockets, the
    zones of sockets with fewer free CPUs come first, and within a socket those with fewer themselves.
    """
    own = free.astype(np.int64)
    at = np.arange(len(own))[:, None]
    if shared := _shared_sockets(cpus.sockets):
        together = np.empty_like(own)
        for zones in shared:
            together[zones] = own[zones].sum(axis=0)
        socket = together * len(own) + np.array(cpus.sockets)[:, None]
        own = np.where(_numa_first(cpus), own, socket * (own.max(initial=0) + 1) + own)
    # Equally full units stay in the order of their ids.
    order = own * len(own) + at
    earlier: Bools = order < order[:, None]
    return earlier


def _numa_first(cpus: CpuColumns) -> Bools:
    """Return whether no two zones with CPUs share a socket, by row (`cpu_assignment._numa_first`)."""
    hosts = cpus.sizes > 0
    crowded = [hosts[zones].sum(axis=0) > 1 for zones in _shared_sockets(cpus.sockets)]
    return ~reduce(np.logical_or, crowded, np.zeros(hosts.shape[1], dtype=np.bool_))


def _shared_sockets(sockets: Sequence[int]) -> list[list[int]]:
    """Return the zones of each socket, in the order of sockets; none if no socket has several zones."""
    every = sorted(set(sockets))
    if len(every) == len(sockets):
        return []
    return [[zone for zone, other in enumerate(sockets) if other == socket] for socket in every]


def _left(counts: Ints, taken: Ints) -> Ints:
    """Return what is left of the first `counts` CPUs after the first `taken` ones are gone; all by core.

    A core that is split has fewer threads then. It is the only one of its zone with so few, because cores
    with fewer threads than others are used up before.
    """
    if not counts.any():
        return counts
    left = np.zeros_like(counts)
    for threads, (count, gone) in enumerate(zip(counts, taken, strict=True), start=1):
        remaining, broken = np.maximum(count - gone, 0), -gone % threads
        left[threads - 1] = np.maximum(remaining - broken, 0)
        for fewer in range(1, threads):
            left[fewer - 1] += np.where(broken == fewer, np.minimum(remaining, fewer), 0)
    return left
