"""
Whether the zones that a pod gets satisfy an intent, on many nodes at once.

Restates `decision.evaluate.keeps`.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from numalign.cache import zone_sets
from numalign.cache.arrays import Bools, Ints
from numalign.cache.batch_admission import BatchAdmission, BatchGrant
from numalign.cache.column_state import ColumnState
from numalign.cache.layout_kinds import Trait
from numalign.cache.plan import LayoutPlan, StepRequest, concerned
from numalign.cache.preferred_hint import PreferredHint
from numalign.cache.widths import widths_of
from numalign.model.intent import Intent, Policy, Scope


def kept_alone(
    state: ColumnState, hint: PreferredHint, request: StepRequest, intent: Intent
) -> tuple[Bools, Bools]:
    """Return where a pod of one container satisfies an intent, and where its hint does not decide that.

    Both by row. Where no hint is preferred, the resources of the intent are in more zones than necessary,
    unless the intent omits some of the resources that the container requests.
    """
    kept = hint.exists
    if intent.policy is Policy.SINGLE_NUMA_NODE:
        kept = kept & (hint.width <= 1)
    if request.everywhere and all(map(intent.concerns, request.names)):
        silent = state.has(Trait.SILENT)
        return kept | silent, np.zeros(state.count, dtype=np.bool_)
    plans = state.plan.every
    meant = [concerned(plan, request.step, intent) for plan in plans]
    about = state.flags([bool(names) for names in meant])
    asked = (plan.aligned.intersection(request.names) for plan in plans)
    partly = state.flags([names != every for names, every in zip(meant, asked, strict=True)])
    return kept | ~about, about & partly & ~hint.exists


def kept_in_steps(state: ColumnState, admission: BatchAdmission, intent: Intent) -> Bools:
    """Return whether each container, or the pod, satisfies an intent, by row of the admission."""
    kept = np.ones(state.count, dtype=np.bool_)
    for _, _, rows, too_wide in units_too_wide(state, admission, intent):
        kept[rows] &= ~too_wide
    return kept


def units_too_wide(
    state: ColumnState, admission: BatchAdmission, intent: Intent
) -> Iterator[tuple[LayoutPlan, StepRequest, Ints, Bools]]:
    """Yield each unit to be aligned, kind by kind: its rows, and on which of these it has too many zones."""
    if not intent.binding:
        return
    for number, plan in state.plan.plans:
        rows = np.flatnonzero(state.kinds == number)
        if not len(rows) or plan.kind.single_zone:
            continue
        for request, grants in _units(intent.scope or plan.config.scope, state, admission):
            names = concerned(plan, request.step, intent)
            if names:
                zones = np.bitwise_or.reduce([grant.zones_of(names)[rows] for grant in grants])
                allowed = allowed_zones(state, request, names, intent)
                yield plan, request, rows, zone_sets.widths(zones) > allowed[rows]


def _units(
    scope: Scope, state: ColumnState, admission: BatchAdmission
) -> Iterator[tuple[StepRequest, Sequence[BatchGrant]]]:
    if scope is Scope.POD:
        yield state.plan.whole, admission.grants
    else:
        yield from ((grant.step, (grant,)) for grant in admission.grants)


def allowed_zones(state: ColumnState, request: StepRequest, names: frozenset[str], intent: Intent) -> Ints:
    """Return how many zones these resources of a step may use, by row."""
    if intent.policy is Policy.SINGLE_NUMA_NODE:
        return np.ones(state.count, dtype=np.int8)
    widths = widths_of(state, request)
    allowed: Ints = widths[[at for at, name in enumerate(request.names) if name in names]].min(axis=0)
    return allowed
