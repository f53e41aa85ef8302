"""
Sites on which the agent is measured: beside a real kubelet, or a played one if there is no real one.

Each has one node with 128 CPUs in two zones. Pods are added and removed one by one. A site notes when its
kubelet writes the CPUs of a pod into a checkpoint, and when a watch of topologies shows them.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import orjson
from kubernetes_asyncio.client.api_client import ApiClient

from agent.podresources_pb2 import (
    AllocatableResourcesResponse,
    ContainerMemory,
    ContainerResources,
    ListPodResourcesResponse,
    PodResources,
)
from numalign.kube.decode import kubelet_reports
from numalign.kube.decode.kubelet_reports import PLACEMENTS
from numalign.kube.decode.machines import machine as read_machine
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import ask
from tools.clusters.fake_api import FakeApi
from tools.clusters.kubelets import machines
from tools.clusters.kubelets.clusters import RealCluster, started
from tools.clusters.kubelets.kubelets import RealKubelet, RealNode
from tools.clusters.podresources import FakePodResources
from tools.clusters.processes import Child, Children, program
from tools.clusters.shipped import DEPLOY, documents
from tools.clusters.waiting import seconds_until

Json = dict[str, Any]

NODE, GPU = "bench", "example.com/gpu"
PODS = "/api/v1/namespaces/default/pods"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
TOPOLOGY = f"{TOPOLOGIES}/{NODE}"

CPUS, GIB = 128, 1 << 30
CORES = CPUS // 2
LONGEST_START = 60.0
OFTEN = 0.005

MACHINE: Json = {
    "zones": [
        {
            "id": zone,
            "socket": zone,
            "cores": [[core, core + CORES] for core in range(32 * zone, 32 * zone + 32)],
            "memory": 256 * GIB,
            "reservedMemory": GIB,
            "distances": [10 if other == zone else 21 for other in (0, 1)],
        }
        for zone in (0, 1)
    ],
    "reservedSystemCPUs": f"0,{CORES}",
    "devices": {
        GPU: [{"id": f"gpu{zone}{number}", "zones": [zone]} for zone in (0, 1) for number in range(4)]
    },
}
CONFIGURATION: Mapping[str, object] = {
    "cpuManagerPolicy": "static",
    "memoryManagerPolicy": "Static",
    "topologyManagerPolicy": "single-numa-node",
    "maxPods": 200,
}


@dataclass
class Lateness:
    """When a kubelet wrote the CPUs of pods into its checkpoint, and when a watch showed them, by UID."""

    taken: dict[str, float] = field(default_factory=dict)
    told: dict[str, float] = field(default_factory=dict)

    def forget(self) -> None:
        """Drop all times; count from now on."""
        self.taken.clear()
        self.told.clear()

    def note(self, annotations: Mapping[str, str]) -> None:
        """Note that a topology with these annotations is seen now."""
        now, text = time.time(), annotations.get(PLACEMENTS)
        for uid, placement in kubelet_reports.read_placements(text).items() if text else ():
            if placement.cpus:
                self.told.setdefault(uid, now)

    def seconds(self) -> list[float]:
        """Return the delay of each pod that has both times, in order of size."""
        return sorted(self.told[uid] - self.taken[uid] for uid in self.told.keys() & self.taken.keys())


class AgentSite(Protocol):
    """A node on which an agent can be started."""

    kubelet: str
    lateness: Lateness

    async def start(self, *flags: str) -> Child:
        """Start the agent; return once it has published."""

    async def add(self, name: str) -> None:
        """Add a pod with a CPU of its own."""

    async def remove(self, name: str) -> None:
        """Remove that pod."""

    async def running(self, count: int) -> None:
        """Return once so many pods run."""


@dataclass
class RealSite:
    """A real kubelet with a real API server."""

    cluster: RealCluster
    beside: RealKubelet
    admin: ApiClient
    kubelet: str
    lateness: Lateness = field(default_factory=Lateness)

    async def start(self, *flags: str) -> Child:
        """Start the agent as an administrator, since its access rights are not measured."""
        folder = self.cluster.folder / "agent"
        folder.mkdir(exist_ok=True)
        child = await self.cluster.children.start(
            program("numalign-agent"),
            f"--node-name={NODE}",
            f"--podresources-socket={self.beside.podresources}",
            f"--kubelet-state={self.beside.state}",
            f"--sysfs={self.beside.sysfs}",
            f"--node-address={self.beside.address}",
            f"--kubelet-port={self.beside.port}",
            f"--kubeconfig={self.cluster.plane.kubeconfig('admin', folder)}",
            "--metrics-port=0",
            *flags,
        )
        await seconds_until(
            lambda: ask(self.admin, "GET", TOPOLOGY),
            lambda answer: answer.code == HTTPStatus.OK,
            what="the agent had published",
            within=LONGEST_START,
        )
        return child

    async def add(self, name: str) -> None:
        """Create a pod that is bound already."""
        await ask(self.admin, "POST", PODS, _pod(name))

    async def remove(self, name: str) -> None:
        """Delete a pod without a grace period."""
        await ask(self.admin, "DELETE", f"{PODS}/{name}", gracePeriodSeconds="0")

    async def running(self, count: int) -> None:
        """Return once so many pods run, according to the API server."""
        await seconds_until(
            lambda: ask(self.admin, "GET", PODS),
            lambda found: sum(_runs(pod) for pod in found.body["items"]) >= count,
            what=f"{count} pods ran",
            within=120,
            every=0.5,
        )

    async def watch(self) -> None:
        """Note what a watch of topologies shows, forever."""
        configuration, session = self.admin.configuration, self.admin.rest_client.pool_manager
        url, query = f"{configuration.host}{TOPOLOGIES}", {"watch": "true", "resourceVersion": "0"}
        while True:
            async with session.get(
                url, params=query, headers=self.admin.default_headers, timeout=None
            ) as answer:
                async for line in _lines(answer):
                    self.lateness.note(orjson.loads(line)["object"]["metadata"].get("annotations", {}))
            await asyncio.sleep(OFTEN)

    async def overhear(self) -> None:
        """Note what the kubelet writes into its checkpoint, forever."""
        checkpoint, seen = self.beside.state / "cpu_manager_state", 0
        while True:
            with suppress(OSError, ValueError):
                modified = checkpoint.stat().st_mtime_ns
                if modified != seen:
                    for uid in json.loads(checkpoint.read_text()).get("entries") or {}:
                        self.lateness.taken.setdefault(uid, modified / 1e9)
                    seen = modified
            await asyncio.sleep(OFTEN)


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield whole lines of any length; none if the status is not 200, as before a definition is served."""
    if answer.status != HTTPStatus.OK:
        return
    rest = b""
    async for piece in answer.content.iter_any():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line


