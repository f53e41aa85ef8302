"""
The CPU manager under policy static on many nodes at once.

Restates `kubelet.cpu_manager` and, of `kubelet.cpu_assignment`, the packing that the kubelet does by default;
both name the kubelet's functions. All rows of a call have as many zones, the same sockets and as many threads
in a core. Zones, sockets and cores are even, as they are on most machines that are assumed of counts.

CPUs are counted by core (`CpuColumns`), which decides everything: of the cores of a zone that have as many
threads to give, the kubelet takes the lowest ones first, and in each of them the lowest threads. So what is
special about some of these threads (an init container had them, their core keeps one for the system) is a
number as well, for they are always the first ones, whatever was taken before. A core that is broken into is
the only one with so few threads left, for the kubelet breaks into none before it has used up all that have
fewer. No row is ever unsure.
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
    below `zones` for each zone; sockets come in the order of these numbers.

    The others are (threads, zones, rows), where [i] counts the CPUs in cores of which i + 1 threads are
    available. `available` are those that a container of this pod could get, `reusable` those of them that
    were given to its init containers, none at first. `split` are the available ones whose core keeps another
    thread for the system; only `breaks_cores` asks for them. Arrays are never changed in place.
    """

    sizes: Ints
    sockets: tuple[int, ...]
    available: Ints
    reusable: Ints
    split: Ints

    @property
    def zones(self) -> int:
        """How many zones each of the nodes has."""
        return len(self.sizes)

    def at(self, rows: Rows) -> "CpuColumns":
        """Return the same of some of these rows."""
        return CpuColumns(
            self.sizes[:, rows],
            self.sockets,
            self.available[..., rows],
            self.reusable[..., rows],
            self.split[..., rows],
        )

    def charged(self, taken: Ints, role: Role) -> "CpuColumns":
        """Return the columns after a container got these CPUs, by core (`CpuState.charged`)."""
        if role is Role.INIT:
            # Of the CPUs that are available every container takes the first ones, so sets of them are nested.
            reusable = np.maximum(self.reusable, taken)
            return CpuColumns(self.sizes, self.sockets, self.available, reusable, self.split)
        left = (_left(counts, taken) for counts in (self.available, self.reusable, self.split))
        return CpuColumns(self.sizes, self.sockets, *left)


class CpuAllocation(NamedTuple):
    """What becomes of a container, by row.

    `taken` counts the CPUs that it gets from each zone, (zones, rows). Where it is not `ok` the kubelet finds
    too few (UNEXPECTED_ADMISSION): there it gets none, and `after` is what was before.
    """

    after: CpuColumns
    taken: Ints
    ok: Bools


def hints(cpus: CpuColumns, request: int) -> Bools:
    """The sets of zones that could serve a request of at least 1 (generateCPUTopologyHints): (2^zones, rows).

    There is none where the manager calls the request impossible. Which of them are preferred is for their
    width to say.
    """
    possible = batch_hint_sets.reaching(cpus.available.sum(axis=0), request)
    hosts: Bools = cpus.sizes > 0
    if not hosts.all():
        possible &= batch_hint_sets.apart(batch_hint_sets.masks(~hosts), cpus.zones)
    if cpus.reusable.any():
        # A set that leaves out a zone of reusable CPUs is skipped, even where it has enough without them.
        possible &= batch_hint_sets.around(batch_hint_sets.masks(cpus.reusable.sum(axis=0) > 0), cpus.zones)
    return possible


def allocate(cpus: CpuColumns, request: Ints | int, mask: Ints, role: Role) -> CpuAllocation:
    """Return the CPUs that a container gets on each row, and the columns after it (Allocate).

    `request` is one number or one per row, 0 where it asks for none. `mask` is its affinity as bits by row,
    or -1 where none is stored. Those of its affinity come first, and what is missing then from anywhere.
    `full-pcpus-only` is for `breaks_cores` to tell before.
    """
    ok = np.asarray(cpus.available.sum(axis=(0, 1)) >= request)
    needed = np.where(ok, request, 0)
    # -1 has all bits, and whoever may take from all zones takes as if nothing was aligned.
    near = cpus.available * batch_hint_sets.members(mask, cpus.zones)
    first = np.minimum(needed, near.sum(axis=(0, 1)))
    taken = _numa_packed(cpus, near, first)
    beyond = np.flatnonzero(needed > first)
    if len(beyond):
        # This is how best-effort goes beyond its affinity: the rest is taken as if it were asked for alone.
        far = (cpus.available - near)[..., beyond]
        taken[..., beyond] += _numa_packed(cpus.at(beyond), far, (needed - first)[beyond])
    return CpuAllocation(cpus.charged(taken, role), taken.sum(axis=0), ok)


def breaks_cores(cpus: CpuColumns, request: int) -> Bools:
    """Return whether `full-pcpus-only` refuses a request (SMT_ALIGNMENT), by row; asked before `allocate`.

    Neither CPUs of init containers count here nor those whose core keeps a thread for the system.
    """
    threads = len(cpus.available)
    whole = cpus.available - cpus.reusable - np.maximum(cpus.split - cpus.reusable, 0)
    refused: Bools = (whole.sum(axis=(0, 1)) < request) | (request % threads > 0)
    return refused


def last_ones(free: Ints, threads: int) -> Ints:
    """CPUs by core, (threads, zones, rows), where the last ones of each zone are free: (zones, rows).

    That is how free CPUs stand on an assumed machine of which only amounts are known
    (`assumed_machine.free_cpus`). Those of them that are `split` are the last ones too: of F free ones,
    where A of a zone are allocatable, they are max(0, F - A // threads * threads).
    """
    by_core = np.zeros((threads, *free.shape), dtype=free.dtype)
    rest = free % threads
    for left in range(1, threads):
        by_core[left - 1] = np.where(rest == left, left, 0)
    by_core[-1] += free - rest
    return by_core


