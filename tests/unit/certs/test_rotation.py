"""When which step is due, and the laws that every history of steps keeps."""

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
from tests.worlds.notation import table
from tests.worlds.pairs import NAMES, START, pair

PLAN = RotationPlan(NAMES, days=30, settle=60)
OTHER = RotationPlan(("other.numalign-system.svc",), days=30, settle=60)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)

OLD = pair(now=START - 25 * DAY)
OVER = pair(now=START - 31 * DAY)
FUTURE = pair(now=START + DAY)
YOUNG, NEXT = pair(), pair()
RETIRED = (OLD.ca_pem,)
GONE = (OVER.ca_pem,)


def due(
    held: PairState | None,
    *,
    plan: RotationPlan = PLAN,
    now: datetime = START,
    published: float | None = None,
) -> Transition | None:
    return rotation.due(held, plan=plan, now=now, published=published)


DUE: list[tuple[str, PairState, RotationPlan, float | None, Step | None]] = [
    ("young", PairState(YOUNG), PLAN, 999, None),
    ("two thirds over", PairState(OLD), PLAN, None, Step.STAGED),
    ("young, but for another name", PairState(YOUNG), OTHER, None, Step.STAGED),
    ("staged, not trusted", PairState(OLD, NEXT), PLAN, None, None),
    ("staged, trusted for a moment", PairState(OLD, NEXT), PLAN, 59.9, None),
    ("staged, trusted for long enough", PairState(OLD, NEXT), PLAN, 60, Step.PROMOTED),
    ("staged for another name", PairState(YOUNG, NEXT), OTHER, 999, Step.STAGED),
    ("staged, but over meanwhile", PairState(YOUNG, OVER), PLAN, 999, Step.STAGED),
    ("staged by a clock that is ahead", PairState(OLD, FUTURE), PLAN, 999, None),
    ("promoted, not trusted", PairState(YOUNG, None, RETIRED), PLAN, None, None),
    ("promoted, for a moment", PairState(YOUNG, None, RETIRED), PLAN, 59.9, None),
    ("promoted, for long enough", PairState(YOUNG, None, RETIRED), PLAN, 60, Step.DROPPED),
    ("promoted and staged, not settled", PairState(YOUNG, NEXT, RETIRED), PLAN, 1, None),
    ("promoted and staged: one after the other", PairState(YOUNG, NEXT, RETIRED), PLAN, 60, Step.DROPPED),
    ("promoted, for another name: one after the other", PairState(YOUNG, None, RETIRED), OTHER, 1, None),
    ("over", PairState(OVER), PLAN, None, Step.REPLACED),
    ("over, with a next one", PairState(OVER, NEXT), PLAN, None, Step.REPLACED),
    ("an old authority that is over stays", PairState(YOUNG, None, GONE), PLAN, 999, None),
    ("an old authority that is over stops no rotation", PairState(OLD, None, GONE), PLAN, None, Step.STAGED),
    ("an old authority that is over stops no promotion", PairState(OLD, NEXT, GONE), PLAN, 60, Step.PROMOTED),
    ("from the future", PairState(FUTURE), PLAN, 999, None),
    ("from the future, promoted", PairState(FUTURE, None, RETIRED), PLAN, 999, None),
    ("from the future, for another name", PairState(FUTURE), OTHER, 999, None),
]  # fmt: skip


@pytest.mark.parametrize(("held", "plan", "published", "step"), table(DUE))
def test_the_step_that_is_due(
    held: PairState, plan: RotationPlan, published: float | None, step: Step | None
) -> None:
    move = due(held, plan=plan, published=published)

    assert (move.step if move else None) == step


def led(held: PairState | None, *, plan: RotationPlan = PLAN, now: datetime = START) -> PairState:
    move = due(held, plan=plan, now=now, published=60)
    assert move is not None
    return move.state


