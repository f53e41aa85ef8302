"""What publishes the topologies of real kubelets: the agent, or an exporter that is some seconds late."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from time import monotonic
from typing import Any

from kubernetes_asyncio.client.api_client import ApiClient

from agent.amounts import SeenDevices
from agent.hardware import hardware
from agent.observation import Observation
from agent.podresources import PodResources
from agent.report import document, report
from numalign.kube.decode.kubelet_reports import MACHINE, PLACEMENTS
from numalign.kube.errors import ClusterError
from tools.clusters.agents import TOPOLOGIES
from tools.clusters.api_requests import ask
from tools.clusters.kubelets.clusters import RealCluster
from tools.clusters.kubelets.kubelets import RealKubelet
from tools.clusters.processes import Child, Children, answers, free_port, program, until
from tools.clusters.waiting import SELDOM, seconds_until

Json = dict[str, Any]


@dataclass(slots=True)
class Agent:
    """The agent of a node, with the command of its DaemonSet; it can be killed and started again."""

    kubelet: RealKubelet
    children: Children
    kubeconfig: Path
    child: Child | None = None
    port: int = field(default_factory=free_port)

    async def start(self) -> None:
        """Start the process, and return at once."""
        kubelet = self.kubelet
        self.child = await self.children.start(
            *(program("numalign-agent"), "--kubeconfig", str(self.kubeconfig)),
            *("--node-name", kubelet.node.name, "--node-address", kubelet.address),
            *("--kubelet-port", str(kubelet.port), "--podresources-socket", str(kubelet.podresources)),
            *("--kubelet-state", str(kubelet.state), "--sysfs", str(kubelet.sysfs)),
            *("--bind", "127.0.0.1", "--metrics-port", str(self.port)),
            name=f"agent-{kubelet.node.name}",
        )

    async def until_up(self) -> None:
        """Return when the process answers, whether or not it has reported anything."""
        assert self.child
        up = partial(answers, f"http://127.0.0.1:{self.port}/healthz")
        await until(up, what="it answered", child=self.child)

    async def kill(self) -> None:
        if self.child:
            await self.child.end()
            self.child = None


@asynccontextmanager
async def agents(cluster: RealCluster) -> AsyncIterator[Mapping[str, Agent]]:
    """Run an agent next to each kubelet, by node name; start the block when all have reported."""
    folder = cluster.folder / "agents"
    folder.mkdir(exist_ok=True)
    kubeconfig = cluster.plane.kubeconfig("admin", folder)
    every = {name: Agent(each, cluster.children, kubeconfig) for name, each in cluster.kubelets.items()}
    try:
        for agent in every.values():
            await agent.start()
        async with cluster.plane.client("admin") as api:
            await _published(api, every, MACHINE, PLACEMENTS)
        yield every
    finally:
        for agent in every.values():
            await agent.kill()


@asynccontextmanager
async def exporters(cluster: RealCluster, *, delay: float) -> AsyncIterator[None]:
    """Run an exporter next to each kubelet, `delay` seconds late; start when every node has a topology."""
    async with cluster.plane.client("admin") as api:
        tasks = [asyncio.create_task(_export(each, api, delay)) for each in cluster.kubelets.values()]
        try:
            await _published(api, cluster.kubelets)
            yield
        finally:
            failed = [task for task in tasks if task.done()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # Without its cause, a topology that is missing would say nothing.
            for task in failed:
                task.result()


async def _export(kubelet: RealKubelet, api: ApiClient, delay: float) -> None:
    """Publish what is observed twice a second, the first at once and the others late; never returns.

    It is the same as from other exporters: zones, and the fingerprint of the pods that these account for, but
    no annotations of numalign. If several observations are due, only the last is published.
    """
    name, resources = kubelet.node.name, PodResources(kubelet.podresources)
    due, last, devices = deque[tuple[float, Json]](), dict[str, Any](), SeenDevices()
    while True:
        with suppress(ClusterError):
            held = await resources.allocatable(), await resources.listed()
            machine, configuration = hardware(kubelet.sysfs), kubelet.node.configuration
            seen = Observation(machine, configuration, *held, pods=(), checkpoints=None)
            content, devices = report(seen, devices)
            found = document(name, content)
            del found["metadata"]["annotations"]
            if found != last:
                due.append((monotonic() + delay * bool(last), found))
                last = found
        ready = [due.popleft() for _ in range(sum(at <= monotonic() for at, _ in due))]
        for _, newest in ready[-1:]:
            path, query = f"{TOPOLOGIES}/{name}", {"fieldManager": "late-exporter", "force": "true"}
            answer = await ask(api, "PATCH", path, newest, **query)
            if answer.code not in {HTTPStatus.OK, HTTPStatus.CREATED}:
                # A new CustomResourceDefinition may not be served yet.
                due.appendleft((0.0, newest))
        await asyncio.sleep(0.5)


async def _published(api: ApiClient, nodes: Iterable[str], *annotations: str) -> None:
    """Return when all nodes have a topology with these annotations."""

    async def missing() -> list[str]:
        listed = (await ask(api, "GET", TOPOLOGIES)).body.get("items", [])
        found = {each["metadata"]["name"]: each["metadata"].get("annotations", {}) for each in listed}
        return [name for name in nodes if name not in found or not {*annotations} <= {*found[name]}]

    what = "all nodes had a topology"
    await seconds_until(missing, lambda seen: not seen, what=what, within=60, every=SELDOM)
