"""The controller's part: what it makes and keeps true while it leads, and what it sees while it does not."""

import asyncio
import math
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Protocol

import pytest
from prometheus_client import CollectorRegistry

from certs import secret as secrets
from certs.authority import Pair
from certs.keeper import Certificates
from certs.secret import PairState
from harness.fake_api import FakeApi
from numalign.kube.client import Api
from tests.pairs import (
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

ROTATION = "numalign_certificate_rotation_timestamp_seconds"
STEPS = "numalign_certificate_rotations_total"
DAY = 86400.0


class Told(Protocol):
    """What the fixture `told` can do."""

    log: Any
    stream: Any

    def of(self, event: str) -> list[dict[str, Any]]:
        """The lines of one event."""


Replica = Callable[..., Certificates]


@pytest.fixture
def replica(client: Api, time: Time, told: Told, registry: CollectorRegistry) -> Replica:
    """Makes a replica, which leads; more of them need a registry of their own."""

    def made(**changes: Any) -> Certificates:  # noqa: ANN401  fields of the replica
        fields: dict[str, Any] = {
            "namespace": PLACE.namespace,
            "secret": PLACE.name,
            "names": NAMES,
            "configuration": CONFIGURATION,
            "leading": lambda: True,
            "log": told.log,
            "registry": registry,
            "days": 30,
            "now": time.now,
            "clock": time.clock,
        }
        return Certificates(client, **{**fields, **changes})

    return made


def shared(cluster: FakeApi) -> PairState:
    return secrets.parse(cluster.get(PLACE.path))


def writes(cluster: FakeApi) -> list[str]:
    return [asked.method for asked in cluster.requests if asked.method != "GET"]


async def test_whoever_leads_makes_the_pair_and_lets_it_be_trusted(
    cluster: FakeApi, replica: Replica, told: Told
) -> None:
    await replica().look()

    assert bundles(cluster, VALIDATING) == [shared(cluster).current.ca_pem]
    assert [line["step"] for line in told.of("certificates.step")] == ["created"]


async def test_whoever_does_not_lead_writes_nothing(cluster: FakeApi, replica: Replica, time: Time) -> None:
    waiting = replica(leading=lambda: False, registry=CollectorRegistry())
    await waiting.look()
    assert "the replica that leads makes it" in (waiting.trouble() or "")
    await replica().look()
    done = writes(cluster)
    time.passes(25 * DAY)
    cluster.put(configuration(MUTATING, bundle=pair("x").ca_pem, webhooks=2))
    await waiting.look()

    assert waiting.trouble() is None
    assert writes(cluster) == done


async def test_the_next_leader_restores_what_it_saw_before_somebody_deleted_it(
    cluster: FakeApi, replica: Replica
) -> None:
    """The one that led is gone with the machine it ran on, and so is the Secret."""
    leads = False
    waiting = replica(leading=lambda: leads, registry=CollectorRegistry())
    await replica().look()
    await waiting.look()
    before = shared(cluster).current
    cluster.delete(PLACE.path)
    await waiting.look()
    assert cluster.get(PLACE.path) is None
    leads = True
    await waiting.look()

    assert shared(cluster).current == before
    assert shared(cluster).next is not None


async def test_the_next_leader_knows_for_how_long_a_step_has_been_known(
    cluster: FakeApi, replica: Replica, time: Time
) -> None:
    leads = False
    waiting = replica(leading=lambda: leads, registry=CollectorRegistry())
    leader = replica()
    await leader.look()
    time.passes(20 * DAY)
    await leader.look()
    coming = shared(cluster).next
    await waiting.look()
    time.passes(60)
    await waiting.look()
    leads = True
    await waiting.look()

    assert shared(cluster).current == coming


async def test_readiness_waits_until_the_pair_is_there(cluster: FakeApi, replica: Replica) -> None:
    certificates = replica()
    waiting = "waiting for the certificate in Secret numalign-system/numalign-webhook-tls: "
    assert certificates.trouble() == f"{waiting}it was not read yet"
    cluster.failures[PLACE.path] = HTTPStatus.FORBIDDEN
    await certificates.look()
    assert (certificates.trouble() or "").startswith(f"{waiting}you may not read Secret")
    cluster.failures.clear()
    await certificates.look()

    assert certificates.trouble() is None


async def test_a_cluster_that_is_gone_is_said_once(cluster: FakeApi, replica: Replica, told: Told) -> None:
    certificates = replica()
    await certificates.look()
    await cluster.stop()
    for _ in range(3):
        await certificates.look()

    assert certificates.trouble() is None
    assert len(told.of("certificates.failing")) == 1


async def test_the_same_failure_is_said_again_after_it_was_over(
    cluster: FakeApi, replica: Replica, told: Told
) -> None:
    certificates = replica()
    for status in (HTTPStatus.FORBIDDEN, None, HTTPStatus.FORBIDDEN):
        cluster.failures = {PLACE.path: status} if status else {}
        await certificates.look()
        await certificates.look()

    assert len(told.of("certificates.failing")) == 2


async def test_a_secret_of_somebody_else_that_is_not_good_is_said_and_never_written(
    cluster: FakeApi, replica: Replica, told: Told
) -> None:
    cluster.put(secret(files(pair("x")), ours=False))
    certificates = replica()
    await certificates.look()
    await certificates.look()

    assert (certificates.trouble() or "").endswith(f"tls.crt: is not for {NAMES[0]}: its names are x")
    assert len(told.of("certificates.refused")) == 1
    assert writes(cluster) == []


async def test_bundles_that_cannot_be_kept_are_said_once(
    cluster: FakeApi, replica: Replica, told: Told
) -> None:
    cluster.failures["PATCH", configuration_path(MUTATING)] = HTTPStatus.FORBIDDEN
    cluster.delete(configuration_path(VALIDATING))
    certificates = replica()
    await certificates.look()
    await certificates.look()

    (line,) = told.of("certificates.unpublished")
    assert line["name"] == CONFIGURATION
    assert set(line["problems"]) == {MUTATING, VALIDATING}
    assert certificates.trouble() is None


async def test_a_bundle_that_somebody_overwrites_is_put_back(cluster: FakeApi, replica: Replica) -> None:
    certificates = replica()
    await certificates.look()
    cluster.put(configuration(MUTATING, bundle=pair("x").ca_pem, webhooks=2))
    cluster.put(configuration(VALIDATING))
    await certificates.look()

    authority = shared(cluster).current.ca_pem
    assert {*bundles(cluster, MUTATING), *bundles(cluster, VALIDATING)} == {authority}


async def test_a_configuration_that_comes_later_gets_the_bundle(
    cluster: FakeApi, replica: Replica, told: Told
) -> None:
    cluster.delete(configuration_path(VALIDATING))
    certificates = replica()
    await certificates.look()
    cluster.put(configuration(VALIDATING))
    await certificates.look()

    assert bundles(cluster, VALIDATING) == [shared(cluster).current.ca_pem]
    assert len(told.of("certificates.unpublished")) == 1


async def test_steps_and_the_next_rotation_are_counted(
    replica: Replica, registry: CollectorRegistry, time: Time
) -> None:
    certificates = replica()
    assert math.isnan(registry.get_sample_value(ROTATION) or 0)
    await certificates.look()
    rotates = registry.get_sample_value(ROTATION)
    time.passes(20 * DAY)
    await certificates.look()

    assert rotates == pytest.approx(START.timestamp() + 20 * DAY, abs=300)
    steps = ("created", "staged", "dropped")
    assert [registry.get_sample_value(STEPS, {"step": step}) for step in steps] == [1, 1, 0]


async def test_what_others_rotate_has_no_date(
    cluster: FakeApi, replica: Replica, registry: CollectorRegistry
) -> None:
    cluster.put(secret(files(pair()), ours=False))
    await replica().look()

    assert math.isnan(registry.get_sample_value(ROTATION) or 0)


async def test_it_looks_again_and_again(cluster: FakeApi, replica: Replica, time: Time) -> None:
    slept: list[float] = []
    pairs: list[Pair] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        held = shared(cluster)
        pairs.append(held.current)
        time.passes(20 * DAY if len(slept) == 2 else seconds)
        if len(slept) > 16:
            raise asyncio.CancelledError

    certificates = replica(sleep=sleep, every=7, settle=30)
    with pytest.raises(asyncio.CancelledError):
        await certificates.run()

    assert set(slept) == {7}
    assert pairs[0] != pairs[-1]
    assert shared(cluster) == PairState(pairs[-1])


async def test_what_is_served_is_never_in_a_log(replica: Replica, told: Any) -> None:  # noqa: ANN401  as above
    certificates = replica()
    await certificates.look()

    assert "PRIVATE KEY" not in told.stream.getvalue()
    assert "PRIVATE KEY" not in repr(certificates)


async def test_as_long_as_there_is_nothing_to_serve_it_looks_every_second(
    cluster: FakeApi, replica: Replica
) -> None:
    cluster.failures[PLACE.path] = HTTPStatus.SERVICE_UNAVAILABLE
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            cluster.failures.clear()
        if len(slept) == 4:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await replica(sleep=sleep, every=7).run()

    assert slept == [1, 1, 7, 7]