def _runs(pod: Json) -> bool:
    return bool(pod["status"].get("phase") == "Running")


def _pod(name: str) -> Json:
    amounts = {"cpu": "1", "memory": "64Mi"}
    container = {"name": "main", "image": "a", "resources": {"requests": amounts, "limits": amounts}}
    spec = {"nodeName": NODE, "containers": [container], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@asynccontextmanager
async def real(version: str) -> AsyncIterator[RealSite]:
    """Run a control plane that serves topologies, and one kubelet; raise `UnavailableError` if it cannot."""
    node = RealNode(name=NODE, machine=MACHINE, configuration=CONFIGURATION)
    async with started([node], version=version) as cluster, cluster.plane.client("admin") as admin:
        store = Store(admin)
        for document in documents(DEPLOY / "crd" / "noderesourcetopologies.yaml"):
            await store.apply(document)
        site = RealSite(cluster, cluster.kubelets[NODE], admin, version)
        async with _beside(site.watch(), site.overhear()):
            yield site


@dataclass
class PlayedSite:
    """A socket, checkpoints and an API server, all played by this process."""

    folder: Path
    api: FakeApi
    fake: FakePodResources
    children: Children
    kubelet: str = "played"
    lateness: Lateness = field(default_factory=Lateness)

    def __post_init__(self) -> None:
        self._held: dict[str, tuple[str, int]] = {}

    async def start(self, *flags: str) -> Child:
        """Start the agent with the kubelet's configuration from a file."""
        child = await self.children.start(
            program("numalign-agent"),
            f"--node-name={NODE}",
            f"--podresources-socket={self.folder / 'kubelet.sock'}",
            f"--kubelet-state={self.folder}",
            f"--sysfs={self.folder / 'sys'}",
            f"--kubelet-config={self.folder / 'kubelet.json'}",
            f"--kubeconfig={self.api.kubeconfig(self.folder / 'kubeconfig')}",
            "--metrics-port=0",
            *flags,
        )
        await seconds_until(self._topology, bool, what="the agent had published", within=LONGEST_START)
        return child

    async def add(self, name: str) -> None:
        """Add a pod that gets the first free CPU and runs at once."""
        taken = {cpu for _, cpu in self._held.values()} | {0, CORES}
        cpu = next(number for number in range(CPUS) if number not in taken)
        stored = self.api.put({**_pod(name), "status": {"phase": "Running"}})
        self._held[name] = stored["metadata"]["uid"], cpu
        self._tell()
        self.lateness.taken[stored["metadata"]["uid"]] = time.time()

    async def remove(self, name: str) -> None:
        """Remove that pod; its CPU is free at once."""
        self.api.delete(f"{PODS}/{name}")
        del self._held[name]
        self._tell()

    async def running(self, count: int) -> None:
        """Return at once, as all pods run."""

    async def watch(self) -> None:
        """Note the topologies that the agent writes, forever."""
        while True:
            while self.api.requests:
                asked = self.api.requests.pop(0)
                if asked.method == "PATCH" and asked.path == TOPOLOGY:
                    self.lateness.note(asked.body["metadata"]["annotations"])
            await asyncio.sleep(OFTEN)

    async def _topology(self) -> Json | None:
        return self.api.get(TOPOLOGY)

    def _tell(self) -> None:
        """Update the pod resources first, then the checkpoint, in the order of a kubelet."""
        self.fake.listed = ListPodResourcesResponse(
            pod_resources=[
                PodResources(
                    name=name,
                    namespace="default",
                    containers=[
                        ContainerResources(
                            name="main",
                            cpu_ids=[cpu],
                            memory=[ContainerMemory(memory_type="memory", size=1 << 26)],
                        )
                    ],
                )
                for name, (_, cpu) in self._held.items()
            ]
        )
        entries = {uid: {"main": str(cpu)} for uid, cpu in self._held.values()}
        new = self.folder / "cpu_manager_state.new"
        new.write_text(json.dumps({"policyName": "static", "entries": entries}))
        new.replace(self.folder / "cpu_manager_state")


@asynccontextmanager
async def played() -> AsyncIterator[PlayedSite]:
    """Run the same node without a kubelet."""
    with tempfile.TemporaryDirectory(prefix="agent-") as made:
        folder = Path(made)
        (folder / "logs").mkdir()
        machines.write(read_machine(MACHINE), folder)
        head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
        (folder / "kubelet.json").write_text(json.dumps({**head, **CONFIGURATION}))
        children = Children(logs=folder / "logs")
        free = [cpu for cpu in range(CPUS) if cpu not in {0, CORES}]
        memory = [ContainerMemory(memory_type="memory", size=255 * GIB) for _ in (0, 1)]
        for zone, block in enumerate(memory):
            block.topology.nodes.add(ID=zone)
        fake = FakePodResources(allocatable=AllocatableResourcesResponse(cpu_ids=free, memory=memory))
        async with FakeApi() as api, fake.serving(folder / "kubelet.sock"):
            info = {"kubeletVersion": "v1.34.4"}
            api.put(
                {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "status": {"nodeInfo": info}}
            )
            site = PlayedSite(folder, api, fake, children)
            try:
                async with _beside(site.watch()):
                    yield site
            finally:
                await children.end()


@asynccontextmanager
async def _beside(*work: Any) -> AsyncIterator[None]:  # noqa: ANN401  coroutines
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result
