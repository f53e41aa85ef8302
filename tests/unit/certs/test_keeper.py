"""The controller's part: the leader creates and renews the pair, other replicas only read it."""

import math
from http import HTTPStatus

import pytest
from prometheus_client import CollectorRegistry

from certs.keeper import Certificates
from tests.unit.certs.conftest import DAY, Site
from tests.worlds import pairs
from tests.worlds.clock import NOON
from tests.worlds.pairs import MUTATING, PLACE, VALIDATING, configuration, configuration_path, files, pair

ROTATION = "numalign_certificate_rotation_timestamp_seconds"
STEPS = "numalign_certificate_rotations_total"


def follower(site: Site, leads: list[bool]) -> Certificates:
    """Another replica, which leads once that is in the list."""
    return site.keeper(leading=lambda: bool(leads), registry=CollectorRegistry())


async def test_replica_without_the_lead_writes_nothing(site: Site) -> None:
    waiting = follower(site, [])
    await waiting.check()
    assert "the leader has not created it yet" in (waiting.waiting_for() or "")
    await site.keeper().check()
    before = site.methods()
    site.clock.advance(25 * DAY)
    site.api.put(configuration(MUTATING, bundle=pair("x").ca_pem, webhooks=2))
    await waiting.check()

    assert (waiting.waiting_for(), site.methods()) == (None, before)


async def test_next_leader_restores_a_deleted_secret(site: Site) -> None:
    """The machine of the last leader is gone, and so is the Secret."""
    waiting = follower(site, leads := [])
    await site.keeper().check()
    await waiting.check()
    before = site.state().current
    site.api.delete(PLACE.path)
    await waiting.check()
    assert site.api.get(PLACE.path) is None
    leads.append(True)
    await waiting.check()

    assert site.state().current == before
    assert site.state().next is not None


async def test_next_leader_counts_the_time_it_observed(site: Site) -> None:
    waiting, leader = follower(site, leads := []), site.keeper()
    await leader.check()
    site.clock.advance(20 * DAY)
    await leader.check()
    coming = site.state().next
    await waiting.check()
    site.clock.advance(60)
    await waiting.check()
    leads.append(True)
    await waiting.check()

    assert site.state().current == coming


async def test_bad_foreign_secret_is_logged_once(site: Site) -> None:
    site.store(files(pair("x")), ours=False)
    certificates = site.keeper()
    for _ in range(2):
        await certificates.check()

    reason = f"tls.crt: is not valid for {pairs.NAMES[0]}: its names are x"
    assert (certificates.waiting_for() or "").endswith(reason)
    assert len(site.log.of("certificates.refused")) == 1
    # Of a good one, it only does not begin a rotation.
    site.store(files(pair()), ours=False)
    await certificates.check()
    assert math.isnan(site.registry.get_sample_value(ROTATION) or 0)
    assert (certificates.waiting_for(), {*site.methods()}) == (None, {"PATCH"})


async def test_unpublished_bundles_are_logged_once(site: Site) -> None:
    site.api.failures["PATCH", configuration_path(MUTATING)] = HTTPStatus.FORBIDDEN
    site.api.delete(configuration_path(VALIDATING))
    certificates = site.keeper()
    for _ in range(2):
        await certificates.check()

    (line,) = site.log.of("certificates.unpublished")
    assert (line["name"], set(line["errors"])) == (pairs.CONFIGURATION, {MUTATING, VALIDATING})
    assert certificates.waiting_for() is None


async def test_overwritten_or_missing_bundle_is_put_back(site: Site) -> None:
    site.api.delete(configuration_path(VALIDATING))
    certificates = site.keeper()
    await certificates.check()
    site.api.put(configuration(MUTATING, bundle=pair("x").ca_pem, webhooks=2))
    site.api.put(configuration(VALIDATING))
    await certificates.check()

    authority = site.state().current.ca_pem
    assert {*site.bundles(MUTATING), *site.bundles(VALIDATING)} == {authority}
    assert len(site.log.of("certificates.unpublished")) == 1


async def test_steps_and_next_rotation_are_counted(site: Site) -> None:
    certificates = site.keeper()
    assert math.isnan(site.registry.get_sample_value(ROTATION) or 0)
    await certificates.check()
    rotates = site.registry.get_sample_value(ROTATION)
    site.clock.advance(20 * DAY)
    await certificates.check()

    assert rotates == pytest.approx(NOON.timestamp() + 20 * DAY, abs=300)
    assert [line["step"] for line in site.log.of("certificates.step")] == ["created", "staged"]
    steps = ("created", "staged", "dropped")
    assert [site.registry.get_sample_value(STEPS, {"step": step}) for step in steps] == [1, 1, 0]
