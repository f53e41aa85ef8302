"""
The placement of a pod on the nodes that admit it, in columns: its zones, whether it is aligned, its score.

A container with a preferred hint gets all zones of that hint. In all other cases, the pod is admitted
container by container.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from numalign.cache import batch_intent, batch_scoring, zone_sets
from numalign.cache.arrays import Bools, Ints, Rows
from numalign.cache.batch_scoring import Unit
from numalign.cache.column_state import ColumnState
from numalign.cache.feasibility import Admitted, Trial
from numalign.cache.layout import Layout
from numalign.cache.layout_kinds import Trait
from numalign.decision.scoring import HIGHEST, CostTable, Strategy, Weights, whole
from numalign.model.demand import Step
from numalign.model.intent import Intent, Policy, Scope

REFUSED = -1
"""In place of a number, on nodes that do not admit the pod."""


def zones(trial: Trial) -> Ints:
    """Return how many zones the pod gets, by row; `REFUSED` where it is not admitted."""
    held = np.zeros(trial.count, dtype=np.int64)
    if trial.by_hint.any():
        held[trial.by_hint] = trial.hint.mask[trial.by_hint]
    for rows, _, admission in trial.placed_in_steps:
        held[rows] = admission.zones
    return np.where(trial.taken, zone_sets.widths(held).astype(np.int16), np.int16(REFUSED))


# Alignment.


def aligned(trial: Trial) -> Bools:
    """Return whether the kubelet really aligns the pod, by row; False where it is not admitted.

    Restates `decision.scoring.aligned`.
    """
    intent = trial.plan.question.intent
    certain = trial.taken & ~trial.state.flags([bool(each.kind.uncertain) for each in trial.plan.every])
    if intent.binding:
        return certain
    if intent.policy is Policy.NONE:
        return certain & _aligned_by_node(trial)
    return certain & _kept(trial, replace(intent, policy=Policy.RESTRICTED))


def _aligned_by_node(trial: Trial) -> Bools:
    """Return where the policy of the node aligns a pod without an intent; True under every strict policy."""
    state, plan = trial.state, trial.plan
    found = state.has(Trait.STRICT).copy()
    if plan.kinds.all(Trait.STRICT):
        return found
    silent, alone = state.has(Trait.SILENT), state.zones == 1
    if plan.only_step is not None:
        # A placement by chance is not alignment, unless no other placement is possible.
        return found | np.where(silent, alone | trial.hint.nothing, trial.hint.exists)
    for rows, _, admission in trial.placed_in_steps:
        preferred = np.logical_and.reduce([grant.preferred for grant in admission.grants])
        by_chance = alone | (admission.zones == 0)
        found[rows] |= np.where(silent[rows], by_chance, preferred)
    return found


def _kept(trial: Trial, intent: Intent) -> Bools:
    """Return whether best effort succeeded, by row: the placement also satisfies `restricted`."""
    state, plan = trial.state, trial.plan
    kept = np.ones(trial.count, dtype=np.bool_)
    if plan.only_step is not None:
        kept, _ = batch_intent.kept_alone(state, trial.hint, plan.only_step, intent)
    for rows, some, admission in trial.placed_in_steps:
        kept[rows] = batch_intent.kept_in_steps(some, admission, intent)
    return kept & ~state.flags([each.unalignable for each in plan.every])


# Scores.


def scores(trial: Trial, strategy: Strategy, weights: Weights) -> Ints:
    """Return the score of the placement by a strategy, 0 to 100, by row; `REFUSED` if not admitted."""
    values = np.full(trial.count, REFUSED, dtype=np.int16)
    for rows, terms, units in _placed(trial):
        values[rows] = HIGHEST
        if units:
            values[rows] = batch_scoring.values(strategy, units, weights, max_zones=terms.max_zones)
    return values


class _ScoreTerms(NamedTuple):
    """The facts of a layout that scores depend on; the scope only for pods with several containers."""

    scope: Scope
    listed: frozenset[str]
    costs: CostTable
    max_zones: int


def _placed(trial: Trial) -> Iterator[tuple[Rows, _ScoreTerms, Sequence[Unit]]]:
    """Yield the units of the pod, for admitting rows that are scored by the same facts."""
    rows = np.flatnonzero(trial.by_hint)
    if len(rows):
        yield from _by_hint(trial, rows)
    for admitted in trial.placed_in_steps:
        yield from _in_steps(trial, admitted)


def _by_hint(trial: Trial, rows: Rows) -> Iterator[tuple[Rows, _ScoreTerms, Sequence[Unit]]]:
    request = trial.plan.only_step or trial.plan.whole
    state, mask = trial.state.at(rows), trial.hint.mask[rows]
    for terms, some in _alike(trial, state):
        own = state if some is None else state.at(some)
        step = trial.plan.whole.step if terms.scope is Scope.POD else request.step
        yield (
            rows if some is None else rows[some],
            terms,
            [_unit(own, step, terms, mask if some is None else mask[some])],
        )


def _in_steps(trial: Trial, admitted: Admitted) -> Iterator[tuple[Rows, _ScoreTerms, Sequence[Unit]]]:
    rows, state, admission = admitted
    for terms, some in _alike(trial, state):
        own, chosen = (state, slice(None)) if some is None else (state.at(some), some)
        held = [grant.zones_of(_pinned(grant.step.step, terms))[chosen] for grant in admission.grants]
        if terms.scope is Scope.POD:
            # The zones of all containers, with the request of the pod as a whole.
            together = np.bitwise_or.reduce(held)
            yield rows[chosen], terms, [_unit(own, trial.plan.whole.step, terms, together)]
        else:
            yield (
                rows[chosen],
                terms,
                [
                    _unit(own, grant.step.step, terms, zones)
                    for grant, zones in zip(admission.grants, held, strict=True)
                ],
            )


def _alike(trial: Trial, state: ColumnState) -> Iterator[tuple[_ScoreTerms, Rows | None]]:
    demand = trial.plan.question.demand
    # The pod as a whole requests memory only under the names that app containers request.
    asked = frozenset(name for step in (demand.whole, *demand.steps) for name in step.requests)

    def terms(layout: Layout) -> _ScoreTerms:
        costs = tuple(zip(layout.ids, layout.costs, strict=True))
        scope = layout.config.scope if len(trial.plan.steps) > 1 else Scope.CONTAINER
        return _ScoreTerms(scope, layout.listed & asked, costs, layout.max_zones)

    return state.alike(terms)


def _pinned(step: Step, terms: _ScoreTerms) -> Mapping[str, int]:
    return {name: amount for name, amount in step.requests.items() if name in terms.listed}


def _unit(state: ColumnState, step: Step, terms: _ScoreTerms, mask: Ints) -> Unit:
    zones = (mask >> np.arange(state.zones)[:, None]) & 1
    amounts = []
    for name, amount in _pinned(step, terms).items():
        # Rounded like a single number.
        free: Any = state.raw(name)
        amounts.append((name, amount, (whole(name, free) * zones).sum(axis=0)))
    nearest = batch_scoring.nearest_sets(terms.costs)
    return Unit(tuple(amounts), zone_sets.widths(mask).astype(np.int64), nearest[mask])
