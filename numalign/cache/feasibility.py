"""
Which nodes take a pod, for all nodes of a table at once.

The result of the kubelet's merge under a strict policy has a closed form (`kubelet.topology_manager`): all
resources need equally many zones by hardware, and some set of that many has enough of each. That is a
comparison of columns. Everything that needs more than that, several containers, or a best effort that failed
where memory is in use, is admitted step by step (`batch_admission`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from numalign.cache import batch_admission, batch_cpus, batch_intent
from numalign.cache.arrays import Bools, Rows
from numalign.cache.batch_admission import BatchAdmission
from numalign.cache.column_state import ColumnState
from numalign.cache.layout_kinds import Trait
from numalign.cache.plan import StepRequest, TablePlan
from numalign.cache.preferred_hint import PreferredHint, preferred_hint
from numalign.model.resources import CPU


class Admitted(NamedTuple):
    """Rows of a trial, their state, and the result for the pod there container by container."""

    rows: Rows
    state: ColumnState
    admission: BatchAdmission


@dataclass(frozen=True, eq=False)
class Trial:
    """A question on some rows of a table; the results are computed once."""

    state: ColumnState

    @property
    def plan(self) -> TablePlan:
        """The plan of the question."""
        return self.state.plan

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.state.count

    @cached_property
    def taken(self) -> Bools:
        """Which rows admit the pod, and satisfy its intent."""
        if self.plan.only_step is None:
            taken = np.zeros(self.count, dtype=np.bool_)
            for rows, _, _ in self._taken_in_steps:
                taken[rows] = True
            return taken
        taken, unsure = self._taken_alone(self._possible)
        if unsure.any():
            taken &= ~unsure
            for admitted in self.admitted_in_steps(unsure):
                taken[admitted.rows[self._kept(admitted)]] = True
        return taken

    @cached_property
    def never(self) -> Bools:
        """Which rows refuse the pod for what no use of them changes, if they are empty (`feasible`)."""
        strict, possible = self.state.has(Trait.STRICT), self._possible.copy()
        for request, rows in self._decided_alone():
            hinted = (self.hint if self.plan.only_step else preferred_hint(self.state, request)).exists
            possible &= ~rows | np.where(strict, hinted, fitting_everywhere(self.state, request))
        return ~possible

    @cached_property
    def _possible(self) -> Bools:
        """Which rows are large enough, and of a kind that may take the pod."""
        possible = large_enough(self.state)
        if any(self.plan.refused):
            possible &= ~self.state.flags(self.plan.refused)
        return possible

    def _decided_alone(self) -> Iterator[tuple[StepRequest, Bools]]:
        """Yield what a kubelet asks hints for: each container by itself or the pod, and on which rows."""
        together = self.state.has(Trait.TOGETHER)
        if self.plan.only_step:
            yield self.plan.only_step, np.ones(self.count, dtype=np.bool_)
            return
        for request in (*self.plan.steps, self.plan.whole):
            if not self.plan.hinted_for_nothing(request):
                yield request, together if request is self.plan.whole else ~together

    @cached_property
    def _taken_in_steps(self) -> tuple[Admitted, ...]:
        """The rows that take a pod of several containers."""
        return tuple(map(self._placement, self.admitted_in_steps(self._possible)))

    @cached_property
    def hint(self) -> PreferredHint:
        """What the only requesting container prefers; raise `ValueError` if there are several."""
        if self.plan.only_step is None:
            raise ValueError("several containers have no hint in common")
        return preferred_hint(self.state, self.plan.only_step)

    @cached_property
    def by_hint(self) -> Bools:
        """On which rows the pod gets all zones of its hint: no fewer could hold it."""
        if self.plan.only_step is None:
            return np.zeros(self.count, dtype=np.bool_)
        return self.taken & self.hint.exists & ~self.state.has(Trait.SILENT)

    def admitted_in_steps(self, wanted: Bools) -> tuple[Admitted, ...]:
        """Return the wanted rows, admitted container by container."""
        rows = np.flatnonzero(wanted)
        return tuple(self._admitted(rows)) if len(rows) else ()

    @cached_property
    def placed_in_steps(self) -> tuple[Admitted, ...]:
        """The same for rows that take the pod, but not by its hint; without refusals."""
        if self.plan.only_step is None:
            return self._taken_in_steps
        return tuple(map(self._placement, self.admitted_in_steps(self.taken & ~self.by_hint)))

    def _placement(self, admitted: Admitted) -> Admitted:
        """Return the rows that take the pod, with what they give it."""
        some = np.flatnonzero(self._kept(admitted))
        rows, state, admission = admitted
        return Admitted(rows[some], state.at(some), admission.placement(some))

    def _kept(self, admitted: Admitted) -> Bools:
        """Return which of these rows admit the pod, and satisfy its intent."""
        _, state, admission = admitted
        intent = self.plan.question.intent
        return admission.admitted & batch_intent.kept_in_steps(state, admission, intent)

    def _admitted(self, rows: Rows) -> Iterator[Admitted]:
        state = self.state.at(rows)
        for some, admission in batch_admission.admissions(state):
            yield (
                Admitted(rows, state, admission)
                if some is None
                else Admitted(rows[some], state.at(some), admission)
            )

    def _taken_alone(self, possible: Bools) -> tuple[Bools, Bools]:
        """Return which rows take a pod of one container, and where single zones do not decide that."""
        state, plan, request, hint = self.state, self.plan, self._request, self.hint
        taken = possible & hint.exists
        held = self.held_by_others
        if not plan.kinds.all(Trait.STRICT):
            # A best-effort kubelet fails only if all zones together have too little.
            enough = fitting_everywhere(state, request)
            taken = possible & np.where(state.has(Trait.STRICT), hint.exists, enough)
        if CPU in request.names and plan.kinds.any(Trait.WHOLE_CORES):
            taken &= ~breaks_cores(state, request)
        unsure = taken & held & ~state.has(Trait.STRICT)
        if not all(plan.kept_by_kubelet):
            asked = taken & ~state.flags(plan.kept_by_kubelet)
            kept, doubtful = batch_intent.kept_alone(state, hint, request, plan.question.intent)
            unsure |= asked & (doubtful | (held & ~kept))
            taken &= ~asked | kept
        return taken | unsure, unsure

    @cached_property
    def held_by_others(self) -> Bools:
        """Where memory is in use, and the single container is not served by its preferred hint."""
        used = self.state.memory_used() if self._request.memory else None
        if used is None or not used.any():
            return np.zeros(self.count, dtype=np.bool_)
        served = self.hint.exists & ~self.state.has(Trait.SILENT)
        return used & self.state.has(Trait.KEEPS_MEMORY) & ~served

    @property
    def _request(self) -> StepRequest:
        return self.plan.only_step or self.plan.whole


def large_enough(state: ColumnState) -> Bools:
    """Return whether the node as a whole has what the pod requests, by row."""
    plan = state.plan
    enough: Bools = np.ones(state.count, dtype=np.bool_)
    if plan.totals:
        names, amounts = zip(*plan.totals, strict=True)
        least = np.array(amounts)[:, None]
        enough = np.logical_and.reduce(plan.columns.totals(names, state.rows) >= least)
    return enough & ~state.has(Trait.TOTALS_KNOWN) if plan.unlisted else enough


def fitting_everywhere(state: ColumnState, request: StepRequest) -> Bools:
    """Return whether all zones together have what a step requests, by row."""
    if not request.names:
        return np.ones(state.count, dtype=np.bool_)
    return np.asarray(state.enough(request, state.zones)[0])


def breaks_cores(state: ColumnState, request: StepRequest) -> Bools:
    """Return where a kubelet that allocates only whole cores would have to split one, by row."""
    broken = np.zeros(state.count, dtype=np.bool_)
    at = request.names.index(CPU)
    concerned = state.has(Trait.WHOLE_CORES) & state.gives(CPU)
    for machine, some in state.alike(lambda layout: (layout.sockets, layout.config.threads)):
        rows = np.flatnonzero(concerned) if some is None else some[concerned[some]]
        if len(rows):
            cpus = batch_admission.cpus_of(state.at(rows), *machine)
            broken[rows] = batch_cpus.breaks_cores(cpus, request.amounts[at])
    return broken
