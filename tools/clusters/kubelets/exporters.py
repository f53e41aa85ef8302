"""Exporters next to real kubelets that publish each observation some seconds later.

They publish the same as other exporters: zones, and the fingerprint of the pods that these account for, but
no annotations of numalign. They observe twice a second, through podresources, without pods or checkpoints.
The delay is up to the test. If several observations are due, only the last is published.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from time import monotonic
from typing import Any

from kubernetes_asyncio.client.api_client import ApiClient

from agent.amounts import SeenDevices
from agent.hardware import hardware
from agent.observation import Observation
from agent.podresources import PodResources
from agent.report import document, report
from numalign.kube.errors import ClusterError
from tools.clusters.api_requests import ask
from tools.clusters.kubelets.clusters import RealCluster
from tools.clusters.kubelets.kubelets import RealKubelet
from tools.clusters.sim.desk import TOPOLOGIES
from tools.clusters.waiting import SELDOM, seconds_until

Json = dict[str, Any]


class LateExporter:
    """The exporter of a node."""

    def __init__(self, kubelet: RealKubelet, api: ApiClient) -> None:
        self.kubelet = kubelet
        self._api = api
        self._due: deque[tuple[float, Json]] = deque()
        self._last: Json = {}
        self._devices = SeenDevices()

    async def run(self, delay: float) -> None:
        """Observe and publish; never returns."""
        while True:
            with suppress(ClusterError):
                await self.look(delay)
            await self.publish()
            await asyncio.sleep(0.5)

    async def look(self, delay: float) -> None:
        """Observe the node, and schedule a publication if it changed. Raise `ClusterError` on failure."""
        resources, node = PodResources(self.kubelet.podresources), self.kubelet.node
        held = await resources.allocatable(), await resources.listed()
        seen = Observation(hardware(self.kubelet.sysfs), node.configuration, *held, pods=(), checkpoints=None)
        content, self._devices = report(seen, self._devices)
        found = document(node.name, content)
        del found["metadata"]["annotations"]
        if found != self._last:
            self._last = found
            self._due.append((monotonic() + delay, found))

    async def publish(self) -> bool:
        """Publish the last observation that is due, or keep it if that fails; return whether none is left."""
        due = None
        while self._due and self._due[0][0] <= monotonic():
            _, due = self._due.popleft()
        if due is None:
            return True
        path = f"{TOPOLOGIES}/{self.kubelet.node.name}"
        answer = await ask(self._api, "PATCH", path, due, fieldManager="late-exporter", force="true")
        if answer.code not in {HTTPStatus.OK, HTTPStatus.CREATED}:
            self._due.appendleft((0.0, due))
        return not self._due


@asynccontextmanager
async def exporters(cluster: RealCluster, *, delay: float) -> AsyncIterator[None]:
    """Run an exporter next to each kubelet, `delay` seconds late; start when every node has a topology."""
    async with cluster.plane.client("admin") as api:
        every = [LateExporter(kubelet, api) for kubelet in cluster.kubelets.values()]
        for exporter in every:
            await exporter.look(0)
            # A new CustomResourceDefinition may not be served yet.
            name = f"the topology of {exporter.kubelet.node.name} was written"
            await seconds_until(exporter.publish, bool, what=name, within=30, every=SELDOM)
        tasks = [asyncio.create_task(exporter.run(delay)) for exporter in every]
        try:
            yield
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
