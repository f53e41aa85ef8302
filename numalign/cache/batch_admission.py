"""
The admission of one pod on many nodes at once, container by container.

Restates `kubelet.admit`: what the topology manager decides and what the three managers then allocate, for
nodes with equally many zones, in columns. This handles the cases that amounts of single zones do not decide:
several containers, best effort that fails, memory that others hold. No row is left to the rules.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import and_
from typing import NamedTuple

import numpy as np

from numalign.cache import (
    batch_cpus,
    batch_devices,
    batch_hint_sets,
    batch_memory,
    batch_merge,
    batch_scores,
)
from numalign.cache.arrays import Bools, Ints, Rows
from numalign.cache.batch_cpus import CpuColumns
from numalign.cache.batch_devices import DeviceColumns
from numalign.cache.batch_memory import MemoryColumns
from numalign.cache.column_state import ColumnState
from numalign.cache.columns import CORES, EVER, GROUPS, SIZES, SPLIT, USED, When
from numalign.cache.layout import COUNTED_THREADS, Layout
from numalign.cache.layout_kinds import Trait
from numalign.cache.plan import StepRequest
from numalign.cache.widths import widths_of
from numalign.kubelet.numa_scores import Ties
from numalign.kubelet.topology_manager import NumaInfo
from numalign.model.pod import Role
from numalign.model.resources import CPU, Kind, kind

NO_AFFINITY = -1
"""In place of a set of zones: the topology manager stores no affinity for the container."""


class Failure(NamedTuple):
    """Why rows fail: no affinity, whole cores that would be split, or resources that cannot be allocated."""

    step: StepRequest
    at: int
    rows: Bools
    lacking: tuple[str, ...] = ()
    breaks_cores: bool = False


@dataclass(frozen=True, eq=False)
class Managers:
    """The state of the managers of some nodes while a pod is admitted (`managers_state.ManagersState`)."""

    cpus: CpuColumns
    memory: MemoryColumns
    devices: Mapping[str, DeviceColumns]

    def free_or(self, name: str, otherwise: Ints) -> Ints:
        """Return what each zone has free of a resource, or another amount of one that is not requested."""
        requested = name == CPU or name in self.memory.free or name in self.devices
        return self.free(name) if requested else otherwise

    def free(self, name: str) -> Ints:
        """Return what each zone has free of a resource, in the unit of columns: (zones, rows)."""
        if name == CPU:
            cpus: Ints = (self.cpus.available - self.cpus.reusable).sum(axis=0)
            return cpus
        if kind(name) is Kind.MEMORY:
            return self.memory.free.get(name, np.zeros_like(self.memory.cells))
        return self.devices[name].free


class BatchDecision(NamedTuple):
    """The topology manager's decision by row: the affinity, or `NO_AFFINITY`, and whether it admits."""

    mask: Ints
    preferred: Bools
    admitted: Bools


@dataclass(frozen=True, eq=False)
class BatchGrant:
    """What one container gets by row: whether it is `preferred`, and the zones of each resource by name."""

    step: StepRequest
    preferred: Bools
    zones: Mapping[str, Ints]

    def zones_of(self, names: Iterable[str]) -> Ints:
        """Return all zones from which the container gets any of these resources, as bits by row."""
        held = np.zeros(len(self.preferred), dtype=np.int64)
        for name in names:
            if name in self.zones:
                held |= self.zones[name]
        return held


@dataclass(frozen=True, eq=False)
class BatchAdmission:
    """The admission of a pod on some rows: which `admitted` it, with which grants, and why others fail.

    `before` is the state of the managers before each step.
    """

    admitted: Bools
    grants: tuple[BatchGrant, ...]
    failures: tuple[Failure, ...]
    before: tuple[Managers, ...]

    def placement(self, rows: Rows) -> "BatchAdmission":
        """Return the same for some of these rows, without what only refusals need, which is most of it."""
        grants = (
            replace(
                grant,
                preferred=grant.preferred[rows],
                zones={name: held[rows].astype(np.uint8) for name, held in grant.zones.items()},
            )
            for grant in self.grants
        )
        return BatchAdmission(self.admitted[rows], tuple(grants), (), ())

    @cached_property
    def zones(self) -> Ints:
        """The zones in which the pod holds anything once its containers run, as bits by row."""
        held = np.zeros(len(self.admitted), dtype=np.int64)
        for grant in self.grants:
            # Of all that init containers get, only memory is released when they have finished.
            gone = grant.step.step.role is Role.INIT and len(self.grants) > 1
            held |= grant.zones_of(name for name in grant.zones if not (gone and kind(name) is Kind.MEMORY))
        return held


