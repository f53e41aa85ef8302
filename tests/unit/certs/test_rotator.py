"""What replicas do to the pair that they share: which one changes it, and what stale ones cannot do."""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import pytest

from certs.rotation import RotationPlan
from certs.rotation import RotationStep as Step
from certs.rotator import RotationState, Rotator
from certs.secret import PairState
from numalign.kube.client import Api
from numalign.kube.errors import Conflict
from tests.unit.certs.conftest import DAY, Site
from tests.worlds.clock import Clock
from tests.worlds.notation import table
from tests.worlds.pairs import (
    MUTATING,
    NAMES,
    PLACE,
    VALIDATING,
    configuration,
    configuration_path,
    files,
    pair,
    secret,
)


@pytest.fixture
async def shared(site: Site) -> Rotator:
    """A replica that has created the first pair."""
    made = site.rotator()
    assert steps(await made.reconcile()) == [Step.CREATED]
    return made


def steps(result: RotationState) -> list[Step]:
    return [move.step for move in result.transitions]


def state_of(result: RotationState) -> PairState:
    assert result.secret.state is not None
    return result.secret.state


async def test_one_of_many_starting_replicas_creates_the_pair(site: Site) -> None:
    results = await asyncio.gather(*(site.rotator().reconcile() for _ in range(4)))

    assert [step for result in results for step in steps(result)] == [Step.CREATED]
    [bundle] = {state_of(result).bundle for result in results}
    assert site.bundles(MUTATING) == [bundle] * 2
    assert site.bundles(VALIDATING) == [bundle]


async def test_settled_pair_needs_no_write(site: Site, shared: Rotator) -> None:
    site.api.requests.clear()
    result = await shared.reconcile()

    assert (result.transitions, {call.method for call in site.api.requests}) == ((), {"GET"})


async def test_rotation_from_its_beginning_to_its_end(site: Site, shared: Rotator) -> None:
    old = state_of(await shared.reconcile()).current
    site.clock.advance(20 * DAY)
    history, trusted = list[list[Step]](), list[int]()
    for _ in range(20):
        history.append(steps(await shared.reconcile()))
        trusted.append(site.bundles(VALIDATING)[0].count(b"BEGIN"))
        site.clock.advance(10)
    state = state_of(await shared.reconcile())

    assert history == [[Step.STAGED], *[[]] * 5, [Step.PROMOTED], *[[]] * 5, [Step.DROPPED], *[[]] * 7]
    assert trusted == [2] * 12 + [1] * 8
    assert state.current != old
    assert site.bundles(MUTATING) == [state.current.ca_pem] * 2


async def test_second_replica_waits_its_own_time_for_a_step(site: Site) -> None:
    first, second = site.rotator(), site.rotator()
    await first.reconcile()
    site.clock.advance(20 * DAY)
    staged = state_of(await first.reconcile())
    site.clock.advance(600)

    for wait in (59, 1):
        assert steps(await second.reconcile()) == []
        site.clock.advance(wait)
    promoted = await second.reconcile()
    assert (steps(promoted), state_of(promoted).current) == ([Step.PROMOTED], staged.next)


async def test_two_replicas_take_each_step_once(site: Site) -> None:
    both = [site.rotator() for _ in range(2)]
    history: list[Step] = []
    for wait in [0.0, 20 * DAY, *[30.0] * 8]:
        site.clock.advance(wait)
        for result in await asyncio.gather(*(each.reconcile() for each in both)):
            history += steps(result)

    assert history == [Step.CREATED, Step.STAGED, Step.PROMOTED, Step.DROPPED]


@pytest.mark.parametrize("kind", [MUTATING, VALIDATING])
async def test_untrusted_pair_is_never_promoted(site: Site, kind: str, shared: Rotator) -> None:
    site.api.failures["PATCH", configuration_path(kind)] = HTTPStatus.FORBIDDEN
    site.clock.advance(20 * DAY)
    history = []
    for _ in range(5):
        history += steps(await shared.reconcile())
        site.clock.advance(60)

    assert history == [Step.STAGED]


async def test_lost_trust_restarts_the_wait(site: Site, shared: Rotator) -> None:
    site.clock.advance(20 * DAY)
    await shared.reconcile()
    site.clock.advance(55)
    site.api.put(configuration(VALIDATING))
    for wait in (55, 5):
        assert steps(await shared.reconcile()) == []
        site.clock.advance(wait)

    assert steps(await shared.reconcile()) == [Step.PROMOTED]


