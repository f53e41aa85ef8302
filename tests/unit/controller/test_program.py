"""The controller as it runs in a cluster: all of its parts, in this process, with an API server in it."""

import asyncio
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from cryptography import x509
from prometheus_client import CollectorRegistry

from controller.dry_run import dry_run
from controller.program import LEASE, ControllerProgram
from controller.settings import ControllerSettings
from numalign.kube.client import Api
from numalign.kube.compose import Background
from numalign.kube.decode import shapes
from numalign.kube.decode.scheduling import scheduling
from numalign.kube.errors import Unconfigured
from numalign.kube.files.policy import BadPolicy
from numalign.kube.lease import LeaderElector
from numalign.model.constraints import Operator, Requirement, Term
from numalign.model.intent import NODE_LABEL, PINNED_AT, PLACEMENT, PLACEMENT_GATE
from numalign.model.node import Node, node_class
from numalign.runtime.server import Stop
from numalign.runtime.settings import load
from numalign.shapes import Identity, ShapeHistory
from tests.worlds import faster, webhook
from tests.worlds.log import RecordedLog
from tests.worlds.notation import node, table
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
CALLERS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/zz-numalign"

OWN = ("--tls-secret", "own", "--tls-names", "127.0.0.1")
NO_LABELS = ("--label-nodes=false",)


@dataclass
class Running:
    """A controller that runs, and its log."""

    log: RecordedLog
    task: asyncio.Task[int]

    async def until(self, condition: Callable[[], Awaitable[object]]) -> None:
        """Wait for a condition; fail after half a minute."""
        for _ in range(1_500):
            if self.task.done():
                pytest.fail(f"it ended with {self.task.result()}: {self.log.stream.getvalue()}")
            if await condition():
                return
            await asyncio.sleep(0.02)
        pytest.fail(f"it never happened: {self.log.stream.getvalue()}")

    async def until_logged(self, event: str) -> None:
        async def logged() -> bool:
            return bool(self.log.of(event))

        await self.until(logged)

    async def ready(self) -> bool:
        return (await self.get("/readyz"))[0] == HTTPStatus.OK

    async def get(self, path: str) -> tuple[int, str]:
        """Status and content of a page."""
        [listening] = self.log.of("server.listening")
        url = f"http://127.0.0.1:{listening['metrics_port']}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return answer.status, await answer.text()


@dataclass
class Site:
    """An API server, and the controllers beside it."""

    folder: Path
    api: FakeApi
    log: RecordedLog = field(default_factory=RecordedLog)

    def settings(self, *argv: str) -> ControllerSettings:
        kubeconfig = self.api.kubeconfig(self.folder / "kubeconfig", namespace="numalign-system")
        local = ["--bind", "127.0.0.1", "--metrics-port", "0", "--drain-seconds", "0"]
        words = ["--kubeconfig", str(kubeconfig), *local, *argv]
        return load(ControllerSettings, argv=words, environ={}).settings

    @asynccontextmanager
    async def running(self, *argv: str, ready: bool = True, **changes: Any) -> AsyncIterator[Running]:  # noqa: ANN401
        """A controller with these flags, once it is `ready`; ended in order, with exit code 0."""
        stop, log = Stop(), RecordedLog()
        fast: dict[str, Any] = {"sleep": faster.sleep, "clock": faster.clock, **changes}
        program = ControllerProgram(self.settings(*argv), log.log, CollectorRegistry(), **fast)
        task = asyncio.create_task(program.serve(stop))
        made = Running(log, task)
        try:
            await made.until_logged("server.listening")
            if ready:
                await made.until(made.ready)
            yield made
            stop.ask()
            assert await task == 0
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def label(self, name: str) -> str | None:
        """The class in the label of a node."""
        stored = self.api.get(f"{NODES}/{name}")
        assert stored
        label: str | None = stored["metadata"].get("labels", {}).get("numalign.io/class")
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

    def pod(self, name: str = "web") -> Any:  # noqa: ANN401  JSON
        return self.api.get(f"/api/v1/namespaces/team/pods/{name}")

    async def lifted(self) -> bool:
        return not self.pod()["spec"].get("schedulingGates")


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """An API server with a small and a large node, and both webhook configurations."""
    async with FakeApi() as api:
        for each in webhook.snapshot({"small": SMALL, "large": LARGE}, namespaces={"team": {}})["items"]:
            api.put(each)
        for kind in ("Mutating", "Validating"):
            webhooks = [{"name": "pods.numalign.io", "clientConfig": {"url": "https://127.0.0.1"}}]
            configuration = {"kind": f"{kind}WebhookConfiguration", "metadata": {"name": "zz-numalign"}}
            version = {"apiVersion": "admissionregistration.k8s.io/v1"}
            api.put({**version, **configuration, "webhooks": webhooks})
        yield Site(tmp_path, api)


