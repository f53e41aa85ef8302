"""The controller as it runs in a cluster, its parts joined: in this process, against an API server in it."""

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
from tests.worlds import faster
from tests.worlds import webhook as world
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
KEPT = f"{SECRETS}/own"
CALLERS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/zz-numalign"

OWN = ("--tls-secret", "own", "--tls-names", "127.0.0.1")
NO_LABELS = ("--label-nodes=false",)


@dataclass
class Running:
    """A controller that runs, and what it said."""

    told: RecordedLog
    task: asyncio.Task[int]

    async def until(self, happened: Callable[[], Awaitable[object]]) -> None:
        """Wait for something that can only be looked at; fails after half a minute."""
        for _ in range(1_500):
            if self.task.done():
                pytest.fail(f"it ended with {self.task.result()}: {self.told.stream.getvalue()}")
            if await happened():
                return
            await asyncio.sleep(0.02)
        pytest.fail(f"it never happened: {self.told.stream.getvalue()}")

    async def until_told(self, event: str) -> None:
        """Wait until it says so."""

        async def told() -> bool:
            return bool(self.told.of(event))

        await self.until(told)

    async def ready(self) -> bool:
        """Whether it says that it is ready."""
        return (await self.get("/readyz"))[0] == HTTPStatus.OK

    async def get(self, path: str) -> tuple[int, str]:
        """Status and content of a page."""
        [listening] = self.told.of("server.listening")
        where = f"http://127.0.0.1:{listening['metrics_port']}{path}"
        async with aiohttp.ClientSession() as session, session.get(where) as answer:
            return answer.status, await answer.text()


@dataclass
class Bench:
    """Starts controllers."""

    folder: Path
    api: FakeApi
    told: RecordedLog = field(default_factory=RecordedLog)

    def settings(self, *argv: str) -> ControllerSettings:
        """Settings that lead to the API server, on any free port of this machine."""
        kubeconfig = self.api.kubeconfig(self.folder / "kubeconfig", namespace="numalign-system")
        here = ["--bind", "127.0.0.1", "--metrics-port", "0", "--drain-seconds", "0"]
        return load(
            ControllerSettings, argv=["--kubeconfig", str(kubeconfig), *here, *argv], environ={}
        ).settings

    @asynccontextmanager
    async def running(self, *argv: str, **changes: Any) -> AsyncIterator[Running]:  # noqa: ANN401  fields of a Controller
        """A controller with these flags; ended in order, with exit code 0."""
        stop, told = Stop(), RecordedLog()
        program = ControllerProgram(
            self.settings(*argv),
            told.log,
            CollectorRegistry(),
            sleep=faster.sleep,
            clock=faster.clock,
            **changes,
        )
        task = asyncio.create_task(program.serve(stop))
        made = Running(told, task)
        try:
            await made.until_told("server.listening")
            yield made
            stop.ask()
            assert await task == 0
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def label(self, name: str) -> str | None:
        """The class that a Node is labelled with."""
        found = self.api.get(f"{NODES}/{name}")
        assert found
        labelled: str | None = found["metadata"].get("labels", {}).get("numalign.io/class")
        return labelled

    async def labelled(self) -> bool:
        """Whether both nodes are."""
        return all(self.label(name) for name in ("small", "large"))

    def has(self, name: str, made: Node) -> None:
        """A node and its topology, if it has one, are like this now."""
        for each in world.snapshot({name: made})["items"]:
            self.api.put(each)
        if not made.zones:
            self.api.delete(f"{TOPOLOGIES}/{name}")

    def remembers(self, *nodes: Node) -> None:
        """An earlier controller saw nodes like these."""
        book = ShapeHistory(wall=time.time)
        for each in nodes:
            book.update_node(replace(each, name=node_class(each)), identity=Identity())
        metadata = {"namespace": "numalign-system", "name": shapes.NAME}
        data = shapes.encode(book.to_remember())
        self.api.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})

    async def kept(self) -> bool:
        """Whether shapes are kept."""
        found = self.api.get(SHAPES)
        return bool(found and found["data"])

    def writes(self) -> list[str]:
        """Where something was written."""
        return [asked.path for asked in self.api.requests if asked.method != "GET"]

    def asked(self) -> set[str]:
        """Where anything was asked for."""
        return {asked.path for asked in self.api.requests}


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """An API server with a small and a large node, and both webhook configurations."""
    async with FakeApi() as api:
        for each in world.snapshot({"small": SMALL, "large": LARGE}, namespaces={"team": {}})["items"]:
            api.put(each)
        for kind in ("Mutating", "Validating"):
            api.put(
                {
                    "apiVersion": "admissionregistration.k8s.io/v1",
                    "kind": f"{kind}WebhookConfiguration",
                    "metadata": {"name": "zz-numalign"},
                    "webhooks": [{"name": "pods.numalign.io", "clientConfig": {"url": "https://127.0.0.1"}}],
                }
            )
        yield Bench(tmp_path, api)


