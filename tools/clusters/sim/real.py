"""The same nodes with real kubelets: shapes as invented machines, and the kubelets' decisions on pods."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from numalign.kube.client import Api
from numalign.kube.errors import ClusterError
from tools.clusters.api_requests import ask
from tools.clusters.kubelets.clusters import RealCluster, started
from tools.clusters.kubelets.kubelets import RealNode
from tools.clusters.sim.desk import ApiDesk
from tools.clusters.sim.shapes import Policy, SimNode

Json = dict[str, Any]

DECIDED = {"Running": "admitted", "Succeeded": "admitted", "Failed": "REJECTED"}


def as_real(node: SimNode) -> RealNode:
    configuration = node.make.configuration(Policy(node.policy))
    return RealNode(name=node.name, machine=node.make.machine(), configuration=configuration)


@asynccontextmanager
async def real(machines: Sequence[SimNode], *, version: str) -> AsyncIterator[RealCluster]:
    """Run these on a control plane of their own that serves topologies. Raise what `started` raises."""
    async with started([*map(as_real, machines)], version=version) as cluster:
        async with cluster.plane.client("admin") as client:
            await ApiDesk(Api(client, namespace="default")).learn()
        yield cluster


async def outcomes(cluster: RealCluster) -> AsyncIterator[str]:
    """Yield a line for each pod as soon as its kubelet has decided on it; never ends."""
    seen: set[str] = set()
    async with cluster.plane.client("admin") as client:
        while True:
            with suppress(ClusterError):
                pods: list[Json] = (await ask(client, "GET", "/api/v1/pods")).body.get("items", [])
                for pod in pods:
                    if pod["metadata"]["uid"] not in seen and pod["status"].get("phase") in DECIDED:
                        seen.add(pod["metadata"]["uid"])
                        yield outcome(pod)
            await asyncio.sleep(1)


def outcome(pod: Json) -> str:
    where, status = "{namespace}/{name}".format_map(pod["metadata"]), pod["status"]
    why = f" {status['reason']}: {status.get('message', '')}" if "reason" in status else ""
    return f"{pod['spec'].get('nodeName')}: {where} {DECIDED[status['phase']]}{why}\n"
