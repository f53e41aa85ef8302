"""What the controller and a replica have in common: what they wait for, and when they log an error."""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

import pytest

from certs.watcher import SecretWatcher
from tests.unit.certs.conftest import Site
from tests.worlds.pairs import files, pair

WAITING = "waiting for the certificate in Secret numalign-system/numalign-webhook-tls: "
Watcher = Callable[..., SecretWatcher]


@pytest.fixture(params=["keeper", "reader"])
def watcher(site: Site, request: pytest.FixtureRequest) -> Watcher:
    """Makes one of them beside a Secret of ours."""
    site.store(files(pair()))
    return site.keeper if request.param == "keeper" else site.reader


async def test_readiness_waits_for_the_pair(site: Site, watcher: Watcher) -> None:
    made = watcher()
    assert made.waiting_for() == f"{WAITING}it has not been read yet"
    site.api.failures[made.ref.path] = HTTPStatus.FORBIDDEN
    await made.check()
    assert (made.waiting_for() or "").startswith(f"{WAITING}not allowed to read Secret")
    site.api.failures.clear()
    await made.check()

    assert made.waiting_for() is None
    assert "PRIVATE KEY" not in site.log.stream.getvalue() + repr(made)


async def test_unreachable_cluster_is_logged_once(site: Site, watcher: Watcher, tmp_path: Path) -> None:
    def files_in_folder() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in tmp_path.glob("tls/*")}

    made = watcher()
    await made.check()
    before = files_in_folder()
    await site.api.stop()
    for _ in range(3):
        await made.check()

    assert made.waiting_for() is None
    assert files_in_folder() == before
    assert len(site.log.of("certificates.failing")) == 1


async def test_failure_that_returns_is_logged_again(site: Site, watcher: Watcher) -> None:
    made = watcher()
    for status in (HTTPStatus.FORBIDDEN, None, HTTPStatus.FORBIDDEN):
        site.api.failures = {made.ref.path: status} if status else {}
        await made.check()
        await made.check()

    assert len(site.log.of("certificates.failing")) == 2


async def test_checks_come_every_second_until_there_is_a_pair(site: Site, watcher: Watcher) -> None:
    slept = list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            site.api.failures.clear()
        if len(slept) == 4:
            raise asyncio.CancelledError

    made = watcher(sleep=sleep, every=7)
    site.api.failures[made.ref.path] = HTTPStatus.SERVICE_UNAVAILABLE
    with pytest.raises(asyncio.CancelledError):
        await made.run()

    assert slept == [1, 1, 7, 7]
