"""Many kubelets and exporters at one API server, for tests and benchmarks.

One watch delivers all pods to their kubelets. Only the cluster knows when everything is handled, so tests
wait for `Cluster.idle`, and not for a period of time.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from random import Random
from types import MappingProxyType
from typing import Any

from prometheus_client import CollectorRegistry

from numalign.kube.client import Api
from numalign.kube.errors import ClusterError
from numalign.kube.informer import Informer, WatchMetrics
from numalign.kube.kinds import Collection, Key
from numalign.model.errors import BadInput, Mistake
from numalign.runtime.logs import Log
from tools.clusters.sim import documents
from tools.clusters.sim.accounts import Held, Zones
from tools.clusters.sim.desk import ApiDesk
from tools.clusters.sim.exporter import Exporter
from tools.clusters.sim.fingerprints import Fingerprint
from tools.clusters.sim.kubelet import GRACE_SECONDS, Decision, Kubelet, News
from tools.clusters.sim.oracles import oracles
from tools.clusters.sim.shapes import SimNode

Json = dict[str, Any]

PODS = Collection(
    "Pod", "v1", "/api/v1/pods", MappingProxyType({"metadata": True, "spec": True, "status": True})
)
LOOK_SECONDS = 0.02


class Delivery:
    """Delivers the events of the one watch to the kubelets of the pods."""

    def __init__(self, kubelets: Mapping[str, Kubelet]) -> None:
        self._kubelets = kubelets
        self._bound: dict[Key, tuple[str, Kubelet, str]] = {}

    def put(self, found: Json) -> None:
        metadata, key = found["metadata"], _key(found)
        if key in self._bound and self._bound[key][0] != metadata["uid"]:
            self.drop(key)
        if kubelet := self._kubelets.get(found["spec"].get("nodeName", "")):
            self._bound[key] = (metadata["uid"], kubelet, metadata["resourceVersion"])
            kubelet.tell(News(metadata["uid"], found))

    def drop(self, key: Key) -> None:
        if key in self._bound:
            uid, kubelet, _ = self._bound.pop(key)
            kubelet.tell(News(uid))

    def keep(self, keys: AbstractSet[Key]) -> None:
        """Drop all pods but these."""
        for key in self._bound.keys() - keys:
            self.drop(key)

    def current(self, pods: Sequence[Json]) -> bool:
        """Return whether exactly these pods were delivered, in these versions."""
        ours = [pod for pod in pods if pod["spec"].get("nodeName") in self._kubelets]
        delivered = {key: version for key, (_, _, version) in self._bound.items()}
        return {_key(pod): pod["metadata"]["resourceVersion"] for pod in ours} == delivered


def _key(pod: Json) -> Key:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


class Cluster:
    """A running simulation: the decisions of its kubelets, and what their machines hold."""

    def __init__(self, api: Api, nodes: Mapping[str, Exporter], decisions: list[Decision]) -> None:
        self.decisions = decisions
        self.nodes = nodes
        self.delivery = Delivery({name: node.kubelet for name, node in nodes.items()})
        self.tasks: list[asyncio.Task[None]] = []
        self._api = api

    @property
    def rejections(self) -> list[Decision]:
        return [decision for decision in self.decisions if not decision.admitted]

    def held(self, node: str) -> dict[str, Held]:
        """Return what each active pod (`namespace/name`) holds, by zones."""
        active = self.nodes[node].kubelet.active
        return {"{namespace}/{name}".format_map(one.pod["metadata"]): one.held for one in active}

    def available(self, node: str) -> Zones:
        """Return what an exporter sees as available now, by zone: thousandths of CPUs, bytes, devices."""
        return self.nodes[node].kubelet.available()

    def largest_slot(self, resource: str) -> int:
        """Return the most of a resource that any one zone has left."""
        zones = (zone for node in self.nodes for zone in self.available(node).values())
        return max((zone.get(resource, 0) for zone in zones), default=0)

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
        for task in self.tasks:
            if task.done():
                task.result()

    async def serve(self) -> None:
        """Wait for ever; raise the error of a kubelet or an exporter as soon as one fails."""
        await asyncio.wait(self.tasks, return_when=asyncio.FIRST_COMPLETED)
        self.check()

    async def _settled(self, *, published: bool) -> bool:
        """Return whether nothing is left to do, and nothing arrived during this check."""
        self.check()
        if self._at_work(published=published):
            return False
        try:
            found: Any = await self._api.get(PODS.path, what="pods")
        except ClusterError:
            return False
        self.check()
        return self.delivery.current(found["items"]) and not self._at_work(published=published)

    def _at_work(self, *, published: bool) -> list[str]:
        return [
            name
            for name, node in self.nodes.items()
            if not (node.kubelet.quiet and (node.quiet or not published))
        ]


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
    grace: float = GRACE_SECONDS,
) -> AsyncIterator[Cluster]:
    """Run these nodes at an API server during the block; what they wrote stays there.

    Exporters publish `delay` seconds after each change, and up to `jitter` more at random by `seed`. With
    `observe`, they write to each pod what it holds.
    `grace` is how many seconds a deleted pod takes to end. Raise `BadInput` for duplicate names, and
    `SimulationError` if a kubelet does not start.
    """
    names = Counter(machine.name for machine in machines)
    if twice := sorted(name for name, count in names.items() if count > 1):
        raise BadInput([Mistake("machines", f"{name} is there twice") for name in twice])
    desk = ApiDesk(api)
    await desk.learn()
    chance = Random(seed)  # noqa: S311  nothing secret
    decisions: list[Decision] = []

    async def made(kubelet: Kubelet, lag: Callable[[], float]) -> Exporter:
        """Create the node and its topology, before anything else."""
        exporter = Exporter(kubelet, desk, lag=lag, method=fingerprint, observe=observe)
        await desk.register(documents.node(kubelet.machine))
        await exporter.now()
        return exporter

    async with oracles(machines) as managers:
        kubelets = [Kubelet(each, managers[each.name], desk, decisions, grace) for each in machines]
        exporters = await asyncio.gather(
            *(made(each, _late(delay, jitter, chance.random())) for each in kubelets)
        )
        by_name = {each.kubelet.machine.name: each for each in exporters}
        async with _running(Cluster(api, by_name, decisions), api) as cluster:
            yield cluster


def _late(delay: float, jitter: float, seed: float) -> Callable[[], float]:
    chance = Random(seed)  # noqa: S311  nothing secret
    return lambda: delay + jitter * chance.random()


@asynccontextmanager
async def _running(cluster: Cluster, api: Api) -> AsyncIterator[Cluster]:
    """Run all programs during the block; raise the error of one that failed at its end."""
    log = Log(logging.getLogger("numalign.sim"))
    pods = Informer(api, (PODS,), cluster.delivery, log=log, metrics=WatchMetrics.of(CollectorRegistry()))
    parts = [part for node in cluster.nodes.values() for part in (node.kubelet, node)]
    cluster.tasks += [asyncio.create_task(each.run()) for each in (pods, *parts)]
    try:
        yield cluster
        cluster.check()
    finally:
        for task in cluster.tasks:
            task.cancel()
        await asyncio.gather(*cluster.tasks, return_exceptions=True)
