"""A cluster of real programs: kubelets with agents, scheduler, controllers, and ours as installed."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from kubernetes_asyncio.client.api_client import ApiClient

from harness import shipped
from harness.api_objects import Store, namespace
from harness.api_requests import Json, ask
from harness.controlplane import audits, schedulers
from harness.controlplane import controllers as managers
from harness.controlplane.audits import Use
from harness.controlplane.controllers import controllers
from harness.controlplane.schedulers import scheduler
from harness.jobsets import controllers as jobset_controllers
from harness.jobsets.controllers import jobsets
from harness.kubelets.agents import agents
from harness.kubelets.clusters import RealCluster, started
from harness.kubelets.kubelets import RealNode
from harness.waiting import SELDOM, seconds_until
from tests.e2e_workloads import workloads

VERSION = "v1.36.3"
PART = "part"
"""The label that says for which tests a node is."""

ZONES = 2
EACH = 4
"""CPUs of a zone that pods can have."""

MACHINE: Mapping[str, Any] = {
    "zones": [
        {
            "id": zone,
            "socket": zone,
            "cores": [[zone * (EACH + 1) + core] for core in range(EACH + 1)],
            "memory": 16 * 2**30,
            "reservedMemory": 2**29,
            "distances": [10, 21] if zone == 0 else [21, 10],
        }
        for zone in range(ZONES)
    ],
    "reservedSystemCPUs": f"0,{EACH + 1}",
    "devices": {},
}

STRICT, LOOSE = "single-numa-node", "best-effort"
NODES: Mapping[str, tuple[str, str]] = {
    "holes-1": ("refused", STRICT),
    "holes-2": ("refused", STRICT),
    "whole": ("refused", STRICT),
    "loose-1": ("moved", LOOSE),
    "loose-2": ("moved", LOOSE),
}
"""By name of each node what it is for, and the policy of its kubelet's topology manager."""

USERS = {
    "admin": "system:masters",
    **dict.fromkeys(shipped.ACCOUNTS.values(), shipped.GROUPS),
    **schedulers.USERS,
    **managers.USERS,
    **jobset_controllers.USERS,
}

TERMINATED = ("Failed", "Succeeded")


def node(name: str) -> RealNode:
    """One of `NODES`."""
    part, policy = NODES[name]
    configuration = {
        "cpuManagerPolicy": "static",
        "memoryManagerPolicy": "None",
        "topologyManagerPolicy": policy,
    }
    return RealNode(name=name, machine=MACHINE, configuration=configuration, labels={PART: part})


@dataclass(frozen=True, slots=True)
class Stage:
    """The cluster, and what is asked of it again and again."""

    cluster: RealCluster
    store: Store
    folder: Path

    @property
    def api(self) -> ApiClient:
        """The API server, as the administrator."""
        return self.store.api

    async def pods(self, home: str, of: str) -> list[Json]:
        """The pods of a workload that are there now."""
        path = f"/api/v1/namespaces/{home}/pods"
        selector = f"{workloads.OF}={of}"
        answer = await ask(self.api, "GET", path, labelSelector=selector)
        assert answer.code == HTTPStatus.OK, answer.body
        items: list[Json] = answer.body["items"]
        return items

    async def events(self, home: str) -> list[Json]:
        """What was told in a namespace."""
        items: list[Json] = (await ask(self.api, "GET", f"/api/v1/namespaces/{home}/events")).body["items"]
        return items

    async def read(self, document: Json) -> Json:
        """The object as it is now."""
        return (await self.store.read(document)).body

    def uses(self, user: str) -> list[Use]:
        """All that a user asked the API server for."""
        return audits.uses(self.folder, user=user)

    @asynccontextmanager
    async def home(self, name: str, labels: Mapping[str, str]) -> AsyncIterator[str]:
        """A namespace with these labels during the block; its pods are gone afterwards."""
        await self.store.apply(namespace(name, labels))
        try:
            yield name
        finally:
            await ask(self.api, "DELETE", f"/api/v1/namespaces/{name}")
            gone = partial(ask, self.api, "GET", f"/api/v1/namespaces/{name}")
            await seconds_until(
                gone,
                lambda answer: answer.code == HTTPStatus.NOT_FOUND,
                what=f"{name} was gone",
                within=60,
                every=SELDOM,
            )

    async def block(self, home: str, node_name: str, *, cpus: int = EACH - 1) -> None:
        """Have `cpus` of each zone of a node held by pods without an intent."""
        wishes = [
            workloads.blocker(home, f"{node_name}-{zone}", node_name, cpus=cpus) for zone in range(ZONES)
        ]
        for wish in wishes:
            await self.store.apply(wish)
            look = partial(self.read, wish)
            await seconds_until(look, runs, what="a blocker ran", within=30, every=SELDOM)

    async def until_running(self, home: str, of: str, count: int, *, within: float = 60) -> float:
        """The seconds until so many pods of a workload run."""
        look = partial(self.pods, home, of)
        return await seconds_until(
            look,
            lambda pods: sum(map(runs, pods)) == count,
            what=f"{count} pods of {of} ran",
            within=within,
            every=SELDOM,
        )


def runs(pod: Json) -> bool:
    """Whether its kubelet took it."""
    return bool(pod.get("status", {}).get("phase") == "Running")


def refused(pod: Json) -> bool:
    """Whether its kubelet said no."""
    status = pod.get("status", {})
    return bool(status.get("phase") == "Failed" and status.get("reason") == "TopologyAffinityError")


@asynccontextmanager
async def stage(folder: Path) -> AsyncIterator[Stage]:
    """All that is not ours, with `NODES`; programs write their logs to the folder, and so does the audit."""
    async with AsyncExitStack() as stack:
        nodes = [node(name) for name in NODES]
        flags = audits.flags(folder, users=tuple(USERS))
        logs = folder / "logs"
        logs.mkdir()
        cluster = await stack.enter_async_context(
            started(nodes, version=VERSION, others=USERS, flags=flags, logs=logs)
        )
        api = await stack.enter_async_context(cluster.plane.client("admin"))
        store = Store(api)
        for document in shipped.documents(shipped.DEPLOY / "crd" / "noderesourcetopologies.yaml"):
            await store.apply(document)
        await stack.enter_async_context(agents(cluster))
        await stack.enter_async_context(scheduler(cluster.children, cluster.plane))
        await stack.enter_async_context(controllers(cluster.children, cluster.plane))
        await stack.enter_async_context(jobsets(cluster.children, cluster.plane))
        yield Stage(cluster, store, folder)
