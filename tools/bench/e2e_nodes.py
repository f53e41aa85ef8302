"""The nodes of a cell, simulated or real, as an observer sees them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Protocol

from kubernetes_asyncio.client.api_client import ApiClient

from tools.clusters.api_requests import ask
from tools.clusters.kubelets.clusters import RealCluster
from tools.clusters.kubelets.kept import Amounts, kept, taken
from tools.clusters.sim.cluster import Cluster
from tools.clusters.waiting import SELDOM, seconds_until

PODS = "/api/v1/pods"

Raw = dict[str, Any]
Slots = Sequence[tuple[int, int]]
"""What each zone has left of a resource, and what it has in total."""


class Nodes(Protocol):
    """All nodes of a cell; `alive` are the UIDs of all existing pods."""

    alive: AbstractSet[str]

    def held(self, pod: Raw) -> Amounts:
        """Return what a kubelet gave a running pod by sets of zones: CPUs in thousandths, others in units."""

    def slots(self, resource: str) -> Slots:
        """Return the slots of every zone of every node."""

    async def idle(self) -> None:
        """Return once deleted pods are gone."""


class SimulatedNodes:
    """The nodes of `tools.clusters.sim`."""

    alive: AbstractSet[str] = frozenset()

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def held(self, pod: Raw) -> Amounts:
        """See `Nodes.held`."""
        name = "{namespace}/{name}".format_map(pod["metadata"])
        return self._cluster.held(pod["spec"]["nodeName"]).get(name, {})

    def slots(self, resource: str) -> Slots:
        """See `Nodes.slots`."""
        return [*self._slots(resource)]

    def _slots(self, resource: str) -> Iterator[tuple[int, int]]:
        for name, node in self._cluster.nodes.items():
            most = node.kubelet.machine.make.allocatable().get(resource, 0)
            yield from ((zone.get(resource, 0), most) for zone in self._cluster.available(name).values())

    async def idle(self) -> None:
        """See `Nodes.idle`."""
        await self._cluster.idle(published=False)


class RealNodes:
    """Real kubelets, whose checkpoints contain what they gave to pods."""

    alive: AbstractSet[str] = frozenset()

    def __init__(self, cluster: RealCluster, api: ApiClient) -> None:
        self._cluster = cluster
        self._api = api

    def held(self, pod: Raw) -> Amounts:
        """See `Nodes.held`."""
        kubelet = self._cluster.kubelets[pod["spec"]["nodeName"]]
        machine = kubelet.node.machine
        return kept(kubelet.state, pod["metadata"]["uid"], kubelet.node.devices).total(machine)

    def slots(self, resource: str) -> Slots:
        """See `Nodes.slots`."""
        return [*self._slots(resource)]

    def _slots(self, resource: str) -> Iterator[tuple[int, int]]:
        for kubelet in self._cluster.kubelets.values():
            devices = kubelet.node.devices
            gone = taken(kubelet.state, resource, self.alive, devices)
            most = Counter(zone for each in devices.get(resource, ()) for zone in each["zones"])
            for zone in kubelet.node.machine["zones"]:
                yield most[zone["id"]] - gone.get(zone["id"], 0), most[zone["id"]]

    async def idle(self) -> None:
        """See `Nodes.idle`."""

        async def leaving() -> int:
            pods = (await ask(self._api, "GET", PODS)).body["items"]
            self.alive = {pod["metadata"]["uid"] for pod in pods}
            return sum("deletionTimestamp" in pod["metadata"] for pod in pods)

        await seconds_until(leaving, lambda count: not count, what="pods were gone", within=60, every=SELDOM)
