"""One writer of zones: ours, or another exporter's; the annotations are ours in any case."""

import asyncio
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from agent.amounts import SeenDevices
from agent.https import MANAGER, ApiServer
from agent.metrics import AgentMetrics
from agent.options import Publish
from agent.publisher import AGAIN_SECONDS, OWNER_SECONDS, PodRecords, Publisher
from agent.report import NamedPlacement, NodeReport, report
from numalign.kube.decode import placements
from numalign.kube.decode.kubelet_reports import MACHINE, OBSERVED_AT, PLACEMENTS
from numalign.kube.errors import Forbidden
from numalign.model.intent import PLACEMENT_OBSERVED
from numalign.model.placement import Held
from numalign.model.resources import Resources
from tests.unit.agent.observations import container, listed, observation, pod
from tests.worlds.log import RecordedLog
from tools.clusters.fake_api import FakeApi, Json
from tools.clusters.waiting import until

NODE = "/api/v1/nodes/a"
PATH = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/a"
NOON = datetime(2026, 11, 22, 12, 0, 0, 999999, UTC)


def reported(*names: str) -> NodeReport:
    pods = [pod(name, name) for name in names]
    held = [listed(name, container("main", str(at))) for at, name in enumerate(names, start=1)]
    return report(observation(*pods, listed=held), SeenDevices())[0]


def of_another(free: str = "2") -> Json:
    cpu = {"name": "cpu", "capacity": "4", "allocatable": "3", "available": free}
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology",
        "metadata": {"name": "a", "annotations": {"its": "own"}},
        "zones": [{"name": "node-0", "type": "Node", "resources": [cpu]}],
    }  # fmt: skip


@dataclass
class Desk:
    fake: FakeApi
    api: ApiServer
    publish: Publish = Publish.IF_ABSENT
    journal: RecordedLog = field(default_factory=RecordedLog)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.publisher = Publisher(
            self.api, "a", self.publish, log=self.journal.log, metrics=AgentMetrics(self.registry),
            now=lambda: NOON, clock=lambda: self.seconds
        )  # fmt: skip

    def owned_by_another(self, made: Json) -> None:
        """Put a topology whose zones another manager owns: only an apply by force changes them."""
        self.fake.put(made)
        self.fake.failures["APPLY", PATH] = HTTPStatus.CONFLICT

    async def write(self, *names: str) -> None:
        await self.publisher.publish(reported(*names))

    @property
    def topology(self) -> Json:
        stored = self.fake.get(PATH)
        assert stored
        return stored

    @property
    def annotations(self) -> Any:  # noqa: ANN401  JSON
        return self.topology["metadata"]["annotations"]

    def count(self, result: str) -> float | None:
        return self.registry.get_sample_value("numalign_agent_writes_total", {"result": result})


@pytest.fixture
def desk(fake: FakeApi, api: ApiServer) -> Desk:
    return Desk(fake, api)