def by_core(topology: CpuTopology, cpus: CpuSet, threads: int) -> Ints:
    """CPUs of one node by core, (threads, zones), wherever they stand; its cores have so many threads.

    Of what a node has free, `cpu_manager.whole_cores` tells which ones are not `split`.
    """
    counts = np.zeros((threads, len(topology.zones)), dtype=np.int64)
    for at, zone in enumerate(topology.zones):
        for core in topology.cores:
            if held := (core & zone & cpus).bit_count():
                counts[held - 1, at] += held
    return counts


# Which CPUs are taken: takeByTopologyNUMAPacked.


class _FreeCpus(NamedTuple):
    """What can be taken, by zone: CPUs of cores whose threads are all free, and those of `broken` cores."""

    whole: Ints
    broken: Ints

    @property
    def every(self) -> Ints:
        """All free CPUs of each zone."""
        return self.whole + self.broken


_TakeStep = Callable[[CpuColumns, _FreeCpus, Ints], Ints]
"""The CPUs of each zone that one step takes in whole cores, while so many are needed on each row."""


def _numa_packed(cpus: CpuColumns, free: Ints, needed: Ints) -> Ints:
    """Each step takes what it can of what the steps before it left, as `cpu_assignment._numa_packed`.

    What is free and what is taken is by core, (threads, zones, rows); no row needs more than it has free.
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
    """Sockets whose CPUs are all free, the lowest first."""
    taken = np.zeros_like(free.whole)
    # Where each zone is a socket, zones come first, and leave no socket that is free and not too large.
    missing = np.where(_numa_first(cpus), 0, needed)
    for zones in _shared_sockets(cpus.sockets):
        size, whole = cpus.sizes[zones].sum(axis=0), free.whole[zones]
        full = (whole.sum(axis=0) == size) & (size > 0) & (size <= missing)
        taken[zones] = whole * full
        missing = missing - size * full
    return taken


def _full_numa_nodes(cpus: CpuColumns, free: _FreeCpus, needed: Ints) -> Ints:
    """Zones whose CPUs are all free, so none that keeps a reserved one."""
    size = cpus.sizes.max(axis=0)
    full = (free.whole == cpus.sizes) & (cpus.sizes > 0) & (size <= needed)
    taken: Ints = np.zeros_like(free.whole)
    if full.any():
        taken = _in_turn(cpus, free, full.astype(taken.dtype), needed // np.maximum(size, 1)) * size
    return taken


def _full_cores(cpus: CpuColumns, free: _FreeCpus, needed: Ints) -> Ints:
    """Cores whose threads are all free, zone by zone."""
    threads = len(cpus.available)
    return _in_turn(cpus, free, free.whole // threads, needed // threads) * threads


_STEPS: Sequence[_TakeStep] = (_full_sockets, _full_numa_nodes, _full_cores)


def _remaining_cpus(cpus: CpuColumns, free: Ints, needed: Ints) -> Ints:
    """Single threads by core, zone by zone, those of cores first of which the fewest are left."""
    left = _FreeCpus(free[-1], free[:-1].sum(axis=0))
    taken, missing = np.zeros_like(free), _in_turn(cpus, left, left.every, needed)
    for at, threads in enumerate(free):
        taken[at] = np.minimum(threads, missing)
        missing = missing - taken[at]
    return taken


def _in_turn(cpus: CpuColumns, free: _FreeCpus, units: Ints, needed: Ints) -> Ints:
    """Return how many units each zone gives, where so many are needed and zones give one after the other."""
    if np.count_nonzero(units, axis=0).max(initial=0) > 1:
        needed = needed - np.einsum("ijr,jr->ir", _earlier(cpus, free.every), units)
    given: Ints = np.clip(needed, 0, units)
    return given


def _earlier(cpus: CpuColumns, free: Ints) -> Bools:
    """Whether the second of two zones comes before the first, (zones, zones, rows), by what is free in each.

    Restates sortAvailableNUMANodes: by how few CPUs are free in a zone or, where zones share sockets, in its
    socket and then in the zone.
    """
    own = free.astype(np.int64)
    at = np.arange(len(own))[:, None]
    if shared := _shared_sockets(cpus.sockets):
        together = np.empty_like(own)
        for zones in shared:
            together[zones] = own[zones].sum(axis=0)
        socket = together * len(own) + np.array(cpus.sockets)[:, None]
        own = np.where(_numa_first(cpus), own, socket * (own.max(initial=0) + 1) + own)
    # Units that are as full stay in the order of their ids.
    order = own * len(own) + at
    earlier: Bools = order < order[:, None]
    return earlier


def _numa_first(cpus: CpuColumns) -> Bools:
    """Return whether no two zones with CPUs share a socket, by row (`cpu_assignment._numa_first`)."""
    hosts = cpus.sizes > 0
    crowded = [hosts[zones].sum(axis=0) > 1 for zones in _shared_sockets(cpus.sockets)]
    return ~reduce(np.logical_or, crowded, np.zeros(hosts.shape[1], dtype=np.bool_))


def _shared_sockets(sockets: Sequence[int]) -> list[list[int]]:
    """The zones of each socket, in the order of sockets; none at all if each zone has one of its own."""
    every = sorted(set(sockets))
    if len(every) == len(sockets):
        return []
    return [[zone for zone, other in enumerate(sockets) if other == socket] for socket in every]


def _left(counts: Ints, taken: Ints) -> Ints:
    """Return what is left of the first so many CPUs by core, once the first so many were taken; all by core.

    A core that is broken into has fewer threads then. It is the only one in its zone that has so few, since
    cores that have fewer than others are used up before.
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