def admissions(state: ColumnState) -> Iterator[tuple[Rows | None, BatchAdmission]]:
    """Yield the admission on rows with the same kind of machine, with these rows; None means all."""
    for machine, rows in state.alike(_machine):
        some = state if rows is None else state.at(rows)
        yield rows, _Admitting(some, machine).admit()


class _Machine(NamedTuple):
    """What the columns of one call have in common."""

    sockets: tuple[int, ...]
    threads: int
    numa: NumaInfo
    ties: Ties | None


def _machine(layout: Layout) -> _Machine:
    return _Machine(layout.sockets, layout.config.threads, layout.numa, layout.ties)


def managers_of(state: ColumnState, sockets: tuple[int, ...], threads: int) -> Managers:
    """Return the state of the managers before the pod's first container."""
    plan = state.plan
    names = {name for request in (plan.whole, *plan.steps) for name in request.names}
    memory = sorted(name for name in names if kind(name) is Kind.MEMORY)
    devices = sorted(name for name in names if kind(name) is Kind.DEVICE)
    return Managers(
        cpus_of(state, sockets, threads),
        _memory(state, memory),
        {name: _devices(state, name) for name in devices},
    )


def cpus_of(state: ColumnState, sockets: tuple[int, ...], threads: int) -> CpuColumns:
    """Return the CPUs of rows whose machines have these sockets, and so many threads per core."""
    columns, free = state.plan.columns, state.free(CPU)
    split = np.zeros((threads, *free.shape), dtype=np.int64)
    available = batch_cpus.last_ones(free, threads)
    if threads == COUNTED_THREADS:
        cores = columns.of(state.when, CORES, state.rows) * threads
        available = np.stack([free - cores, cores])
        # The other thread of such a core is reserved for the system.
        split[0] = columns.of(state.when, SPLIT, state.rows)
    elif columns.counts_cores:
        split = batch_cpus.last_ones(columns.of(state.when, SPLIT, state.rows), threads)
    sizes = columns.of(EVER, SIZES, state.rows)
    return CpuColumns(sizes, sockets, available, np.zeros_like(available), split)


def _memory(state: ColumnState, names: Sequence[str]) -> MemoryColumns:
    empty = ColumnState(state.plan, When.EMPTY, state.rows)
    zones, columns = state.zones, state.plan.columns
    alone = np.broadcast_to(1 << np.arange(zones)[:, None], (zones, state.count))
    now = state.when is When.NOW
    return MemoryColumns(
        {name: empty.free(name) for name in names},
        {name: state.free(name) for name in names},
        columns.of(When.NOW, GROUPS, state.rows) if now else alone,
        columns.of(When.NOW, USED, state.rows)[0] if now else np.zeros(state.count, dtype=np.int64),
    )


def _devices(state: ColumnState, name: str) -> DeviceColumns:
    plan, free = state.plan, state.free(name)
    listed = plan.columns.has(name)
    hosts = plan.columns.hosts((name,), state.rows)[0] if listed else np.zeros(state.count, dtype=np.int64)
    most = ColumnState(plan, When.EMPTY, state.rows).free(name)
    # A plugin has registered where a node has devices by hardware.
    return DeviceColumns(
        free, np.zeros_like(free), hosts, state.has(Trait.NEAR), np.asarray(most.any(axis=0))
    )


