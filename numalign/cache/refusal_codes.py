"""
Why nodes refuse, as a number for each different sentence.

A refusal is put into words by the rules, and thousands of nodes need few different words. So refused rows get
a number each: rows of one layout with equal numbers are refused in the same words, and one of them is asked.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from numalign.cache.arrays import Bools, Ints
from numalign.cache.column_state import ColumnState
from numalign.cache.columns import TOTAL, sums_of
from numalign.cache.feasibility import Feasibility, Trial, memory_served, preferred_hint, widths_of
from numalign.cache.plan import LayoutPlan, StepRequest, concerned
from numalign.model.intent import Policy, Scope
from numalign.model.resources import CPU, MILLI

UNTOLD = -1
"""No number: only the rules can say."""

# What a number begins with, and where the step stands in it.
_LACKING, _BY_KIND, _NOT_ALIGNED, _NOT_ALLOCATED, _NOT_KEPT = (np.int64(at) << 56 for at in range(1, 6))
_STEP = 40
_MEMORY = np.int64(0xFF)
_TOO_SMALL, _WIDTHS_DIFFER, _SPREAD, _APART = (np.int64(at) << 8 for at in range(1, 5))


def numbers(trial: Trial) -> Ints:
    """A number for each of these rows; of one that does not refuse it means nothing."""
    plan, state = trial.plan, trial.state
    if plan.refused:
        code: Ints | np.int64 = _BY_KIND
    elif plan.unsure or plan.unlisted:
        code = np.int64(UNTOLD)
    else:
        outcome = trial.outcome
        code = np.where(outcome.unsure, UNTOLD, _REFUSED[plan.layout.policy](plan, state, outcome))
    lacking = np.full(state.count, _LACKING if plan.unlisted else 0)
    for at, (name, amount) in enumerate(plan.totals):
        short = state.columns.of((TOTAL, name), state.rows)[0] < amount
        lacking |= np.where(short, _LACKING | np.int64(1 << at), 0)
    return np.where(lacking != 0, lacking, code)


def _not_aligned(plan: LayoutPlan, state: ColumnState, outcome: Feasibility) -> Ints:
    """A strict kubelet refuses the first decision for which no set of zones is preferred."""
    codes, states = _not_kept(plan, state, outcome), [state]
    for request, hint in zip(plan.decisions, outcome.hints, strict=True):
        states.append(states[-1].charged(request, hint.mask))
    for at in reversed(range(len(outcome.hints))):
        rows = np.flatnonzero(~outcome.hints[at].exists)
        if len(rows):
            step = _no_hint(plan, states[at].at(rows), plan.decisions[at])
            codes[rows] = np.where(step == UNTOLD, UNTOLD, step | np.int64(at << _STEP))
    return codes


def _no_hint(plan: LayoutPlan, state: ColumnState, request: StepRequest) -> Ints:
    """Not aligned; or aligned, but without memory, of which the manager then has no opinion."""
    code = _NOT_ALIGNED | _cause(state, _needs(plan.layout.policy, state, request))
    if not request.memory:
        return code
    others = replace(request, memory=())
    aligned = preferred_hint(state, others).exists if others.amounts else np.ones(state.count, dtype=np.bool_)
    # Of several containers that share their zones it is not known which one finds none.
    fails = UNTOLD if plan.as_one else _NOT_ALLOCATED | _MEMORY
    return np.where(aligned & ~memory_served(state, request), fails, code)


Needs = list[tuple[str, int, Ints]]
"""A resource, how much of it in the unit of its name, and how many zones it may come from, by row."""


def _needs(policy: Policy, state: ColumnState, request: StepRequest) -> Needs:
    if policy is Policy.SINGLE_NUMA_NODE:
        widths: dict[str, Ints] = dict.fromkeys(request.names, np.ones(state.count, dtype=np.int8))
    else:
        widths = widths_of(state, request)
    return [
        (name, amount * MILLI if name == CPU else amount, widths[name]) for name, amount in request.amounts
    ]


def _cause(state: ColumnState, needs: Needs) -> Ints:
    """What it comes down to that zones cannot give this, and into how many it may go at the most."""
    if not needs:
        return np.full(state.count, UNTOLD)
    short = np.logical_or.reduce([_most(state.raw(name), width) < amount for name, amount, width in needs])
    widths = np.array([width for _, _, width in needs])
    differ = (widths != widths[0]).any(axis=0)
    together = np.zeros(state.count, dtype=np.bool_)
    for width in np.unique(widths[0]):
        rows = np.flatnonzero(~short & ~differ & (widths[0] == width))
        if len(rows):
            together[rows] = _together(state.at(rows), needs, int(width))
    cause = np.where(short, _TOO_SMALL, np.where(differ, _WIDTHS_DIFFER, np.where(together, _SPREAD, _APART)))
    code: Ints = cause | widths.max(axis=0)
    return code


def _most(free: Ints, width: Ints) -> Ints:
    """What so many zones have together at the most."""
    if (width == 1).all():
        widest: Ints = free.max(axis=0)
        return widest
    best: Ints = np.cumsum(-np.sort(-free, axis=0), axis=0)
    return best[width.astype(np.intp) - 1, np.arange(free.shape[1])]


def _together(state: ColumnState, needs: Needs, width: int) -> Bools:
    """Whether some set of so many zones has enough of everything, by row."""
    layout = state.columns.layout
    enough = [sums_of(layout, state.raw(name), width) >= amount for name, amount, _ in needs]
    together: Bools = np.logical_and.reduce(enough).any(axis=0)
    return together


def _not_allocated(plan: LayoutPlan, state: ColumnState, outcome: Feasibility) -> Ints:
    """A kubelet that aligns at best fails only where it cannot allocate; the first resource says it."""
    if len(plan.steps) > 1:
        return np.full(state.count, UNTOLD)
    codes = _not_kept(plan, state, outcome)
    for request in plan.steps:
        if request.memory:
            codes = np.where(memory_served(state, request), codes, _NOT_ALLOCATED | _MEMORY)
        for at, (name, amount) in reversed([*enumerate(request.pieces)]):
            enough = state.sums(name, plan.layout.count)[0] >= amount
            codes = np.where(enough, codes, _NOT_ALLOCATED | np.int64(at))
    return codes


def _not_kept(plan: LayoutPlan, state: ColumnState, outcome: Feasibility) -> Ints:
    """The kubelet would take it, and not as the pod asks.

    Of several containers it is the last one: after another that took several zones nothing is certain.
    """
    intent = plan.question.intent
    pod = (intent.scope or plan.layout.scope) is Scope.POD
    request = plan.whole if pod else plan.decisions[-1] if plan.decisions else None
    names = concerned(plan, request, intent) if request else frozenset[str]()
    if not request or not names or not intent.binding:
        return np.full(len(outcome.taken), UNTOLD)
    needs = [need for need in _needs(intent.policy, state, request) if need[0] in names]
    return _NOT_KEPT | _cause(state, needs)


_REFUSED: Mapping[Policy, Callable[[LayoutPlan, ColumnState, Feasibility], Ints]] = MappingProxyType(
    {
        Policy.NONE: _not_allocated,
        Policy.BEST_EFFORT: _not_allocated,
        Policy.RESTRICTED: _not_aligned,
        Policy.SINGLE_NUMA_NODE: _not_aligned,
    }
)