async def test_it_labels_nodes_and_gives_the_lease_back_at_its_end(bench: Bench) -> None:
    async with bench.running() as controller:
        await controller.until(controller.ready)
        await controller.until(bench.labelled)

    lease = bench.api.get(f"{LEASES}/{LEASE}")
    assert lease
    assert lease["spec"]["holderIdentity"] == ""
    assert all(NODE_LABEL not in node["metadata"]["labels"] for node in bench.api.all(NODES))
    # And nothing else is watched than what it needs.
    watched = {path for path in bench.asked() if not path.startswith((LEASES, f"{NODES}/"))}
    assert watched - {CONFIGMAPS, "/version"} == {NODES, NAMESPACES, TOPOLOGIES, CPUS, SHAPES, PODS}


async def test_it_makes_a_certificate_that_callers_trust(bench: Bench) -> None:
    async with bench.running(*OWN) as controller:
        await controller.until(controller.ready)
        await controller.until(bench.labelled)

    secret, found = bench.api.get(KEPT), bench.api.get(CALLERS)
    assert secret
    assert found
    made = x509.load_pem_x509_certificate(b64decode(secret["data"]["tls.crt"]))
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "numalign-webhook.numalign-system.svc" in names.get_values_for_type(x509.DNSName)
    assert found["webhooks"][0]["clientConfig"]["caBundle"] == secret["data"]["ca.crt"]


async def test_where_it_labels_nothing_it_keeps_shapes_all_the_same(bench: Bench) -> None:
    async with bench.running(*NO_LABELS) as controller:
        await controller.until(controller.ready)
        await controller.until(bench.kept)

    assert [path for path in bench.writes() if path.startswith(NODES)] == []


# What nodes were.


async def test_the_shapes_are_kept_where_all_can_read_them(bench: Bench) -> None:
    async with bench.running() as controller:
        await controller.until(bench.kept)
        await controller.until(bench.labelled)

    memory, mistakes = shapes.decode(bench.api.get(SHAPES))
    assert mistakes == ()
    assert {each.shape.node_class for each in memory.shapes} == {bench.label("small"), bench.label("large")}


OUTAGES: list[tuple[str, Node]] = [
    ("its device plugin is gone", node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi", policy=SINGLE)),
    ("one device is broken", node("cpu=8 mem=8Gi gpu=3", "cpu=8 mem=8Gi gpu=4", policy=SINGLE)),
    ("nothing is told of it", node(policy=SINGLE)),
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
@pytest.mark.parametrize("ill", table(OUTAGES))
async def test_a_controller_that_starts_in_an_outage_changes_no_label(
    bench: Bench, ill: Node, flags: tuple[str, ...], *, readable: bool
) -> None:
    healthy = {"small": SMALL, "large": LARGE}
    bench.remembers(*healthy.values())
    labels = {name: node_class(made) for name, made in healthy.items()}
    for name, made in {"small": SMALL, "large": ill}.items():
        bench.has(name, replace(made, label=labels[name]))
    bench.has("new", replace(SMALL, label=None))
    if not readable:
        bench.api.failures[SHAPES] = HTTPStatus.FORBIDDEN
    async with bench.running(*flags) as controller:
        await controller.until(controller.ready)

        async def labelled() -> bool:
            return bool(bench.label("new"))

        await controller.until(labelled)
        await asyncio.sleep(0.3)

    assert {name: bench.label(name) for name in healthy} == labels


async def test_a_node_that_was_rebuilt_is_labelled_anew(bench: Bench) -> None:
    """Its hardware is another, so it is not ill."""
    bench.remembers(LARGE)
    bench.has("large", replace(SMALL, label=node_class(LARGE)))
    bench.api.put(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "large", "labels": {}, "uid": "another"}}
    )
    async with bench.running() as controller:
        await controller.until(bench.labelled)

    assert bench.label("large") == bench.label("small") == node_class(SMALL)