class DelayedApi:
    """An API server whose first Secret takes so long to arrive that others write meanwhile."""

    def __init__(self, api: Api, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self.api, self.meanwhile = api, [meanwhile]
        self.patch, self.replace = api.patch, api.replace

    async def get(self, path: str, *, what: str) -> object:
        before = await self.api.get(path, what=what)
        if path == PLACE.path and self.meanwhile:
            await self.meanwhile.pop()()
        return before


async def test_delayed_replica_cannot_restore_an_old_bundle(site: Site) -> None:
    async def others_go_on() -> None:
        site.clock.advance(20 * DAY)
        assert steps(await other.reconcile()) == [Step.STAGED]

    other = site.rotator()
    slow = site.rotator(api=DelayedApi(site.client, others_go_on), clock=(stale := Clock()), now=stale.wall)
    await other.reconcile()
    # So that the stale one has something to write.
    site.api.put(configuration(VALIDATING))
    result = await slow.reconcile()

    assert site.bundles(VALIDATING) == [state_of(result).bundle]
    assert site.bundles(VALIDATING)[0].count(b"BEGIN") == 2


@pytest.mark.parametrize(("passed", "jump"), [(0, -20 * DAY), (20 * DAY, 3600)], ids=["back", "ahead"])
async def test_jump_of_the_clock_changes_nothing(
    site: Site, shared: Rotator, passed: float, jump: float
) -> None:
    site.clock.advance(passed)
    before = state_of(await shared.reconcile())
    site.clock.jump = jump
    result = await shared.reconcile()

    assert (steps(result), state_of(result)) == ([], before)
    assert site.bundles(VALIDATING) == [before.bundle]


async def test_replica_with_a_clock_ahead_breaks_no_trust(site: Site) -> None:
    ahead = Clock(jump=40 * DAY)
    good, bad = site.rotator(), site.rotator(clock=ahead, now=ahead.wall)
    before = state_of(await good.reconcile()).current
    history: list[Step] = []
    for _ in range(6):
        history += steps(await bad.reconcile())
        assert steps(await good.reconcile()) == []
        site.clock.advance(60)
        ahead.advance(60)

    assert history == [Step.REPLACED]
    assert before.ca_pem in site.bundles(VALIDATING)[0]


async def test_our_broken_secret_is_created_anew(site: Site) -> None:
    site.api.put({**secret({"tls.crt": b"x"}), "type": "Opaque"})
    result = await site.rotator().reconcile()

    assert steps(result) == [Step.CREATED]
    assert (site.api.get(PLACE.path) or {})["type"] == "Opaque"


async def test_foreign_secret_is_trusted_and_never_written(site: Site) -> None:
    foreign = pair()
    stored = site.store(files(foreign), ours=False)
    rotator = site.rotator()
    for _ in range(4):
        result = await rotator.reconcile()
        site.clock.advance(7 * DAY)

    assert (state_of(result), site.bundles(VALIDATING)) == (PairState(foreign), [foreign.ca_pem])
    assert site.api.get(PLACE.path) == stored


NO_KEY = "data[tls.key]: contains no PEM private key (-----BEGIN PRIVATE KEY-----)"
FOREIGN: list[tuple[str, dict[str, bytes], str]] = [
    ("broken", {**files(pair()), "tls.key": b"x"}, NO_KEY),
    ("for other names", files(pair("x")), f"tls.crt: is not valid for {NAMES[0]}: its names are x"),
    ("expired", files(pair(days=1)), "tls.crt: expired at 2026-05-02T12:00:00+00:00"),
]


@pytest.mark.parametrize(("data", "mistake"), table(FOREIGN))
async def test_bad_foreign_secret_is_neither_trusted_nor_written(
    site: Site, data: dict[str, bytes], mistake: str
) -> None:
    stored = site.store(data, ours=False)
    site.clock.advance(2 * DAY)
    result = await site.rotator().reconcile()

    assert ([str(each) for each in result.secret.mistakes], result.secret.state) == ([mistake], None)
    assert (site.api.get(PLACE.path), site.bundles(VALIDATING)) == (stored, [b""])


async def test_renamed_service_gets_a_pair_without_a_gap(site: Site) -> None:
    before = state_of(await site.rotator().reconcile())
    result = await site.rotator(RotationPlan(("other.svc",), days=30, settle=60)).reconcile()

    assert steps(result) == [Step.STAGED]
    assert state_of(result).current == before.current
    assert before.current.ca_pem in site.bundles(VALIDATING)[0]


async def test_endless_conflict_is_raised_after_five_attempts(site: Site) -> None:
    site.api.failures["POST", PLACE.collection] = HTTPStatus.CONFLICT

    with pytest.raises(Conflict):
        await site.rotator().reconcile()
    assert len(site.api.asked("POST", PLACE.collection)) == 5