async def test_controller_labels_nodes_and_releases_its_lease(site: Site) -> None:
    async with site.running() as controller:
        await controller.until(site.labelled)

    lease = site.api.get(f"{LEASES}/{LEASE}")
    assert lease
    assert lease["spec"]["holderIdentity"] == ""
    assert all(NODE_LABEL not in node["metadata"]["labels"] for node in site.api.all(NODES))
    # And nothing is watched without a need.
    watched = {path for path in site.paths() if not path.startswith((LEASES, f"{NODES}/"))}
    assert watched - {CONFIGMAPS, "/version"} == {NODES, NAMESPACES, TOPOLOGIES, CPUS, SHAPES, PODS}


async def test_certificate_is_created_and_trusted(site: Site) -> None:
    async with site.running(*OWN) as controller:
        await controller.until(site.labelled)

    secret, configuration = site.api.get(SECRET), site.api.get(CALLERS)
    assert secret
    assert configuration
    made = x509.load_pem_x509_certificate(b64decode(secret["data"]["tls.crt"]))
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "numalign-webhook.numalign-system.svc" in names.get_values_for_type(x509.DNSName)
    assert configuration["webhooks"][0]["clientConfig"]["caBundle"] == secret["data"]["ca.crt"]


# Shapes.


@pytest.mark.parametrize("flags", [(), NO_LABELS], ids=["labels", "no labels"])
async def test_shapes_are_written(site: Site, flags: tuple[str, ...]) -> None:
    async with site.running(*flags) as controller:
        await controller.until(site.remembered)
        if not flags:
            await controller.until(site.labelled)

    memory, mistakes = shapes.decode(site.api.get(SHAPES))
    assert mistakes == ()
    assert {each.shape.node_class for each in memory.shapes} == {node_class(SMALL), node_class(LARGE)}
    assert any(path.startswith(NODES) for path in site.writes()) is not bool(flags)


