"""Pods are told what they hold, each by its UID and once."""

import asyncio
from dataclasses import dataclass, field
from http import HTTPStatus

import pytest
from agent.pod_records import PodRecords
from prometheus_client import CollectorRegistry

from agent.https import ApiServer
from agent.metrics import AgentMetrics
from agent.report import NamedPlacement
from numalign.kube.decode import placements
from numalign.kube.errors import Forbidden
from numalign.model.intent import PLACEMENT_OBSERVED
from numalign.model.placement import Held
from numalign.model.resources import Resources
from tests.worlds.log import RecordedLog
from tools.clusters.fake_api import FakeApi
from tools.clusters.waiting import until

WEB = "/api/v1/namespaces/team/pods/web"


@dataclass
class Desk:
    fake: FakeApi
    api: ApiServer
    journal: RecordedLog = field(default_factory=RecordedLog)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        self.pauses: list[float] = []
        self.records = PodRecords(
            self.api, log=self.journal.log, metrics=AgentMetrics(self.registry), sleep=self._pause,
            chance=lambda: 0.5
        )  # fmt: skip

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.fake.failures.clear()

    def made(self) -> str:
        self.fake.delete(WEB)
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "team"}}
        return str(self.fake.put(pod)["metadata"]["uid"])

    def record(self) -> str | None:
        found = self.fake.get(WEB)
        assert found
        text: str | None = found["metadata"].get("annotations", {}).get(PLACEMENT_OBSERVED)
        return text


@pytest.fixture
def desk(fake: FakeApi, api: ApiServer) -> Desk:
    return Desk(fake, api)


def placed(uid: str, cpus: int) -> NamedPlacement:
    held: Held = {("node-0",): Resources({"cpu": cpus * 1000})} if cpus else {}
    return NamedPlacement(uid, "team", "web", held)


@pytest.mark.parametrize(("cpus", "text"), [(2, None), (0, "[]")], ids=["resources", "none"])
async def test_record_has_what_a_pod_holds(desk: Desk, cpus: int, text: str | None) -> None:
    desk.records.keep((placed(desk.made(), cpus),))
    await desk.records.write_due()
    assert placements.read(desk.record() or "") == placed("", cpus).held
    assert text in (desk.record(), None)
    assert desk.registry.get_sample_value("numalign_agent_pod_writes_total") == 1


async def test_record_is_rewritten_only_on_change(desk: Desk) -> None:
    uid = desk.made()
    two, three = (placed(uid, 2),), (placed(uid, 3),)
    # A pod that is gone is forgotten.
    for pods, asked in ((two, 1), (two, 1), (three, 2), ((), 2), (three, 3)):
        desk.records.keep(pods)
        await desk.records.write_due()
        assert len(desk.fake.received("PATCH", WEB)) == asked


async def test_successor_never_gets_the_record_of_its_name(desk: Desk) -> None:
    desk.records.keep((placed("gone", 2),))
    await desk.records.write_due()
    assert desk.fake.received("PATCH", WEB)
    gone = desk.made()
    desk.made()
    desk.records.keep((placed(gone, 2),))
    await desk.records.write_due()
    assert desk.record() is None


async def test_failed_record_is_logged_once_and_retried(desk: Desk) -> None:
    desk.fake.failures[WEB] = HTTPStatus.FORBIDDEN
    desk.records.keep((placed(desk.made(), 2),))
    with pytest.raises(Forbidden):
        await desk.records.write_due()
    desk.fake.failures[WEB] = HTTPStatus.FORBIDDEN
    task = asyncio.create_task(desk.records.run())
    await until(desk.record)
    task.cancel()
    assert desk.pauses == [1.0]
    assert len(desk.journal.of("placements.write_failed")) == 1
