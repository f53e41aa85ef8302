"""
Where a pod would come to on the nodes that take it, in columns: how many zones, how well aligned, how good.

Under a strict policy, or where a best effort succeeds, each decision takes all zones of the set that the
merge picked, for no fewer could hold what needs so many. Wherever else a pod lands the rules are asked.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from numalign.cache import batch_scoring
from numalign.cache.arrays import Bools, Ints
from numalign.cache.batch_scoring import Unit
from numalign.cache.feasibility import Trial, keeps
from numalign.decision.scoring import HIGHEST, Strategy, Weights, whole
from numalign.model.demand import Step
from numalign.model.intent import Policy, Scope

REFUSED = -1
"""The zones on a node that does not take the pod."""

UNTOLD = -1
"""The set of zones that only the rules can tell."""


def masks(trial: Trial) -> tuple[Ints, Bools]:
    """The set of zones that each decision comes to, and of which rows only the rules can tell.

    Sets are bits, (steps of the pod, at least 1; rows), and 0 where the pod is not taken.
    """
    plan, outcome = trial.plan, trial.outcome
    count = trial.state.count
    chosen = np.zeros((max(1, len(plan.question.demand.steps)), count), dtype=np.int16)
    if plan.layout.count == 1:
        chosen[: len(plan.decisions)] = outcome.taken
        return chosen, outcome.unsure
    unaligned = np.full(count, len(outcome.hints) < len(plan.decisions))
    for at, hint in enumerate(outcome.hints):
        chosen[at] = np.where(outcome.taken, hint.mask, 0)
        unaligned |= ~hint.exists
    return chosen, outcome.unsure | (outcome.taken & unaligned)


def width(chosen: Ints) -> Ints:
    """How many zones the pod gets, by row; `chosen` are the sets of its decisions."""
    zones: Ints = np.bitwise_count(np.bitwise_or.reduce(chosen, axis=0)).astype(np.int16)
    return zones


def aligned(trial: Trial) -> tuple[Bools, Bools]:
    """Whether the kubelet really aligns a pod that it takes, and of which rows only the rules can tell.

    Restates `decision.scoring.aligned`.
    """
    plan, state = trial.plan, trial.state
    yes, no = np.ones(state.count, dtype=np.bool_), np.zeros(state.count, dtype=np.bool_)
    intent = plan.question.intent
    if intent.binding:
        return yes, no
    if intent.policy is Policy.NONE:
        return _aligned_by_node(trial, yes, no)
    if plan.unalignable:
        return no, no
    # A best effort succeeded where the same would be kept as `restricted`.
    outcome = trial.outcome
    kept, unknown = keeps(plan, state, replace(intent, policy=Policy.RESTRICTED), outcome)
    return kept, outcome.unsure | (outcome.taken & unknown)


def _aligned_by_node(trial: Trial, yes: Bools, no: Bools) -> tuple[Bools, Bools]:
    """A pod that states nothing is aligned by what the node tries."""
    plan, layout = trial.plan, trial.plan.layout
    if plan.unsure:
        return no, yes
    if layout.strict or not plan.decisions:
        return yes, no
    if layout.policy is Policy.NONE:
        return (yes if layout.count == 1 else no), no
    return reduce(np.logical_and, (hint.exists for hint in trial.outcome.hints), yes), trial.outcome.unsure


def units(trial: Trial, chosen: Ints) -> Sequence[Unit]:
    """What is placed as one, by container or for the whole pod, in these sets of zones."""
    plan = trial.plan
    if plan.layout.scope is Scope.POD:
        union = np.bitwise_or.reduce(chosen, axis=0)
        return [_unit(trial, plan.question.demand.whole, union)] if plan.decisions else []
    decisions = zip(plan.decisions, chosen, strict=False)
    return [_unit(trial, request.step, mask) for request, mask in decisions]


def _unit(trial: Trial, step: Step, mask: Ints) -> Unit:
    layout = trial.plan.layout
    zones = (mask >> np.arange(layout.count)[:, None]) & 1
    amounts = []
    for name, amount in step.asks.items():
        if name in layout.listed:
            # Rounded as a single number is.
            free: Any = trial.state.raw(name)
            amounts.append((name, amount, (whole(name, free) * zones).sum(axis=0)))
    nearest = batch_scoring.nearest_sets(tuple(zip(layout.ids, layout.costs, strict=True)))
    return Unit(tuple(amounts), np.bitwise_count(mask).astype(np.int64), nearest[mask])


def score(trial: Trial, placed: Sequence[Unit], strategy: Strategy, weights: Weights) -> Ints:
    """How good the placement in these units is, by row, 0 to 100."""
    if not placed:
        return np.full(trial.state.count, HIGHEST, dtype=np.int16)
    return batch_scoring.values(strategy, placed, weights, max_zones=trial.plan.layout.max_zones)
