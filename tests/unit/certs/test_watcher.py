"""What the controller and a replica have in common: what they wait for, and say of what is wrong."""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

import pytest

from certs.watcher import SecretWatcher
from tests.unit.certs.conftest import Keeper, Reader
from tests.worlds.log import RecordedLog
from tests.worlds.pairs import files, pair, secret
from tools.clusters.fake_api import FakeApi

WAITING = "waiting for the certificate in Secret numalign-system/numalign-webhook-tls: "
Watcher = Callable[..., SecretWatcher]


@pytest.fixture(params=["keeper", "reader"])
def watcher(request: pytest.FixtureRequest, cluster: FakeApi, keeper: Keeper, reader: Reader) -> Watcher:
    """Makes one of them, where a Secret of ours is there."""
    cluster.put(secret(files(pair())))
    return keeper if request.param == "keeper" else reader


def written(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.glob("tls/*")}


async def test_readiness_waits_for_what_is_shared(cluster: FakeApi, watcher: Watcher) -> None:
    made = watcher()
    assert made.waiting_for() == f"{WAITING}it has not been read yet"
    cluster.failures[made.ref.path] = HTTPStatus.FORBIDDEN
    await made.check()
    assert (made.waiting_for() or "").startswith(f"{WAITING}not allowed to read Secret")
    cluster.failures.clear()
    await made.check()

    assert made.waiting_for() is None


async def test_a_cluster_that_is_gone_takes_nothing_away_and_is_said_once(
    cluster: FakeApi, watcher: Watcher, told: RecordedLog, tmp_path: Path
) -> None:
    made = watcher()
    await made.check()
    before = written(tmp_path)
    await cluster.stop()
    for _ in range(3):
        await made.check()

    assert made.waiting_for() is None
    assert written(tmp_path) == before
    assert len(told.of("certificates.failing")) == 1


async def test_the_same_failure_is_said_again_after_it_was_over(
    cluster: FakeApi, watcher: Watcher, told: RecordedLog
) -> None:
    made = watcher()
    for status in (HTTPStatus.FORBIDDEN, None, HTTPStatus.FORBIDDEN):
        cluster.failures = {made.ref.path: status} if status else {}
        await made.check()
        await made.check()

    assert len(told.of("certificates.failing")) == 2


async def test_what_is_served_is_never_in_a_log(watcher: Watcher, told: RecordedLog) -> None:
    made = watcher()
    await made.check()

    assert "PRIVATE KEY" not in told.stream.getvalue()
    assert "PRIVATE KEY" not in repr(made)


async def test_as_long_as_there_is_nothing_to_serve_it_looks_every_second(
    cluster: FakeApi, watcher: Watcher
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            cluster.failures.clear()
        if len(slept) == 4:
            raise asyncio.CancelledError

    made = watcher(sleep=sleep, every=7)
    cluster.failures[made.ref.path] = HTTPStatus.SERVICE_UNAVAILABLE
    with pytest.raises(asyncio.CancelledError):
        await made.run()

    assert slept == [1, 1, 7, 7]
