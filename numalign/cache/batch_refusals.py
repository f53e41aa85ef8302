"""
Why nodes refuse a pod, in columns: the refusals of many nodes, each once.

Restates `decision.evaluate.refusal_of` and `_by_placement`, without what a single node has: a scheduler
counts nodes together by the request and the kind of refusal (`wording.reason`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from numalign.cache import batch_intent
from numalign.cache.arrays import Bools, Ints, Rows
from numalign.cache.batch_admission import Failure, Managers
from numalign.cache.column_state import ColumnState
from numalign.cache.columns import sums_of
from numalign.cache.feasibility import Admitted, Trial, fitting_everywhere
from numalign.cache.layout_kinds import Trait
from numalign.cache.plan import LayoutPlan, StepRequest, concerned
from numalign.cache.preferred_hint import preferred_hint
from numalign.cache.widths import widths_of
from numalign.decision.evaluate import UNSATISFIED
from numalign.decision.verdict import Cause, Need, Refusal, Refuser
from numalign.kubelet.admission_errors import RejectionReason
from numalign.model.intent import Policy
from numalign.model.resources import CPU, MILLI, NODE_LEVEL, Kind, kind

Refused = tuple[Rows, Refusal]
"""Rows with an equal refusal, and the refusal; its needs have no `most`, and the largest width of all."""

_MOST_WIDTHS = 16
"""More zones than any node in columns has."""

_CAUSES = (Cause.ZONES_TOO_SMALL, Cause.WIDTHS_DIFFER, Cause.SPREAD, Cause.NOT_TOGETHER)


def refusals(trial: Trial, wanted: Bools) -> Iterator[Refused]:
    """Yield the refusals of the wanted rows, without rows that admit the pod."""
    rest = wanted & ~trial.taken
    for find in (_too_small, _by_kind):
        for rows, refusal in find(trial, rest):
            rest[rows] = False
            yield rows, refusal
    if trial.plan.only_step:
        for rows, refusal in _alone(trial, trial.plan.only_step, rest.copy()):
            rest[rows] = False
            yield rows, refusal
    for admitted in trial.admitted_in_steps(rest):
        yield from _in_steps(admitted)


# The node as a whole, and its kind.


def _too_small(trial: Trial, wanted: Bools) -> Iterator[Refused]:
    """Yield refusals of nodes that as a whole have too little of some resources (`evaluate._too_large`)."""
    plan, state = trial.plan, trial.state
    rows = np.flatnonzero(wanted)
    if not len(rows):
        return
    total, overhead = plan.question.demand.total, plan.question.demand.overhead
    some, short = state.at(rows), np.zeros((len(total), len(rows)), dtype=np.bool_)
    for at, (name, amount) in enumerate(total.items()):
        if plan.columns.has_total(name):
            short[at] = plan.columns.totals((name,), some.rows)[0] < amount
        elif name not in NODE_LEVEL:
            short[at] = some.has(Trait.TOTALS_KNOWN)
    lacking = np.flatnonzero(short.any(axis=0))
    if not len(lacking):
        return
    different, which = np.unique(short[:, lacking], axis=1, return_inverse=True)
    for at, names in enumerate(different.T):
        these = lacking[which.reshape(-1) == at]
        needs = tuple(
            Need(name, amount, state.zones, 0, overhead.get(name, 0))
            for (name, amount), lacks in zip(total.items(), names, strict=True)
            if lacks
        )
        for policy, chosen in _by_policy(some.at(these), these):
            reason = f"OutOf{needs[0].resource}"
            yield rows[chosen], Refusal(Refuser.NODE, reason, Cause.NODE_TOO_SMALL, policy, needs=needs)


def _by_policy(state: ColumnState, rows: Rows) -> Iterator[tuple[Policy, Rows]]:
    policies = [plan.config.policy for plan in state.plan.every]
    for policy in dict.fromkeys(policies):
        meant = [each is policy for each in policies]
        chosen = rows[state.flags(meant)]
        if len(chosen):
            yield policy, chosen


def _by_kind(trial: Trial, wanted: Bools) -> Iterator[Refused]:
    """Yield the refusals of nodes of a kind that refuses the pod, whatever they have."""
    for number, plan in trial.plan.plans:
        if plan.refused:
            rows = np.flatnonzero(wanted & (trial.state.kinds == number))
            if len(rows):
                yield rows, plan.refused


class _Moment(NamedTuple):
    """Rows, and what is free in their zones, in the unit of a resource: (zones, rows)."""

    state: ColumnState
    raw: Callable[[str], Ints]


# A single container, where amounts of zones decide.


def _alone(trial: Trial, request: StepRequest, wanted: Bools) -> Iterator[Refused]:
    """Yield the refusals of a pod of one container, on rows where memory in use does not matter."""
    state, hint = trial.state, trial.hint
    certain = wanted & ~trial.held_by_others & ~state.has(Trait.WHOLE_CORES)
    strict, unserved = state.has(Trait.STRICT), certain & _memory_fails(state, request)
    enough = strict | fitting_everywhere(state, request)
    not_aligned = certain & strict & ~hint.exists & ~unserved
    not_kept = certain & enough & (~strict | hint.exists)
    intent, start = trial.plan.question.intent, _Moment(state, state.raw)
    for terms, rows in _by_terms(state, request):
        if unserved[rows].any():
            memory = tuple(request.memory)
            yield rows[unserved[rows]], _unallocated(request, memory, terms.policy, state.zones)
        lacking = rows[(certain & ~enough)[rows]]
        yield from _not_allocated_alone(state, request, terms.policy, lacking)
        for some, cause, needs in _causes(start, request, terms, rows[not_aligned[rows]]):
            yield some, _misaligned(cause, terms.policy, needs)
        meant = _PolicyTerms(intent.policy, frozenset(filter(intent.concerns, terms.names)))
        for some, cause, needs in _causes(start, request, meant, rows[not_kept[rows]]):
            yield some, _unsatisfied(cause, intent.policy, needs)


def _memory_fails(state: ColumnState, request: StepRequest) -> Bools:
    """Return where a strict kubelet aligns all other resources, and no set of zones has the memory.

    The memory manager then returns no hints, and fails to allocate.
    """
    fails = np.zeros(state.count, dtype=np.bool_)
    if not request.memory:
        return fails
    short = state.has(Trait.STRICT) & ~fitting_everywhere(state, request.only(request.memory))
    rows, others = np.flatnonzero(short), [name for name in request.names if name not in request.memory]
    if len(rows):
        fails[rows] = preferred_hint(state.at(rows), request.only(others)).exists
    return fails


class _PolicyTerms(NamedTuple):
    """A policy, and the resources of a step to which it applies."""

    policy: Policy
    names: frozenset[str]


def _by_terms(state: ColumnState, request: StepRequest) -> Iterator[tuple[_PolicyTerms, Rows]]:
    """Yield each policy with the resources that it aligns for a step, and the rows with both."""
    terms = [
        _PolicyTerms(plan.config.policy, plan.aligned.intersection(request.names))
        for plan in state.plan.every
    ]
    for each in dict.fromkeys(terms):
        yield each, np.flatnonzero(state.flags([other == each for other in terms]))


def _not_allocated_alone(
    state: ColumnState, request: StepRequest, policy: Policy, rows: Rows
) -> Iterator[Refused]:
    """Yield the refusals of kubelets that are not strict, by the first resource they cannot allocate."""
    devices = sorted(name for name in request.names if kind(name) is Kind.DEVICE)
    pieces = [(name,) for name in (*devices, CPU) if name in request.names]
    for names in (*pieces, tuple(request.memory)):
        if len(rows) and names:
            enough = fitting_everywhere(state.at(rows), request.only(names))
            if not enough.all():
                yield rows[~enough], _unallocated(request, names, policy, state.zones)
            rows = rows[enough]


# Refusals by the kubelet and by the pod's intent, container by container.


def _after(state: ColumnState, start: Managers, now: Managers) -> _Moment:
    """Return the moment after earlier containers of the pod were allocated resources."""

    def raw(name: str) -> Ints:
        spent = start.free(name) - now.free(name)
        return state.raw(name) - (spent * MILLI if name == CPU else spent)

    return _Moment(state, raw)


def _in_steps(admitted: Admitted) -> Iterator[Refused]:
    rows, state, admission = admitted
    start = admission.before[0]
    for failure in admission.failures:
        for some, refusal in _failed(failure, _after(state, start, admission.before[failure.at])):
            yield rows[some], refusal
    kept = np.ones(state.count, dtype=np.bool_)
    intent = state.plan.question.intent
    for plan, request, meant, too_wide in batch_intent.units_too_wide(state, admission, intent):
        first = meant[too_wide & kept[meant] & admission.admitted[meant]]
        kept[first] = False
        terms = _PolicyTerms(intent.policy, concerned(plan, request.step, intent))
        for some, cause, needs in _causes(_Moment(state, state.raw), request, terms, first):
            yield rows[some], _unsatisfied(cause, intent.policy, needs)


def _failed(failure: Failure, moment: _Moment) -> Iterator[Refused]:
    """Yield the refusals for a failure, kind by kind."""
    request, state = failure.step, moment.state
    for number, plan in state.plan.plans:
        rows, policy = np.flatnonzero(failure.rows & (state.kinds == number)), plan.config.policy
        if not len(rows):
            continue
        if failure.breaks_cores:
            yield rows, _broken_cores(request, plan, state.zones)
        elif failure.lacking:
            yield rows, _unallocated(request, failure.lacking, policy, state.zones)
        else:
            terms = _PolicyTerms(policy, plan.aligned.intersection(request.names))
            for some, cause, needs in _causes(moment, request, terms, rows):
                yield some, _misaligned(cause, policy, needs)


def _misaligned(cause: Cause, policy: Policy, needs: tuple[Need, ...]) -> Refusal:
    return Refusal(Refuser.KUBELET, RejectionReason.TOPOLOGY_AFFINITY, cause, policy, needs=needs)


def _unsatisfied(cause: Cause, policy: Policy, needs: tuple[Need, ...]) -> Refusal:
    return Refusal(Refuser.INTENT, UNSATISFIED, cause, policy, needs=needs)


def _unallocated(request: StepRequest, names: Iterable[str], policy: Policy, zones: int) -> Refusal:
    requests, reason = request.step.requests, RejectionReason.UNEXPECTED_ADMISSION
    needs = tuple(Need(name, requests.get(name, 0), zones, 0) for name in names)
    return Refusal(Refuser.KUBELET, reason, Cause.NOT_ALLOCATED, policy, needs=needs)


def _broken_cores(request: StepRequest, plan: LayoutPlan, zones: int) -> Refusal:
    cpu, threads = request.step.cpu, plan.config.threads
    return Refusal(
        Refuser.KUBELET,
        RejectionReason.SMT_ALIGNMENT,
        Cause.NOT_WHOLE_CORES,
        plan.config.policy,
        needs=(Need(CPU, cpu, zones, 0),),
        detail=str(threads) if cpu // MILLI % threads else "",
    )


def _needs(request: StepRequest, names: Iterable[str], width: int) -> tuple[Need, ...]:
    """Return what a step requests of these resources, in the order of the rules."""
    requests = {**request.step.requests, **request.step.devices}
    return tuple(Need(name, amount, width, 0) for name, amount in requests.items() if name in names)


def _causes(
    moment: _Moment, request: StepRequest, terms: _PolicyTerms, rows: Rows
) -> Iterator[tuple[Rows, Cause, tuple[Need, ...]]]:
    """Yield why zones cannot provide these resources, and the needs, with the rows of each cause.

    Restates `evaluate._cause`.
    """
    if not len(rows):
        return
    places = [at for at, name in enumerate(request.names) if name in terms.names]
    widths = widths_of(moment.state.at(rows), request)[places]
    if terms.policy is Policy.SINGLE_NUMA_NODE:
        widths = np.ones_like(widths)
    free = [moment.raw(request.names[at]).take(rows, axis=1) for at in places]
    asked = [request.amounts[at] * (MILLI if request.names[at] == CPU else 1) for at in places]
    numbers = _cause(free, asked, widths) * _MOST_WIDTHS + widths.max(axis=0)
    for number in np.flatnonzero(np.bincount(numbers)).tolist():
        cause, width = divmod(number, _MOST_WIDTHS)
        yield rows[numbers == number], _CAUSES[cause], _needs(request, terms.names, width)


def _cause(free: Sequence[Ints], asked: Sequence[int], widths: Ints) -> Ints:
    """Return the position in `_CAUSES` by row; `free` are (zones, rows), `widths` (resources, rows)."""
    short = np.logical_or.reduce(
        [_most(each, width) < amount for each, amount, width in zip(free, asked, widths, strict=True)]
    )
    differ = (widths != widths[0]).any(axis=0)
    together = np.zeros(len(short), dtype=np.bool_)
    for width in np.unique(widths[0]).tolist():
        rows = np.flatnonzero(~short & ~differ & (widths[0] == width))
        if len(rows):
            enough = [
                sums_of(each[:, rows], width) >= amount for each, amount in zip(free, asked, strict=True)
            ]
            together[rows] = np.logical_and.reduce(enough).any(axis=0)
    return np.where(short, 0, np.where(differ, 1, np.where(together, 2, 3)))


def _most(free: Ints, width: Ints) -> Ints:
    """Return the most that `width` zones have together, by row."""
    if (width == 1).all():
        widest: Ints = free.max(axis=0)
        return widest
    best: Ints = np.cumsum(-np.sort(-free, axis=0), axis=0)
    return best[width.astype(np.intp) - 1, np.arange(free.shape[1])]
