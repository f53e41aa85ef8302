"""
A cluster with the real controllers of workloads, the real scheduler, and a controller that moves pods.

Kubelets are played, with all that an agent beside them says: what a pod holds is what the test wants. The
controller comes as its service account with the roles of the chart, and the policies that keep it to what it
may write are in force.
"""

import asyncio
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from itertools import cycle

import aiohttp
import pytest
import pytest_asyncio
from kubernetes_asyncio.client.api_client import ApiClient

from certs import authority
from numalign.kube.client import Api, Patch
from numalign.kube.decode.kubelet_reports import PLACEMENTS, ObservedPlacement, write_placements
from numalign.kube.decode.scheduling import REQUIRED
from numalign.kube.errors import ClusterError, NotFound
from numalign.model.intent import GATE, HEAL, PINNED_AT, PLACEMENT_GATE, POLICY
from numalign.model.placement import Held
from tests.worlds.manifests import topology
from tests.worlds.notation import bag, node
from tools.clusters import shipped
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import Json, ask
from tools.clusters.controlplane import controllers
from tools.clusters.controlplane.planes import BINARIES, Place, Plane
from tools.clusters.controlplane.schedulers import USERS as SCHEDULERS
from tools.clusters.controlplane.schedulers import scheduler
from tools.clusters.gotools import UnavailableError
from tools.clusters.helm import build
from tools.clusters.processes import Children
from tools.clusters.replicas import ONLY_METRICS, Replicas, replicas
from tools.clusters.sim.desk import TOPOLOGIES, ApiDesk
from tools.clusters.waiting import SELDOM, seconds_until
from tools.generate.manifests import made

TEAM = "team"
PODS = f"/api/v1/namespaces/{TEAM}/pods"
VALUES = "gates.enabled=true heal.enabled=true tls.source=cert-manager"
USERS = {"admin": "system:masters", shipped.CONTROLLERS: shipped.GROUPS, **SCHEDULERS, **controllers.USERS}

PER_MINUTE = 600
"""Pods that are asked to go."""

MACHINE = node("cpu=128 mem=256Gi", "cpu=128 mem=256Gi", policy="single-numa-node")
CPUS = 2
SPREAD: Held = {("node-0",): bag("cpu=1 mem=1Gi"), ("node-1",): bag("cpu=1 mem=1Gi")}
TOGETHER: tuple[Held, ...] = tuple({(zone.name,): bag("cpu=2 mem=2Gi")} for zone in MACHINE.zones)


async def patch(api: ApiClient, path: str, body: Json, *, how: Patch) -> None:
    """Change an object; nothing, if it is gone."""
    with suppress(NotFound):
        await Api(api, namespace=TEAM).patch(path, body, how=how, what=path)


