"""
When a pair is replaced by another, and in which steps, so that no caller gets one that it does not trust.

First the new authority is trusted beside the old one (staged). When that has been so everywhere for a while,
the new pair is served (promoted), which does not change what is trusted. When all replicas serve it, the old
authority is no longer trusted (dropped). Each process measures how long ago a step was from the time at which
it saw the step itself, and trusts no clock of another machine. A pair that is not valid yet means that some
clock is wrong, so nothing is done until it is valid.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from certs import authority, certificate, secret
from certs.authority import Pair
from certs.secret import PairState

DAYS = 365
SETTLE_SECONDS = 60.0
MOST_NAMES = 32


class RotationStep(StrEnum):
    """A step that changes the shared state."""

    CREATED = "created"
    RESTORED = "restored"
    REPLACED = "replaced"
    STAGED = "staged"
    PROMOTED = "promoted"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class RotationPlan:
    """The names and the validity of new pairs, and the seconds that each step is given."""

    names: Sequence[str]
    days: int = DAYS
    settle: float = SETTLE_SECONDS


@dataclass(frozen=True, slots=True)
class Transition:
    """A step that is due, and the resulting state."""

    step: RotationStep
    state: PairState


def due(
    state: PairState | None, *, plan: RotationPlan, now: datetime, published: float | None
) -> Transition | None:
    """
    Return the next step; None while there is nothing to do.

    `published` is the number of seconds for which the webhook's callers have been known to trust the bundle
    of this state; None if they do not. Raise `BadOrder` if nothing can be issued for the plan's names and
    days.
    """
    if state is None:
        return Transition(RotationStep.CREATED, PairState(_issued(plan, now)))
    current, coming = state.current, state.next
    if now < certificate.first(current.cert_pem).not_valid_before_utc:
        return None
    settled = published is not None and published >= plan.settle
    retiring = is_retiring(state, now=now)
    if secret.untimely(current, now=now):
        # Expired: no caller accepts it, so the new pair cannot wait until it is trusted.
        usable = coming and _good(coming, plan, now) and not secret.untimely(coming, now=now)
        pair = coming if coming and usable else _issued(plan, now)
        return Transition(RotationStep.REPLACED, PairState(pair, retired=(current.ca_pem,)))
    if coming and not _good(coming, plan, now):
        # The staged pair is no longer usable, and no replica has served it.
        return Transition(RotationStep.STAGED, staged(state, plan=_widened(plan, coming), now=now))
    if retiring:
        return Transition(RotationStep.DROPPED, replace(state, retired=())) if settled else None
    if coming:
        if not settled or secret.untimely(coming, now=now):
            return None
        return Transition(RotationStep.PROMOTED, PairState(coming, retired=(current.ca_pem,)))
    if now >= rotates(state) or not _good(current, plan, now):
        # Due for rotation, or not valid for the names that callers use.
        return Transition(RotationStep.STAGED, staged(state, plan=_widened(plan, current), now=now))
    return None


def restore(remembered: PairState | None, *, plan: RotationPlan, now: datetime) -> Transition:
    """
    Return what to do when the shared state was lost: restore what is remembered, if it is still valid.

    A pair that is still trusted continues to be served, so that no call fails, but is rotated at once,
    because it was probably deleted for a reason.
    """
    if remembered is None or secret.untimely(remembered.current, now=now):
        return Transition(RotationStep.CREATED, PairState(_issued(plan, now)))
    return Transition(RotationStep.RESTORED, staged(remembered, plan=plan, now=now))


def staged(state: PairState, *, plan: RotationPlan, now: datetime) -> PairState:
    """Return the state with a new pair that will take over."""
    return replace(state, next=_issued(plan, now))


def rotates(state: PairState) -> datetime:
    """Return when rotation of the served pair begins."""
    return certificate.rotates(certificate.first(state.current.cert_pem))


def is_retiring(state: PairState, *, now: datetime) -> bool:
    """
    Return whether an old authority is still trusted because replicas may still serve its pair.

    One that has expired does not count, and is removed by the next rotation: it does no harm, and if our
    clock is ahead, other machines still need it.
    """
    return any(now < certificate.first(pem).not_valid_after_utc for pem in state.retired)


def _widened(plan: RotationPlan, pair: Pair) -> RotationPlan:
    """
    Return the plan; if a pair lacks some of its names, add those of the pair, which callers may still use.

    Otherwise replicas of two releases would rotate in turns for as long as both run. Names that are no longer
    used are removed by the next rotation.
    """
    served = certificate.first(pair.cert_pem)
    if not certificate.unnamed(served, plan.names):
        return plan
    names = dict.fromkeys((*plan.names, *certificate.names(served)))
    return replace(plan, names=tuple(names)[: max(MOST_NAMES, len(plan.names))])


def _good(pair: Pair, plan: RotationPlan, now: datetime) -> bool:
    """Return whether a pair has not expired, and is valid for all names."""
    served = certificate.first(pair.cert_pem)
    return now < served.not_valid_after_utc and not certificate.unnamed(served, plan.names)


def _issued(plan: RotationPlan, now: datetime) -> Pair:
    return authority.issue(names=plan.names, days=plan.days, now=now)