async def test_before_the_shapes_were_read_no_node_is_looked_at(bench: Bench) -> None:
    bench.api.failures[SHAPES] = HTTPStatus.INTERNAL_SERVER_ERROR
    async with bench.running() as controller:
        await controller.until_told("shapes.failed")
        await asyncio.sleep(0.3)
        assert not await controller.ready()
        assert NODES not in bench.asked()
        del bench.api.failures[SHAPES]
        await controller.until(controller.ready)


async def test_of_two_one_writes_and_the_other_does_when_it_is_gone(bench: Bench) -> None:
    async with bench.running(*OWN) as second_to_lead, bench.running(*OWN) as other:
        await second_to_lead.until(second_to_lead.ready)
        await other.until(other.ready)
        told = [each.told for each in (second_to_lead, other)]
        assert sum(len(each.of("lease.acquired")) for each in told) == 1
        assert sum(len(each.of("certificates.step")) for each in told) == 1
        [leader] = [each for each in told if each.of("lease.acquired")]
        [waits] = [each for each in told if each is not leader]
        assert waits.of("node.labelled") == []


async def test_it_serves_health_and_metrics_and_nothing_else(bench: Bench) -> None:
    async with bench.running() as controller:
        await controller.until(controller.ready)
        pages = {path: (await controller.get(path))[0] for path in ("/healthz", "/metrics", "/mutate", "/")}
        _, metrics = await controller.get("/metrics")
        [listening] = controller.told.of("server.listening")

    assert pages == {"/healthz": 200, "/metrics": 200, "/mutate": 404, "/": 404}
    assert 'numalign_cache_entries{cache="machine_reports"} 0.0' in metrics
    assert "port" not in listening


async def test_a_component_more_is_a_function_more(bench: Bench) -> None:
    """Its tasks run beside the others, and readiness waits for it too."""
    ran = asyncio.Event()

    async def heal() -> None:
        ran.set()
        await asyncio.Event().wait()

    def healing(controller: ControllerProgram, api: Api, election: LeaderElector) -> Background:
        assert controller.namespace(api) == "numalign-system"
        return Background({"healing": heal}, {"healing": lambda: None if election.leading else "the lease"})

    async with bench.running(components=(healing,)) as controller:
        await asyncio.wait_for(ran.wait(), 5)
        await controller.until(controller.ready)

    assert not await bench.labelled()


async def test_all_pods_are_watched_only_where_something_is_done_about_them(bench: Bench) -> None:
    async with bench.running() as controller:
        await controller.until(controller.ready)
        await controller.until(bench.labelled)
        few = [asked.query.get("fieldSelector") for asked in bench.api.asked("LIST", PODS)]
    async with bench.running("--gates") as controller:
        await controller.until(controller.ready)

    # Else only those that failed.
    assert few == ["status.phase=Failed"]
    assert "fieldSelector" not in bench.api.asked("LIST", PODS)[-1].query


async def test_a_gated_pod_is_kept_off_nodes_that_would_reject_it_or_rejected_such_a_pod(
    bench: Bench,
) -> None:
    namespace = {"name": "team", "labels": {"numalign.io/gate": "enabled"}}
    bench.api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": namespace})
    asks = {"cpu": "4", "memory": "1Gi", "nvidia.com/gpu": "5"}
    spec = {"containers": [{"name": "main", "resources": {"requests": asks, "limits": asks}}]}
    metadata = {"namespace": "team", "annotations": {"numalign.io/policy": SINGLE}}
    gated = {**spec, "schedulingGates": [{"name": PLACEMENT_GATE}]}
    refused = {
        "phase": "Failed",
        "reason": "TopologyAffinityError",
        "startTime": f"{datetime.now(UTC):%FT%TZ}",
    }
    bench.api.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}})
    pods = [
        {"metadata": {**metadata, "name": "first"}, "spec": {**spec, "nodeName": "bare"}, "status": refused},
        {"metadata": {**metadata, "name": "web"}, "spec": gated},
    ]
    for made in pods:
        bench.api.put({"apiVersion": "v1", "kind": "Pod", **made})

    async def lifted() -> bool:
        pod = bench.api.get("/api/v1/namespaces/team/pods/web")
        return pod is not None and not pod["spec"].get("schedulingGates")

    async with bench.running("--gates") as controller:
        await controller.until(lifted)

    pod = bench.api.get("/api/v1/namespaces/team/pods/web")
    assert pod
    without = Requirement(NODE_LABEL, Operator.NOT_IN, frozenset({"small", "large", "bare"}))
    assert scheduling(pod).constraints.terms == (Term((without,)),)


