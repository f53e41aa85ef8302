"""What a real kubelet does where a pod on it is resized in place: numalign counts on it.

A kubelet whose CPU or memory manager is static refuses to resize what a Guaranteed pod has of that resource
(pkg/kubelet/allocation/allocation_manager.go, canResizePod), also where the pod has no CPU of its own. So the
spec changes, and what the kubelet gave does not. A resize that a kubelet carries out is nothing that its
managers hear of; it needs cgroups, and the kubelets here have none, so it is not among the cases.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import pytest
from kubernetes_asyncio.client.api_client import ApiClient

from numalign.kube.client import Patch
from tests.kubelet.machines.pods import PODS, container, phase, send
from tests.kubelet.real.conftest import VERSIONS
from tools.clusters.api_requests import ask, patch
from tools.clusters.kubelets.clusters import started
from tools.clusters.kubelets.kept import kept
from tools.clusters.kubelets.kubelets import RealKubelet, RealNode
from tools.clusters.waiting import seconds_until

Json = dict[str, Any]

GIB = 2**30
NODE = RealNode(
    name="n",
    machine={
        "zones": [
            {
                "id": zone,
                "socket": zone,
                "cores": [[8 * zone + 2 * core, 8 * zone + 2 * core + 1] for core in range(4)],
                "memory": 16 * GIB,
                "reservedMemory": GIB,
                "hugepages": {},
                "distances": [10, 21] if zone == 0 else [21, 10],
            }
            for zone in (0, 1)
        ],
        "reservedSystemCPUs": "0,1",
        "devices": {},
    },
    configuration={
        "cpuManagerPolicy": "static",
        "memoryManagerPolicy": "Static",
        "topologyManagerPolicy": "single-numa-node",
    },
)
SETTLES_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Resize:
    """What a pod asks for, what it is resized to, and which manager the kubelet blames."""

    name: str
    before: Mapping[str, str]
    after: Mapping[str, str]
    blamed: str


CPU, MEMORY = 'CPU Manager policy "static"', 'Memory Manager policy "Static"'
RESIZES = (
    Resize("more-cpus", {"cpu": "2", "memory": "1Gi"}, {"cpu": "3", "memory": "1Gi"}, CPU),
    Resize("fewer-cpus", {"cpu": "2", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}, CPU),
    Resize("more-memory", {"cpu": "2", "memory": "1Gi"}, {"cpu": "2", "memory": "2Gi"}, MEMORY),
    Resize("shared-cpus", {"cpu": "1500m", "memory": "1Gi"}, {"cpu": "1600m", "memory": "1Gi"}, CPU),
    Resize("shared-memory", {"cpu": "1500m", "memory": "1Gi"}, {"cpu": "1500m", "memory": "2Gi"}, MEMORY),
)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", VERSIONS)
async def test_static_manager_refuses_to_resize_guaranteed_pods(
    version: str,
) -> None:
    async with _one_node(version) as (kubelet, api):
        for resize in RESIZES:
            uid = await _running(api, resize)
            before = kept(kubelet.state, uid, {})
            pod = await _resized(api, resize)

            assert _pending(pod) == [
                ("Infeasible", f"Resize is infeasible for Guaranteed Pods alongside {resize.blamed}")
            ], resize
            assert pod["spec"]["containers"][0]["resources"]["requests"] == resize.after
            assert pod["status"]["containerStatuses"][0]["allocatedResources"] == resize.before
            assert kept(kubelet.state, uid, {}) == before


@asynccontextmanager
async def _one_node(version: str) -> AsyncIterator[tuple[RealKubelet, ApiClient]]:
    async with started([NODE], version=version) as cluster, cluster.plane.client("admin") as api:
        yield cluster.kubelets[NODE.name], api


async def _running(api: ApiClient, resize: Resize) -> str:
    """The UID of the pod, which runs."""
    await send(api, resize.name, container("c", **resize.before), node=NODE.name)
    await phase(api, resize.name, "Running")
    uid: str = (await ask(api, "GET", f"{PODS}/{resize.name}")).body["metadata"]["uid"]
    return uid


async def _resized(api: ApiClient, resize: Resize) -> Json:
    """The pod, once its kubelet has said something to it."""
    amounts = {"requests": dict(resize.after), "limits": dict(resize.after)}
    wish = {"spec": {"containers": [{"name": "c", "resources": amounts}]}}
    answer = await patch(api, f"{PODS}/{resize.name}/resize", wish, how=Patch.STRATEGIC)
    assert answer.code == HTTPStatus.OK, answer

    async def look() -> Json:
        pod: Json = (await ask(api, "GET", f"{PODS}/{resize.name}")).body
        return pod

    what = f"the kubelet answered to {resize.name}"
    await seconds_until(look, lambda pod: bool(_pending(pod)), what=what, within=30, every=0.1)
    # What it would do later, it would do by now.
    await asyncio.sleep(SETTLES_SECONDS)
    return await look()


def _pending(pod: Json) -> list[tuple[str, str]]:
    conditions = pod["status"].get("conditions", ())
    return [(one["reason"], one["message"]) for one in conditions if one["type"] == "PodResizePending"]
