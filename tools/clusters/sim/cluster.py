"""Many kubelets and exporters at one API server, for tests and benchmarks.

One watch delivers all pods to their kubelets. Only the cluster knows when everything is handled, so tests
wait for `Cluster.idle`, and not for a period of time.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from random import Random
from types import MappingProxyType
from typing import Any

from prometheus_client import CollectorRegistry

from numalign.kube.client import Api
from numalign.kube.errors import ClusterError
from numalign.kube.informer import Informer, WatchMetrics
from numalign.kube.kinds import Collection, Key
from numalign.runtime.logs import Log
from tools.clusters import builds
from tools.clusters.oracle.managers import Managers
from tools.clusters.sim.accounts import Held, Zones
from tools.clusters.sim.desk import learn
from tools.clusters.sim.fingerprints import Fingerprint
from tools.clusters.sim.kubelet import Decision, Kubelet, Simulation
from tools.clusters.sim.shapes import SimNode

Json = dict[str, Any]

PODS = Collection(
    "Pod", "v1", "/api/v1/pods", MappingProxyType({"metadata": True, "spec": True, "status": True})
)
LOOK_SECONDS = 0.02
ANSWER_SECONDS = 30
"""The longest time to wait for a decision: test machines are shared, and a kubelet would wait for ever."""


class Cluster:
    """A running simulation: the decisions of its kubelets, and what their machines hold.

    `put`, `drop` and `keep` are for its watch, which delivers the events to the kubelets of the pods.
    """

    def __init__(self, shared: Simulation, nodes: Sequence[Kubelet]) -> None:
        self.decisions = shared.decisions
        self.nodes = {node.machine.name: node for node in nodes}
        self._api = shared.api
        self._delivered: dict[Key, Json] = {}

    @property
    def rejections(self) -> list[Decision]:
        return [decision for decision in self.decisions if decision.reason]

    def held(self, node: str) -> dict[str, Held]:
        """Return what each active pod (`namespace/name`) holds, by zones."""
        active = self.nodes[node].active.values()
        return {"{namespace}/{name}".format_map(one.pod["metadata"]): one.held for one in active}

    def available(self, node: str) -> Zones:
        """Return what an exporter sees as available now, by zone: thousandths of CPUs, bytes, devices."""
        return self.nodes[node].available()

    def put(self, pod: Json) -> None:
        key, uid = _key(pod), pod["metadata"]["uid"]
        if key in self._delivered and self._delivered[key]["metadata"]["uid"] != uid:
            self.drop(key)
        if kubelet := self.nodes.get(pod["spec"].get("nodeName", "")):
            self._delivered[key] = pod
            kubelet.tell(uid, pod)

    def drop(self, key: Key) -> None:
        if pod := self._delivered.pop(key, None):
            self.nodes[pod["spec"]["nodeName"]].tell(pod["metadata"]["uid"], None)

    def keep(self, keys: AbstractSet[Key]) -> None:
        for key in self._delivered.keys() - keys:
            self.drop(key)

    async def idle(self, *, seconds: float = 60, published: bool = True) -> None:
        """Return when all pods of the API server are handled, and with `published`, topologies are published.

        Raise `TimeoutError` with the nodes that are not done, or the error of a kubelet or exporter.
        """
        deadline = time.monotonic() + seconds
        while not await self._settled(published=published):
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {seconds:g} s still at work: {self._at_work(published=published)}")
            await asyncio.sleep(LOOK_SECONDS)

    def check(self) -> None:
        """Raise the error of a kubelet or an exporter, if one failed."""
        for task in self.tasks():
            if task.done():
                task.result()

    def tasks(self) -> list[asyncio.Task[None]]:
        return [task for node in self.nodes.values() for task in (*node.deciding, *node.publishing)]

    async def _settled(self, *, published: bool) -> bool:
        """Return whether nothing is left to do, and nothing arrived during this check."""
        self.check()
        if self._at_work(published=published):
            return False
        try:
            found: Any = await self._api.get(PODS.path, what="pods")
        except ClusterError:
            return False
        ours = [pod for pod in found["items"] if pod["spec"].get("nodeName") in self.nodes]
        # Exactly these pods were delivered, in these versions.
        versions = {_key(pod): pod["metadata"]["resourceVersion"] for pod in ours}
        delivered = {key: pod["metadata"]["resourceVersion"] for key, pod in self._delivered.items()}
        self.check()
        return versions == delivered and not self._at_work(published=published)

    def _at_work(self, *, published: bool) -> list[str]:
        return [name for name, node in self.nodes.items() if node.deciding or (published and node.publishing)]


def _key(pod: Json) -> Key:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


@asynccontextmanager
async def simulated(  # noqa: PLR0913  the parameters of a simulation, each with a default
    api: Api,
    machines: Sequence[SimNode],
    *,
    delay: float = 0,
    jitter: float = 0,
    fingerprint: Fingerprint | None = None,
    observe: bool = False,
    seed: int = 0,
) -> AsyncIterator[Cluster]:
    """Run these nodes at an API server during the block; what they wrote stays there.

    Exporters publish `delay` seconds after each change, and up to `jitter` more at random by `seed`. With
    `observe`, they write to each pod what it holds. Raise `SimulationError` if a kubelet does not start, or
    failed by the end of the block, and what `tools.clusters.builds.managers` raises.
    """
    program, chance = await builds.managers(), Random(seed)  # noqa: S311  nothing secret
    await learn(api)
    with ExitStack() as stack:
        managers = [stack.enter_context(Managers(program, seconds=ANSWER_SECONDS)) for _ in machines]
        # This context ends first: no thread may wait for managers that have been ended.
        threads = stack.enter_context(ThreadPoolExecutor(max_workers=max(1, len(machines))))
        shared = Simulation(
            api, threads, lambda: delay + jitter * chance.random(), fingerprint, observe=observe
        )
        nodes = [Kubelet(each, managed, shared) for each, managed in zip(machines, managers, strict=True)]
        await asyncio.gather(*(node.start() for node in nodes))
        cluster = Cluster(shared, nodes)
        log, metrics = Log(logging.getLogger("numalign.sim")), WatchMetrics.of(CollectorRegistry())
        watching = asyncio.create_task(Informer(api, (PODS,), cluster, log=log, metrics=metrics).run())
        try:
            yield cluster
            cluster.check()
        finally:
            running = [watching, *cluster.tasks()]
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
