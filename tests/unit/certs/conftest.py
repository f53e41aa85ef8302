"""A cluster into which numalign was just installed, and the parts that share its certificate."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from certs import secret as secrets
from certs.keeper import Certificates
from certs.reader import SharedCertificate
from certs.rotation import RotationPlan
from certs.rotator import Rotator
from certs.secret import PairState
from numalign.kube.client import Api
from tests.worlds import pairs
from tests.worlds.clock import Clock
from tests.worlds.log import RecordedLog
from tests.worlds.pairs import CONFIGURATION, MUTATING, NAMES, PLACE, VALIDATING, Json
from tools.clusters.fake_api import FakeApi

DAY = 86400.0


@dataclass
class Site:
    """An API server with both webhook configurations, which trust no CA yet, and a clock."""

    api: FakeApi
    client: Api
    folder: Path
    clock: Clock = field(default_factory=Clock)
    log: RecordedLog = field(default_factory=RecordedLog)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def keeper(self, **changes: Any) -> Certificates:  # noqa: ANN401  its fields
        """The controller's part, which leads; a second one needs a registry of its own."""
        own = {"configuration": CONFIGURATION, "leading": lambda: True, "registry": self.registry, "days": 30}
        return Certificates(self.client, **{**self._fields(), **own, "clock": self.clock, **changes})

    def reader(self, **changes: Any) -> SharedCertificate:  # noqa: ANN401  its fields
        """A replica's part, which writes into the folder."""
        return SharedCertificate(self.client, **{**self._fields(), "folder": self.folder, **changes})

    def rotator(self, plan: RotationPlan | None = None, **changes: Any) -> Rotator:  # noqa: ANN401  its fields
        fields = {"api": self.client, "now": self.clock.wall, "clock": self.clock, **changes}
        plan = plan or RotationPlan(NAMES, days=30, settle=60)
        return Rotator(fields.pop("api"), ref=PLACE, configuration=CONFIGURATION, plan=plan, **fields)

    def _fields(self) -> dict[str, Any]:
        secret = {"namespace": PLACE.namespace, "secret": PLACE.name, "names": NAMES}
        return {**secret, "log": self.log.log, "now": self.clock.wall}

    def store(self, data: Mapping[str, bytes], *, ours: bool = True) -> Json:
        """The Secret has these files."""
        stored: Json = self.api.put(pairs.secret(data, ours=ours))
        return stored

    def state(self) -> PairState:
        """What the Secret holds."""
        return secrets.parse(self.api.get(PLACE.path))

    def bundles(self, kind: str) -> list[bytes]:
        return pairs.bundles(self.api, kind)

    def methods(self) -> list[str]:
        """The methods of all writes."""
        return [call.method for call in self.api.requests if call.method != "GET"]


@pytest.fixture
async def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Site]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    async with FakeApi() as api, api.client() as client:
        api.put(pairs.configuration(MUTATING, webhooks=2))
        api.put(pairs.configuration(VALIDATING))
        yield Site(api, client, tmp_path / "tls")
