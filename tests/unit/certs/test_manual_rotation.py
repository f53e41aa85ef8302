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
from tests.worlds.clock import Clock
from tests.worlds.notation import table
from tests.worlds.pairs import (
    CONFIGURATION,
    MUTATING,
    PLACE,
    VALIDATING,
    Json,
    bundles,
    configuration_path,
    files,
    pair,
    secret,
)
from tools.clusters.fake_api import FakeApi


async def begin(client: Api, clock: Clock) -> RotationPlan:
    return await manual_rotation.begin(client, PLACE, settle=60, now=clock.wall)


async def followed(client: Api, clock: Clock, plan: RotationPlan, *, most_sleeps: int = 99) -> list[str]:
    """The reports until the end, or until the last of so many sleeps."""
    reports: list[str] = []
    rotator = Rotator(client, ref=PLACE, configuration=CONFIGURATION, plan=plan, now=clock.wall, clock=clock)
    began = clock()

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)
        if clock() - began > most_sleeps * seconds:
            raise TimeoutError

    with suppress(TimeoutError):
        await manual_rotation.follow(rotator, every=5, report=reports.append, sleep=sleep)
    return reports


async def test_every_step_is_reported_once(cluster: FakeApi, client: Api, clock: Clock) -> None:
    old, began = pair(), clock()
    cluster.put(secret(files(old)))

    assert await followed(client, clock, await begin(client, clock)) == [STAGED, PROMOTED, DROPPED]
    state = secrets.parse(cluster.get(PLACE.path))
    assert state.current != old
    assert bundles(cluster, MUTATING) == [state.current.ca_pem] * 2
    assert clock() - began == 120


async def test_new_pair_is_like_the_old_one(cluster: FakeApi, client: Api, clock: Clock) -> None:
    cluster.put(secret(files(pair("a.svc", "10.0.0.1", days=77))))
    plan = await begin(client, clock)

    assert (plan.names, plan.days) == (("a.svc", "10.0.0.1"), 77)


async def test_rotation_in_progress_is_joined(cluster: FakeApi, client: Api, clock: Clock) -> None:
    body = secrets.render(PairState(pair(), pair()), namespace=PLACE.namespace, name=PLACE.name)
    stored = cluster.put(body)
    await begin(client, clock)

    assert cluster.get(PLACE.path) == stored


async def test_report_names_what_the_step_waits_for(cluster: FakeApi, client: Api, clock: Clock) -> None:
    cluster.put(secret(files(pair())))
    for kind in (MUTATING, VALIDATING):
        cluster.delete(configuration_path(kind))
    (report,) = await followed(client, clock, await begin(client, clock), most_sleeps=0)

    assert report.startswith(f"{STAGED}\n  waiting: {MUTATING}: {MUTATING} {CONFIGURATION} does not exist")


REFUSED: list[tuple[str, Json | None, float, type[BadInput], str]] = [
    ("no Secret", None, 0, NotRotatable, "contains no certificate yet: a running controller creates one"),
    ("a foreign one", secret(files(pair()), ours=False), 0, NotRotatable, "is not managed by numalign"),
    ("not valid yet", secret(files(pair())), -86400,
     NotRotatable, r"is not valid before 2026-05-01T11:55:00.*check the clocks"),
    ("broken", secret({**files(pair()), "tls.key": pair().key_pem}), 0,
     BadSecret, "does not match the certificate"),
]  # fmt: skip


@pytest.mark.parametrize(("stored", "ahead", "error", "text"), table(REFUSED))
async def test_secret_that_cannot_be_rotated_is_an_error(  # noqa: PLR0913, PLR0917  columns of the table
    cluster: FakeApi,
    client: Api,
    clock: Clock,
    stored: Json | None,
    ahead: float,
    error: type[BadInput],
    text: str,
) -> None:
    if stored:
        stored = cluster.put(stored)
    clock.jump = ahead

    with pytest.raises(error, match=text):
        await begin(client, clock)
    assert cluster.get(PLACE.path) == stored


async def test_secret_replaced_meanwhile_ends_the_rotation(
    cluster: FakeApi, client: Api, clock: Clock
) -> None:
    cluster.put(secret(files(pair())))
    plan = await begin(client, clock)
    cluster.put(secret({"tls.crt": b"x"}, ours=False))

    with pytest.raises(BadSecret, match="is missing"):
        await followed(client, clock, plan)


async def test_endless_conflict_is_raised(cluster: FakeApi, client: Api, clock: Clock) -> None:
    cluster.put(secret(files(pair())))
    cluster.failures["PUT", PLACE.path] = HTTPStatus.CONFLICT

    with pytest.raises(Conflict):
        await begin(client, clock)