class _Admitting:
    """The admission of one pod on rows with the same kind of machine."""

    def __init__(self, state: ColumnState, machine: _Machine) -> None:
        self._state, self._plan, self._numa, self._ties = state, state.plan, machine.numa, machine.ties
        self._full = (1 << state.zones) - 1
        self._managers = managers_of(state, machine.sockets, machine.threads)
        self._alive = np.ones(state.count, dtype=np.bool_)
        self._failures: list[Failure] = []
        self._grants: list[BatchGrant] = []
        self._before: list[Managers] = []

    def admit(self) -> BatchAdmission:
        """Admit one container after another, each with its own affinity unless they share one."""
        whole = self._of_the_pod()
        for at, request in enumerate(self._plan.steps):
            self._before.append(self._managers)
            self._allocate(at, request, self._of_the_container(at, request, whole))
        return BatchAdmission(self._alive, tuple(self._grants), tuple(self._failures), tuple(self._before))

    def _of_the_pod(self) -> BatchDecision | None:
        """Return the decision on the pod as a whole, which counts in pod scope; None if no row has that."""
        if not self._together.any():
            return None
        decision = self._decide(self._plan.whole)
        self._fail(Failure(self._plan.whole, 0, self._together & ~decision.admitted))
        return decision

    def _of_the_container(self, at: int, request: StepRequest, whole: BatchDecision | None) -> BatchDecision:
        """Return the decision on one container; in pod scope, that on the pod."""
        if whole is not None and self._together.all():
            return whole
        own = self._decide(request)
        self._fail(Failure(request, at, ~self._together & ~own.admitted))
        if whole is None:
            return own
        mixed = (np.where(self._together, one, other) for one, other in zip(whole, own, strict=True))
        return BatchDecision(*mixed)

    @cached_property
    def _together(self) -> Bools:
        return self._state.has(Trait.TOGETHER)

    def _fail(self, failure: Failure) -> None:
        rows = failure.rows & self._alive
        if rows.any():
            self._failures.append(failure._replace(rows=rows))
            self._alive = self._alive & ~rows

    # The topology manager's decisions.

    def _decide(self, request: StepRequest) -> BatchDecision:
        """Return the merge of all providers' hints, as `admit._decide` does."""
        state, count = self._state, self._state.count
        hints = [*self._hints(request)]
        mask = np.full(count, self._full, dtype=np.int64)
        preferred = admitted = np.ones(count, dtype=np.bool_)
        if hints:
            counted = np.logical_or.reduce([each.counted for each in hints])
            best = self._preferred(hints)
            preferred = ~counted | (best > 0)
            mask = np.where(counted, best, self._full)
            admitted = preferred | ~state.has(Trait.STRICT)
            rest = np.flatnonzero(~preferred & admitted & ~state.has(Trait.SILENT))
            if len(rest):
                lists = [(each.possible & each.counted).take(rest, axis=1) for each in hints]
                mask[rest] = batch_merge.best_not_preferred(lists, self._numa)
        # An affinity to all zones is stored as none (policy_single_numa_node.go).
        mask = np.where(state.has(Trait.SINGLE) & (mask == self._full), NO_AFFINITY, mask)
        silent = state.has(Trait.SILENT)
        return BatchDecision(np.where(silent, NO_AFFINITY, mask), preferred & ~silent, admitted | silent)

    def _preferred(self, hints: Sequence["_Hints"]) -> Ints:
        """Return the best set that every resource prefers, by row; 0 where there is none."""
        lists = [each.preferred(self._state) for each in hints]
        if self._ties is None:
            return batch_merge.preferred(lists, self._numa)
        names = [each.name for each in hints]
        # Memory without hints does not count for a kubelet, which rejects the pod whatever its zones.
        uses = {
            name: use._replace(free=self._managers.free_or(name, use.free))
            for name, use in batch_scores.uses(self._state, self._ties, names).items()
        }
        sets = np.arange(1, self._full + 1)
        return batch_scores.first(sets, reduce(and_, lists)[1:], self._numa, self._ties, uses)

    def _hints(self, request: StepRequest) -> Iterator["_Hints"]:
        """Yield the hints for each resource that has any: devices, CPUs, and memory by name."""
        widths = widths_of(self._state, request)
        for name, amount, width in zip(request.names, request.amounts, widths, strict=True):
            counted = self._state.gives(name)
            if name == CPU:
                yield _Hints(name, batch_cpus.hints(self._managers.cpus, amount), width, counted)
            elif kind(name) is Kind.DEVICE:
                yield _Hints(name, batch_devices.hints(self._managers.devices[name], amount), width, counted)
        if request.memory:
            possible, width = batch_memory.hints(self._managers.memory, request.memory)
            # Each name has its own list, and hints of two equal lists can intersect in another set of zones.
            counted = self._keeps_memory & possible.any(axis=0)
            yield from (_Hints(name, possible, width, counted) for name in request.memory)

    @cached_property
    def _keeps_memory(self) -> Bools:
        return self._state.has(Trait.KEEPS_MEMORY)

    # The managers' allocations.

    def _allocate(self, at: int, request: StepRequest, decision: BatchDecision) -> None:
        """Let each manager allocate what a step requests, in the kubelet's order, as `admit._allocate`."""
        zones = dict[str, Ints]()
        for name in sorted(name for name in request.names if kind(name) is Kind.DEVICE):
            zones[name] = self._allocate_devices(at, request, name, decision.mask)
        if CPU in request.names:
            zones[CPU] = self._allocate_cpus(at, request, decision.mask)
        if request.step.managed:
            held = self._allocate_memory(at, request, decision)
            zones |= dict.fromkeys(request.memory, held)
        self._grants.append(BatchGrant(request, decision.preferred, zones))

    def _asked(self, request: StepRequest, name: str) -> tuple[int, Bools]:
        """Return the requested amount of a resource, and on which rows it counts."""
        at = request.names.index(name)
        return request.amounts[at], self._state.gives(name)

    def _allocate_devices(self, at: int, request: StepRequest, name: str, mask: Ints) -> Ints:
        amount, counted = self._asked(request, name)
        found = batch_devices.allocate(
            self._managers.devices[name], np.where(counted, amount, 0), mask, request.step.role
        )
        self._fail(Failure(request, at, counted & ~found.ok, (name,)))
        self._managers = replace(self._managers, devices={**self._managers.devices, name: found.after})
        return batch_hint_sets.masks(found.taken > 0)

    def _allocate_cpus(self, at: int, request: StepRequest, mask: Ints) -> Ints:
        amount, counted = self._asked(request, CPU)
        whole = self._state.has(Trait.WHOLE_CORES)
        if whole.any():
            broken = batch_cpus.breaks_cores(self._managers.cpus, amount)
            self._fail(Failure(request, at, counted & whole & broken, (CPU,), breaks_cores=True))
        found = batch_cpus.allocate(
            self._managers.cpus, np.where(counted, amount, 0), mask, request.step.role
        )
        self._fail(Failure(request, at, counted & ~found.ok, (CPU,)))
        self._managers = replace(self._managers, cpus=found.after)
        return batch_hint_sets.masks(found.taken > 0)

    def _allocate_memory(self, at: int, request: StepRequest, decision: BatchDecision) -> Ints:
        found = batch_memory.allocate(
            self._managers.memory, request.step, decision.mask, decision.preferred, self._keeps_memory
        )
        self._fail(Failure(request, at, ~found.ok, tuple(request.step.memory)))
        self._managers = replace(self._managers, memory=found.after)
        return found.mask


class _Hints(NamedTuple):
    """The sets of zones that can serve a resource, the preferred width, and on which rows it counts."""

    name: str
    possible: Bools
    width: Ints
    counted: Bools

    def preferred(self, state: ColumnState) -> Bools:
        """Return the preferred sets; all where it does not count, single zones under single-numa-node."""
        wanted = np.where(state.has(Trait.SINGLE), np.where(self.width == 1, 1, 0), self.width)
        return batch_hint_sets.of_width(self.possible, wanted) | ~self.counted
