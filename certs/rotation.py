"""
When a pair is changed for another, and in which steps, so that nobody is shown one that he does not trust.

First the new authority is trusted beside the old one (staged); when that has been so everywhere for a while
the new pair is served (promoted), which changes nothing in what is trusted; when everybody serves it the old
authority is trusted no longer (dropped). How long a step has been known is counted by whoever looks, from the
moment at which he himself saw it: no clock of another machine is believed. A pair that is not valid yet says
that some clock is wrong, so nothing is done about it until it is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from certs import authority, certificate, state
from certs.authority import Pair
from certs.state import State

DAYS = 365
SETTLE_SECONDS = 60.0
MOST_NAMES = 32


class Step(StrEnum):
    """What is done to the shared state."""

    CREATED = "created"
    RESTORED = "restored"
    REPLACED = "replaced"
    STAGED = "staged"
    PROMOTED = "promoted"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Plan:
    """What pairs are issued for, how many days they live, and the seconds that each step is given."""

    names: Sequence[str]
    days: int = DAYS
    settle: float = SETTLE_SECONDS


@dataclass(frozen=True, slots=True)
class Move:
    """A step that is due, and the state that it leads to."""

    step: Step
    state: State


def due(held: State | None, *, plan: Plan, now: datetime, published: float | None) -> Move | None:
    """The next step; None while there is nothing to do.

    `published` is for how many seconds the caller has known that those who call trust the bundle of this very
    state; None if they do not. Raises `BadOrder` if nothing can be issued for the plan's names and days.
    """
    if held is None:
        return Move(Step.CREATED, State(_issued(plan, now)))
    if now < certificate.first(held.current.cert_pem).not_valid_before_utc:
        return None
    settled = published is not None and published >= plan.settle
    seen = _Seen(held=held, plan=plan, now=now, settled=settled)
    found = ((step, rule(seen)) for step, rule in _RULES)
    return next((Move(step, after) for step, after in found if after is not None), None)


def again(remembered: State | None, *, plan: Plan, now: datetime) -> Move:
    """What to do when the shared state was lost: share what is remembered, if it is still good.

    A pair that is still trusted goes on, so that no call fails, and makes way for a new one at once: whoever
    removed it meant something by it.
    """
    if remembered is None or state.untimely(remembered.current, now=now):
        return Move(Step.CREATED, State(_issued(plan, now)))
    return Move(Step.RESTORED, staged(remembered, plan=plan, now=now))


def staged(held: State, *, plan: Plan, now: datetime) -> State:
    """The state with a pair that will take over."""
    return replace(held, next=_issued(plan, now))


def rotates(held: State) -> datetime:
    """When the pair that is served begins to be changed."""
    return certificate.rotates(certificate.first(held.current.cert_pem))


def leaving(held: State, *, now: datetime) -> bool:
    """Whether an old authority is still trusted for the sake of those who may show its pair.

    One that has expired does not count, and goes with the next rotation: it does no harm, unless it is our
    clock that is ahead, and then everybody else needs it.
    """
    return any(now < certificate.first(pem).not_valid_after_utc for pem in held.retired)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A state, and what decides about it."""

    held: State
    plan: Plan
    now: datetime
    settled: bool

    @property
    def leaving(self) -> bool:
        return leaving(self.held, now=self.now)


def _replaced(seen: _Seen) -> State | None:
    """Expired: nobody accepts it any more, so the new pair cannot wait to be trusted."""
    if not state.untimely(seen.held.current, now=seen.now):
        return None
    coming = seen.held.next
    good = coming is not None and _good(coming, seen) and not state.untimely(coming, now=seen.now)
    pair = coming if good and coming else _issued(seen.plan, seen.now)
    return State(pair, retired=(seen.held.current.ca_pem,))


def _staged_again(seen: _Seen) -> State | None:
    """What waits is good for nothing any more; nobody has served it."""
    coming = seen.held.next
    if coming is None or _good(coming, seen):
        return None
    return staged(seen.held, plan=_widened(coming, seen), now=seen.now)


def _dropped(seen: _Seen) -> State | None:
    if not seen.leaving or not seen.settled:
        return None
    return replace(seen.held, retired=())


def _promoted(seen: _Seen) -> State | None:
    coming = seen.held.next
    if coming is None or seen.leaving or not seen.settled or state.untimely(coming, now=seen.now):
        return None
    return State(coming, retired=(seen.held.current.ca_pem,))


def _staged(seen: _Seen) -> State | None:
    """Old, or not for the names by which we are called."""
    held = seen.held
    if held.next or seen.leaving or (_good(held.current, seen) and seen.now < rotates(held)):
        return None
    return staged(held, plan=_widened(held.current, seen), now=seen.now)


def _widened(pair: Pair, seen: _Seen) -> Plan:
    """The plan; with the names of a pair that lacks some of the plan's, which others may be called by.

    Replicas of two releases would otherwise take turns for as long as both run. What nobody is called by any
    more goes with the next rotation.
    """
    shown = certificate.first(pair.cert_pem)
    if not certificate.unnamed(shown, seen.plan.names):
        return seen.plan
    names = dict.fromkeys((*seen.plan.names, *certificate.names(shown)))
    return replace(seen.plan, names=tuple(names)[: max(MOST_NAMES, len(seen.plan.names))])


def _good(pair: Pair, seen: _Seen) -> bool:
    """Not over, and for all names."""
    shown = certificate.first(pair.cert_pem)
    return seen.now < shown.not_valid_after_utc and not certificate.unnamed(shown, seen.plan.names)


def _issued(plan: Plan, now: datetime) -> Pair:
    return authority.issue(names=plan.names, days=plan.days, now=now)


_RULES: tuple[tuple[Step, Callable[[_Seen], State | None]], ...] = (
    (Step.REPLACED, _replaced),
    (Step.STAGED, _staged_again),
    (Step.DROPPED, _dropped),
    (Step.PROMOTED, _promoted),
    (Step.STAGED, _staged),
)
"""The first that applies."""