@dataclass(eq=False)
class Kubelets:
    """All kubelets, and agents: pods that come run at once, in both zones of nodes that spread them.

    `gone` is when each pod was told to go, in whole seconds by the API server's clock: whoever looks may be
    late. `least` is how few pods of an owner were ever seen to run since they all did.
    """

    api: ApiClient
    spreads: Callable[[str], bool]
    gone: dict[str, float] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)
    running: dict[str, str] = field(default_factory=dict)
    watched: bool = False
    _written: dict[str, str] = field(default_factory=dict)
    _zones: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))

    async def run(self) -> None:
        """Play; never returns. What the API server did not answer is tried again, as kubelets do."""
        while True:
            with suppress(ClusterError, aiohttp.ClientError, TimeoutError):
                await self._turn()
            await asyncio.sleep(0.3)

    async def _turn(self) -> None:
        listed = await ask(self.api, "GET", PODS)
        if listed.code == HTTPStatus.OK:
            pods = listed.body["items"]
            await asyncio.gather(*map(self._look, pods))
            self._count(pods)
            await self._publish(pods)

    async def _look(self, pod: Json) -> None:
        metadata, path = pod["metadata"], f"{PODS}/{pod['metadata']['name']}"
        if "deletionTimestamp" in metadata:
            ends = datetime.fromisoformat(metadata["deletionTimestamp"])
            grace = metadata["deletionGracePeriodSeconds"]
            self.gone.setdefault(metadata["uid"], ends.timestamp() - grace)
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
            await ask(self.api, "DELETE", path, options)
        elif "nodeName" in pod["spec"] and pod["status"]["phase"] == "Pending":
            now = "2027-01-15T08:00:00Z"
            status = {
                "phase": "Running",
                "startTime": now,
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
            }
            await patch(self.api, f"{path}/status", {"status": status}, how=Patch.STRATEGIC)

    def _count(self, pods: Sequence[Json]) -> None:
        here = [
            pod
            for pod in pods
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]
        self.running = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in here}
        counts: dict[str, int] = defaultdict(int)
        for pod in here:
            counts[pod["metadata"]["labels"]["app"]] += 1
        if self.watched:
            self.least = {app: min(count, self.least.get(app, count)) for app, count in counts.items()}

    async def _publish(self, pods: Sequence[Json]) -> None:
        """What the agents say of the pods of their nodes."""
        seen: dict[str, dict[str, ObservedPlacement]] = defaultdict(dict)
        for pod in pods:
            if name := pod["spec"].get("nodeName"):
                uid = pod["metadata"]["uid"]
                seen[name][uid] = ObservedPlacement(self._held(name, uid), 0)
        for name, held in seen.items():
            text = write_placements(held)
            if self._written.get(name) != text:
                body = {"metadata": {"annotations": {PLACEMENTS: text}}}
                await patch(self.api, f"{TOPOLOGIES}/{name}", body, how=Patch.MERGE)
                self._written[name] = text

    def _held(self, name: str, uid: str) -> Held:
        """What a pod holds: where it is not spread, in the zone with fewer pods when it came."""
        if self.spreads(name):
            return SPREAD
        taken = self._zones[name]
        counts = [[*taken.values()].count(zone) for zone in range(len(TOGETHER))]
        return TOGETHER[taken.setdefault(uid, counts.index(min(counts)))]


def _runs(pod: Json) -> bool:
    return pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]


