"""
Why nodes refuse, told apart as far as somebody who reads it would.

A refusal is put into words by the rules, and thousands of nodes need few different words. So refused rows get
a number each: rows of one layout with equal numbers have the same said of them, and one of them is asked.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from numalign.cache.arrays import Bools, Ints
from numalign.cache.column_state import ColumnState
from numalign.cache.columns import TOTAL, sums_of
from numalign.cache.feasibility import Trial, Tried, common, served, widths_of
from numalign.cache.plan import LayoutPlan, StepRequest, concerned
from numalign.model.intent import Policy, Scope
from numalign.model.resources import CPU, MILLI

UNTOLD = -1
"""No number: only the rules can say."""

# What a number begins with, and where the step stands in it.
_LACKING, _KIND, _ALIGNED, _GIVEN, _MEANT = (np.int64(at) << 56 for at in range(1, 6))
_STEP = 40
_OF_MEMORY = np.int64(0xFF)
_TOO_SMALL, _WIDTHS, _SPREAD, _APART = (np.int64(at) << 8 for at in range(1, 5))


def numbers(trial: Trial) -> Ints:
    """A number for each of these rows; of one that does not refuse it means nothing."""
    plan, state = trial.plan, trial.state
    lacking = _lacking(plan, state)
    if plan.refused:
        return np.where(lacking != 0, lacking, _KIND)
    if plan.unsure or plan.unheard:
        return np.where(lacking != 0, lacking, UNTOLD)
    found = trial.outcome
    said = np.where(found.unsure, UNTOLD, _REFUSED[plan.layout.policy](plan, state, found))
    return np.where(lacking != 0, lacking, said)


def _lacking(plan: LayoutPlan, state: ColumnState) -> Ints:
    """Of what the node as a whole has too little."""
    lacking = np.full(state.count, _LACKING if plan.unheard else 0)
    for at, (name, amount) in enumerate(plan.totals):
        short = state.columns.of((TOTAL, name), state.rows)[0] < amount
        lacking |= np.where(short, _LACKING | np.int64(1 << at), 0)
    return lacking


def _not_aligned(plan: LayoutPlan, state: ColumnState, found: Tried) -> Ints:
    """A strict kubelet refuses the first decision for which no set of zones is preferred."""
    said, states = _not_meant(plan, state, found), [state]
    for asked, held in zip(plan.decisions, found.commons, strict=True):
        states.append(states[-1].charged(asked, held.mask))
    for at in reversed(range(len(found.commons))):
        here = np.flatnonzero(~found.commons[at].exists)
        if len(here):
            said[here] = _at_step(at, _unserved(plan, states[at].at(here), plan.decisions[at]))
    return said


def _at_step(at: int, said: Ints) -> Ints:
    return np.where(said == UNTOLD, UNTOLD, said | np.int64(at << _STEP))


def _unserved(plan: LayoutPlan, state: ColumnState, asked: StepRequest) -> Ints:
    """Not aligned; or aligned, but without memory, of which the manager then has no opinion."""
    said = _ALIGNED | _cause(state, _needs(plan.layout.policy, state, asked))
    if not asked.memory:
        return said
    others = StepRequest(asked.step, asked.devices, asked.cpus, ())
    content = common(state, others).exists if others.amounts else np.ones(state.count, dtype=np.bool_)
    # Of several containers that share their zones it is not known which one finds none.
    fails = UNTOLD if plan.as_one else _GIVEN | _OF_MEMORY
    return np.where(content & ~served(state, asked), fails, said)


Needs = list[tuple[str, int, Ints]]
"""A resource, how much of it, and how many zones it may come from, by row."""


def _needs(policy: Policy, state: ColumnState, asked: StepRequest) -> Needs:
    ones = np.ones(state.count, dtype=np.int8)
    single = policy is Policy.SINGLE_NUMA_NODE
    widths = dict.fromkeys(asked.names, ones) if single else widths_of(state, asked)
    return [(name, _raw(name, amount), widths[name]) for name, amount in asked.amounts]


def _raw(name: str, amount: int) -> int:
    return amount * MILLI if name == CPU else amount


def _cause(state: ColumnState, needs: Needs) -> Ints:
    """What it comes down to that zones cannot give this, and into how many it may go at the most."""
    if not needs:
        return np.full(state.count, UNTOLD)
    short = np.logical_or.reduce([_most(state.raw(name), width) < amount for name, amount, width in needs])
    widths = np.array([width for _, _, width in needs])
    differ = (widths != widths[0]).any(axis=0)
    together = np.zeros(state.count, dtype=np.bool_)
    for wide in np.unique(widths[0]):
        rows = np.flatnonzero(~short & ~differ & (widths[0] == wide))
        if len(rows):
            together[rows] = _together(state.at(rows), needs, int(wide))
    cause = np.where(short, _TOO_SMALL, np.where(differ, _WIDTHS, np.where(together, _SPREAD, _APART)))
    said: Ints = cause | widths.max(axis=0)
    return said


def _most(free: Ints, width: Ints) -> Ints:
    """What so many zones have together at the most."""
    if (width == 1).all():
        widest: Ints = free.max(axis=0)
        return widest
    best: Ints = np.cumsum(-np.sort(-free, axis=0), axis=0)
    return best[width.astype(np.intp) - 1, np.arange(free.shape[1])]


def _together(state: ColumnState, needs: Needs, width: int) -> Bools:
    layout = state.columns.layout
    enough = (sums_of(layout, state.raw(name), width) >= amount for name, amount, _ in needs)
    found: Bools = np.logical_and.reduce(list(enough)).any(axis=0)
    return found


def _not_given(plan: LayoutPlan, state: ColumnState, found: Tried) -> Ints:
    """A kubelet that aligns at best fails only where it cannot give out; the first resource says it."""
    if len(plan.steps) > 1:
        return np.full(state.count, UNTOLD)
    said = _not_meant(plan, state, found)
    for asked in plan.steps:
        every = plan.layout.count
        if asked.memory:
            said = np.where(served(state, asked), said, _GIVEN | _OF_MEMORY)
        for at, (name, amount) in reversed([*enumerate((*asked.devices, *asked.cpus))]):
            said = np.where(state.sums(name, every)[0] >= amount, said, _GIVEN | np.int64(at))
    return said


def _not_meant(plan: LayoutPlan, state: ColumnState, found: Tried) -> Ints:
    """The kubelet would take it, and not as the pod means it.

    Of several containers it is the last one: after another that took several zones nothing is certain.
    """
    intent = plan.question.intent
    pod = (intent.scope or plan.layout.scope) is Scope.POD
    asked = plan.whole if pod else plan.decisions[-1] if plan.decisions else None
    about = concerned(plan, asked, intent) if asked else frozenset[str]()
    if not asked or not about or not intent.binding:
        return np.full(len(found.taken), UNTOLD)
    needs = [need for need in _needs(intent.policy, state, asked) if need[0] in about]
    return _MEANT | _cause(state, needs)


_REFUSED: Mapping[Policy, Callable[[LayoutPlan, ColumnState, Tried], Ints]] = MappingProxyType(
    {
        Policy.NONE: _not_given,
        Policy.BEST_EFFORT: _not_given,
        Policy.RESTRICTED: _not_aligned,
        Policy.SINGLE_NUMA_NODE: _not_aligned,
    }
)
