"""The controller's part: what it makes and keeps true while it leads, and what it sees while it does not."""

import math
from http import HTTPStatus

import pytest
from prometheus_client import CollectorRegistry

from certs import secret as secrets
from certs.secret import PairState
from tests.unit.certs.conftest import Keeper
from tests.worlds.log import RecordedLog
from tests.worlds.pairs import (
    CONFIGURATION,
    MUTATING,
    NAMES,
    PLACE,
    START,
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

ROTATION = "numalign_certificate_rotation_timestamp_seconds"
STEPS = "numalign_certificate_rotations_total"
DAY = 86400.0


def shared(cluster: FakeApi) -> PairState:
    return secrets.parse(cluster.get(PLACE.path))


def writes(cluster: FakeApi) -> list[str]:
    return [asked.method for asked in cluster.requests if asked.method != "GET"]


async def test_whoever_does_not_lead_writes_nothing(cluster: FakeApi, keeper: Keeper, time: Time) -> None:
    waiting = keeper(leading=lambda: False, registry=CollectorRegistry())
    await waiting.check()
    assert "the leader has not created it yet" in (waiting.waiting_for() or "")
    await keeper().check()
    done = writes(cluster)
    time.passes(25 * DAY)
    cluster.put(configuration(MUTATING, bundle=pair("x").ca_pem, webhooks=2))
    await waiting.check()

    assert waiting.waiting_for() is None
    assert writes(cluster) == done


async def test_the_next_leader_restores_what_it_saw_before_somebody_deleted_it(
    cluster: FakeApi, keeper: Keeper
) -> None:
    """The one that led is gone with the machine it ran on, and so is the Secret."""
    leads = False
    waiting = keeper(leading=lambda: leads, registry=CollectorRegistry())
    await keeper().check()
    await waiting.check()
    before = shared(cluster).current
    cluster.delete(PLACE.path)
    await waiting.check()
    assert cluster.get(PLACE.path) is None
    leads = True
    await waiting.check()

    assert shared(cluster).current == before
    assert shared(cluster).next is not None


async def test_the_next_leader_knows_for_how_long_a_step_has_been_known(
    cluster: FakeApi, keeper: Keeper, time: Time
) -> None:
    leads = False
    waiting = keeper(leading=lambda: leads, registry=CollectorRegistry())
    leader = keeper()
    await leader.check()
    time.passes(20 * DAY)
    await leader.check()
    coming = shared(cluster).next
    await waiting.check()
    time.passes(60)
    await waiting.check()
    leads = True
    await waiting.check()

    assert shared(cluster).current == coming


async def test_a_secret_of_somebody_else_that_is_not_good_is_said_and_never_written(
    cluster: FakeApi, keeper: Keeper, told: RecordedLog
) -> None:
    cluster.put(secret(files(pair("x")), ours=False))
    certificates = keeper()
    await certificates.check()
    await certificates.check()

    assert (certificates.waiting_for() or "").endswith(
        f"tls.crt: is not valid for {NAMES[0]}: its names are x"
    )
    assert len(told.of("certificates.refused")) == 1
    assert writes(cluster) == []


async def test_bundles_that_cannot_be_kept_are_said_once(
    cluster: FakeApi, keeper: Keeper, told: RecordedLog
) -> None:
    cluster.failures["PATCH", configuration_path(MUTATING)] = HTTPStatus.FORBIDDEN
    cluster.delete(configuration_path(VALIDATING))
    certificates = keeper()
    await certificates.check()
    await certificates.check()

    (line,) = told.of("certificates.unpublished")
    assert line["name"] == CONFIGURATION
    assert set(line["errors"]) == {MUTATING, VALIDATING}
    assert certificates.waiting_for() is None


async def test_a_bundle_that_somebody_overwrites_or_that_is_missing_is_put_back(
    cluster: FakeApi, keeper: Keeper, told: RecordedLog
) -> None:
    cluster.delete(configuration_path(VALIDATING))
    certificates = keeper()
    await certificates.check()
    cluster.put(configuration(MUTATING, bundle=pair("x").ca_pem, webhooks=2))
    cluster.put(configuration(VALIDATING))
    await certificates.check()

    authority = shared(cluster).current.ca_pem
    assert {*bundles(cluster, MUTATING), *bundles(cluster, VALIDATING)} == {authority}
    assert len(told.of("certificates.unpublished")) == 1


async def test_steps_and_the_next_rotation_are_said_and_counted(
    keeper: Keeper, registry: CollectorRegistry, time: Time, told: RecordedLog
) -> None:
    certificates = keeper()
    assert math.isnan(registry.get_sample_value(ROTATION) or 0)
    await certificates.check()
    rotates = registry.get_sample_value(ROTATION)
    time.passes(20 * DAY)
    await certificates.check()

    assert rotates == pytest.approx(START.timestamp() + 20 * DAY, abs=300)
    assert [line["step"] for line in told.of("certificates.step")] == ["created", "staged"]
    steps = ("created", "staged", "dropped")
    assert [registry.get_sample_value(STEPS, {"step": step}) for step in steps] == [1, 1, 0]


async def test_what_others_rotate_has_no_date(
    cluster: FakeApi, keeper: Keeper, registry: CollectorRegistry
) -> None:
    cluster.put(secret(files(pair()), ours=False))
    await keeper().check()

    assert math.isnan(registry.get_sample_value(ROTATION) or 0)
