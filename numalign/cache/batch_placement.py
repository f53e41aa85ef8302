"""
Where a pod would come to on the nodes that take it, in columns: how many zones, how well aligned, how good.

Under a strict policy, or where a best effort succeeds, each decision takes all zones of the set that the
merge picked, for no fewer could hold what needs so many. Wherever else a pod lands the rules are asked.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from types import MappingProxyType

import numpy as np

from numalign.cache import batch_scoring
from numalign.cache.arrays import Bools, Ints
from numalign.cache.batch_scoring import Unit
from numalign.cache.column_state import ColumnState
from numalign.cache.feasibility import Trial, Tried, keeps
from numalign.cache.plan import LayoutPlan
from numalign.decision.scoring import HIGHEST, Strategy, Weights
from numalign.model.demand import Step
from numalign.model.intent import Policy, Scope
from numalign.model.resources import CPU, MILLI

REFUSED = -1
"""What there is of a node that does not take the pod."""

UNTOLD = -1
"""The set of zones that only the rules can tell."""

YesOrNo = tuple[Bools, Bools]
"""What is true of some rows, and of which of them columns cannot say it."""


def masks(trial: Trial) -> tuple[Ints, Bools]:
    """The set of zones that each decision comes to, and of which rows only the rules can tell.

    Sets are bits, by step of the pod and row; 0 for none.
    """
    plan, found = trial.plan, trial.outcome
    chosen = np.zeros((max(1, len(plan.question.demand.steps)), trial.state.count), dtype=np.int16)
    for at, mask in enumerate(_masks(trial)):
        chosen[at] = np.where(found.taken, mask, 0)
    unknown = found.unsure | (found.taken & _elsewhere(plan, found))
    return chosen, unknown


def _masks(trial: Trial) -> Iterable[Ints]:
    if trial.plan.layout.count == 1:
        return [np.ones(trial.state.count, dtype=np.int16) for _ in trial.plan.decisions]
    return [held.mask for held in trial.outcome.commons]


def _elsewhere(plan: LayoutPlan, found: Tried) -> Bools:
    """Whether some decision comes to zones that nothing prefers."""
    no = np.zeros(len(found.taken), dtype=np.bool_)
    if plan.layout.count == 1:
        return no
    if len(found.commons) < len(plan.decisions):
        return ~no
    return reduce(np.logical_or, (~held.exists for held in found.commons), no)


def width(chosen: Ints) -> Ints:
    """How many zones the pod gets; `chosen` are the sets of its decisions."""
    zones: Ints = np.bitwise_count(np.bitwise_or.reduce(chosen, axis=0)).astype(np.int16)
    return zones


def aligned(trial: Trial) -> YesOrNo:
    """Whether the kubelet really aligns the pod, as `decision.scoring.aligned` has it, where it is taken."""
    return _ALIGNED[trial.plan.question.intent.policy](trial)


def _by_node(trial: Trial) -> YesOrNo:
    """A pod that states nothing is aligned by what the node tries."""
    plan, state = trial.plan, trial.state
    yes, no = np.ones(state.count, dtype=np.bool_), np.zeros(state.count, dtype=np.bool_)
    if plan.unsure:
        return no, yes
    if plan.layout.policy is Policy.NONE:
        return (yes if plan.layout.count == 1 or not plan.decisions else no), no
    if plan.layout.strict or not plan.decisions:
        return yes, no
    found = trial.outcome
    return reduce(np.logical_and, (held.exists for held in found.commons), yes), found.unsure


def _at_best(trial: Trial) -> YesOrNo:
    """A best effort succeeded where the same would be kept as a promise."""
    plan, state = trial.plan, trial.state
    if plan.broken:
        no = np.zeros(state.count, dtype=np.bool_)
        return no, no
    found = trial.outcome
    well, unknown = keeps(plan, state, replace(plan.question.intent, policy=Policy.RESTRICTED), found)
    return well, found.unsure | (found.taken & unknown)


def _promised(trial: Trial) -> YesOrNo:
    return np.ones(trial.state.count, dtype=np.bool_), np.zeros(trial.state.count, dtype=np.bool_)


_ALIGNED: Mapping[Policy, Callable[[Trial], YesOrNo]] = MappingProxyType(
    {
        Policy.NONE: _by_node,
        Policy.BEST_EFFORT: _at_best,
        Policy.RESTRICTED: _promised,
        Policy.SINGLE_NUMA_NODE: _promised,
    }
)


def units(trial: Trial, chosen: Ints) -> Sequence[Unit]:
    """What is placed as one in these sets of zones."""
    plan, state = trial.plan, trial.state
    return [_unit(plan, state, step, mask) for step, mask in _placed_as_one(plan, chosen)]


def score(trial: Trial, placed: Sequence[Unit], strategy: Strategy, weights: Weights) -> Ints:
    """How good the placement in these units is, 0 to 100."""
    if not placed:
        return np.full(trial.state.count, HIGHEST, dtype=np.int16)
    most = np.full(trial.state.count, trial.plan.layout.max_zones, dtype=np.int64)
    return batch_scoring.values(strategy, placed, weights, max_zones=most)


def _placed_as_one(plan: LayoutPlan, chosen: Ints) -> Sequence[tuple[Step, Ints]]:
    if plan.layout.scope is Scope.POD:
        union = np.bitwise_or.reduce(chosen, axis=0)
        return [(plan.question.demand.whole, union)] if plan.decisions else []
    return [(asked.step, mask) for asked, mask in zip(plan.decisions, chosen, strict=False)]


def _unit(plan: LayoutPlan, state: ColumnState, step: Step, mask: Ints) -> Unit:
    layout = plan.layout
    chosen = (mask >> np.arange(layout.count)[:, None]) & 1
    amounts = tuple(
        (name, asked, (_whole(name, state.raw(name)) * chosen).sum(axis=0))
        for name, asked in step.asks.items()
        if name in layout.listed
    )
    nearest = batch_scoring.nearest_sets(tuple(zip(layout.ids, layout.costs, strict=True)))
    return Unit(amounts, np.bitwise_count(mask).astype(np.int64), nearest[mask])


def _whole(name: str, free: Ints) -> Ints:
    return -(-free // MILLI) if name == CPU else free
