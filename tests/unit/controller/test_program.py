"""The controller as it runs in a cluster: all of its parts, in this process, with an API server in it."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller.dry_run import dry_run
from controller.program import LEASE, ControllerProgram
from controller.settings import ControllerSettings
from numalign.kube.client import Api
from numalign.kube.compose import Background
from numalign.kube.decode import shapes
from numalign.kube.decode.scheduling import scheduling
from numalign.kube.files.policy import BadPolicy
from numalign.kube.lease import LeaderElector
from numalign.model.constraints import Operator, Requirement, Term
from numalign.model.intent import CLASS_LABEL, NODE_LABEL, PINNED_AT, PLACEMENT, PLACEMENT_GATE
from numalign.model.node import Node, node_class
from numalign.runtime.server import Stop
from numalign.runtime.settings import load
from numalign.shapes import Identity, ShapeHistory
from tests.worlds import faster, pairs, webhook
from tests.worlds.log import RecordedLog
from tests.worlds.notation import node, table
from tests.worlds.served import Launcher, Served
from tools.clusters.fake_api import FakeApi

SINGLE = "single-numa-node"
SMALL = node("cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy=SINGLE)
LARGE = node("cpu=8 mem=8Gi gpu=4", "cpu=8 mem=8Gi gpu=4", policy=SINGLE)

NODES = "/api/v1/nodes"
NAMESPACES = "/api/v1/namespaces"
PODS = "/api/v1/pods"
CPUS = "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/numalign-system/leases"
CONFIGMAPS = "/api/v1/namespaces/numalign-system/configmaps"
SHAPES = f"{CONFIGMAPS}/numalign-shapes"
SECRETS = "/api/v1/namespaces/numalign-system/secrets"
SECRET = f"{SECRETS}/own"


SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u1", "controller": True}
PENDING = {"phase": "Pending"}
GATE = [{"name": PLACEMENT_GATE}]
REJECTED = {"phase": "Failed", "reason": "TopologyAffinityError"}
OWN = ("--tls-secret", "own", "--tls-names", "127.0.0.1")
NO_LABELS = ("--label-nodes=false",)


@dataclass
class Site(Launcher):
    """An API server, and the controllers beside it."""

    def settings(self, *argv: str) -> ControllerSettings:
        words = [*self.kubeconfig(), "--bind=127.0.0.1", "--metrics-port=0", "--drain-seconds=0", *argv]
        return load(ControllerSettings, argv=words, environ={}).settings

    @asynccontextmanager
    async def running(self, *argv: str, ready: bool = True, **changes: Any) -> AsyncIterator[Served]:  # noqa: ANN401
        """A controller with these flags, once it is `ready`; ended in order, with exit code 0."""
        log = RecordedLog()
        fast: dict[str, Any] = {"sleep": faster.sleep, "clock": faster.clock, **changes}
        program = ControllerProgram(self.settings(*argv), log.log, CollectorRegistry(), **fast)
        async with Served.running(program, log) as controller:
            if ready:
                await controller.until(controller.ready)
            yield controller

    def label(self, name: str) -> str | None:
        """The class in the label of a node."""
        stored: Any = self.api.get(f"{NODES}/{name}")
        label: str | None = stored["metadata"].get("labels", {}).get(CLASS_LABEL)
        return label

    async def labelled(self) -> bool:
        return all(self.label(name) for name in ("small", "large"))

    def add(self, name: str, made: Node) -> None:
        """A node and its topology, if it has one, are like this now."""
        for each in webhook.snapshot({name: made})["items"]:
            self.api.put(each)
        if not made.zones:
            self.api.delete(f"{TOPOLOGIES}/{name}")

    def enable(self, **labels: str) -> None:
        """The namespace of the tests has these labels of ours."""
        metadata = {"name": "team", "labels": {f"numalign.io/{key}": text for key, text in labels.items()}}
        self.api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})

    def remember(self, *nodes: Node) -> None:
        """An earlier controller observed nodes like these."""
        book = ShapeHistory(wall=time.time)
        for each in nodes:
            book.update_node(replace(each, name=node_class(each)), identity=Identity())
        metadata = {"namespace": "numalign-system", "name": shapes.NAME}
        data = shapes.encode(book.to_remember())
        self.api.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})

    async def remembered(self) -> bool:
        stored = self.api.get(SHAPES)
        return bool(stored and stored["data"])

    def writes(self) -> list[str]:
        return [call.path for call in self.api.requests if call.method != "GET"]

    def paths(self) -> set[str]:
        return {call.path for call in self.api.requests}

    def put(self, name: str, made: Any, status: Mapping[str, str] = PENDING, **spec: object) -> None:  # noqa: ANN401
        """A pod of the ReplicaSet is like this now."""
        metadata = {**made["metadata"], "name": name, "namespace": "team", "ownerReferences": [SET]}
        self.api.put({**made, "metadata": metadata, "spec": {**made["spec"], **spec}, "status": status})

    async def lifted(self) -> bool:
        return not self.pod("web")["spec"].get("schedulingGates")

    def pod(self, name: str) -> Any:  # noqa: ANN401  JSON
        return self.api.get(f"/api/v1/namespaces/team/pods/{name}")

    def events(self, reason: str) -> list[tuple[str, str]]:
        """The kind and name of the objects of events with a reason."""
        events = (each for each in self.api.all("/api/v1/events") if each["reason"] == reason)
        return sorted((each["involvedObject"]["kind"], each["involvedObject"]["name"]) for each in events)

    def deletions(self) -> int:
        return sum(call.method == "DELETE" for call in self.api.requests)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """An API server with a small and a large node, and both webhook configurations."""
    async with FakeApi() as api:
        for each in webhook.snapshot({"small": SMALL, "large": LARGE}, namespaces={"team": {}})["items"]:
            api.put(each)
        for kind in (pairs.MUTATING, pairs.VALIDATING):
            api.put(pairs.configuration(kind))
        yield Site(tmp_path, api)


async def test_controller_labels_nodes_and_serves_health_only(site: Site) -> None:
    async with site.running() as controller:
        await controller.until(site.labelled)
        pages = {path: (await controller.text(path))[0] for path in ("/healthz", "/metrics", "/mutate", "/")}
        _, metrics = await controller.text("/metrics")
        [listening] = controller.journal.of("server.listening")

    assert pages == {"/healthz": 200, "/metrics": 200, "/mutate": 404, "/": 404}
    assert ('numalign_cache_entries{cache="machine_reports"} 0.0' in metrics, "port" in listening) == (
        True,
        False,
    )
    lease: Any = site.api.get(f"{LEASES}/{LEASE}")
    assert lease["spec"]["holderIdentity"] == ""
    assert all(NODE_LABEL not in node["metadata"]["labels"] for node in site.api.all(NODES))
    # And nothing is watched without a need.
    watched = {path for path in site.paths() if not path.startswith((LEASES, f"{NODES}/"))}
    assert watched - {CONFIGMAPS, "/version"} == {NODES, NAMESPACES, TOPOLOGIES, CPUS, SHAPES, PODS}
    [listed] = site.api.received("LIST", PODS)
    assert listed.query["fieldSelector"] == "status.phase=Failed"


@pytest.mark.parametrize("readable", [True, False], ids=["remembered", "forbidden"])
async def test_start_during_an_outage_changes_no_label(site: Site, *, readable: bool) -> None:
    """But a node that was rebuilt with other hardware is labelled anew."""
    site.remember(SMALL, LARGE)
    site.add("small", replace(node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi", policy=SINGLE), label=node_class(SMALL)))
    site.add("new", replace(SMALL, label=None))
    if not readable:
        site.api.failures[SHAPES] = HTTPStatus.FORBIDDEN
    site.add("large", replace(SMALL, label=node_class(LARGE)))
    metadata = {"name": "large", "labels": {}, "uid": "another"}
    site.api.put({"apiVersion": "v1", "kind": "Node", "metadata": metadata})

    async def labelled() -> bool:
        return site.label("new") == site.label("large") == node_class(SMALL)

    async with site.running() as controller:
        await controller.until(labelled)
        await asyncio.sleep(0.3)

    assert site.label("small") == node_class(SMALL)


async def test_nodes_are_watched_after_the_shapes_are_read(site: Site) -> None:
    site.api.failures[SHAPES] = HTTPStatus.INTERNAL_SERVER_ERROR
    async with site.running(*NO_LABELS, ready=False) as controller:
        await controller.logged("shapes.failed")
        await asyncio.sleep(0.3)
        assert not await controller.ready()
        assert NODES not in site.paths()
        del site.api.failures[SHAPES]
        await controller.until(site.remembered)

    memory, mistakes = shapes.decode(site.api.get(SHAPES))
    assert mistakes == ()
    assert {each.shape.node_class for each in memory.shapes} == {node_class(SMALL), node_class(LARGE)}
    assert not any(path.startswith(NODES) for path in site.writes())


async def test_only_the_leader_of_two_writes(site: Site) -> None:
    async with site.running(*OWN) as one, site.running(*OWN) as other:
        logs = [each.journal for each in (one, other)]
        for event in ("lease.acquired", "certificates.step"):
            assert sum(len(each.of(event)) for each in logs) == 1
        [follower] = [each for each in logs if not each.of("lease.acquired")]
        assert follower.of("node.labelled") == []


async def test_component_adds_tasks_and_a_readiness_check(site: Site) -> None:
    ran = asyncio.Event()

    async def run() -> None:
        ran.set()
        await asyncio.Event().wait()

    def component(controller: ControllerProgram, api: Api, election: LeaderElector) -> Background:
        assert controller.namespace(api) == "numalign-system"
        return Background({"run": run}, {"lease": lambda: None if election.leading else "the lease"})

    async with site.running(components=(component,)):
        await asyncio.wait_for(ran.wait(), 5)

    assert not await site.labelled()


def gated(gpus: int) -> Any:  # noqa: ANN401  JSON
    return webhook.raw(f"cpu=4 mem=1Gi gpu={gpus}", policy=SINGLE)


async def test_gated_pod_avoids_rejecting_nodes(site: Site) -> None:
    site.enable(gate="enabled")
    site.api.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}})
    site.put("first", gated(5), {**REJECTED, "startTime": stamp(int(time.time()))}, nodeName="bare")
    site.put("web", gated(5), schedulingGates=GATE)
    async with site.running("--gates") as controller:
        await controller.until(site.lifted)

    without = Requirement(NODE_LABEL, Operator.NOT_IN, frozenset({"small", "large", "bare"}))
    assert scheduling(site.pod("web")).constraints.terms == (Term((without,)),)
    for each in site.api.all(NODES):
        assert each["metadata"]["labels"][NODE_LABEL] == each["metadata"]["name"]


async def test_gated_pod_is_pinned_with_an_event(site: Site) -> None:
    site.enable(gate="enabled")
    site.put("web", gated(1), schedulingGates=GATE)

    async def written() -> bool:
        return bool(await site.lifted() and site.events("NUMAPinned"))

    # On a busy machine no zone may be chosen before a patience is over that passes twenty times as fast.
    async with site.running("--gates", "--gate-patience-seconds", "0") as controller:
        await controller.until(written)
        _, metrics = await controller.text("/metrics")

    assert "numalign_gates_lifted_total" in metrics
    assert 'numalign_topology_nodes{source="exporter"} 2.0' in metrics
    pin = scheduling(site.pod("web")).pin
    assert pin
    assert pin.node in ("small", "large")
    assert {PINNED_AT, PLACEMENT} <= site.pod("web")["metadata"]["annotations"].keys()
    assert site.events("NUMAPinned") == [("Pod", "web")]


async def test_bad_policy_stops_the_controller(site: Site, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("defaults: [{gate: yes please}]")
    settings = site.settings("--gates", "--policy", str(policy))

    with pytest.raises(BadPolicy, match=r"defaults\[0\].gate"):
        await ControllerProgram(settings, site.journal.log, CollectorRegistry()).serve(Stop())


async def test_controller_waits_for_an_unreachable_cluster(site: Site) -> None:
    await site.api.stop()
    async with site.running(*OWN, ready=False) as controller:
        await controller.logged("certificates.failing")
        await controller.logged("lease.failed")
        code, page = await controller.get("/readyz")
        await site.api.start()
        await controller.until(controller.ready)
        await controller.until(site.labelled)

    assert code == HTTPStatus.SERVICE_UNAVAILABLE
    assert "cannot be reached" in page["waiting_for"]["certificates"]
    assert page["waiting_for"]["snapshot"]


NO_FLAGS, KUBELETS = (), ("--kubelet-configs=true",)
LEASE_FAILED, PAIR_FAILING = "lease.failed", "certificates.failing"
Flags = tuple[str, ...]
Where = str | tuple[str, str]
FORBIDDEN: list[tuple[str, Flags, Where, str, bool]] = [
    # what          the flags       where                           the event           whether it gets ready
    ("nodes",        NO_FLAGS,      NODES,                          "watch.forbidden",          False),
    ("failed pods",  NO_FLAGS,      PODS,                           "watch.forbidden",          True),
    ("all pods",     ("--gates",),  PODS,                           "watch.forbidden",          False),
    ("a new lease",  NO_FLAGS,      ("POST", LEASES),               LEASE_FAILED,               True),
    ("the Secret",   OWN,           SECRET,                         PAIR_FAILING,               False),
    ("kubelets",     KUBELETS,      f"{NODES}/small/proxy/configz", "kubelet_config.forbidden", True),
]  # fmt: skip


@pytest.mark.parametrize(("flags", "where", "event", "ready"), table(FORBIDDEN))
async def test_missing_permission_is_logged(
    site: Site, flags: Flags, where: Where, event: str, *, ready: bool
) -> None:
    site.api.failures[where] = HTTPStatus.FORBIDDEN
    async with site.running(*flags, ready=ready) as controller:
        await controller.logged(event)
        assert await controller.ready() is ready


# Pods that a kubelet rejected.

HEAL = ("--heal", "--label-nodes=false")


def stamp(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def reject(site: Site, **labels: str) -> None:
    """A ReplicaSet of which the small node rejected five pods, one after another, before one came to run."""
    site.enable(**labels)
    now = int(time.time())
    statuses = {f"rejected-{at}": {**REJECTED, "startTime": stamp(now - 9 + at)} for at in range(5)}
    statuses["web-x"] = {"phase": "Running", "startTime": stamp(now)}
    for name, status in statuses.items():
        site.put(name, webhook.raw("cpu=8 mem=1Gi", policy=SINGLE), status, nodeName="small")


def pods(site: Site) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in site.api.all(PODS))


async def test_oldest_rejected_pods_are_deleted_once(site: Site) -> None:
    """Also if the controller starts again."""
    reject(site, heal="failed")

    async def done() -> bool:
        return len(pods(site)) == 4 and len(site.events("NUMARefusedRemoved")) == 2

    for _ in range(2):
        async with site.running(*HEAL, ready=False) as controller:
            await controller.logged("pod.refused")
            await controller.until(done)
            await asyncio.sleep(0.5)

    assert pods(site) == ["rejected-2", "rejected-3", "rejected-4", "web-x"]
    assert site.deletions() == 2
    assert site.events("NUMARefused") == [("Pod", f"rejected-{number}") for number in range(5)]
    assert site.events("NUMARefusedRemoved") == [("ReplicaSet", "web")] * 2


FAILED_PODS, EXEMPT = {"heal": "failed"}, {"heal": "failed", "admission": "disabled"}
STAY: list[tuple[str, tuple[str, ...], dict[str, str], int]] = [
    ("healing is off", ("--gates", "--label-nodes=false"), {"heal": "failed"}, 5),
    ("the namespace has no label", HEAL, {}, 5),
    ("all is off and it is exempt", NO_LABELS, EXEMPT, 0),
]


@pytest.mark.parametrize(("flags", "labels", "reported"), table(STAY))
async def test_rejected_pods_stay_if(
    site: Site, flags: tuple[str, ...], labels: dict[str, str], reported: int
) -> None:
    reject(site, **labels)

    async def done() -> bool:
        return len(site.events("NUMARefused")) == reported

    async with site.running(*flags) as controller:
        await controller.logged("lease.acquired")
        await controller.until(done)
        await asyncio.sleep(0.3)

    assert (len(pods(site)), len(site.events("NUMARefused")), site.deletions()) == (6, reported, 0)


async def test_dry_run_lists_changes_and_writes_nothing(site: Site) -> None:
    reject(site, heal="failed")
    text = await dry_run(site.settings("--dry-run", "--heal"))

    assert [line.split(":")[0] for line in text.splitlines()[:2]] == ["large", "small"]
    assert [line for line in text.splitlines() if "rejected" in line] == [
        f"pod team/rejected-{number} would be deleted: the kubelet of small rejected it"
        " (TopologyAffinityError), and web-x was created since"
        for number in range(2)
    ]
    assert site.writes() == []
