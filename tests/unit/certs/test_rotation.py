"""When which step is due, and the laws that every history of steps obeys."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certs import authority, certificate, rotation
from certs.authority import BadOrder, Pair
from certs.rotation import RotationPlan, Transition
from certs.rotation import RotationStep as Step
from certs.secret import PairState
from tests.worlds.clock import NOON
from tests.worlds.notation import table
from tests.worlds.pairs import NAMES, pair

PLAN = RotationPlan(NAMES, days=30, settle=60)
OTHER = RotationPlan(("other.numalign-system.svc",), days=30, settle=60)
DAY = timedelta(days=1)

OLD = pair(now=NOON - 25 * DAY)
EXPIRED = pair(now=NOON - 31 * DAY)
FUTURE = pair(now=NOON + DAY)
YOUNG, NEXT = pair(), pair()
RETIRED = (OLD.ca_pem,)
GONE = (EXPIRED.ca_pem,)


DUE: list[tuple[str, PairState, RotationPlan, float | None, Step | None]] = [
    ("two thirds over", PairState(OLD), PLAN, None, Step.STAGED),
    ("young, but for another name", PairState(YOUNG), OTHER, None, Step.STAGED),
    ("staged, trusted for a moment", PairState(OLD, NEXT), PLAN, 59.9, None),
    ("staged, trusted for long enough", PairState(OLD, NEXT), PLAN, 60, Step.PROMOTED),
    ("staged for another name", PairState(YOUNG, NEXT), OTHER, 999, Step.STAGED),
    ("staged, but expired meanwhile", PairState(YOUNG, EXPIRED), PLAN, 999, Step.STAGED),
    ("staged by a clock that is ahead", PairState(OLD, FUTURE), PLAN, 999, None),
    ("promoted, for a moment", PairState(YOUNG, None, RETIRED), PLAN, 59.9, None),
    ("promoted, for long enough", PairState(YOUNG, None, RETIRED), PLAN, 60, Step.DROPPED),
    ("promoted, for another name: one after the other", PairState(YOUNG, None, RETIRED), OTHER, 1, None),
    ("expired", PairState(EXPIRED), PLAN, None, Step.REPLACED),
    ("an expired old authority stays", PairState(YOUNG, None, GONE), PLAN, 999, None),
    ("an expired old authority stops no rotation", PairState(OLD, None, GONE), PLAN, None, Step.STAGED),
    ("an expired old authority stops no promotion", PairState(OLD, NEXT, GONE), PLAN, 60, Step.PROMOTED),
    ("from the future", PairState(FUTURE), PLAN, 999, None),
    ("from the future, for another name", PairState(FUTURE), OTHER, 999, None),
]  # fmt: skip


@pytest.mark.parametrize(("state", "plan", "published", "step"), table(DUE))
def test_step_that_is_due(
    state: PairState, plan: RotationPlan, published: float | None, step: Step | None
) -> None:
    move = rotation.due(state, plan=plan, now=NOON, published=published)

    assert (move.step if move else None) == step


def after(state: PairState | None, *, plan: RotationPlan = PLAN, now: datetime = NOON) -> PairState:
    move = rotation.due(state, plan=plan, now=now, published=60)
    assert move
    return move.state


def names_of(made: Pair | None) -> tuple[str, ...]:
    assert made
    return tuple(certificate.names(certificate.first(made.cert_pem)))


def test_first_pair_has_the_names_and_days_of_the_plan() -> None:
    state = after(None)

    assert (state.next, state.retired) == (None, ())
    assert names_of(state.current) == NAMES
    assert certificate.first(state.current.cert_pem).not_valid_after_utc == NOON + 30 * DAY


def test_replicas_of_two_names_agree_on_a_pair_for_both() -> None:
    state, steps = PairState(pair()), 0
    while any(rotation.due(state, plan=plan, now=NOON, published=60) for plan in (PLAN, OTHER)):
        plan = PLAN if rotation.due(state, plan=PLAN, now=NOON, published=60) else OTHER
        state, steps = after(state, plan=plan), steps + 1
        assert steps < 10

    assert set(names_of(state.current)) == {*PLAN.names, *OTHER.names}


def test_unused_name_goes_with_the_next_rotation() -> None:
    both = pair(*NAMES, "gone.numalign-system.svc", now=NOON - 25 * DAY)

    assert names_of(after(PairState(both)).next) == NAMES


def test_promotion_and_the_end_of_a_rotation() -> None:
    promoted = after(PairState(OLD, NEXT))

    assert promoted == PairState(NEXT, None, (OLD.ca_pem,))
    assert after(promoted) == PairState(NEXT)
    assert after(PairState(OLD, NEXT, GONE)) == promoted
    assert after(PairState(EXPIRED, NEXT)) == PairState(NEXT, None, GONE)
    assert after(PairState(YOUNG, NEXT, RETIRED)) == PairState(YOUNG, NEXT)


@pytest.mark.parametrize(
    "coming", [None, FUTURE, EXPIRED, pair("x")], ids=["none", "future", "expired", "misnamed"]
)
def test_new_pair_replaces_an_expired_one_otherwise(coming: Pair | None) -> None:
    state = after(PairState(EXPIRED, coming))

    assert state.current not in (EXPIRED, coming)
    assert (state.next, state.retired) == (None, (EXPIRED.ca_pem,))


LOST: list[tuple[str, Pair | None, Step]] = [
    ("nothing", None, Step.CREATED),
    ("expired", EXPIRED, Step.CREATED),
    ("from the future", FUTURE, Step.CREATED),
]


@pytest.mark.parametrize(("remembered", "step"), table(LOST))
def test_lost_pair_is_restored_and_rotated_or_created_anew(remembered: Pair | None, step: Step) -> None:
    move = rotation.restore(PairState(remembered) if remembered else None, plan=PLAN, now=NOON)

    restored = step is Step.RESTORED
    assert (move.step, move.state.current == remembered) == (step, restored)
    assert bool(move.state.next) is restored


def test_impossible_plan_is_an_error() -> None:
    with pytest.raises(BadOrder) as caught:
        after(None, plan=RotationPlan(("_",), days=0))

    assert len(caught.value.mistakes) == 2


@dataclass
class Caller:
    """An API server and the replicas that it calls.

    `served` are the pairs that some replica may serve: that of this state or of the one before it.
    """

    now: datetime = NOON
    state: PairState = field(default_factory=lambda: PairState(pair()))
    trusted: bytes = b""
    since: float | None = None
    seconds: float = 0.0
    before: PairState | None = None
    plan: RotationPlan = PLAN

    def publish(self) -> None:
        """The bundle reaches the API server."""
        if self.trusted != self.state.bundle or self.since is None:
            self.trusted, self.since = self.state.bundle, self.seconds

    def look(self) -> Transition | None:
        """A replica does what is due."""
        published = None if self.since is None else self.seconds - self.since
        move = rotation.due(self.state, plan=self.plan, now=self.now, published=published)
        if move:
            self.before, self.state, self.since = self.state, move.state, None
        return move

    def passes(self, span: timedelta) -> None:
        """Time goes on; within a minute, all replicas have looked."""
        self.now += span
        self.seconds += span.total_seconds()
        if span >= timedelta(seconds=PLAN.settle):
            self.before = None

    def served(self) -> list[Pair]:
        pairs = [self.state.current, *([self.before.current] if self.before else [])]
        return [each for each in pairs if valid(each, self.now)]


def valid(each: Pair, now: datetime) -> bool:
    first = certificate.first(each.cert_pem)
    return first.not_valid_before_utc <= now < first.not_valid_after_utc


DEEDS: dict[str, Callable[[Caller], object]] = {
    "look": Caller.look,
    "publish": Caller.publish,
    "a moment": lambda caller: caller.passes(timedelta(seconds=20)),
    "a minute": lambda caller: caller.passes(timedelta(seconds=60)),
    "days": lambda caller: caller.passes(7 * DAY),
    "months": lambda caller: caller.passes(70 * DAY),
    "the clock jumps back": lambda caller: setattr(caller, "now", caller.now - 3 * DAY),
    "another name": lambda caller: setattr(caller, "plan", OTHER),
    "the old name": lambda caller: setattr(caller, "plan", PLAN),
}
HISTORIES = st.lists(st.sampled_from([*DEEDS]), max_size=40)


@given(history=HISTORIES)
def test_served_pairs_are_always_trusted(history: list[str]) -> None:
    caller = Caller()
    caller.publish()
    for name in history:
        move = DEEDS[name](caller)
        if isinstance(move, Transition) and move.step == Step.REPLACED:
            # The pair before it had expired, so the new one cannot wait until it is trusted.
            caller.publish()
        for each in caller.served():
            assert each.ca_pem in caller.trusted, name


@given(history=HISTORIES)
def test_every_history_ends_with_one_good_pair(history: list[str]) -> None:
    caller = Caller()
    for name in history:
        DEEDS[name](caller)
    # A clock that had jumped back is right again.
    for each in filter(None, (caller.state.current, caller.state.next)):
        caller.now = max(caller.now, certificate.first(each.cert_pem).not_valid_before_utc)
    steps = 0
    while caller.look() or caller.state.next or rotation.is_retiring(caller.state, now=caller.now):
        caller.publish()
        caller.passes(timedelta(seconds=60))
        steps += 1
        assert steps < 9
    served = certificate.first(caller.state.current.cert_pem)

    assert valid(caller.state.current, caller.now)
    assert caller.now < certificate.rotates(served)
    assert not certificate.unnamed(served, caller.plan.names)
    assert caller.look() is None


@given(days=st.integers(1, 3650), later=st.timedeltas(21 * DAY, 4000 * DAY))
def test_next_pair_lives_as_long_as_planned(days: int, later: timedelta) -> None:
    state = after(PairState(YOUNG), plan=RotationPlan(NAMES, days=days), now=NOON + later)
    issued = certificate.first((state.next or state.current).cert_pem)

    lifetime = issued.not_valid_after_utc - issued.not_valid_before_utc
    assert lifetime == timedelta(days=days) + authority.BACKDATED