def test_the_first_pair_is_for_the_names_and_days_of_the_plan() -> None:
    held = led(None)
    shown = certificate.first(held.current.cert_pem)

    assert (held.next, held.retired) == (None, ())
    assert certificate.names(shown) == NAMES
    assert shown.not_valid_after_utc == START + 30 * DAY


def test_staging_leaves_what_is_served_alone() -> None:
    held = led(PairState(OLD))

    assert (held.current, held.retired) == (OLD, ())
    assert held.next not in (None, OLD)


def test_staging_again_forgets_what_nobody_served() -> None:
    held = led(PairState(OLD, OVER, ()))

    assert held.current == OLD
    assert held.next not in (None, OVER)


def test_replicas_that_are_called_by_other_names_agree_on_a_pair_for_all() -> None:
    held, steps = PairState(pair()), 0
    while moves := [move for plan in (PLAN, OTHER) if (move := due(held, plan=plan, published=60))]:
        held, steps = moves[0].state, steps + 1
        assert steps < 10

    names = certificate.names(certificate.first(held.current.cert_pem))
    assert set(names) == {*PLAN.names, *OTHER.names}


def test_a_name_that_nobody_is_called_by_goes_with_the_next_rotation() -> None:
    both = pair(*NAMES, "gone.numalign-system.svc", now=START - 25 * DAY)
    held = led(PairState(both))
    assert held.next

    assert certificate.names(certificate.first(held.next.cert_pem)) == NAMES


def test_promotion_and_the_end_of_a_rotation() -> None:
    promoted = led(PairState(OLD, NEXT))

    assert promoted == PairState(NEXT, None, (OLD.ca_pem,))
    assert led(promoted) == PairState(NEXT)
    assert led(PairState(OLD, NEXT, GONE)) == promoted
    assert led(PairState(YOUNG, NEXT, RETIRED)) == PairState(YOUNG, NEXT)


def test_what_expired_is_replaced_by_the_next_if_that_is_good() -> None:
    assert led(PairState(OVER, NEXT)) == PairState(NEXT, None, (OVER.ca_pem,))


@pytest.mark.parametrize(
    "coming", [None, FUTURE, OVER, pair("x")], ids=["none", "future", "over", "misnamed"]
)
def test_what_expired_is_replaced_by_a_new_one_else(coming: Pair | None) -> None:
    held = led(PairState(OVER, coming))

    assert held.current not in (OVER, coming)
    assert (held.next, held.retired) == (None, (OVER.ca_pem,))


def test_what_was_lost_is_shared_again_and_makes_way() -> None:
    move = rotation.restore(PairState(YOUNG), plan=PLAN, now=START)

    assert (move.step, move.state.current) == (Step.RESTORED, YOUNG)
    assert move.state.next is not None


@pytest.mark.parametrize(
    "remembered", [None, PairState(OVER), PairState(FUTURE)], ids=["nothing", "over", "future"]
)
def test_what_was_lost_and_is_good_for_nothing_is_made_anew(remembered: PairState | None) -> None:
    move = rotation.restore(remembered, plan=PLAN, now=START)

    assert move.step == Step.CREATED
    assert remembered is None or move.state.current != remembered.current


def test_a_plan_for_which_nothing_can_be_issued() -> None:
    with pytest.raises(BadOrder) as caught:
        due(None, plan=RotationPlan(("_",), days=0))

    assert len(caught.value.mistakes) == 2


