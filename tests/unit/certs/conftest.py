"""A cluster into which numalign was just installed, and the two parts that share its certificate."""

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from certs.keeper import Certificates
from certs.reader import SharedCertificate
from numalign.kube.client import Api
from tests.worlds.clock import Clock
from tests.worlds.log import RecordedLog
from tests.worlds.pairs import CONFIGURATION, MUTATING, NAMES, PLACE, VALIDATING, configuration
from tools.clusters.fake_api import FakeApi

DAY = 86400.0

Keeper = Callable[..., Certificates]
Reader = Callable[..., SharedCertificate]


@pytest.fixture
def log() -> RecordedLog:
    return RecordedLog()


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeApi]:
    """An API server with both webhook configurations, which trust no CA yet."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    async with FakeApi() as api:
        api.put(configuration(MUTATING, webhooks=2))
        api.put(configuration(VALIDATING))
        yield api


@pytest.fixture
async def client(cluster: FakeApi) -> AsyncIterator[Api]:
    async with cluster.client() as api:
        yield api


@pytest.fixture
def fields(log: RecordedLog, clock: Clock) -> Mapping[str, Any]:
    """The fields that keeper and reader have in common."""
    secret = {"namespace": PLACE.namespace, "secret": PLACE.name, "names": NAMES}
    return {**secret, "log": log.log, "now": clock.wall}


@pytest.fixture
def keeper(client: Api, clock: Clock, registry: CollectorRegistry, fields: Mapping[str, Any]) -> Keeper:
    """Makes the controller's part, which leads; a second one needs a registry of its own."""
    own = {"configuration": CONFIGURATION, "leading": lambda: True, "registry": registry, "days": 30}
    return lambda **changes: Certificates(client, **{**fields, **own, "clock": clock, **changes})


@pytest.fixture
def reader(client: Api, tmp_path: Path, fields: Mapping[str, Any]) -> Reader:
    """Makes a replica's part, which writes into a folder `tls`."""
    return lambda **changes: SharedCertificate(client, **{**fields, "folder": tmp_path / "tls", **changes})