async def test_topology_and_each_change_of_it_are_one_write(desk: Desk) -> None:
    await desk.write("web")
    found = desk.topology
    assert len(desk.fake.received("PATCH", PATH)) == 1
    assert found["zones"] == reported("web").zones
    assert desk.annotations == {**reported("web").annotations, OBSERVED_AT: "2026-11-22T12:00:00Z"}
    node = desk.fake.get(NODE)
    assert node
    owner = {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": node["metadata"]["uid"]}
    assert found["metadata"]["ownerReferences"] == [owner]

    before = len(desk.fake.requests)
    await desk.write("web", "db")
    assert [asked.method for asked in desk.fake.requests[before:]] == ["PATCH"]
    assert desk.annotations[PLACEMENTS] == reported("web", "db").annotations[PLACEMENTS]
    assert desk.count("applied") == 2
    assert {asked.query["fieldManager"] for asked in desk.fake.received("PATCH", PATH)} == {MANAGER}


async def test_the_zones_of_another_exporter_stay_as_they_are(desk: Desk) -> None:
    desk.owned_by_another(of_another())
    await desk.write("web")
    await desk.write("web", "db")
    assert desk.topology["zones"] == of_another()["zones"]
    assert desk.annotations["its"] == "own"
    assert desk.annotations[PLACEMENTS] == reported("web", "db").annotations[PLACEMENTS]
    assert [desk.count(result) for result in ("conflict", "annotated", "applied")] == [1, 2, 0]
    assert desk.registry.get_sample_value("numalign_agent_zones_of_others") == 1
    [line] = desk.journal.of("topology.other_exporter")
    assert line["error"].startswith("Conflict: the topology of node a was created or changed by another")


async def test_it_gives_way_to_an_exporter_that_comes_later(desk: Desk) -> None:
    await desk.write("web")
    desk.owned_by_another({**desk.topology, "zones": of_another()["zones"]})
    await desk.write("web", "db")
    assert desk.topology["zones"] == of_another()["zones"]
    assert desk.annotations[PLACEMENTS] == reported("web", "db").annotations[PLACEMENTS]


async def test_zones_are_rewritten_once_the_other_object_is_gone(desk: Desk) -> None:
    desk.owned_by_another(of_another())
    await desk.write("web")
    desk.fake.delete(PATH)
    desk.fake.failures.clear()
    await desk.write("web", "db")
    assert desk.topology["zones"] == reported("web", "db").zones
    assert len(desk.journal.of("topology.taken_over")) == 1
    assert desk.registry.get_sample_value("numalign_agent_zones_of_others") == 0


async def test_ownership_of_zones_is_checked_again(desk: Desk) -> None:
    desk.owned_by_another(of_another())
    await desk.write("web")
    assert not desk.publisher.unsettled
    desk.seconds += AGAIN_SECONDS
    assert desk.publisher.unsettled
    await desk.write("web")
    assert not desk.publisher.unsettled
    assert desk.count("conflict") == 2
    assert len(desk.journal.of("topology.other_exporter")) == 1


async def test_always_takes_over(desk: Desk) -> None:
    always = Desk(desk.fake, desk.api, Publish.ALWAYS)
    desk.owned_by_another(of_another())
    await always.write("web")
    assert (always.topology["zones"], always.annotations["its"]) == (reported("web").zones, "own")


async def test_never_adds_annotations_alone(desk: Desk) -> None:
    never = Desk(desk.fake, desk.api, Publish.NEVER)
    await never.write("web")
    await never.write("web")
    assert desk.fake.get(PATH) is None
    assert (never.count("absent"), len(never.journal.of("topology.absent"))) == (2, 1)
    assert never.publisher.unsettled
    desk.owned_by_another(of_another())
    await never.write("web")
    assert never.topology["zones"] == of_another()["zones"]
    assert never.annotations[MACHINE] == reported().annotations[MACHINE]
    assert not never.publisher.unsettled


@pytest.mark.parametrize("before", ["ours", "another's"])
async def test_an_annotation_that_must_not_stand_is_taken_away(desk: Desk, before: str) -> None:
    if before == "another's":
        desk.owned_by_another(of_another())
    await desk.write("web")
    found = reported("web")
    await desk.publisher.publish(replace(found, annotations={**found.annotations, PLACEMENTS: None}))
    last = desk.fake.received("PATCH", PATH)[-1].body["metadata"]["annotations"]
    # What is applied no more is removed by the API server; a patch must name it.
    assert last.get(PLACEMENTS, "not applied") == ("not applied" if before == "ours" else None)
    assert last[MACHINE] == found.annotations[MACHINE]
    for annotation, size in ((MACHINE, len(found.annotations[MACHINE] or "")), (PLACEMENTS, 0)):
        labels = {"annotation": annotation}
        assert desk.registry.get_sample_value("numalign_agent_annotation_bytes", labels) == size


async def test_the_node_is_read_again_if_it_may_be_another(desk: Desk) -> None:
    await desk.write("web")
    asked = len(desk.fake.received("GET", NODE))
    await desk.write("web", "db")
    assert len(desk.fake.received("GET", NODE)) == asked
    desk.seconds += OWNER_SECONDS
    await desk.write("web")
    assert len(desk.fake.received("GET", NODE)) == asked + 1
    # The next node of the name, whose object went with the one before.
    desk.fake.delete(NODE)
    desk.fake.delete(PATH)
    made = desk.fake.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}})
    await desk.write("web", "db")
    assert [each["uid"] for each in desk.topology["metadata"]["ownerReferences"]] == [made["metadata"]["uid"]]


