"""A replica: what it serves, what it waits for, what it says when something is wrong."""

import asyncio
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol

import pytest

from certs import reader
from certs.reader import SharedCertificate
from harness.fake_api import FakeApi
from numalign.kube.client import Api
from numalign.model.errors import BadInput
from numalign.runtime import tls
from tests.pairs import NAMES, PLACE, START, Time, files, pair, secret

WAITING = "waiting for the certificate in Secret numalign-system/numalign-webhook-tls: "


class Told(Protocol):
    """What the fixture `told` can do."""

    log: Any
    stream: Any

    def of(self, event: str) -> list[dict[str, Any]]:
        """The lines of one event."""


Replica = Callable[..., SharedCertificate]


@pytest.fixture
def replica(client: Api, time: Time, told: Told, tmp_path: Path) -> Replica:
    """Makes a replica."""

    def made(folder: str = "tls", **changes: Any) -> SharedCertificate:  # noqa: ANN401  fields of the replica
        fields: dict[str, Any] = {
            "namespace": PLACE.namespace,
            "secret": PLACE.name,
            "names": NAMES,
            "folder": tmp_path / folder,
            "log": told.log,
            "now": time.now,
        }
        return SharedCertificate(client, **{**fields, **changes})

    return made


def served(certificate: SharedCertificate) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in certificate.folder.iterdir()}


def test_a_server_can_listen_before_the_cluster_was_reached(tmp_path: Path) -> None:
    made = reader.start_pair(tmp_path, names=NAMES, now=START)
    loaded = tls.load(tls.PairFiles(made.cert, made.key), now=START)

    assert loaded.expires > START


def test_a_start_pair_for_names_that_cannot_be_certified(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="names: '_' is neither a DNS name nor an IP address"):
        reader.start_pair(tmp_path / "new", names=["_"], now=START)
    assert list(tmp_path.iterdir()) == []


async def test_what_is_shared_is_served_and_nothing_is_written(
    cluster: FakeApi, replica: Replica, told: Told
) -> None:
    shared = pair()
    cluster.put(secret(files(shared)))
    certificate = replica()
    await certificate.look()
    await certificate.look()

    assert served(certificate) == files(shared)
    assert [line["secret"] for line in told.of("certificates.served")] == [str(PLACE)]
    assert {asked.method for asked in cluster.requests} == {"GET"}
    assert {asked.path for asked in cluster.requests} == {PLACE.path}


async def test_a_secret_that_nobody_made_yet_is_waited_for_in_words(
    cluster: FakeApi, replica: Replica
) -> None:
    certificate = replica()
    await certificate.look()
    missing = certificate.trouble()
    cluster.put(secret({}))
    await certificate.look()

    assert missing == certificate.trouble() == f"{WAITING}numalign-controller has not made it yet"
    assert {asked.method for asked in cluster.requests} == {"GET"}


async def test_a_secret_that_is_deleted_takes_nothing_away(cluster: FakeApi, replica: Replica) -> None:
    shared = pair()
    cluster.put(secret(files(shared)))
    certificate = replica()
    await certificate.look()
    cluster.delete(PLACE.path)
    await certificate.look()

    assert (served(certificate), certificate.trouble()) == (files(shared), None)
    assert cluster.get(PLACE.path) is None


async def test_our_secret_that_breaks_is_refused_and_the_old_pair_goes_on(
    cluster: FakeApi, replica: Replica, told: Told
) -> None:
    good = pair()
    cluster.put(secret(files(good)))
    certificate = replica()
    await certificate.look()
    cluster.put(secret({"tls.crt": b"", "tls.key": b""}))
    await certificate.look()

    assert (served(certificate), certificate.trouble()) == (files(good), None)
    assert len(told.of("certificates.refused")) == 1


async def test_the_server_is_told_when_the_folder_changed(cluster: FakeApi, replica: Replica) -> None:
    told: list[set[str]] = []
    cluster.put(secret(files(pair())))
    certificate: SharedCertificate = replica(changed=lambda: told.append(set(served(certificate))))
    await certificate.look()
    await certificate.look()

    assert told == [{"ca.crt", "tls.crt", "tls.key"}]