async def test_a_gated_pod_is_pinned_and_told_of(bench: Bench) -> None:
    namespace = {"name": "team", "labels": {"numalign.io/gate": "enabled"}}
    bench.api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": namespace})
    intent = {"numalign.io/policy": SINGLE}
    asks = {"cpu": "4", "memory": "1Gi", "nvidia.com/gpu": "1"}
    spec = {
        "schedulingGates": [{"name": PLACEMENT_GATE}],
        "containers": [{"name": "main", "resources": {"requests": asks, "limits": asks}}],
    }
    metadata = {"name": "web", "namespace": "team", "annotations": intent}
    bench.api.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    web = "/api/v1/namespaces/team/pods/web"

    async def lifted() -> bool:
        pod = bench.api.get(web)
        return pod is not None and not pod["spec"].get("schedulingGates")

    async def told() -> bool:
        return bool(bench.api.all("/api/v1/namespaces/team/events"))

    async def named() -> bool:
        labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in bench.api.all(NODES)}
        return {name: own.get(NODE_LABEL) for name, own in labels.items()} == {name: name for name in labels}

    # On a busy machine no zone may be found before a patience is over that passes twenty times as fast.
    async with bench.running("--gates", "--gate-patience-seconds", "0") as controller:
        await controller.until(lifted)
        await controller.until(told)
        _, metrics = await controller.get("/metrics")
        assert "numalign_gates_lifted_total" in metrics
        assert 'numalign_topology_nodes{source="exporter"} 2.0' in metrics
        await controller.until(named)

    pod = bench.api.get(web)
    assert pod
    pin = scheduling(pod).pin
    assert pin
    assert (
        pin.node in ("small", "large"),
        {PINNED_AT, PLACEMENT} <= pod["metadata"]["annotations"].keys(),
    ) == (True, True)
    [event] = bench.api.all("/api/v1/namespaces/team/events")
    assert event["reason"] == "NUMAPinned"


