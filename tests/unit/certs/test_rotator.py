"""What replicas do to the pair that they share: which one changes it, and what stale ones cannot do."""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import cast

import pytest

from certs.rotation import RotationPlan
from certs.rotation import RotationStep as Step
from certs.rotator import RotationState, Rotator
from certs.secret import PairState
from numalign.kube.client import Api
from numalign.kube.errors import Conflict, Forbidden, Unreachable
from tests.unit.certs.conftest import DAY
from tests.worlds.clock import Clock
from tests.worlds.notation import table
from tests.worlds.pairs import (
    CONFIGURATION,
    MUTATING,
    NAMES,
    PLACE,
    VALIDATING,
    bundles,
    configuration,
    configuration_path,
    files,
    pair,
    secret,
)
from tools.clusters.fake_api import FakeApi


def replica(client: Api, clock: Clock, *, names: tuple[str, ...] = NAMES) -> Rotator:
    plan = RotationPlan(names, days=30, settle=60)
    return Rotator(client, ref=PLACE, configuration=CONFIGURATION, plan=plan, now=clock.wall, clock=clock)


@pytest.fixture
async def shared(client: Api, clock: Clock) -> Rotator:
    """A replica that has created the first pair."""
    made = replica(client, clock)
    assert steps(await made.reconcile()) == [Step.CREATED]
    return made


def steps(result: RotationState) -> list[Step]:
    return [move.step for move in result.transitions]


def state_of(result: RotationState) -> PairState:
    assert result.secret.state is not None
    return result.secret.state


async def test_one_of_many_starting_replicas_creates_the_pair(
    cluster: FakeApi, client: Api, clock: Clock
) -> None:
    results = await asyncio.gather(*(replica(client, clock).reconcile() for _ in range(4)))

    assert [step for result in results for step in steps(result)] == [Step.CREATED]
    [bundle] = {state_of(result).bundle for result in results}
    assert bundles(cluster, MUTATING) == [bundle] * 2
    assert bundles(cluster, VALIDATING) == [bundle]


async def test_settled_pair_needs_no_write(cluster: FakeApi, shared: Rotator) -> None:
    cluster.requests.clear()
    result = await shared.reconcile()

    assert (result.transitions, {call.method for call in cluster.requests}) == ((), {"GET"})


async def test_rotation_from_its_beginning_to_its_end(
    cluster: FakeApi, clock: Clock, shared: Rotator
) -> None:
    old = state_of(await shared.reconcile()).current
    clock.advance(20 * DAY)
    history: list[list[Step]] = []
    trusted: list[int] = []
    for _ in range(20):
        history.append(steps(await shared.reconcile()))
        trusted.append(bundles(cluster, VALIDATING)[0].count(b"BEGIN"))
        clock.advance(10)
    state = state_of(await shared.reconcile())

    assert history == [[Step.STAGED], *[[]] * 5, [Step.PROMOTED], *[[]] * 5, [Step.DROPPED], *[[]] * 7]
    assert trusted == [2] * 12 + [1] * 8
    assert state.current != old
    assert bundles(cluster, MUTATING) == [state.current.ca_pem] * 2


async def test_second_replica_waits_its_own_time_for_a_step(client: Api, clock: Clock) -> None:
    first, second = replica(client, clock), replica(client, clock)
    await first.reconcile()
    clock.advance(20 * DAY)
    staged = state_of(await first.reconcile())
    clock.advance(600)

    assert steps(await second.reconcile()) == []
    clock.advance(59)
    assert steps(await second.reconcile()) == []
    clock.advance(1)
    promoted = await second.reconcile()
    assert steps(promoted) == [Step.PROMOTED]
    assert state_of(promoted).current == staged.next


async def test_two_replicas_take_each_step_once(client: Api, clock: Clock) -> None:
    both = [replica(client, clock) for _ in range(2)]
    history: list[Step] = []
    for wait in [0.0, 20 * DAY, *[30.0] * 8]:
        clock.advance(wait)
        for result in await asyncio.gather(*(each.reconcile() for each in both)):
            history += steps(result)

    assert history == [Step.CREATED, Step.STAGED, Step.PROMOTED, Step.DROPPED]


@pytest.mark.parametrize("kind", [MUTATING, VALIDATING])
async def test_untrusted_pair_is_never_promoted(
    cluster: FakeApi, clock: Clock, kind: str, shared: Rotator
) -> None:
    cluster.failures["PATCH", configuration_path(kind)] = HTTPStatus.FORBIDDEN
    clock.advance(20 * DAY)
    history = []
    for _ in range(5):
        history += steps(await shared.reconcile())
        clock.advance(60)

    assert history == [Step.STAGED]


async def test_lost_trust_restarts_the_wait(cluster: FakeApi, clock: Clock, shared: Rotator) -> None:
    clock.advance(20 * DAY)
    await shared.reconcile()
    clock.advance(55)
    cluster.put(configuration(VALIDATING))
    assert steps(await shared.reconcile()) == []
    clock.advance(55)
    assert steps(await shared.reconcile()) == []
    clock.advance(5)

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


