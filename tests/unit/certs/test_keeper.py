"""The controller's part: the leader creates and renews the pair, other replicas only read it."""

import math
from http import HTTPStatus

import pytest
from prometheus_client import CollectorRegistry

from certs import secret as secrets
from certs.secret import PairState
from tests.unit.certs.conftest import DAY, Keeper
from tests.worlds.clock import NOON, Clock
from tests.worlds.log import RecordedLog
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

ROTATION = "numalign_certificate_rotation_timestamp_seconds"
STEPS = "numalign_certificate_rotations_total"


def shared(cluster: FakeApi) -> PairState:
    return secrets.parse(cluster.get(PLACE.path))


def writes(cluster: FakeApi) -> list[str]:
    return [call.method for call in cluster.requests if call.method != "GET"]


async def test_replica_without_the_lead_writes_nothing(
    cluster: FakeApi, keeper: Keeper, clock: Clock
) -> None:
    waiting = keeper(leading=lambda: False, registry=CollectorRegistry())
    await waiting.check()
    assert "the leader has not created it yet" in (waiting.waiting_for() or "")
    await keeper().check()
    before = writes(cluster)
    clock.advance(25 * DAY)
    cluster.put(configuration(MUTATING, bundle=pair("x").ca_pem, webhooks=2))
    await waiting.check()

    assert waiting.waiting_for() is None
    assert writes(cluster) == before


async def test_next_leader_restores_a_deleted_secret(cluster: FakeApi, keeper: Keeper) -> None:
    """The machine of the last leader is gone, and so is the Secret."""
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


async def test_next_leader_counts_the_time_it_observed(
    cluster: FakeApi, keeper: Keeper, clock: Clock
) -> None:
    leads = False
    waiting = keeper(leading=lambda: leads, registry=CollectorRegistry())
    leader = keeper()
    await leader.check()
    clock.advance(20 * DAY)
    await leader.check()
    coming = shared(cluster).next
    await waiting.check()
    clock.advance(60)
    await waiting.check()
    leads = True
    await waiting.check()

    assert shared(cluster).current == coming


async def test_bad_foreign_secret_is_logged_once_and_never_written(
    cluster: FakeApi, keeper: Keeper, log: RecordedLog
) -> None:
    cluster.put(secret(files(pair("x")), ours=False))
    certificates = keeper()
    await certificates.check()
    await certificates.check()

    reason = f"tls.crt: is not valid for {NAMES[0]}: its names are x"
    assert (certificates.waiting_for() or "").endswith(reason)
    assert len(log.of("certificates.refused")) == 1
    assert writes(cluster) == []


async def test_unpublished_bundles_are_logged_once(
    cluster: FakeApi, keeper: Keeper, log: RecordedLog
) -> None:
    cluster.failures["PATCH", configuration_path(MUTATING)] = HTTPStatus.FORBIDDEN
    cluster.delete(configuration_path(VALIDATING))
    certificates = keeper()
    await certificates.check()
    await certificates.check()

    (line,) = log.of("certificates.unpublished")
    assert (line["name"], set(line["errors"])) == (CONFIGURATION, {MUTATING, VALIDATING})
    assert certificates.waiting_for() is None


async def test_overwritten_or_missing_bundle_is_put_back(
    cluster: FakeApi, keeper: Keeper, log: RecordedLog
) -> None:
    cluster.delete(configuration_path(VALIDATING))
    certificates = keeper()
    await certificates.check()
    cluster.put(configuration(MUTATING, bundle=pair("x").ca_pem, webhooks=2))
    cluster.put(configuration(VALIDATING))
    await certificates.check()

    authority = shared(cluster).current.ca_pem
    assert {*bundles(cluster, MUTATING), *bundles(cluster, VALIDATING)} == {authority}
    assert len(log.of("certificates.unpublished")) == 1


async def test_steps_and_next_rotation_are_counted(
    keeper: Keeper, registry: CollectorRegistry, clock: Clock, log: RecordedLog
) -> None:
    certificates = keeper()
    assert math.isnan(registry.get_sample_value(ROTATION) or 0)
    await certificates.check()
    rotates = registry.get_sample_value(ROTATION)
    clock.advance(20 * DAY)
    await certificates.check()

    assert rotates == pytest.approx(NOON.timestamp() + 20 * DAY, abs=300)
    assert [line["step"] for line in log.of("certificates.step")] == ["created", "staged"]
    steps = ("created", "staged", "dropped")
    assert [registry.get_sample_value(STEPS, {"step": step}) for step in steps] == [1, 1, 0]


async def test_foreign_secret_has_no_rotation_date(
    cluster: FakeApi, keeper: Keeper, registry: CollectorRegistry
) -> None:
    cluster.put(secret(files(pair()), ours=False))
    await keeper().check()

    assert math.isnan(registry.get_sample_value(ROTATION) or 0)
