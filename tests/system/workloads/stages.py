"""A cluster of real programs: kubelets with agents, scheduler, controllers."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from itertools import product
from pathlib import Path
from time import monotonic
from typing import Any

from kubernetes_asyncio.client.api_client import ApiClient

from tests.system.eventually import eventually
from tests.system.workloads import workloads
from tools.clusters import installing, shipped
from tools.clusters.api_objects import Store, namespace
from tools.clusters.api_requests import Json, ask
from tools.clusters.controlplane import audits, schedulers
from tools.clusters.controlplane.audits import Use
from tools.clusters.controlplane.planes import Users
from tools.clusters.controlplane.schedulers import controllers, scheduler
from tools.clusters.installing import jobsets
from tools.clusters.kubelets.agents import agents
from tools.clusters.kubelets.clusters import RealCluster, started
from tools.clusters.kubelets.kubelets import RealNode

PART = "part"
"""The label that says for which tests a node is."""

ZONES = 2
EACH = 6
"""CPUs of a zone that pods can have."""


def machine(each: int) -> Mapping[str, Any]:
    """The hardware of a node, with so many CPUs of each zone that pods can have."""
    zones = [
        {
            "id": zone,
            "socket": zone,
            "distances": [10, 21] if zone == 0 else [21, 10],
            "memory": 16 * 2**30,
            "reservedMemory": 2**29,
            "cores": [[zone * (each + 1) + core] for core in range(each + 1)],
        }
        for zone in range(ZONES)
    ]
    return {"zones": zones, "reservedSystemCPUs": f"0,{each + 1}", "devices": {}}


MACHINE = machine(EACH)

STRICT, LOOSE = "single-numa-node", "best-effort"
NODES: Mapping[str, tuple[str, str]] = {
    "holes-1": ("refused", STRICT),
    "holes-2": ("refused", STRICT),
    "whole": ("refused", STRICT),
    "loose-1": ("moved", LOOSE),
    "loose-2": ("moved", LOOSE),
}
"""By name of each node what it is for, and the policy of its kubelet's topology manager."""

HOLES = ("holes-1", "holes-2")

USERS: Users = {
    "admin": "system:masters",
    **dict.fromkeys(shipped.ACCOUNTS.values(), shipped.GROUPS),
    **schedulers.USERS,
    **installing.USERS,
}

LOST = {"Failed", "FailureTarget"}
ENDED = {"Complete", "Completed"} | LOST
"""Conditions of Jobs and of JobSets."""


def node(name: str) -> RealNode:
    part, policy = NODES[name]
    return RealNode(name=name, machine=MACHINE, configuration=configured(policy), labels={PART: part})


def configured(policy: str) -> Mapping[str, str]:
    return {"cpuManagerPolicy": "static", "memoryManagerPolicy": "None", "topologyManagerPolicy": policy}


