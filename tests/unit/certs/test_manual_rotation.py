"""A rotation by hand, from its beginning to its end."""

from contextlib import suppress
from http import HTTPStatus

import pytest

from certs import manual_rotation
from certs import secret as secrets
from certs.manual_rotation import DROPPED, PROMOTED, STAGED, NotRotatable
from certs.rotation import RotationPlan
from certs.rotator import Rotator
from certs.secret import BadSecret, PairState
from numalign.kube.client import Api
from numalign.kube.errors import Conflict
from numalign.model.errors import BadInput
from tests.worlds.notation import table
from tests.worlds.pairs import (
    CONFIGURATION,
    MUTATING,
    PLACE,
    VALIDATING,
    Json,
    Time,
    bundles,
    configuration_path,
    files,
    pair,
    secret,
)
from tools.clusters.fake_api import FakeApi


async def begin(client: Api, time: Time) -> RotationPlan:
    return await manual_rotation.begin(client, PLACE, settle=60, now=time.now)


async def followed(client: Api, time: Time, plan: RotationPlan, *, most_sleeps: int = 99) -> list[str]:
    """What is said until the end, or until it slept so many times."""
    said: list[str] = []
    rotator = Rotator(
        client, ref=PLACE, configuration=CONFIGURATION, plan=plan, now=time.now, clock=time.clock
    )

    async def sleep(seconds: float) -> None:
        time.passes(seconds)
        if time.seconds > most_sleeps * seconds:
            raise TimeoutError

    with suppress(TimeoutError):
        await manual_rotation.follow(rotator, every=5, report=said.append, sleep=sleep)
    return said


async def test_every_step_is_said_once(cluster: FakeApi, client: Api, time: Time) -> None:
    old = pair()
    cluster.put(secret(files(old)))

    assert await followed(client, time, await begin(client, time)) == [STAGED, PROMOTED, DROPPED]
    held = secrets.parse(cluster.get(PLACE.path))
    assert held.current != old
    assert bundles(cluster, MUTATING) == [held.current.ca_pem] * 2
    assert time.seconds == 120


async def test_the_new_pair_is_like_the_old_one(cluster: FakeApi, client: Api, time: Time) -> None:
    cluster.put(secret(files(pair("a.svc", "10.0.0.1", days=77))))
    plan = await begin(client, time)

    assert (plan.names, plan.days) == (("a.svc", "10.0.0.1"), 77)


async def test_a_rotation_that_is_under_way_is_joined(cluster: FakeApi, client: Api, time: Time) -> None:
    under_way = PairState(pair(), pair())
    stored = cluster.put(secrets.render(under_way, namespace=PLACE.namespace, name=PLACE.name))
    await begin(client, time)

    assert cluster.get(PLACE.path) == stored


async def test_what_it_waits_for_is_said(cluster: FakeApi, client: Api, time: Time) -> None:
    cluster.put(secret(files(pair())))
    for kind in (MUTATING, VALIDATING):
        cluster.delete(configuration_path(kind))
    (said,) = await followed(client, time, await begin(client, time), most_sleeps=0)

    assert said.startswith(f"{STAGED}\n  waiting: {MUTATING}: {MUTATING} {CONFIGURATION} does not exist")


REFUSED: list[tuple[str, Json | None, float, type[BadInput], str]] = [
    ("nothing there", None, 0, NotRotatable, "contains no certificate yet: a running controller creates one"),
    ("somebody else's", secret(files(pair()), ours=False), 0, NotRotatable, "is not managed by numalign"),
    ("not valid yet", secret(files(pair())), -86400,
     NotRotatable, r"is not valid before 2026-05-01T11:55:00.*check the clocks"),
    ("broken", secret({**files(pair()), "tls.key": pair().key_pem}), 0,
     BadSecret, "does not match the certificate"),
]  # fmt: skip


@pytest.mark.parametrize(("stored", "ahead", "error", "text"), table(REFUSED))
async def test_what_cannot_be_rotated(  # noqa: PLR0913, PLR0917  columns of the table
    cluster: FakeApi,
    client: Api,
    time: Time,
    stored: Json | None,
    ahead: float,
    error: type[BadInput],
    text: str,
) -> None:
    if stored:
        stored = cluster.put(stored)
    time.passes(ahead)

    with pytest.raises(error, match=text):
        await begin(client, time)
    assert cluster.get(PLACE.path) == stored


async def test_a_secret_that_somebody_else_takes_over_meanwhile(
    cluster: FakeApi, client: Api, time: Time
) -> None:
    cluster.put(secret(files(pair())))
    plan = await begin(client, time)
    cluster.put(secret({"tls.crt": b"x"}, ours=False))

    with pytest.raises(BadSecret, match="is missing"):
        await followed(client, time, plan)


async def test_a_conflict_that_never_ends_is_raised(cluster: FakeApi, client: Api, time: Time) -> None:
    cluster.put(secret(files(pair())))
    cluster.failures["PUT", PLACE.path] = HTTPStatus.CONFLICT

    with pytest.raises(Conflict):
        await begin(client, time)