OUTAGES: list[tuple[str, Node]] = [
    ("its device plugin is gone", node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi", policy=SINGLE)),
    ("one device is broken", node("cpu=8 mem=8Gi gpu=3", "cpu=8 mem=8Gi gpu=4", policy=SINGLE)),
    ("its topology is gone", node(policy=SINGLE)),
]


@pytest.mark.parametrize(
    ("readable", "flags"),
    table(
        [
            ("remembered", True, ()),
            ("forbidden", False, ()),
            ("pools forgotten", True, ("--remember-shapes=0",)),
        ]
    ),
)
@pytest.mark.parametrize("degraded", table(OUTAGES))
async def test_start_during_an_outage_changes_no_label(
    site: Site, degraded: Node, flags: tuple[str, ...], *, readable: bool
) -> None:
    healthy = {"small": SMALL, "large": LARGE}
    site.remember(*healthy.values())
    expected = {name: node_class(made) for name, made in healthy.items()}
    for name, made in {"small": SMALL, "large": degraded}.items():
        site.add(name, replace(made, label=expected[name]))
    site.add("new", replace(SMALL, label=None))
    if not readable:
        site.api.failures[SHAPES] = HTTPStatus.FORBIDDEN

    async def labelled() -> bool:
        return bool(site.label("new"))

    async with site.running(*flags) as controller:
        await controller.until(labelled)
        await asyncio.sleep(0.3)

    assert {name: site.label(name) for name in healthy} == expected


async def test_rebuilt_node_is_labelled_anew(site: Site) -> None:
    """It has other hardware, so it is not degraded."""
    site.remember(LARGE)
    site.add("large", replace(SMALL, label=node_class(LARGE)))
    metadata = {"name": "large", "labels": {}, "uid": "another"}
    site.api.put({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    async with site.running() as controller:
        await controller.until(site.labelled)

    assert site.label("large") == site.label("small") == node_class(SMALL)


async def test_nodes_are_watched_after_the_shapes_are_read(site: Site) -> None:
    site.api.failures[SHAPES] = HTTPStatus.INTERNAL_SERVER_ERROR
    async with site.running(ready=False) as controller:
        await controller.until_logged("shapes.failed")
        await asyncio.sleep(0.3)
        assert not await controller.ready()
        assert NODES not in site.paths()
        del site.api.failures[SHAPES]
        await controller.until(controller.ready)


async def test_only_the_leader_of_two_writes(site: Site) -> None:
    async with site.running(*OWN) as one, site.running(*OWN) as other:
        logs = [each.log for each in (one, other)]
        for event in ("lease.acquired", "certificates.step"):
            assert sum(len(each.of(event)) for each in logs) == 1
        [follower] = [each for each in logs if not each.of("lease.acquired")]
        assert follower.of("node.labelled") == []


async def test_only_health_and_metrics_are_served(site: Site) -> None:
    async with site.running() as controller:
        pages = {path: (await controller.get(path))[0] for path in ("/healthz", "/metrics", "/mutate", "/")}
        _, metrics = await controller.get("/metrics")
        [listening] = controller.log.of("server.listening")

    assert pages == {"/healthz": 200, "/metrics": 200, "/mutate": 404, "/": 404}
    assert 'numalign_cache_entries{cache="machine_reports"} 0.0' in metrics
    assert "port" not in listening


async def test_component_adds_tasks_and_a_readiness_check(site: Site) -> None:
    ran = asyncio.Event()

    async def run() -> None:
        ran.set()
        await asyncio.Event().wait()

    def component(controller: ControllerProgram, api: Api, election: LeaderElector) -> Background:
        assert controller.namespace(api) == "numalign-system"
        return Background(
            {"component": run}, {"component": lambda: None if election.leading else "the lease"}
        )

    async with site.running(components=(component,)):
        await asyncio.wait_for(ran.wait(), 5)

    assert not await site.labelled()


@pytest.mark.parametrize(("flags", "selector"), [((), "status.phase=Failed"), (("--gates",), None)])
async def test_all_pods_are_watched_only_with_gates(
    site: Site, flags: tuple[str, ...], selector: str | None
) -> None:
    async with site.running(*flags) as controller:
        await controller.until(site.labelled)

    assert [call.query.get("fieldSelector") for call in site.api.asked("LIST", PODS)] == [selector]


# Gates.


def add_gated(site: Site, gpus: int) -> None:
    site.enable(gate="enabled")
    requests = {"cpu": "4", "memory": "1Gi", "nvidia.com/gpu": str(gpus)}
    containers = [{"name": "main", "resources": {"requests": requests, "limits": requests}}]
    metadata = {"namespace": "team", "annotations": {"numalign.io/policy": SINGLE}}
    status = {"phase": "Failed", "reason": "TopologyAffinityError", "startTime": stamp(int(time.time()))}
    rejected = {"spec": {"containers": containers, "nodeName": "bare"}, "status": status}
    gated = {"spec": {"containers": containers, "schedulingGates": [{"name": PLACEMENT_GATE}]}}
    site.api.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}})
    pods: dict[str, dict[str, Any]] = {"first": rejected, "web": gated}
    for name, made in pods.items():
        site.api.put({"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "name": name}, **made})


async def test_gated_pod_avoids_rejecting_nodes(site: Site) -> None:
    add_gated(site, gpus=5)
    async with site.running("--gates") as controller:
        await controller.until(site.lifted)

    without = Requirement(NODE_LABEL, Operator.NOT_IN, frozenset({"small", "large", "bare"}))
    assert scheduling(site.pod()).constraints.terms == (Term((without,)),)


async def test_gated_pod_is_pinned_with_an_event(site: Site) -> None:
    add_gated(site, gpus=1)

    async def events() -> list[Any]:
        stored = site.api.all("/api/v1/namespaces/team/events")
        return [event for event in stored if event["involvedObject"]["name"] == "web"]

    async def named() -> bool:
        labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in site.api.all(NODES)}
        return {name: own.get(NODE_LABEL) for name, own in labels.items()} == {name: name for name in labels}

    # On a busy machine no zone may be chosen before a patience is over that passes twenty times as fast.
    async with site.running("--gates", "--gate-patience-seconds", "0") as controller:
        for condition in (site.lifted, events, named):
            await controller.until(condition)
        _, metrics = await controller.get("/metrics")

    assert "numalign_gates_lifted_total" in metrics
    assert 'numalign_topology_nodes{source="exporter"} 2.0' in metrics
    pin = scheduling(site.pod()).pin
    assert pin
    assert pin.node in ("small", "large")
    assert {PINNED_AT, PLACEMENT} <= site.pod()["metadata"]["annotations"].keys()
    assert [event["reason"] for event in await events()] == ["NUMAPinned"]


# Errors.


async def test_bad_policy_stops_the_controller(site: Site, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("defaults: [{gate: yes please}]")
    settings = site.settings("--gates", "--policy", str(policy))

    with pytest.raises(BadPolicy, match=r"defaults\[0\].gate"):
        await ControllerProgram(settings, site.log.log, CollectorRegistry()).serve(Stop())


async def test_missing_kubeconfig_stops_the_controller(site: Site, tmp_path: Path) -> None:
    settings = site.settings().model_copy(update={"kubeconfig": str(tmp_path / "none")})

    with pytest.raises(Unconfigured, match="there is no kubeconfig"):
        await ControllerProgram(settings, site.log.log, CollectorRegistry()).serve(Stop())


async def test_controller_waits_for_an_unreachable_cluster(site: Site) -> None:
    await site.api.stop()
    async with site.running(*OWN, ready=False) as controller:
        await controller.until_logged("certificates.failing")
        await controller.until_logged("lease.failed")
        code, page = await controller.get("/readyz")
        await site.api.start()
        await controller.until(controller.ready)
        await controller.until(site.labelled)

    waiting = orjson.loads(page)["waiting_for"]
    assert code == HTTPStatus.SERVICE_UNAVAILABLE
    assert "cannot be reached" in waiting["certificates"]
    assert waiting["snapshot"]


UNKNOWN, DENIED = HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN
WATCH = {UNKNOWN: "watch.unauthorized", DENIED: "watch.forbidden"}
LABEL = {UNKNOWN: "class.failed", DENIED: "class.forbidden"}
KEEP = {UNKNOWN: "shapes.failed", DENIED: "shapes.forbidden"}
PROXY = {UNKNOWN: "kubelet_config.unanswered", DENIED: "kubelet_config.forbidden"}
FAILED, FAILING, UNPUBLISHED = (
    dict.fromkeys((UNKNOWN, DENIED), event)
    for event in ("lease.failed", "certificates.failing", "certificates.unpublished")
)
NO_FLAGS: tuple[str, ...] = ()
KUBELETS = ("--kubelet-configs=true",)

Where = str | tuple[str, str]

CLOSED: list[tuple[str, tuple[str, ...], Where, dict[HTTPStatus, str], bool]] = [
    # what is closed the flags   where                         the event     whether it gets ready
    ("nodes",        NO_FLAGS,    NODES,                        WATCH,        False),
    ("topologies",   NO_FLAGS,    TOPOLOGIES,                   WATCH,        False),
    ("namespaces",   NO_FLAGS,    NAMESPACES,                   WATCH,        False),
    ("failed pods",  NO_FLAGS,    PODS,                         WATCH,        True),
    ("all pods",     ("--gates",), PODS,                       WATCH,        False),
    ("the lease",    NO_FLAGS,    f"{LEASES}/{LEASE}",          FAILED,       True),
    ("a new lease",  NO_FLAGS,    ("POST", LEASES),             FAILED,       True),
    ("the shapes",   NO_FLAGS,    SHAPES,                       KEEP,         True),
    ("labels",       NO_FLAGS,    ("PATCH", f"{NODES}/small"),  LABEL,        True),
    ("the Secret",   OWN,        SECRET,                         FAILING,      False),
    ("a new Secret", OWN,        ("POST", SECRETS),            FAILING,      False),
    ("our webhooks", OWN,        CALLERS,                      UNPUBLISHED,  True),
    ("their bundle", OWN,        ("PATCH", CALLERS),           UNPUBLISHED,  True),
    ("kubelets",     KUBELETS,   f"{NODES}/small/proxy/configz", PROXY,      True),
]  # fmt: skip


@pytest.mark.parametrize("status", [UNKNOWN, DENIED], ids=["401", "403"])
@pytest.mark.parametrize(("flags", "where", "events", "ready"), table(CLOSED))
async def test_missing_permission_is_logged(  # noqa: PLR0913  a table
    site: Site,
    flags: tuple[str, ...],
    where: Where,
    events: dict[HTTPStatus, str],
    status: HTTPStatus,
    *,
    ready: bool,
) -> None:
    site.api.failures[where] = status
    async with site.running(*flags, ready=ready) as controller:
        await controller.until_logged(events[status])
        assert await controller.ready() is ready


# Pods that a kubelet rejected.

SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u1", "controller": True}
HEAL = ("--heal", "--label-nodes=false")


def stamp(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def reject(site: Site, **labels: str) -> None:
    """A ReplicaSet of which the small node rejected five pods, one after another, before one came to run."""
    site.enable(**labels)
    now = int(time.time())
    failure = {"phase": "Failed", "reason": "TopologyAffinityError"}
    statuses = {f"rejected-{at}": {**failure, "startTime": stamp(now - 9 + at)} for at in range(5)}
    statuses["web-x"] = {"phase": "Running", "startTime": stamp(now)}
    for name, status in statuses.items():
        made = webhook.raw("cpu=8 mem=1Gi", policy=SINGLE)
        metadata = {"name": name, "namespace": "team", "ownerReferences": [SET]}
        spec = {**made["spec"], "nodeName": "small"}
        site.api.put({**made, "metadata": metadata, "spec": spec, "status": status})


def pods(site: Site) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in site.api.all(PODS))


def events(site: Site, reason: str) -> list[tuple[str, str]]:
    """The kind and name of the objects of events with a reason."""
    objects = [each["involvedObject"] for each in site.api.all("/api/v1/events") if each["reason"] == reason]
    return sorted((each["kind"], each["name"]) for each in objects)


async def test_oldest_rejected_pods_are_deleted_once(site: Site) -> None:
    """Also if the controller starts again."""
    reject(site, heal="failed")

    async def done() -> bool:
        return len(pods(site)) == 4 and len(events(site, "NUMARefusedRemoved")) == 2

    for _ in range(2):
        async with site.running(*HEAL, ready=False) as controller:
            await controller.until_logged("pod.refused")
            await controller.until(done)
            await asyncio.sleep(0.5)

    assert pods(site) == ["rejected-2", "rejected-3", "rejected-4", "web-x"]
    assert len([call for call in site.api.requests if call.method == "DELETE"]) == 2
    assert events(site, "NUMARefused") == [("Pod", f"rejected-{number}") for number in range(5)]
    assert events(site, "NUMARefusedRemoved") == [("ReplicaSet", "web")] * 2


@pytest.mark.parametrize(
    ("flags", "labels", "reported"),
    table(
        [
            ("healing is off", ("--gates", "--label-nodes=false"), {"heal": "failed"}, 5),
            ("all is off", NO_LABELS, {"heal": "failed"}, 5),
            ("the namespace has no label", HEAL, {}, 5),
            ("the label is nonsense", HEAL, {"heal": "yes"}, 5),
            ("the namespace is exempt", HEAL, {"heal": "failed", "admission": "disabled"}, 0),
            ("all is off and it is exempt", NO_LABELS, {"heal": "failed", "admission": "disabled"}, 0),
        ]
    ),
)
async def test_rejected_pods_stay_if(
    site: Site, flags: tuple[str, ...], labels: dict[str, str], reported: int
) -> None:
    reject(site, **labels)

    async def done() -> bool:
        return len(events(site, "NUMARefused")) == reported

    async with site.running(*flags) as controller:
        await controller.until_logged("lease.acquired")
        await controller.until(done)
        await asyncio.sleep(0.3)

    assert (len(pods(site)), len(events(site, "NUMARefused"))) == (6, reported)
    assert [call for call in site.api.requests if call.method == "DELETE"] == []


DELETIONS = [
    f"pod team/rejected-{number} would be deleted: the kubelet of small rejected it (TopologyAffinityError),"
    " and web-x was created since"
    for number in range(2)
]


@pytest.mark.parametrize(
    ("labels", "lines"),
    [({"heal": "failed"}, DELETIONS), ({}, ["no rejected pod would be deleted"])],
    ids=["failed", "no label"],
)
async def test_dry_run_lists_changes_and_writes_nothing(
    site: Site, labels: dict[str, str], lines: list[str]
) -> None:
    reject(site, **labels)
    text = await dry_run(site.settings("--dry-run", "--heal"))

    assert [line.split(":")[0] for line in text.splitlines()[:2]] == ["large", "small"]
    assert [line for line in text.splitlines() if "rejected" in line] == lines
    assert site.writes() == []