@dataclass(frozen=True, slots=True)
class HealedSite:
    """A control plane with its controllers, its scheduler, and our controller."""

    api: ApiClient
    replicas: Replicas

    async def add(self, *names: str) -> None:
        """Nodes that are empty."""
        amounts = {"cpu": "256", "memory": "512Gi", "pods": "500"}
        for name in names:
            body = {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}
            status = {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
            }
            for path, document in (
                ("/api/v1/nodes", {**body, "status": status}),
                (TOPOLOGIES, topology(name, MACHINE)),
            ):
                answer = await ask(self.api, "POST", path, document)
                assert answer.code == HTTPStatus.CREATED, answer.body
            # Nobody looks at nodes here, and each begins as not ready (TaintNodesByCondition).
            await patch(self.api, f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, how=Patch.MERGE)

    async def deploy(self, name: str, replicas: int) -> None:
        """So many pods that want to sit in one zone, of which one may be missing at a time."""
        amounts = {"cpu": str(CPUS), "memory": f"{CPUS}Gi"}
        container = {"name": "main", "image": "main", "resources": {"limits": amounts, "requests": amounts}}
        labels = {"app": name}
        template = {
            "metadata": {"labels": labels, "annotations": {POLICY: "single-numa-node"}},
            "spec": {"containers": [container], "schedulingGates": [{"name": PLACEMENT_GATE}]},
        }
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        metadata = {"name": name, "namespace": TEAM}
        budget = {"maxUnavailable": 1, "selector": {"matchLabels": labels}}
        for path, document in (
            ("/apis/policy/v1/namespaces/team/poddisruptionbudgets", {"metadata": metadata, "spec": budget}),
            ("/apis/apps/v1/namespaces/team/deployments", {"metadata": metadata, "spec": spec}),
        ):
            answer = await ask(self.api, "POST", path, document)
            assert answer.code == HTTPStatus.CREATED, answer.body

    async def place(self, *nodes: str) -> None:
        """Pin the pods that wait at the gate to these nodes in turn, as our controller does once it runs."""
        pods = (await ask(self.api, "GET", PODS)).body["items"]
        waiting = [pod for pod in pods if "nodeName" not in pod["spec"]]
        for pod, name in zip(waiting, cycle(nodes), strict=False):
            pin = {"key": "metadata.name", "operator": "In", "values": [name]}
            affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [pin]}]}}}
            body = {
                "metadata": {"annotations": {PINNED_AT: "2027-01-15T08:00:00Z"}},
                "spec": {"schedulingGates": None, "affinity": affinity},
            }
            await patch(self.api, f"{PODS}/{pod['metadata']['name']}", body, how=Patch.MERGE)

    async def waiting(self) -> int:
        """How many pods there are."""
        return len((await ask(self.api, "GET", PODS)).body["items"])

    async def lead(self) -> None:
        """Our controller begins."""
        await self.replicas.start()

    @asynccontextmanager
    async def kubelets(self, spreads: Callable[[str], bool]) -> AsyncIterator[Kubelets]:
        """Kubelets and agents during the block."""
        playing = Kubelets(self.api, spreads)
        task = asyncio.create_task(playing.run())
        try:
            yield playing
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
    children: Children,
    pair: authority.Files,
) -> AsyncIterator[HealedSite]:
    """Without nodes and pods."""
    try:
        [helm] = await build.find()
    except UnavailableError as error:
        pytest.skip(f"NO PODS WERE HEALED: {error}")
    wanted = [each for (kind, name), each in (await made(helm, VALUES)).items() if _is_wanted(kind, name)]
    place = Place(pytestconfig.stash[BINARIES], tmp_path_factory.mktemp("healed"), pair)
    for program in ("kube-scheduler", controllers.PROGRAM):
        if not (place.binaries / program).is_file():
            pytest.skip(f"{place.binaries} has no {program}")
    plane = Plane(children, place, users=USERS)
    await plane.start()
    async with plane.client("admin") as client:
        store = Store(client)
        await ApiDesk(Api(client, namespace="default")).learn()
        for document in (*shipped.documents(shipped.MANIFESTS / "namespace.yaml"), *wanted):
            await store.apply(document)
        labels = {GATE: "enabled", HEAL: "running"}
        namespace = {"metadata": {"name": TEAM, "labels": labels}}
        assert (await ask(client, "POST", "/api/v1/namespaces", namespace)).code == HTTPStatus.CREATED
        async with (
            controllers.controllers(children, plane),
            replicas(
                children, command=command(plane), name="controller", scheme="http", ports=ONLY_METRICS
            ) as ours,
            scheduler(children, plane),
        ):
            yield HealedSite(client, ours)
    await plane.end()


def _is_wanted(kind: str, name: str) -> bool:
    """Whether an object of the chart is about what the controller may do."""
    return name == shipped.CONTROLLER and ("Role" in kind or "Policy" in kind) and kind != "NetworkPolicy"


def command(plane: Plane) -> tuple[str, ...]:
    """A controller that moves many pods in a short time."""
    return (
        *(sys.executable, "-m", "controller", f"--namespace={shipped.NAMESPACE}", "--bind=127.0.0.1"),
        f"--kubeconfig={plane.kubeconfig(shipped.CONTROLLERS, plane.folder)}",
        *("--gates=true", "--heal=true", "--gate-patience-seconds=0", "--label-nodes=false"),
        *(f"--heal-per-minute={PER_MINUTE}", "--heal-owner-seconds=0", "--heal-node-seconds=0"),
        "--drain-seconds=1",
    )


async def until(happened: Callable[[], object], what: str, *, within: float) -> float:
    """The seconds until something is so."""

    async def seen() -> Mapping[str, object]:
        return {"so": happened()}

    return await seconds_until(seen, lambda now: bool(now["so"]), what=what, within=within, every=SELDOM)