@dataclass(frozen=True, slots=True)
class Stage:
    """The cluster, and what is asked of it again and again.

    `left` has the times since when nothing may be made any more in namespaces that tests are through with.
    """

    cluster: RealCluster
    store: Store
    folder: Path
    left: dict[str, datetime] = field(default_factory=dict)

    @property
    def api(self) -> ApiClient:
        return self.store.api

    async def pods(self, home: str, of: str) -> list[Json]:
        path = f"/api/v1/namespaces/{home}/pods"
        selector = f"{workloads.OF}={of}"
        answer = await ask(self.api, "GET", path, labelSelector=selector)
        assert answer.code == HTTPStatus.OK, answer.body
        items: list[Json] = answer.body["items"]
        return items

    async def events(self, home: str) -> list[Json]:
        items: list[Json] = (await ask(self.api, "GET", f"/api/v1/namespaces/{home}/events")).body["items"]
        return items

    async def until_event(self, home: str, name: str, *reasons: str) -> str:
        """The first of these reasons for which an object has an event, once it has one."""

        async def found() -> set[str]:
            events = await self.events(home)
            return {each["reason"] for each in events if each["involvedObject"]["name"] == name} & {*reasons}

        return min(await eventually(found, bool, f"{name} had an event of {reasons}"))

    async def read(self, document: Json) -> Json:
        return (await self.store.read(document)).body

    def uses(self, user: str) -> list[Use]:
        return audits.uses(self.folder, user=user)

    @asynccontextmanager
    async def home(self, name: str, labels: Mapping[str, str]) -> AsyncIterator[str]:
        """A namespace with these labels during the block; none of its pods is on a node afterwards."""
        await self.store.apply(namespace(name, labels))
        try:
            yield name
        finally:
            self.left[name] = datetime.now(UTC)
            await ask(self.api, "DELETE", f"/api/v1/namespaces/{name}")
            # From now on nobody can make pods there. The namespace controller would delete them 5 s later.
            pods = f"/api/v1/namespaces/{name}/pods"
            await ask(self.api, "DELETE", pods)
            await eventually(
                partial(ask, self.api, "GET", pods),
                lambda answer: not any("nodeName" in pod["spec"] for pod in answer.body["items"]),
                f"no pod of {name} was on a node",
            )

    async def block(self, home: str, *nodes: str, cpus: int = EACH - 1) -> None:
        """Have `cpus` of each zone of these nodes held by pods without an intent."""
        for node_name, zone in product(nodes, range(ZONES)):
            wish = workloads.blocker(home, f"{node_name}-{zone}", node_name, cpus=cpus)
            await self.store.apply(wish)
            await eventually(partial(self.read, wish), runs, "a blocker ran", within=120)

    async def unblock(self, home: str, node_name: str) -> None:
        """What `block` put on a node is gone, for its kubelet too."""
        mine = {f"{node_name}-{zone}" for zone in range(ZONES)}
        for name in mine:
            await ask(self.api, "DELETE", f"/api/v1/namespaces/{home}/pods/{name}")
        await eventually(
            partial(self.pods, home, workloads.BLOCKERS),
            lambda left: not {*workloads.names(left)} & mine,
            f"{node_name} was free again",
        )

    async def until_ended(self, document: Json, *, within: float = 60) -> None:
        """Returns when a Job or JobSet is complete; fails when it is lost."""

        async def conditions() -> set[str]:
            status = (await self.read(document)).get("status", {})
            return {each["type"] for each in status.get("conditions", ()) if each["status"] == "True"}

        what = f"{document['kind']} {document['metadata']['name']} ended"
        found = await eventually(conditions, lambda seen: bool(seen & ENDED), what, within=within)
        assert not found & LOST, (await self.read(document))["status"]

    async def until_running(self, home: str, of: str, count: int, *, within: float = 60) -> list[Json]:
        """All pods of a workload, once so many of them run."""
        look, what = partial(self.pods, home, of), f"{count} pods of {of} ran"
        return await eventually(look, lambda pods: sum(map(runs, pods)) == count, what, within=within)


@dataclass(frozen=True, slots=True)
class Looked:
    """By workload, all pods that were there at any time, by UID, and those that are there now.

    `gated` has the times at which each pod was first and last seen behind a gate.
    """

    stage: Stage
    home: str
    of: Sequence[str]
    seen: dict[str, dict[str, Json]] = field(default_factory=dict)
    now: dict[str, list[Json]] = field(default_factory=dict)
    gated: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def longest_gate(self) -> float:
        return max((last - first for first, last in self.gated.values()), default=0.0)

    async def look(self) -> dict[str, int]:
        for each in self.of:
            self.now[each] = await self.stage.pods(self.home, each)
            named = {pod["metadata"]["uid"]: pod for pod in self.now[each]}
            self.seen.setdefault(each, {}).update(named)
            for uid in (uid for uid, pod in named.items() if pod["spec"].get("schedulingGates")):
                first, _ = self.gated.get(uid, (monotonic(), 0.0))
                self.gated[uid] = (first, monotonic())
        return {of: len(pods) for of, pods in self.seen.items()}

    async def go_on(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(0.1)

    def kept(self, of: str) -> int:
        return sum(map(refused, self.now[of]))

    def refused(self, of: str) -> int:
        return sum(map(refused, self.seen[of].values()))


@asynccontextmanager
async def looking(stage: Stage, home: str, of: Sequence[str]) -> AsyncIterator[Looked]:
    looked = Looked(stage, home, of)
    await looked.look()
    task = asyncio.create_task(looked.go_on())
    try:
        yield looked
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def runs(pod: Json) -> bool:
    return bool(pod.get("status", {}).get("phase") == "Running")


def refused(pod: Json) -> bool:
    status = pod.get("status", {})
    return bool(status.get("phase") == "Failed" and status.get("reason") == "TopologyAffinityError")


@asynccontextmanager
async def stage(folder: Path, nodes: Sequence[RealNode], users: Users = USERS) -> AsyncIterator[Stage]:
    """All that is not ours, with these nodes; programs and the audit write their logs to the folder."""
    flags = audits.flags(folder, users=tuple(shipped.ACCOUNTS.values()))
    logs = folder / "logs"
    logs.mkdir()
    async with (
        started(nodes, others=users, flags=flags, logs=logs) as cluster,
        cluster.plane.client("admin") as api,
    ):
        store, there = Store(api), (cluster.children, cluster.plane)
        for document in shipped.documents(shipped.DEPLOY / "crd" / "noderesourcetopologies.yaml"):
            await store.apply(document)
        async with agents(cluster), scheduler(*there), controllers(*there), jobsets(*there):
            yield Stage(cluster, store, folder)
