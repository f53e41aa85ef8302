"""What replicas do to the pair that they share: which one changes it, and what stale ones cannot do."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus

import pytest

from certs import rotator
from certs import secret as secrets
from certs.rotation import RotationPlan
from certs.rotation import RotationStep as Step
from certs.rotator import DROPPED, PROMOTED, STAGED, NotRotatable, RotationState, Rotator
from certs.secret import BadSecret, PairState
from numalign.kube.client import Api
from numalign.kube.errors import Conflict
from numalign.model.errors import BadInput
from tests.unit.certs.conftest import DAY, Site
from tests.worlds import pairs
from tests.worlds.clock import Clock
from tests.worlds.notation import table
from tests.worlds.pairs import (
    MUTATING,
    PLACE,
    VALIDATING,
    Json,
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


async def test_two_replicas_take_each_step_once(site: Site) -> None:
    both = [site.rotator() for _ in range(2)]
    history: list[Step] = []
    for wait in [0.0, 20 * DAY, *[30.0] * 8]:
        site.clock.advance(wait)
        for result in await asyncio.gather(*(each.reconcile() for each in both)):
            history += steps(result)

    assert history == [Step.CREATED, Step.STAGED, Step.PROMOTED, Step.DROPPED]


async def test_untrusted_pair_is_never_promoted(site: Site, shared: Rotator) -> None:
    site.api.failures["PATCH", pairs.configuration_path(VALIDATING)] = HTTPStatus.FORBIDDEN
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
    ("for other names", files(pair("x")), f"tls.crt: is not valid for {pairs.NAMES[0]}: its names are x"),
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


async def test_endless_conflict_is_raised_after_five_attempts(site: Site) -> None:
    site.api.failures["POST", PLACE.collection] = HTTPStatus.CONFLICT

    with pytest.raises(Conflict):
        await site.rotator().reconcile()
    assert len(site.api.received("POST", PLACE.collection)) == 5


# A rotation by hand, from its beginning to its end.


async def begin(site: Site) -> RotationPlan:
    return await rotator.begin(site.client, PLACE, settle=60, now=site.clock.wall)


async def followed(site: Site, plan: RotationPlan, *, most_sleeps: int = 99) -> list[str]:
    """The reports until the end, or until the last of so many sleeps."""
    reports, own, began = list[str](), site.rotator(plan), site.clock()

    async def sleep(seconds: float) -> None:
        site.clock.advance(seconds)
        if site.clock() - began > most_sleeps * seconds:
            raise TimeoutError

    with suppress(TimeoutError):
        await rotator.follow(own, every=5, report=reports.append, sleep=sleep)
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
