"""A cluster into which numalign was just installed, a time that passes when told, a log that can be read."""

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from certs.keeper import Certificates
from certs.reader import SharedCertificate
from numalign.kube.client import Api
from tests.worlds.log import RecordedLog
from tests.worlds.pairs import CONFIGURATION, MUTATING, NAMES, PLACE, VALIDATING, Time, configuration
from tools.clusters.fake_api import FakeApi

Keeper = Callable[..., Certificates]
Reader = Callable[..., SharedCertificate]


@pytest.fixture
def told() -> RecordedLog:
    return RecordedLog()


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeApi]:
    """An API server with both webhook configurations, which trust nobody yet."""
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
def fields(told: RecordedLog, time: Time) -> Mapping[str, Any]:
    """What keeper and reader are made of."""
    secret = {"namespace": PLACE.namespace, "secret": PLACE.name, "names": NAMES}
    return {**secret, "log": told.log, "now": time.now}


@pytest.fixture
def keeper(client: Api, time: Time, registry: CollectorRegistry, fields: Mapping[str, Any]) -> Keeper:
    """Makes the controller's part, which leads; more of them need a registry of their own."""
    own = {"configuration": CONFIGURATION, "leading": lambda: True, "registry": registry, "days": 30}
    return lambda **changes: Certificates(client, **{**fields, **own, "clock": time.clock, **changes})


@pytest.fixture
def reader(client: Api, tmp_path: Path, fields: Mapping[str, Any]) -> Reader:
    """Makes a replica's part, which writes into a folder `tls`."""
    return lambda **changes: SharedCertificate(client, **{**fields, "folder": tmp_path / "tls", **changes})
