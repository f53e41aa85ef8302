"""What replicas do to what they share: who makes it, who changes it, and what stale ones cannot do."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from http import HTTPStatus
from typing import cast

import pytest

from certs.rotation import RotationPlan
from certs.rotation import RotationStep as Step
from certs.rotator import RotationState, Rotator
from certs.secret import PairState
from numalign.kube.client import Api
from numalign.kube.errors import Conflict, Forbidden, Unreachable
from tests.worlds.notation import table
from tests.worlds.pairs import (
    CONFIGURATION,
    MUTATING,
    NAMES,
    PLACE,
    VALIDATING,
    Time,
    bundles,
    configuration,
    configuration_path,
    files,
    pair,
    secret,
)
from tools.clusters.fake_api import FakeApi

DAY = 86400.0


def replica(client: Api, time: Time, *, names: tuple[str, ...] = NAMES) -> Rotator:
    plan = RotationPlan(names, days=30, settle=60)
    return Rotator(client, ref=PLACE, configuration=CONFIGURATION, plan=plan, now=time.now, clock=time.clock)


@pytest.fixture
async def shared(client: Api, time: Time) -> Rotator:
    """A replica that has made the first pair."""
    made = replica(client, time)
    assert steps(await made.reconcile()) == [Step.CREATED]
    return made


def steps(look: RotationState) -> list[Step]:
    return [move.step for move in look.transitions]


def held(look: RotationState) -> PairState:
    assert look.secret.state is not None
    return look.secret.state


async def test_the_first_makes_a_pair_and_lets_it_be_trusted(
    cluster: FakeApi, client: Api, time: Time
) -> None:
    look = await replica(client, time).reconcile()

    assert steps(look) == [Step.CREATED]
    assert bundles(cluster, MUTATING) == [held(look).bundle] * 2
    assert bundles(cluster, VALIDATING) == [held(look).bundle]


async def test_of_many_that_start_at_once_one_makes_it_and_all_hold_it(
    cluster: FakeApi, client: Api, time: Time
) -> None:
    looks = await asyncio.gather(*(replica(client, time).reconcile() for _ in range(4)))

    assert sum(len(look.transitions) for look in looks) == 1
    assert len({held(look).bundle for look in looks}) == 1
    assert bundles(cluster, VALIDATING) == [held(looks[0]).bundle]


async def test_at_rest_nothing_is_written(cluster: FakeApi, shared: Rotator) -> None:
    cluster.requests.clear()
    look = await shared.reconcile()

    assert (look.transitions, {asked.method for asked in cluster.requests}) == ((), {"GET"})


async def test_a_rotation_from_its_beginning_to_its_end(
    cluster: FakeApi, time: Time, shared: Rotator
) -> None:
    old = held(await shared.reconcile()).current
    time.passes(20 * DAY)
    told: list[list[Step]] = []
    trusted: list[int] = []
    for _ in range(20):
        told.append(steps(await shared.reconcile()))
        trusted.append(bundles(cluster, VALIDATING)[0].count(b"BEGIN"))
        time.passes(10)
    look = await shared.reconcile()

    assert told == [[Step.STAGED], *[[]] * 5, [Step.PROMOTED], *[[]] * 5, [Step.DROPPED], *[[]] * 7]
    assert trusted == [2] * 12 + [1] * 8
    assert held(look).current != old
    assert bundles(cluster, MUTATING) == [held(look).current.ca_pem] * 2


async def test_another_replica_takes_over_a_rotation_in_the_middle(client: Api, time: Time) -> None:
    first, second = replica(client, time), replica(client, time)
    await first.reconcile()
    time.passes(20 * DAY)
    staged = held(await first.reconcile())
    time.passes(600)

    assert steps(await second.reconcile()) == []
    time.passes(59)
    assert steps(await second.reconcile()) == []
    time.passes(1)
    promoted = await second.reconcile()
    assert steps(promoted) == [Step.PROMOTED]
    assert held(promoted).current == staged.next


async def test_two_that_look_together_take_each_step_once(client: Api, time: Time) -> None:
    both = [replica(client, time) for _ in range(2)]
    told: list[Step] = []
    for wait in [0.0, 20 * DAY, *[30.0] * 8]:
        time.passes(wait)
        for look in await asyncio.gather(*(each.reconcile() for each in both)):
            told += steps(look)

    assert told == [Step.CREATED, Step.STAGED, Step.PROMOTED, Step.DROPPED]


@pytest.mark.parametrize("kind", [MUTATING, VALIDATING])
async def test_nothing_is_promoted_while_one_does_not_trust_it(
    cluster: FakeApi, time: Time, kind: str, shared: Rotator
) -> None:
    cluster.failures["PATCH", configuration_path(kind)] = HTTPStatus.FORBIDDEN
    time.passes(20 * DAY)
    told = []
    for _ in range(5):
        told += steps(await shared.reconcile())
        time.passes(60)

    assert told == [Step.STAGED]


async def test_trust_that_was_lost_is_waited_for_again(cluster: FakeApi, time: Time, shared: Rotator) -> None:
    time.passes(20 * DAY)
    await shared.reconcile()
    time.passes(55)
    cluster.put(configuration(VALIDATING))
    assert steps(await shared.reconcile()) == []
    time.passes(55)
    assert steps(await shared.reconcile()) == []
    time.passes(5)

    assert steps(await shared.reconcile()) == [Step.PROMOTED]


class HeldUp:
    """An API server whose first Secret takes so long to arrive that others do something meanwhile."""

    def __init__(self, api: Api, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self.api = api
        self.meanwhile = [meanwhile]
        self.patch = api.patch
        self.replace = api.replace

    async def get(self, path: str, *, what: str) -> object:
        """What stood there before."""
        found = await self.api.get(path, what=what)
        if path == PLACE.path and self.meanwhile:
            await self.meanwhile.pop()()
        return found


async def test_one_that_was_held_up_cannot_bring_back_what_was_trusted_once(
    cluster: FakeApi, client: Api, time: Time
) -> None:
    async def others_go_on() -> None:
        time.passes(20 * DAY)
        assert steps(await other.reconcile()) == [Step.STAGED]

    other = replica(client, time)
    slow = replica(cast("Api", HeldUp(client, others_go_on)), Time())
    await other.reconcile()
    # So that the stale one has something to write.
    cluster.put(configuration(VALIDATING))
    look = await slow.reconcile()

    assert bundles(cluster, VALIDATING) == [held(look).bundle]
    assert bundles(cluster, VALIDATING)[0].count(b"BEGIN") == 2


async def test_a_clock_that_jumps_back_changes_nothing(cluster: FakeApi, time: Time, shared: Rotator) -> None:
    before = held(await shared.reconcile())
    time.day -= timedelta(days=20)
    look = await shared.reconcile()

    assert (steps(look), held(look)) == ([], before)
    assert bundles(cluster, VALIDATING) == [before.bundle]


async def test_one_clock_that_is_ahead_takes_nothing_from_the_others(
    cluster: FakeApi, client: Api, time: Time
) -> None:
    ahead = Time(time.day + timedelta(days=40))
    good, bad = replica(client, time), replica(client, ahead)
    before = held(await good.reconcile()).current
    told: list[Step] = []
    for _ in range(6):
        told += steps(await bad.reconcile())
        assert steps(await good.reconcile()) == []
        time.passes(60)
        ahead.passes(60)

    assert told == [Step.REPLACED]
    assert before.ca_pem in bundles(cluster, VALIDATING)[0]


async def test_a_clock_that_jumps_ahead_hurries_no_step(time: Time, shared: Rotator) -> None:
    time.passes(20 * DAY)
    await shared.reconcile()
    time.day += timedelta(hours=1)

    assert steps(await shared.reconcile()) == []


async def test_a_secret_that_was_deleted_comes_back_with_a_next_pair(
    cluster: FakeApi, shared: Rotator
) -> None:
    before = held(await shared.reconcile())
    cluster.delete(PLACE.path)
    look = await shared.reconcile()

    assert steps(look) == [Step.RESTORED]
    assert held(look).current == before.current
    assert held(look).next is not None


async def test_our_broken_secret_is_made_anew(cluster: FakeApi, client: Api, time: Time) -> None:
    cluster.put({**secret({"tls.crt": b"x"}), "type": "Opaque"})
    look = await replica(client, time).reconcile()

    assert steps(look) == [Step.CREATED]
    assert (cluster.get(PLACE.path) or {})["type"] == "Opaque"


async def test_a_secret_of_somebody_else_is_trusted_and_never_written(
    cluster: FakeApi, client: Api, time: Time
) -> None:
    foreign = pair()
    stored = cluster.put(secret(files(foreign), ours=False))
    shared = replica(client, time)
    for _ in range(4):
        look = await shared.reconcile()
        time.passes(7 * DAY)

    assert held(look) == PairState(foreign)
    assert bundles(cluster, VALIDATING) == [foreign.ca_pem]
    assert cluster.get(PLACE.path) == stored


FOREIGN: list[tuple[str, dict[str, bytes], str]] = [
    ("broken", {**files(pair()), "tls.key": b"x"},
     "data[tls.key]: contains no PEM private key (-----BEGIN PRIVATE KEY-----)"),
    ("for other names", files(pair("x")), f"tls.crt: is not valid for {NAMES[0]}: its names are x"),
    ("over", files(pair(days=1)), "tls.crt: expired at 2026-05-02T12:00:00+00:00"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "mistake"), table(FOREIGN))
async def test_a_secret_of_somebody_else_that_is_not_good_is_refused_and_left(
    cluster: FakeApi, client: Api, time: Time, data: dict[str, bytes], mistake: str
) -> None:
    stored = cluster.put(secret(data, ours=False))
    time.passes(2 * DAY)
    look = await replica(client, time).reconcile()

    assert [str(each) for each in look.secret.mistakes] == [mistake]
    assert look.secret.state is None
    assert cluster.get(PLACE.path) == stored
    assert bundles(cluster, VALIDATING) == [b""]


async def test_other_names_make_way_without_a_gap(cluster: FakeApi, client: Api, time: Time) -> None:
    before = held(await replica(client, time).reconcile())
    renamed = replica(client, time, names=("other.svc",))
    look = await renamed.reconcile()

    assert steps(look) == [Step.STAGED]
    assert held(look).current == before.current
    assert before.current.ca_pem in bundles(cluster, VALIDATING)[0]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_what_is_forbidden_is_raised(cluster: FakeApi, client: Api, time: Time, method: str) -> None:
    cluster.failures[method, PLACE.path if method == "GET" else PLACE.collection] = HTTPStatus.FORBIDDEN

    with pytest.raises(Forbidden):
        await replica(client, time).reconcile()


async def test_an_api_server_that_is_gone_is_raised(cluster: FakeApi, client: Api, time: Time) -> None:
    await cluster.stop()

    with pytest.raises(Unreachable):
        await replica(client, time).reconcile()


async def test_a_conflict_that_never_ends_is_raised(cluster: FakeApi, client: Api, time: Time) -> None:
    cluster.failures["POST", PLACE.collection] = HTTPStatus.CONFLICT

    with pytest.raises(Conflict):
        await replica(client, time).reconcile()
    assert len(cluster.asked("POST", PLACE.collection)) == 5