async def test_a_policy_that_is_wrong_stops_it(bench: Bench, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("defaults: [{gate: yes please}]")
    program = ControllerProgram(
        bench.settings("--gates", "--policy", str(policy)), bench.told.log, CollectorRegistry()
    )

    with pytest.raises(BadPolicy, match=r"defaults\[0\].gate"):
        await program.serve(Stop())


async def test_without_an_api_server_it_waits_and_says_so(bench: Bench) -> None:
    await bench.api.stop()
    async with bench.running(*OWN) as controller:
        await controller.until_told("certificates.failing")
        await controller.until_told("lease.failed")
        code, said = await controller.get("/readyz")
        await bench.api.start()
        await controller.until(controller.ready)
        await controller.until(bench.labelled)

    waiting = orjson.loads(said)["waiting_for"]
    assert code == HTTPStatus.SERVICE_UNAVAILABLE
    assert "cannot be reached" in waiting["certificates"]
    assert waiting["snapshot"]


async def test_a_missing_kubeconfig_stops_it(bench: Bench, tmp_path: Path) -> None:
    chosen = bench.settings().model_copy(update={"kubeconfig": str(tmp_path / "none")})

    with pytest.raises(Unconfigured, match="there is no kubeconfig"):
        await ControllerProgram(chosen, bench.told.log, CollectorRegistry()).serve(Stop())


async def test_a_dry_run_tells_what_would_change_and_changes_nothing(bench: Bench) -> None:
    said = await dry_run(bench.settings("--dry-run"))

    assert [line.split(":")[0] for line in said.splitlines()] == ["large", "small"]
    assert bench.writes() == []


# What it may not do, it says, and does not do.

UNKNOWN, DENIED = HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN
WATCH = {UNKNOWN: "watch.unauthorized", DENIED: "watch.forbidden"}
LABEL = {UNKNOWN: "class.failed", DENIED: "class.forbidden"}
KEEP = {UNKNOWN: "shapes.failed", DENIED: "shapes.forbidden"}
PROXY = {UNKNOWN: "kubelet_config.unanswered", DENIED: "kubelet_config.forbidden"}
FAILED, FAILING, UNPUBLISHED = (
    dict.fromkeys((UNKNOWN, DENIED), event)
    for event in ("lease.failed", "certificates.failing", "certificates.unpublished")
)
NOTHING: tuple[str, ...] = ()
KUBELETS = ("--kubelet-configs=true",)

Where = str | tuple[str, str]

CLOSED: list[tuple[str, tuple[str, ...], Where, dict[HTTPStatus, str], bool]] = [
    # what is closed the flags   where                         what is said  whether it gets ready
    ("nodes",        NOTHING,    NODES,                        WATCH,        False),
    ("topologies",   NOTHING,    TOPOLOGIES,                   WATCH,        False),
    ("namespaces",   NOTHING,    NAMESPACES,                   WATCH,        False),
    ("failed pods",  NOTHING,    PODS,                         WATCH,        True),
    ("all pods",     ("--gates",), PODS,                       WATCH,        False),
    ("the lease",    NOTHING,    f"{LEASES}/{LEASE}",          FAILED,       True),
    ("a new lease",  NOTHING,    ("POST", LEASES),             FAILED,       True),
    ("the shapes",   NOTHING,    SHAPES,                       KEEP,         True),
    ("labels",       NOTHING,    ("PATCH", f"{NODES}/small"),  LABEL,        True),
    ("the Secret",   OWN,        KEPT,                         FAILING,      False),
    ("a new Secret", OWN,        ("POST", SECRETS),            FAILING,      False),
    ("our webhooks", OWN,        CALLERS,                      UNPUBLISHED,  True),
    ("their bundle", OWN,        ("PATCH", CALLERS),           UNPUBLISHED,  True),
    ("kubelets",     KUBELETS,   f"{NODES}/small/proxy/configz", PROXY,      True),
]  # fmt: skip


@pytest.mark.parametrize("status", [UNKNOWN, DENIED], ids=["401", "403"])
@pytest.mark.parametrize(("flags", "where", "events", "ready"), table(CLOSED))
async def test_a_right_that_is_missing_is_said_and_what_it_is_for_is_not_done(  # noqa: PLR0913  a table
    bench: Bench,
    flags: tuple[str, ...],
    where: Where,
    events: dict[HTTPStatus, str],
    status: HTTPStatus,
    *,
    ready: bool,
) -> None:
    bench.api.failures[where] = status
    async with bench.running(*flags) as controller:
        await controller.until_told(events[status])
        if ready:
            await controller.until(controller.ready)
        assert await controller.ready() is ready


# Pods that a kubelet refused.

PODS_OF_TEAM = "/api/v1/namespaces/team/pods"
EVENTS_OF_TEAM = "/api/v1/namespaces/team/events"
SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u1", "controller": True}
HEAL = ("--heal", "--label-nodes=false")


def refuse(bench: Bench, *, heal: str | None = "failed", **others: str) -> None:
    """A ReplicaSet of which the small node refused five pods, one after another, before one came to run."""
    labels = {f"numalign.io/{key}": value for key, value in {"heal": heal, **others}.items() if value}
    bench.api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": labels}})
    now = int(time.time())
    for number in range(5):
        failure = {"phase": "Failed", "reason": "TopologyAffinityError", "startTime": stamp(now - 9 + number)}
        bench.api.put(a_pod(f"refused-{number}", failure))
    bench.api.put(a_pod("web-x", {"phase": "Running", "startTime": stamp(now)}))


def stamp(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def a_pod(name: str, status: dict[str, str]) -> Any:  # noqa: ANN401  JSON
    made = world.raw("cpu=8 mem=1Gi", policy=SINGLE)
    metadata = {"name": name, "namespace": "team", "ownerReferences": [SET]}
    return {**made, "metadata": metadata, "spec": {**made["spec"], "nodeName": "small"}, "status": status}


def left(bench: Bench) -> list[str]:
    """The pods that are there."""
    return sorted(pod["metadata"]["name"] for pod in bench.api.all(PODS))


def told_of(bench: Bench, reason: str) -> list[tuple[str, str]]:
    """The kind and name of what events with a reason are about."""
    involved = [
        event["involvedObject"] for event in bench.api.all("/api/v1/events") if event["reason"] == reason
    ]
    return sorted((each["kind"], each["name"]) for each in involved)


KEPT_PODS = ["refused-2", "refused-3", "refused-4", "web-x"]


async def test_refused_pods_are_told_of_and_the_oldest_removed_where_their_namespace_says_so(
    bench: Bench,
) -> None:
    refuse(bench)
    async with bench.running(*HEAL) as controller:

        async def removed() -> bool:
            return left(bench) == KEPT_PODS and len(told_of(bench, "NUMARefusedRemoved")) == 2

        await controller.until(removed)
        await asyncio.sleep(0.3)

    assert told_of(bench, "NUMARefused") == [("Pod", f"refused-{number}") for number in range(5)]
    assert told_of(bench, "NUMARefusedRemoved") == [("ReplicaSet", "web")] * 2
    assert left(bench) == KEPT_PODS


async def test_a_controller_that_starts_again_removes_nothing_more_and_tells_nothing_twice(
    bench: Bench,
) -> None:
    refuse(bench)
    for _ in range(2):
        async with bench.running(*HEAL) as controller:
            await controller.until_told("pod.refused")

            async def told() -> bool:
                events = told_of(bench, "NUMARefused"), told_of(bench, "NUMARefusedRemoved")
                return [*map(len, events)] == [5, 2]

            await controller.until(told)
            await asyncio.sleep(0.5)

    assert len([asked for asked in bench.api.requests if asked.method == "DELETE"]) == 2
    assert len(told_of(bench, "NUMARefused")) == 5
    assert len(told_of(bench, "NUMARefusedRemoved")) == 2
    assert left(bench) == KEPT_PODS


@pytest.mark.parametrize(
    ("flags", "heal"),
    table(
        [
            ("it is off", ("--gates", "--label-nodes=false"), "failed"),
            ("nothing is on", ("--label-nodes=false",), "failed"),
            ("the namespace says nothing", HEAL, None),
            ("the namespace says none", HEAL, "none"),
            ("the namespace says nonsense", HEAL, "yes"),
        ]
    ),
)
async def test_no_pod_is_removed_where(bench: Bench, flags: tuple[str, ...], heal: str | None) -> None:
    refuse(bench, heal=heal)
    async with bench.running(*flags) as controller:

        async def told() -> bool:
            return len(told_of(bench, "NUMARefused")) == 5

        await controller.until(told)
        await asyncio.sleep(0.3)

    assert len(left(bench)) == 6
    assert [asked for asked in bench.api.requests if asked.method == "DELETE"] == []


@pytest.mark.parametrize("flags", [HEAL, NO_LABELS])
async def test_a_namespace_that_numalign_leaves_alone_is_left_alone(
    bench: Bench, flags: tuple[str, ...]
) -> None:
    refuse(bench, admission="disabled")
    async with bench.running(*flags) as controller:
        await controller.until(controller.ready)
        await controller.until_told("lease.acquired")
        await asyncio.sleep(0.5)

    assert (len(left(bench)), told_of(bench, "NUMARefused")) == (6, [])


@pytest.mark.parametrize(
    ("heal", "said"),
    table(
        [
            (
                "failed",
                "failed",
                [
                    f"pod team/refused-{number} would be deleted: the kubelet of small rejected it"
                    " (TopologyAffinityError), and web-x was created since"
                    for number in range(2)
                ],
            ),
            ("nothing", None, ["no rejected pod would be deleted"]),
        ]
    ),
)
async def test_a_dry_run_tells_which_refused_pods_would_go(
    bench: Bench, heal: str | None, said: list[str]
) -> None:
    refuse(bench, heal=heal)
    lines = (await dry_run(bench.settings("--dry-run", "--heal"))).splitlines()

    assert [line for line in lines if "rejected" in line] == said
    assert bench.writes() == []