@pytest.mark.parametrize("status", [403, 404])
async def test_a_node_that_may_not_be_read_owns_nothing(desk: Desk, status: int) -> None:
    desk.fake.failures["GET", NODE] = HTTPStatus(status)
    await desk.write("web")
    desk.seconds += AGAIN_SECONDS
    await desk.write("web")
    assert "ownerReferences" not in desk.topology["metadata"]
    assert len(desk.journal.of("topology.no_owner")) == 1


async def test_a_refusal_is_raised_and_counted(desk: Desk) -> None:
    desk.fake.failures["PATCH", PATH] = HTTPStatus.FORBIDDEN
    with pytest.raises(Forbidden):
        await desk.write("web")
    assert (desk.count("failed"), desk.count("applied")) == (1, 0)


# Pods are told what they hold, each by its UID and once.


WEB = "/api/v1/namespaces/team/pods/web"


@dataclass
class PodDesk:
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
def keeper(fake: FakeApi, api: ApiServer) -> PodDesk:
    return PodDesk(fake, api)


def placed(uid: str, cpus: int) -> NamedPlacement:
    held: Held = {("node-0",): Resources({"cpu": cpus * 1000})} if cpus else {}
    return NamedPlacement(uid, "team", "web", held)


@pytest.mark.parametrize(("cpus", "text"), [(2, None), (0, "[]")], ids=["resources", "none"])
async def test_record_has_what_a_pod_holds(keeper: PodDesk, cpus: int, text: str | None) -> None:
    keeper.records.keep((placed(keeper.made(), cpus),))
    await keeper.records.write_due()
    assert placements.read(keeper.record() or "") == placed("", cpus).held
    assert text in (keeper.record(), None)
    assert keeper.registry.get_sample_value("numalign_agent_pod_writes_total") == 1


async def test_record_is_rewritten_only_on_change(keeper: PodDesk) -> None:
    uid = keeper.made()
    two, three = (placed(uid, 2),), (placed(uid, 3),)
    # A pod that is gone is forgotten.
    for pods, asked in ((two, 1), (two, 1), (three, 2), ((), 2), (three, 3)):
        keeper.records.keep(pods)
        await keeper.records.write_due()
        assert len(keeper.fake.received("PATCH", WEB)) == asked


async def test_successor_never_gets_the_record_of_its_name(keeper: PodDesk) -> None:
    keeper.records.keep((placed("gone", 2),))
    await keeper.records.write_due()
    assert keeper.fake.received("PATCH", WEB)
    gone = keeper.made()
    keeper.made()
    keeper.records.keep((placed(gone, 2),))
    await keeper.records.write_due()
    assert keeper.record() is None


async def test_failed_record_is_logged_once_and_retried(keeper: PodDesk) -> None:
    keeper.fake.failures[WEB] = HTTPStatus.FORBIDDEN
    keeper.records.keep((placed(keeper.made(), 2),))
    with pytest.raises(Forbidden):
        await keeper.records.write_due()
    keeper.fake.failures[WEB] = HTTPStatus.FORBIDDEN
    task = asyncio.create_task(keeper.records.run())
    await until(keeper.record)
    task.cancel()
    assert keeper.pauses == [1.0]
    assert len(keeper.journal.of("placements.write_failed")) == 1
