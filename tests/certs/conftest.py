"""A cluster into which numalign was just installed, a time that passes when told, a log that can be read."""

import io
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from harness.fake_api import FakeApi
from numalign.kube.client import Api
from numalign.runtime import logs
from tests.pairs import MUTATING, VALIDATING, Time, configuration


@dataclass
class Told:
    """A log, and what was said to it."""

    stream: io.StringIO = field(default_factory=io.StringIO)

    def __post_init__(self) -> None:
        self.log = logs.to(self.stream, level="debug", form="json")

    def of(self, event: str) -> list[dict[str, Any]]:
        """The lines of one event."""
        lines = map(json.loads, self.stream.getvalue().splitlines())
        return [line for line in lines if line["event"] == event]


@pytest.fixture
def told() -> Told:
    return Told()


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