async def test_delayed_replica_cannot_restore_an_old_bundle(
    cluster: FakeApi, client: Api, clock: Clock
) -> None:
    async def others_go_on() -> None:
        clock.advance(20 * DAY)
        assert steps(await other.reconcile()) == [Step.STAGED]

    other = replica(client, clock)
    slow = replica(cast("Api", DelayedApi(client, others_go_on)), Clock())
    await other.reconcile()
    # So that the stale one has something to write.
    cluster.put(configuration(VALIDATING))
    result = await slow.reconcile()

    assert bundles(cluster, VALIDATING) == [state_of(result).bundle]
    assert bundles(cluster, VALIDATING)[0].count(b"BEGIN") == 2


async def test_clock_that_jumps_back_changes_nothing(cluster: FakeApi, clock: Clock, shared: Rotator) -> None:
    before = state_of(await shared.reconcile())
    clock.jump = -20 * DAY
    result = await shared.reconcile()

    assert (steps(result), state_of(result)) == ([], before)
    assert bundles(cluster, VALIDATING) == [before.bundle]


async def test_clock_that_jumps_ahead_hurries_no_step(clock: Clock, shared: Rotator) -> None:
    clock.advance(20 * DAY)
    await shared.reconcile()
    clock.jump = 3600

    assert steps(await shared.reconcile()) == []


async def test_replica_with_a_clock_ahead_breaks_no_trust(
    cluster: FakeApi, client: Api, clock: Clock
) -> None:
    ahead = Clock(jump=40 * DAY)
    good, bad = replica(client, clock), replica(client, ahead)
    before = state_of(await good.reconcile()).current
    history: list[Step] = []
    for _ in range(6):
        history += steps(await bad.reconcile())
        assert steps(await good.reconcile()) == []
        clock.advance(60)
        ahead.advance(60)

    assert history == [Step.REPLACED]
    assert before.ca_pem in bundles(cluster, VALIDATING)[0]


async def test_deleted_secret_is_restored_with_a_next_pair(cluster: FakeApi, shared: Rotator) -> None:
    before = state_of(await shared.reconcile())
    cluster.delete(PLACE.path)
    result = await shared.reconcile()

    assert steps(result) == [Step.RESTORED]
    assert state_of(result).current == before.current
    assert state_of(result).next is not None


async def test_our_broken_secret_is_created_anew(cluster: FakeApi, client: Api, clock: Clock) -> None:
    cluster.put({**secret({"tls.crt": b"x"}), "type": "Opaque"})
    result = await replica(client, clock).reconcile()

    assert steps(result) == [Step.CREATED]
    assert (cluster.get(PLACE.path) or {})["type"] == "Opaque"


async def test_foreign_secret_is_trusted_and_never_written(
    cluster: FakeApi, client: Api, clock: Clock
) -> None:
    foreign = pair()
    stored = cluster.put(secret(files(foreign), ours=False))
    rotator = replica(client, clock)
    for _ in range(4):
        result = await rotator.reconcile()
        clock.advance(7 * DAY)

    assert state_of(result) == PairState(foreign)
    assert bundles(cluster, VALIDATING) == [foreign.ca_pem]
    assert cluster.get(PLACE.path) == stored


FOREIGN: list[tuple[str, dict[str, bytes], str]] = [
    ("broken", {**files(pair()), "tls.key": b"x"},
     "data[tls.key]: contains no PEM private key (-----BEGIN PRIVATE KEY-----)"),
    ("for other names", files(pair("x")), f"tls.crt: is not valid for {NAMES[0]}: its names are x"),
    ("expired", files(pair(days=1)), "tls.crt: expired at 2026-05-02T12:00:00+00:00"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "mistake"), table(FOREIGN))
async def test_bad_foreign_secret_is_neither_trusted_nor_written(
    cluster: FakeApi, client: Api, clock: Clock, data: dict[str, bytes], mistake: str
) -> None:
    stored = cluster.put(secret(data, ours=False))
    clock.advance(2 * DAY)
    result = await replica(client, clock).reconcile()

    assert [str(each) for each in result.secret.mistakes] == [mistake]
    assert result.secret.state is None
    assert cluster.get(PLACE.path) == stored
    assert bundles(cluster, VALIDATING) == [b""]


async def test_renamed_service_gets_a_pair_without_a_gap(cluster: FakeApi, client: Api, clock: Clock) -> None:
    before = state_of(await replica(client, clock).reconcile())
    result = await replica(client, clock, names=("other.svc",)).reconcile()

    assert steps(result) == [Step.STAGED]
    assert state_of(result).current == before.current
    assert before.current.ca_pem in bundles(cluster, VALIDATING)[0]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_missing_permission_is_raised(cluster: FakeApi, client: Api, clock: Clock, method: str) -> None:
    cluster.failures[method, PLACE.path if method == "GET" else PLACE.collection] = HTTPStatus.FORBIDDEN

    with pytest.raises(Forbidden):
        await replica(client, clock).reconcile()


async def test_unreachable_cluster_is_raised(cluster: FakeApi, client: Api, clock: Clock) -> None:
    await cluster.stop()

    with pytest.raises(Unreachable):
        await replica(client, clock).reconcile()


async def test_endless_conflict_is_raised_after_five_attempts(
    cluster: FakeApi, client: Api, clock: Clock
) -> None:
    cluster.failures["POST", PLACE.collection] = HTTPStatus.CONFLICT

    with pytest.raises(Conflict):
        await replica(client, clock).reconcile()
    assert len(cluster.asked("POST", PLACE.collection)) == 5
