"""
A cluster with the real controllers of workloads, the real scheduler, and a controller that moves pods.

Kubelets are played, with their agents: pods hold what the test wants. The controller comes as its service
account with the roles of the chart, and the policies that keep it to what it may write are in force.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from itertools import cycle

import aiohttp
import pytest_asyncio
from kubernetes_asyncio.client.api_client import ApiClient

from numalign.kube.client import Patch
from numalign.kube.decode.kubelet_reports import PLACEMENTS, ObservedPlacement, write_placements
from numalign.kube.decode.scheduling import REQUIRED
from numalign.kube.errors import ClusterError, NotFound
from numalign.model.intent import GATE, HEAL, PINNED_AT, PLACEMENT_GATE
from numalign.model.placement import Held
from tests.system.e2e import played
from tests.system.e2e.own_planes import OwnPlane, charted_rights, controllers_of, stocked
from tests.system.e2e.played import PODS, SPREAD, TEAM, create, pods
from tests.worlds.notation import bag, node
from tools.clusters import shipped
from tools.clusters.api_objects import namespace
from tools.clusters.api_requests import Json, ask
from tools.clusters.controlplane import controllers
from tools.clusters.controlplane.schedulers import USERS as SCHEDULERS
from tools.clusters.controlplane.schedulers import scheduler
from tools.clusters.processes import Children
from tools.clusters.replicas import Replicas
from tools.clusters.sim.desk import TOPOLOGIES

VALUES = "gates.enabled=true heal.enabled=true tls.source=cert-manager"
USERS = {"admin": "system:masters", shipped.CONTROLLERS: shipped.GROUPS, **SCHEDULERS, **controllers.USERS}

PER_MINUTE = 600
"""Pods that the controller evicts."""

MACHINE = node("cpu=128 mem=256Gi", "cpu=128 mem=256Gi", policy="single-numa-node")
TOGETHER: tuple[Held, ...] = tuple({(zone.name,): bag("cpu=2 mem=2Gi")} for zone in MACHINE.zones)


async def change(api: ApiClient, path: str, body: Json, how: Patch = Patch.MERGE) -> None:
    with suppress(NotFound):
        await played.change(api, path, body, how)


@dataclass(eq=False)
class Kubelets:
    """All kubelets, and agents: pods that come run at once, in both zones of nodes that spread them.

    `gone` is when each pod was deleted, in whole seconds of the API server's clock: a look may be late.
    `least` is how few pods of an owner ran at any look since they all did.
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
            await change(self.api, f"{path}/status", {"status": status}, Patch.STRATEGIC)

    def _count(self, pods: Sequence[Json]) -> None:
        here = [pod for pod in pods if _runs(pod)]
        self.running = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in here}
        counts: dict[str, int] = defaultdict(int)
        for pod in here:
            counts[pod["metadata"]["labels"]["app"]] += 1
        if self.watched:
            self.least = {app: min(count, self.least.get(app, count)) for app, count in counts.items()}

    async def _publish(self, pods: Sequence[Json]) -> None:
        seen: dict[str, dict[str, ObservedPlacement]] = defaultdict(dict)
        for pod in pods:
            if name := pod["spec"].get("nodeName"):
                uid = pod["metadata"]["uid"]
                seen[name][uid] = ObservedPlacement(self._held(name, uid), 0)
        for name, held in seen.items():
            text = write_placements(held)
            if self._written.get(name) != text:
                body = {"metadata": {"annotations": {PLACEMENTS: text}}}
                await change(self.api, f"{TOPOLOGIES}/{name}", body)
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
        for name in names:
            await played.add_node(self.api, name, MACHINE, cpu=256, gib=512)

    async def deploy(self, name: str, replicas: int) -> None:
        """So many gated pods that want to sit in one zone, of which one may be missing at a time."""
        budget = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": name}}}
        metadata = {"name": name, "namespace": TEAM}
        path = f"/apis/policy/v1/namespaces/{TEAM}/poddisruptionbudgets"
        await create(self.api, path, {"metadata": metadata, "spec": budget})
        gates = [{"name": PLACEMENT_GATE}]
        await played.deploy(self.api, name, replicas, "single-numa-node", schedulingGates=gates)

    async def place(self, *nodes: str) -> None:
        """Pin the pods that wait at the gate to these nodes in turn, as our controller does once it runs."""
        waiting = [pod for pod in await pods(self.api) if "nodeName" not in pod["spec"]]
        for pod, name in zip(waiting, cycle(nodes), strict=False):
            pin = {"key": "metadata.name", "operator": "In", "values": [name]}
            affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [pin]}]}}}
            body = {
                "metadata": {"annotations": {PINNED_AT: "2027-01-15T08:00:00Z"}},
                "spec": {"schedulingGates": None, "affinity": affinity},
            }
            await change(self.api, f"{PODS}/{pod['metadata']['name']}", body)

    @asynccontextmanager
    async def kubelets(self, spreads: Callable[[str], bool]) -> AsyncIterator[Kubelets]:
        playing = Kubelets(self.api, spreads)
        task = asyncio.create_task(playing.run())
        try:
            yield playing
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(own_plane: OwnPlane, children: Children) -> AsyncIterator[HealedSite]:
    """Without nodes and pods; our controller can move many pods in a short time."""
    rights = await charted_rights(VALUES)
    flags = (
        *("--gates=true", "--heal=true", "--gate-patience-seconds=0", "--label-nodes=false"),
        *(f"--heal-per-minute={PER_MINUTE}", "--heal-owner-seconds=0", "--heal-node-seconds=0"),
    )
    async with (
        own_plane("healed", users=USERS, needs=["kube-scheduler", controllers.PROGRAM]) as plane,
        plane.client("admin") as client,
        controllers.controllers(children, plane),
        controllers_of(children, plane, *flags) as ours,
        scheduler(children, plane),
    ):
        await stocked(client, (*rights, namespace(TEAM, {GATE: "enabled", HEAL: "running"})))
        yield HealedSite(client, ours)
