"""A webhook replica serves the pair in the Secret, and no failure removes a valid one."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from certs.authority import Pair
from certs.reader import SharedCertificate
from tests.unit.certs.conftest import DAY, Site
from tests.worlds.pairs import PLACE, files, pair

WAITING = "waiting for the certificate in Secret numalign-system/numalign-webhook-tls: "


def served(certificate: SharedCertificate) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in certificate.folder.iterdir()}


async def test_shared_pair_is_served_once_without_a_write(site: Site) -> None:
    shared, changes = pair(), list[set[str]]()
    site.store(files(shared))
    certificate: SharedCertificate = site.reader(changed=lambda: changes.append(set(served(certificate))))
    await certificate.check()
    await certificate.check()

    assert served(certificate) == files(shared)
    assert changes == [{"ca.crt", "tls.crt", "tls.key"}]
    assert [line["secret"] for line in site.log.of("certificates.served")] == [str(PLACE)]
    assert {(call.method, call.path) for call in site.api.requests} == {("GET", PLACE.path)}


async def test_reader_waits_for_a_missing_or_empty_secret(site: Site) -> None:
    certificate = site.reader()
    await certificate.check()
    missing = certificate.waiting_for()
    site.store({})
    await certificate.check()

    assert missing == certificate.waiting_for() == f"{WAITING}numalign-controller has not created it yet"


async def served_to(site: Site, made: Pair, *, ours: bool = True) -> SharedCertificate:
    """A replica that serves this pair."""
    site.store(files(made), ours=ours)
    certificate = site.reader()
    await certificate.check()
    return certificate


async def test_deleted_secret_leaves_the_pair_served(site: Site) -> None:
    certificate = await served_to(site, shared := pair())
    site.api.delete(PLACE.path)
    await certificate.check()

    assert (served(certificate), certificate.waiting_for()) == (files(shared), None)
    assert site.api.get(PLACE.path) is None


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "foreign"])
async def test_broken_secret_leaves_the_old_pair_served(site: Site, *, ours: bool) -> None:
    certificate = await served_to(site, good := pair(), ours=ours)
    site.store({**files(good), "tls.key": b"x", "ca.crt": b""}, ours=ours)
    await certificate.check()
    await certificate.check()

    assert (served(certificate), certificate.waiting_for()) == (files(good), None)
    [line] = site.log.of("certificates.refused")
    assert [error.partition(": ")[0] for error in line["errors"]] == ["data[ca.crt]", "data[tls.key]"]


@contextmanager
def full_disk() -> Iterator[None]:
    """New files can be created, but hold nothing, as on a disk without room."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_full_disk_leaves_the_old_pair_served(site: Site) -> None:
    certificate, new = await served_to(site, old := pair()), pair()
    site.store(files(new))
    with full_disk():
        await certificate.check()
        await certificate.check()
    meanwhile = served(certificate)
    await certificate.check()

    assert (meanwhile, certificate.waiting_for()) == (files(old), None)
    assert len(site.log.of("certificates.failing")) == 1
    assert served(certificate) == files(new)


async def test_pair_that_is_not_valid_yet_is_served_later(site: Site) -> None:
    certificate, later = await served_to(site, now := pair()), pair(days=60)
    site.store(files(later))
    site.clock.jump = -DAY
    await certificate.check()

    assert served(certificate) == files(now)
    assert len(site.log.of("certificates.refused")) == 1
    site.clock.jump = 0
    await certificate.check()
    assert served(certificate) == files(later)