@dataclass
class Caller:
    """An API server and the replicas that it calls, as far as certificates go.

    `served` is what some replica may still show: the pair of this state or of the one before it.
    """

    now: datetime = START
    held: PairState = field(
        default_factory=lambda: PairState(authority.issue(names=NAMES, days=30, now=START))
    )
    trusted: bytes = b""
    since: float | None = None
    seconds: float = 0.0
    before: PairState | None = None
    plan: RotationPlan = PLAN

    def publish(self) -> None:
        """The bundle reaches the API server."""
        if self.trusted != self.held.bundle or self.since is None:
            self.trusted, self.since = self.held.bundle, self.seconds

    def look(self) -> Transition | None:
        """A replica looks, and does what is due."""
        published = None if self.since is None else self.seconds - self.since
        move = rotation.due(self.held, plan=self.plan, now=self.now, published=published)
        if move:
            self.before, self.held, self.since = self.held, move.state, None
        return move

    def passes(self, span: timedelta) -> None:
        """Time goes on; by a minute and more, everybody has looked."""
        self.now += span
        self.seconds += span.total_seconds()
        if span >= timedelta(seconds=PLAN.settle):
            self.before = None

    def served(self) -> list[Pair]:
        """What is shown and still valid."""
        pairs = [self.held.current, *([self.before.current] if self.before else [])]
        return [each for each in pairs if valid(each, self.now)]


def valid(each: Pair, now: datetime) -> bool:
    shown = certificate.first(each.cert_pem)
    return shown.not_valid_before_utc <= now < shown.not_valid_after_utc


DEEDS: list[tuple[str, Callable[[Caller], object]]] = [
    ("look", Caller.look),
    ("publish", Caller.publish),
    ("a moment", lambda caller: caller.passes(timedelta(seconds=20))),
    ("a minute", lambda caller: caller.passes(timedelta(seconds=60))),
    ("days", lambda caller: caller.passes(7 * DAY)),
    ("months", lambda caller: caller.passes(70 * DAY)),
    ("the clock jumps back", lambda caller: setattr(caller, "now", caller.now - 3 * DAY)),
    ("another name", lambda caller: setattr(caller, "plan", OTHER)),
    ("the old name", lambda caller: setattr(caller, "plan", PLAN)),
]
HISTORIES = st.lists(st.sampled_from([name for name, _ in DEEDS]), max_size=40)


@given(history=HISTORIES)
def test_whatever_is_shown_is_trusted_once_it_was(history: list[str]) -> None:
    caller = Caller()
    caller.publish()
    for name in history:
        replaced = dict(DEEDS)[name](caller)
        if isinstance(replaced, Transition) and replaced.step == Step.REPLACED:
            # What went before was worth nothing any more, so the new pair cannot be waited for.
            caller.publish()
        for each in caller.served():
            assert each.ca_pem in caller.trusted, name


@given(history=HISTORIES)
def test_every_history_comes_to_rest_with_one_good_pair(history: list[str]) -> None:
    caller = Caller()
    for name in history:
        dict(DEEDS)[name](caller)
    # A clock that had jumped back is right again.
    for each in filter(None, (caller.held.current, caller.held.next)):
        caller.now = max(caller.now, certificate.first(each.cert_pem).not_valid_before_utc)
    steps = 0
    while caller.look() or caller.held.next or rotation.is_retiring(caller.held, now=caller.now):
        caller.publish()
        caller.passes(timedelta(seconds=60))
        steps += 1
        assert steps < 9
    shown = certificate.first(caller.held.current.cert_pem)

    assert valid(caller.held.current, caller.now)
    assert caller.now < certificate.rotates(shown)
    assert not certificate.unnamed(shown, caller.plan.names)
    assert caller.look() is None


@given(days=st.integers(1, 3650), later=st.timedeltas(timedelta(0), timedelta(days=4000)))
def test_what_is_issued_lives_as_long_as_the_plan_says(days: int, later: timedelta) -> None:
    now = START + later
    held = (
        led(PairState(YOUNG), plan=RotationPlan(NAMES, days=days), now=now) if later > 20 * DAY else led(None)
    )
    issued = held.next or held.current
    shown = certificate.first(issued.cert_pem)
    wanted = timedelta(days=days) if later > 20 * DAY else timedelta(days=30)

    assert shown.not_valid_after_utc - shown.not_valid_before_utc == wanted + authority.BACKDATED
