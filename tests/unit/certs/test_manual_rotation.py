"""A rotation by hand, from its beginning to its end."""

from contextlib import suppress
from typing import Any

import pytest

from certs import manual_rotation
from certs import secret as secrets
from certs.manual_rotation import DROPPED, PROMOTED, STAGED, NotRotatable
from certs.rotation import RotationPlan
from certs.secret import BadSecret, PairState
from numalign.model.errors import BadInput
from tests.unit.certs.conftest import Site
from tests.worlds import pairs
from tests.worlds.notation import table
from tests.worlds.pairs import MUTATING, PLACE, VALIDATING, configuration_path, files, pair, secret

Json = dict[str, Any]


async def begin(site: Site) -> RotationPlan:
    return await manual_rotation.begin(site.client, PLACE, settle=60, now=site.clock.wall)


async def followed(site: Site, plan: RotationPlan, *, most_sleeps: int = 99) -> list[str]:
    """The reports until the end, or until the last of so many sleeps."""
    reports, rotator, began = list[str](), site.rotator(plan), site.clock()

    async def sleep(seconds: float) -> None:
        site.clock.advance(seconds)
        if site.clock() - began > most_sleeps * seconds:
            raise TimeoutError

    with suppress(TimeoutError):
        await manual_rotation.follow(rotator, every=5, report=reports.append, sleep=sleep)
    return reports


async def test_every_step_is_reported_once(site: Site) -> None:
    old, began = pair(), site.clock()
    site.store(files(old))

    assert await followed(site, await begin(site)) == [STAGED, PROMOTED, DROPPED]
    state = site.state()
    assert state.current != old
    assert site.bundles(MUTATING) == [state.current.ca_pem] * 2
    assert site.clock() - began == 120


async def test_new_pair_is_like_the_old_one(site: Site) -> None:
    site.store(files(pair("a.svc", "10.0.0.1", days=77)))
    plan = await begin(site)

    assert (plan.names, plan.days) == (("a.svc", "10.0.0.1"), 77)


async def test_rotation_in_progress_is_joined(site: Site) -> None:
    body = secrets.render(PairState(pair(), pair()), namespace=PLACE.namespace, name=PLACE.name)
    stored = site.api.put(body)
    await begin(site)

    assert site.api.get(PLACE.path) == stored


async def test_report_names_what_the_step_waits_for(site: Site) -> None:
    site.store(files(pair()))
    for kind in (MUTATING, VALIDATING):
        site.api.delete(configuration_path(kind))
    (report,) = await followed(site, await begin(site), most_sleeps=0)

    assert report.startswith(
        f"{STAGED}\n  waiting: {MUTATING}: {MUTATING} {pairs.CONFIGURATION} does not exist"
    )


REFUSED: list[tuple[str, Json | None, float, type[BadInput], str]] = [
    ("no Secret", None, 0, NotRotatable, "contains no certificate yet: a running controller creates one"),
    ("a foreign one", secret(files(pair()), ours=False), 0, NotRotatable, "is not managed by numalign"),
    ("not valid yet", secret(files(pair())), -86400, NotRotatable, "is not valid before .*check the clocks"),
    ("broken", secret({**files(pair()), "tls.key": b"x"}), 0, BadSecret, "contains no PEM private key"),
]


@pytest.mark.parametrize(("stored", "ahead", "error", "text"), table(REFUSED))
async def test_secret_that_cannot_be_rotated_is_an_error(
    site: Site, stored: Json | None, ahead: float, error: type[BadInput], text: str
) -> None:
    if stored:
        stored = site.api.put(stored)
    site.clock.jump = ahead

    with pytest.raises(error, match=text):
        await begin(site)
    assert site.api.get(PLACE.path) == stored


async def test_secret_replaced_meanwhile_ends_the_rotation(site: Site) -> None:
    site.store(files(pair()))
    plan = await begin(site)
    site.store({"tls.crt": b"x"}, ours=False)

    with pytest.raises(BadSecret, match="is missing"):
        await followed(site, plan)
