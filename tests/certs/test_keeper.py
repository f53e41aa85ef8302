"""A replica: what it serves, what it waits for, what it says when something is wrong."""

import asyncio
import math
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol

import pytest
from prometheus_client import CollectorRegistry

from certs import keeper, state
from certs.authority import Pair
from certs.keeper import Certificates
from certs.state import State
from numalign.cluster.api import Api
from numalign.rules.errors import BadInput
from numalign.runtime import tls
from tests.fake_api import FakeApi
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

    def of(self, event: str) -> list[dict[str, Any]]:
        """The lines of one event."""


Replica = Callable[..., Certificates]


@pytest.fixture
def replica(client: Api, time: Time, told: Told, registry: CollectorRegistry, tmp_path: Path) -> Replica:
    """Makes a replica; more of them need a registry of their own."""

    def made(folder: str = "tls", **changes: Any) -> Certificates:  # noqa: ANN401  fields of the replica
        fields: dict[str, Any] = {
            "namespace": PLACE.namespace,
            "secret": PLACE.name,
            "names": NAMES,
            "folder": tmp_path / folder,
            "configuration": CONFIGURATION,
            "log": told.log,
            "registry": registry,
            "days": 30,
            "now": time.now,
            "clock": time.clock,
        }
        return Certificates(client, **{**fields, **changes})

    return made


def served(certificates: Certificates) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in certificates.folder.iterdir()}


def shared(cluster: FakeApi) -> State:
    return state.read(cluster.get(PLACE.path))


def test_a_server_can_listen_before_the_cluster_was_reached(tmp_path: Path) -> None:
    made = keeper.start_pair(tmp_path, names=NAMES, now=START)
    loaded = tls.load(tls.PairFiles(made.cert, made.key), now=START)

    assert loaded.expires > START


def test_a_start_pair_for_names_that_cannot_be_certified(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="names: '_' is neither a DNS name nor an IP address"):
        keeper.start_pair(tmp_path / "new", names=["_"], now=START)
    assert list(tmp_path.iterdir()) == []


async def test_what_is_shared_is_served(cluster: FakeApi, replica: Replica, told: Told) -> None:
    certificates = replica()
    await certificates.look()

    assert served(certificates) == files(shared(cluster).current)
    assert [line["step"] for line in told.of("certificates.step")] == ["created"]
    assert [line["secret"] for line in told.of("certificates.served")] == [str(PLACE)]


async def test_two_replicas_serve_the_same(cluster: FakeApi, replica: Replica) -> None:
    both = [replica("a"), replica("b", registry=CollectorRegistry())]
    await asyncio.gather(*(each.look() for each in both))

    assert served(both[0]) == served(both[1]) == files(shared(cluster).current)
    assert len([asked for asked in cluster.requests if asked.method == "POST"]) <= 2


async def test_the_server_is_told_when_the_folder_changed(replica: Replica) -> None:
    told: list[set[str]] = []
    certificates: Certificates = replica(changed=lambda: told.append(set(served(certificates))))
    await certificates.look()
    await certificates.look()

    assert told == [{"ca.crt", "tls.crt", "tls.key"}]


async def test_readiness_waits_for_what_is_shared(cluster: FakeApi, replica: Replica) -> None:
    certificates = replica()
    waiting = "waiting for the certificate in Secret numalign-system/numalign-webhook-tls: "
    assert certificates.trouble() == f"{waiting}it was not read yet"
    cluster.failures[PLACE.path] = HTTPStatus.FORBIDDEN
    await certificates.look()
    assert (certificates.trouble() or "").startswith(f"{waiting}you may not read Secret")
    cluster.failures.clear()
    await certificates.look()

    assert certificates.trouble() is None


async def test_a_cluster_that_is_gone_takes_nothing_away(
    cluster: FakeApi, replica: Replica, told: Told
) -> None:
    certificates = replica()
    await certificates.look()
    before = served(certificates)
    await cluster.stop()
    for _ in range(3):
        await certificates.look()

    assert (served(certificates), certificates.trouble()) == (before, None)
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


async def test_a_folder_that_cannot_be_written_is_said(replica: Replica, told: Told, tmp_path: Path) -> None:
    (tmp_path / "tls").write_text("no folder")
    certificates = replica()
    await certificates.look()

    assert "File exists" in told.of("certificates.failing")[0]["error"]
    assert "File exists" in (certificates.trouble() or "")


@contextmanager
def full_disk() -> Iterator[None]:
    """Files can be made here, but hold nothing, as on a disk without room."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_full_disk_takes_nothing_away_and_is_tried_again(
    cluster: FakeApi, replica: Replica, told: Told
) -> None:
    old, new = pair(), pair()
    cluster.put(secret(files(old)))
    certificates = replica()
    await certificates.look()
    cluster.put(secret(files(new)))
    with full_disk():
        await certificates.look()
        await certificates.look()
    meanwhile = served(certificates)
    await certificates.look()

    assert (meanwhile, certificates.trouble()) == (files(old), None)
    assert len(told.of("certificates.failing")) == 1
    assert served(certificates) == files(new)


async def test_a_secret_of_somebody_else_that_breaks_is_refused_and_the_old_pair_goes_on(
    cluster: FakeApi, replica: Replica, told: Told
) -> None:
    good = pair()
    cluster.put(secret(files(good), ours=False))
    certificates = replica()
    await certificates.look()
    broken = {**files(good), "tls.key": b"x", "ca.crt": b""}
    cluster.put(secret(broken, ours=False))
    await certificates.look()
    await certificates.look()

    assert served(certificates) == files(good)
    assert certificates.trouble() is None
    assert [line["mistakes"] for line in told.of("certificates.refused")] == [
        [
            "data[ca.crt]: is missing",
            "data[tls.key]: holds no private key in PEM form (-----BEGIN PRIVATE KEY-----)",
        ]
    ]


async def test_a_secret_of_somebody_else_that_was_never_good_is_waited_for(
    cluster: FakeApi, replica: Replica
) -> None:
    cluster.put(secret(files(pair("x")), ours=False))
    certificates = replica()
    await certificates.look()

    assert (certificates.trouble() or "").endswith(f"tls.crt: is not for {NAMES[0]}: its names are x")


async def test_a_pair_from_the_future_is_not_served_before_its_time(
    cluster: FakeApi, replica: Replica, time: Time, told: Told
) -> None:
    now, later = pair(), pair(days=60)
    cluster.put(secret(files(now)))
    certificates = replica()
    await certificates.look()
    cluster.put(secret(files(later)))
    time.day = START.replace(month=4)
    await certificates.look()

    assert served(certificates) == files(now)
    assert len(told.of("certificates.refused")) == 1
    time.day = START
    await certificates.look()
    assert served(certificates) == files(later)


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
    assert served(certificates) == files(shared(cluster).current)
    assert shared(cluster) == State(pairs[-1])


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
