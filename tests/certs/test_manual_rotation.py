"""A rotation by hand, from its beginning to its end."""

from http import HTTPStatus

import pytest

from certs import manual_rotation
from certs import secret as secrets
from certs.manual_rotation import DROPPED, PROMOTED, STAGED, NotRotatable
from certs.rotator import Rotator
from certs.secret import BadSecret, PairState
from harness.fake_api import FakeApi
from numalign.kube.client import Api, Conflict
from tests.pairs import (
    CONFIGURATION,
    MUTATING,
    PLACE,
    VALIDATING,
    Time,
    bundles,
    configuration_path,
    files,
    pair,
    secret,
)


async def begun_and_followed(client: Api, time: Time, *, looks: int = 99) -> list[str]:
    said: list[str] = []

    async def sleep(seconds: float) -> None:
        time.passes(seconds)
        if time.seconds > looks * seconds:
            raise TimeoutError

    plan = await manual_rotation.begin(client, PLACE, settle=60, now=time.now)
    shared = Rotator(
        client, ref=PLACE, configuration=CONFIGURATION, plan=plan, now=time.now, clock=time.clock
    )
    await manual_rotation.follow(shared, every=5, say=said.append, sleep=sleep)
    return said


async def test_every_step_is_said_once(cluster: FakeApi, client: Api, time: Time) -> None:
    old = pair()
    cluster.put(secret(files(old)))

    assert await begun_and_followed(client, time) == [STAGED, PROMOTED, DROPPED]
    held = secrets.parse(cluster.get(PLACE.path))
    assert held.current != old
    assert bundles(cluster, MUTATING) == [held.current.ca_pem] * 2
    assert time.seconds == 120


async def test_the_new_pair_is_like_the_old_one(cluster: FakeApi, client: Api, time: Time) -> None:
    cluster.put(secret(files(pair("a.svc", "10.0.0.1", days=77))))
    plan = await manual_rotation.begin(client, PLACE, settle=60, now=time.now)

    assert (plan.names, plan.days) == (("a.svc", "10.0.0.1"), 77)


async def test_a_rotation_that_is_under_way_is_joined(cluster: FakeApi, client: Api, time: Time) -> None:
    stored = cluster.put(
        secrets.render(PairState(pair(), pair()), namespace=PLACE.namespace, name=PLACE.name)
    )
    await manual_rotation.begin(client, PLACE, settle=60, now=time.now)

    assert cluster.get(PLACE.path) == stored


async def test_what_it_waits_for_is_said(cluster: FakeApi, client: Api, time: Time) -> None:
    cluster.put(secret(files(pair())))
    for kind in (MUTATING, VALIDATING):
        cluster.delete(configuration_path(kind))
    said: list[str] = []

    async def sleep(_seconds: float) -> None:
        raise TimeoutError

    plan = await manual_rotation.begin(client, PLACE, settle=60, now=time.now)
    shared = Rotator(client, ref=PLACE, configuration=CONFIGURATION, plan=plan, now=time.now)
    with pytest.raises(TimeoutError):
        await manual_rotation.follow(shared, every=5, say=said.append, sleep=sleep)

    assert said[0].startswith(f"{STAGED}\n  waiting: {MUTATING}: {MUTATING} {CONFIGURATION} is not there")


async def test_there_is_nothing_to_rotate(client: Api, time: Time) -> None:
    with pytest.raises(NotRotatable, match="holds no pair yet: a running controller makes one"):
        await manual_rotation.begin(client, PLACE, settle=60, now=time.now)


async def test_what_is_somebody_elses_is_not_rotated(cluster: FakeApi, client: Api, time: Time) -> None:
    stored = cluster.put(secret(files(pair()), ours=False))

    with pytest.raises(NotRotatable, match="is not ours to change"):
        await manual_rotation.begin(client, PLACE, settle=60, now=time.now)
    assert cluster.get(PLACE.path) == stored


async def test_what_is_not_valid_yet_is_not_rotated(cluster: FakeApi, client: Api, time: Time) -> None:
    cluster.put(secret(files(pair())))
    time.passes(-86400)

    with pytest.raises(NotRotatable, match=r"is not valid before 2026-05-01T11:55:00.*some clock is wrong"):
        await manual_rotation.begin(client, PLACE, settle=60, now=time.now)


async def test_what_is_broken_is_not_rotated(cluster: FakeApi, client: Api, time: Time) -> None:
    cluster.put(secret({**files(pair()), "tls.key": pair().key_pem}))

    with pytest.raises(BadSecret, match="is not the key of the certificate"):
        await manual_rotation.begin(client, PLACE, settle=60, now=time.now)


async def test_a_secret_that_somebody_else_takes_over_meanwhile(
    cluster: FakeApi, client: Api, time: Time
) -> None:
    cluster.put(secret(files(pair())))
    plan = await manual_rotation.begin(client, PLACE, settle=60, now=time.now)
    shared = Rotator(client, ref=PLACE, configuration=CONFIGURATION, plan=plan, now=time.now)
    cluster.put(secret({"tls.crt": b"x"}, ours=False))

    with pytest.raises(BadSecret, match="is missing"):
        await manual_rotation.follow(shared, every=5, say=lambda _text: None, sleep=no_sleep)


async def no_sleep(_seconds: float) -> None:
    """Go on at once."""


async def test_a_conflict_that_never_ends_is_raised(cluster: FakeApi, client: Api, time: Time) -> None:
    cluster.put(secret(files(pair())))
    cluster.failures["PUT", PLACE.path] = HTTPStatus.CONFLICT

    with pytest.raises(Conflict):
        await manual_rotation.begin(client, PLACE, settle=60, now=time.now)