async def test_readiness_waits_for_what_is_shared(cluster: FakeApi, replica: Replica) -> None:
    cluster.put(secret(files(pair())))
    certificate = replica()
    assert certificate.trouble() == f"{WAITING}it was not read yet"
    cluster.failures[PLACE.path] = HTTPStatus.FORBIDDEN
    await certificate.look()
    assert (certificate.trouble() or "").startswith(f"{WAITING}you may not read Secret")
    cluster.failures.clear()
    await certificate.look()

    assert certificate.trouble() is None


async def test_a_cluster_that_is_gone_takes_nothing_away(
    cluster: FakeApi, replica: Replica, told: Told
) -> None:
    cluster.put(secret(files(pair())))
    certificate = replica()
    await certificate.look()
    before = served(certificate)
    await cluster.stop()
    for _ in range(3):
        await certificate.look()

    assert (served(certificate), certificate.trouble()) == (before, None)
    assert len(told.of("certificates.failing")) == 1


async def test_the_same_failure_is_said_again_after_it_was_over(
    cluster: FakeApi, replica: Replica, told: Told
) -> None:
    certificate = replica()
    for status in (HTTPStatus.FORBIDDEN, None, HTTPStatus.FORBIDDEN):
        cluster.failures = {PLACE.path: status} if status else {}
        await certificate.look()
        await certificate.look()

    assert len(told.of("certificates.failing")) == 2


async def test_a_folder_that_cannot_be_written_is_said(
    cluster: FakeApi, replica: Replica, told: Told, tmp_path: Path
) -> None:
    (tmp_path / "tls").write_text("no folder")
    cluster.put(secret(files(pair())))
    certificate = replica()
    await certificate.look()

    assert "File exists" in told.of("certificates.failing")[0]["error"]
    assert "File exists" in (certificate.trouble() or "")


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
    certificate = replica()
    await certificate.look()
    cluster.put(secret(files(new)))
    with full_disk():
        await certificate.look()
        await certificate.look()
    meanwhile = served(certificate)
    await certificate.look()

    assert (meanwhile, certificate.trouble()) == (files(old), None)
    assert len(told.of("certificates.failing")) == 1
    assert served(certificate) == files(new)


async def test_a_secret_of_somebody_else_that_breaks_is_refused_and_the_old_pair_goes_on(
    cluster: FakeApi, replica: Replica, told: Told
) -> None:
    good = pair()
    cluster.put(secret(files(good), ours=False))
    certificate = replica()
    await certificate.look()
    broken = {**files(good), "tls.key": b"x", "ca.crt": b""}
    cluster.put(secret(broken, ours=False))
    await certificate.look()
    await certificate.look()

    assert served(certificate) == files(good)
    assert certificate.trouble() is None
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
    certificate = replica()
    await certificate.look()

    assert (certificate.trouble() or "").endswith(f"tls.crt: is not for {NAMES[0]}: its names are x")


async def test_a_pair_from_the_future_is_not_served_before_its_time(
    cluster: FakeApi, replica: Replica, time: Time, told: Told
) -> None:
    now, later = pair(), pair(days=60)
    cluster.put(secret(files(now)))
    certificate = replica()
    await certificate.look()
    cluster.put(secret(files(later)))
    time.day = START.replace(month=4)
    await certificate.look()

    assert served(certificate) == files(now)
    assert len(told.of("certificates.refused")) == 1
    time.day = START
    await certificate.look()
    assert served(certificate) == files(later)


async def test_what_is_served_is_never_in_a_log(cluster: FakeApi, replica: Replica, told: Told) -> None:
    cluster.put(secret(files(pair())))
    certificate = replica()
    await certificate.look()

    assert "PRIVATE KEY" not in told.stream.getvalue()
    assert "PRIVATE KEY" not in repr(certificate)


async def test_as_long_as_there_is_nothing_to_serve_it_looks_every_second(
    cluster: FakeApi, replica: Replica
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            cluster.put(secret(files(pair())))
        if len(slept) == 4:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await replica(sleep=sleep, every=7).run()

    assert slept == [1, 1, 7, 7]
