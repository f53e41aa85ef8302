"""A replica: what it serves, what it waits for, what it says when something is wrong."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from certs.reader import SharedCertificate, start_pair
from numalign.model.errors import BadInput
from numalign.runtime import tls
from tests.unit.certs.conftest import Reader
from tests.worlds.log import RecordedLog
from tests.worlds.pairs import NAMES, PLACE, START, Time, files, pair, secret
from tools.clusters.fake_api import FakeApi

WAITING = "waiting for the certificate in Secret numalign-system/numalign-webhook-tls: "


def served(certificate: SharedCertificate) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in certificate.folder.iterdir()}


def test_a_server_can_listen_before_the_cluster_was_reached(tmp_path: Path) -> None:
    made = start_pair(tmp_path, names=NAMES, now=START)

    assert tls.load(tls.PairFiles(made.cert, made.key), now=START).expires > START


def test_a_start_pair_for_names_that_cannot_be_certified(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="names: '_' is neither a DNS name nor an IP address"):
        start_pair(tmp_path / "new", names=["_"], now=START)
    assert list(tmp_path.iterdir()) == []


async def test_what_is_shared_is_served_once_and_nothing_is_written(
    cluster: FakeApi, reader: Reader, told: RecordedLog
) -> None:
    shared, changes = pair(), list[set[str]]()
    cluster.put(secret(files(shared)))
    certificate: SharedCertificate = reader(changed=lambda: changes.append(set(served(certificate))))
    await certificate.check()
    await certificate.check()

    assert served(certificate) == files(shared)
    assert changes == [{"ca.crt", "tls.crt", "tls.key"}]
    assert [line["secret"] for line in told.of("certificates.served")] == [str(PLACE)]
    assert {(asked.method, asked.path) for asked in cluster.requests} == {("GET", PLACE.path)}


async def test_a_secret_that_nobody_made_yet_is_waited_for_in_words(cluster: FakeApi, reader: Reader) -> None:
    certificate = reader()
    await certificate.check()
    missing = certificate.waiting_for()
    cluster.put(secret({}))
    await certificate.check()

    assert missing == certificate.waiting_for() == f"{WAITING}numalign-controller has not created it yet"
    assert {asked.method for asked in cluster.requests} == {"GET"}


async def test_a_secret_that_is_deleted_takes_nothing_away(cluster: FakeApi, reader: Reader) -> None:
    shared = pair()
    cluster.put(secret(files(shared)))
    certificate = reader()
    await certificate.check()
    cluster.delete(PLACE.path)
    await certificate.check()

    assert (served(certificate), certificate.waiting_for()) == (files(shared), None)
    assert cluster.get(PLACE.path) is None


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "somebody else's"])
async def test_a_secret_that_breaks_is_refused_and_the_old_pair_goes_on(
    cluster: FakeApi, reader: Reader, told: RecordedLog, *, ours: bool
) -> None:
    good = pair()
    cluster.put(secret(files(good), ours=ours))
    certificate = reader()
    await certificate.check()
    cluster.put(secret({**files(good), "tls.key": b"x", "ca.crt": b""}, ours=ours))
    await certificate.check()
    await certificate.check()

    assert (served(certificate), certificate.waiting_for()) == (files(good), None)
    assert [line["errors"] for line in told.of("certificates.refused")] == [
        [
            "data[ca.crt]: is missing",
            "data[tls.key]: contains no PEM private key (-----BEGIN PRIVATE KEY-----)",
        ]
    ]


async def test_a_secret_of_somebody_else_that_was_never_good_is_waited_for(
    cluster: FakeApi, reader: Reader
) -> None:
    cluster.put(secret(files(pair("x")), ours=False))
    certificate = reader()
    await certificate.check()

    assert (certificate.waiting_for() or "").endswith(
        f"tls.crt: is not valid for {NAMES[0]}: its names are x"
    )


async def test_a_folder_that_cannot_be_written_is_said(
    cluster: FakeApi, reader: Reader, told: RecordedLog, tmp_path: Path
) -> None:
    (tmp_path / "tls").write_text("no folder")
    cluster.put(secret(files(pair())))
    certificate = reader()
    await certificate.check()

    assert "File exists" in told.of("certificates.failing")[0]["error"]
    assert "File exists" in (certificate.waiting_for() or "")


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
    cluster: FakeApi, reader: Reader, told: RecordedLog
) -> None:
    old, new = pair(), pair()
    cluster.put(secret(files(old)))
    certificate = reader()
    await certificate.check()
    cluster.put(secret(files(new)))
    with full_disk():
        await certificate.check()
        await certificate.check()
    meanwhile = served(certificate)
    await certificate.check()

    assert (meanwhile, certificate.waiting_for()) == (files(old), None)
    assert len(told.of("certificates.failing")) == 1
    assert served(certificate) == files(new)


async def test_a_pair_from_the_future_is_not_served_before_its_time(
    cluster: FakeApi, reader: Reader, time: Time, told: RecordedLog
) -> None:
    now, later = pair(), pair(days=60)
    cluster.put(secret(files(now)))
    certificate = reader()
    await certificate.check()
    cluster.put(secret(files(later)))
    time.day = START.replace(month=4)
    await certificate.check()

    assert served(certificate) == files(now)
    assert len(told.of("certificates.refused")) == 1
    time.day = START
    await certificate.check()
    assert served(certificate) == files(later)
