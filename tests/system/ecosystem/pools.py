"""NodePools of Karpenter, and the nodes that it makes.

Behind its nodes is no kubelet: tests make them ready, publish their topologies, and have their pods run.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from numalign.kube.client import Patch
from tests.system.ecosystem.nodes import POOL
from tests.system.eventually import eventually
from tests.system.workloads import workloads
from tests.system.workloads.installed import Numalign
from tests.system.workloads.stages import Stage
from tools.clusters import fleets
from tools.clusters.api_requests import Json, ask, patch
from tools.clusters.fleets import Shape
from tools.clusters.installing import NODE_CLASS

NAME = "made"
"""The name of the only NodePool, and of the pool in its nodes' labels."""

SHAPE = Shape(zones=2, cpus=8, gib=16, devices={})
# Karpenter takes 100m and 10Mi off for the kubelet.
INSTANCES = {"two-by-eight": {"cpu": "16100m", "memory": f"{32 * 1024 + 10}Mi"}}

TAINT = {"key": "made", "value": "true", "effect": "NoSchedule"}
"""Keeps the pods of other tests away."""

VERSION = "karpenter.sh/v1"


@dataclass(frozen=True, slots=True)
class Pools:
    ours: Numalign

    @property
    def stage(self) -> Stage:
        return self.ours.stage

    @asynccontextmanager
    async def pool(self, *, consolidate_after: str) -> AsyncIterator[None]:
        """Have a NodePool during the block; its nodes are gone afterwards."""
        requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [*INSTANCES]}
        spec = {"nodeClassRef": NODE_CLASS, "requirements": [requirement], "taints": [TAINT]}
        disruption = {
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "consolidateAfter": consolidate_after,
        }
        template = {"metadata": {"labels": {POOL: NAME}}, "spec": spec}
        wish = {
            "apiVersion": VERSION,
            "kind": "NodePool",
            "metadata": {"name": NAME},
            "spec": {"disruption": disruption, "template": template},
        }
        await self.stage.store.apply(wish)
        try:
            yield
        finally:
            await self.stage.store.delete(wish)
            names = [node["metadata"]["name"] for node in await self.nodes()]
            await eventually(self.claims, lambda left: not left, "no NodeClaim was left")
            for name in names:
                await self.stage.store.delete(fleets.topology(name, SHAPE))

    async def claims(self) -> list[Json]:
        return await self.stage.store.list(VERSION, "NodeClaim")

    async def nodes(self) -> list[Json]:
        return [
            node
            for node in await self.stage.store.list("v1", "Node")
            if node["metadata"]["labels"].get("karpenter.sh/nodepool") == NAME
        ]

    async def until_made(self, count: int) -> list[Json]:
        """So many nodes that Karpenter made, once it knows them as its own."""

        def registered(nodes: Sequence[Json]) -> bool:
            labels = [node["metadata"]["labels"] for node in nodes]
            return [each.get("karpenter.sh/registered") for each in labels] == ["true"] * count

        return await eventually(self.nodes, registered, f"{count} nodes were made")

    async def make_ready(self, node: Json) -> None:
        """Have a node ready, as its kubelet would, and Karpenter see that."""
        path = f"/api/v1/nodes/{node['metadata']['name']}"
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "it is ready"}
        for part, body in (
            ("/status", {"status": {"conditions": [ready]}}),
            ("", {"spec": {"taints": [TAINT]}}),
        ):
            answer = await patch(self.stage.api, path + part, body, how=Patch.MERGE)
            assert answer.code == HTTPStatus.OK, answer.body
        await eventually(
            partial(ask, self.stage.api, "GET", path),
            lambda answer: answer.body["metadata"]["labels"].get("karpenter.sh/initialized") == "true",
            "the node was initialized",
        )

    async def publish(self, node: Json) -> None:
        await self.stage.store.replace(fleets.topology(node["metadata"]["name"], SHAPE))

    async def until_runs(self, home: str, of: str) -> Json:
        """The only pod of a workload, once it has a node; it runs from then on, as its kubelet would say."""
        [pod] = await eventually(
            partial(self.stage.pods, home, of),
            lambda pods: [bool(pod["spec"].get("nodeName")) for pod in pods] == [True],
            f"{of} had a node",
        )
        await self.report(pod, {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
        return pod

    async def report(self, pod: Json, status: Json) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        answer = await patch(self.stage.api, path, {"status": status}, how=Patch.STRATEGIC)
        assert answer.code == HTTPStatus.OK, answer.body


def deployment(home: str, name: str, *, cpus: int, pools: Sequence[str]) -> Json:
    return workloads.deployment(home, name, 1, template(name, cpus=cpus, pools=pools))


def job(home: str, name: str, *, cpus: int, pools: Sequence[str]) -> Json:
    """A Job of one pod, for nodes of some pools, that is lost with its first failure."""
    wish = template(name, cpus=cpus, pools=pools)
    wish["spec"]["restartPolicy"] = "Never"
    return workloads.job(home, name, 1, wish, backoff=0)


def template(name: str, *, cpus: int, pools: Sequence[str]) -> Json:
    """A pod with an intent, for nodes of some pools, those of Karpenter among them."""
    wish = workloads.template(name, on={}, cpus=cpus)
    term = {"matchExpressions": [{"key": POOL, "operator": "In", "values": [*pools, NAME]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    wish["spec"] |= {"affinity": {"nodeAffinity": required}, "tolerations": [{**TAINT, "operator": "Equal"}]}
    return wish
