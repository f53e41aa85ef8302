"""The nodes of a cell, simulated or real, as an observer sees them, and what they gave to pods."""

from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import orjson
from kubernetes_asyncio.client.api_client import ApiClient

from numalign.model.quantity import millis, units
from tools.clusters.api_requests import ask
from tools.clusters.kubelets.clusters import RealCluster
from tools.clusters.kubelets.kept import Amounts, kept, taken
from tools.clusters.sim.cluster import Cluster
from tools.clusters.waiting import SELDOM, seconds_until

Raw = dict[str, Any]
Slots = Iterator[tuple[int, int]]
"""What each zone has left of a resource, and what it has in total."""

PLACEMENT = "numalign.io/placement"


class SimulatedNodes:
    """The nodes of `tools.clusters.sim`; `alive` are the UIDs of all existing pods."""

    alive: AbstractSet[str] = frozenset()

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def held(self, pod: Raw) -> Amounts:
        """Return what a kubelet gave a pod by sets of zones: CPUs in thousandths, others in units."""
        name = "{namespace}/{name}".format_map(pod["metadata"])
        return self._cluster.held(pod["spec"]["nodeName"]).get(name, {})

    def slots(self, resource: str) -> Slots:
        """Yield the slots of every zone of every node."""
        for name, node in self._cluster.nodes.items():
            most = node.machine.make.allocatable().get(resource, 0)
            yield from ((zone.get(resource, 0), most) for zone in self._cluster.available(name).values())

    async def idle(self) -> None:
        """Return once deleted pods are gone."""
        await self._cluster.idle(published=False)


class RealNodes:
    """Real kubelets, whose checkpoints contain what they gave to pods."""

    alive: AbstractSet[str] = frozenset()

    def __init__(self, cluster: RealCluster, api: ApiClient) -> None:
        self._cluster = cluster
        self._api = api

    def held(self, pod: Raw) -> Amounts:
        """Return what a kubelet gave a pod by sets of zones: CPUs in thousandths, others in units."""
        kubelet = self._cluster.kubelets[pod["spec"]["nodeName"]]
        held = kept(kubelet.state, pod["metadata"]["uid"], kubelet.node.devices)
        return held.total(kubelet.node.machine)

    def slots(self, resource: str) -> Slots:
        """Yield the slots of every zone of every node."""
        for kubelet in self._cluster.kubelets.values():
            devices = kubelet.node.devices
            gone = taken(kubelet.state, resource, self.alive, devices)
            most = Counter(zone for each in devices.get(resource, ()) for zone in each["zones"])
            for zone in kubelet.node.machine["zones"]:
                yield most[zone["id"]] - gone.get(zone["id"], 0), most[zone["id"]]

    async def idle(self) -> None:
        """Return once deleted pods are gone."""

        async def leaving() -> int:
            pods = (await ask(self._api, "GET", "/api/v1/pods")).body["items"]
            self.alive = {pod["metadata"]["uid"] for pod in pods}
            return sum("deletionTimestamp" in pod["metadata"] for pod in pods)

        await seconds_until(leaving, lambda count: not count, what="pods were gone", within=60, every=SELDOM)


Nodes = SimulatedNodes | RealNodes


def agrees(pod: Raw, held: Mapping[tuple[int, ...], Mapping[str, int]]) -> bool | None:
    """Return whether the recorded placement of a pod is what it holds; None if there is no record."""
    record: str | None = pod["metadata"].get("annotations", {}).get(PLACEMENT)
    if record is None:
        return None
    given = {
        tuple(sorted(f"node-{zone}" for zone in zones)): dict(each) for zones, each in held.items() if each
    }
    found: dict[tuple[str, ...], dict[str, int]] = {}
    for part in orjson.loads(record):
        amounts = found.setdefault(tuple(sorted(part["zones"])), {})
        for name, amount in part["amount"].items():
            read = millis(amount) if name == "cpu" else units(amount)
            amounts[name] = amounts.get(name, 0) + read
    return found == given
