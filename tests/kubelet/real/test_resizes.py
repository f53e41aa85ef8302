"""What a real kubelet does where a pod on it is resized in place: numalign counts on it.

A kubelet whose CPU or memory manager is static refuses to resize what a Guaranteed pod has of that resource
(pkg/kubelet/allocation/allocation_manager.go, canResizePod), also where the pod has no CPU of its own. So the
spec changes, and what the kubelet gave does not. A resize that a kubelet carries out is nothing that its
managers hear of; it needs cgroups, and the kubelets here have none, so it is not among the cases.
"""

import asyncio
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
from tools.clusters.kubelets.kubelets import RealNode
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

CPU, MEMORY = 'CPU Manager policy "static"', 'Memory Manager policy "Static"'
RESIZES = (
    # pod            CPUs before and after   memory before and after   which manager the kubelet blames
    ("more-cpus",     "2",     "3",          "1Gi", "1Gi",             CPU),
    ("fewer-cpus",    "2",     "1",          "1Gi", "1Gi",             CPU),
    ("more-memory",   "2",     "2",          "1Gi", "2Gi",             MEMORY),
    ("shared-cpus",   "1500m", "1600m",      "1Gi", "1Gi",             CPU),
    ("shared-memory", "1500m", "1500m",      "1Gi", "2Gi",             MEMORY),
)  # fmt: skip


@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", VERSIONS)
async def test_static_manager_refuses_to_resize_guaranteed_pods(version: str) -> None:
    async with started([NODE], version=version) as cluster, cluster.plane.client("admin") as api:
        state = cluster.kubelets[NODE.name].state
        for name, *amounts, blamed in RESIZES:
            asked, wanted = [dict(zip(("cpu", "memory"), amounts[at::2], strict=True)) for at in range(2)]
            await send(api, name, container("c", **asked), node=NODE.name)
            await phase(api, name, "Running")
            uid = (await ask(api, "GET", f"{PODS}/{name}")).body["metadata"]["uid"]
            before = kept(state, uid, {})
            pod = await _resized(api, name, wanted)

            assert _pending(pod) == [
                ("Infeasible", f"Resize is infeasible for Guaranteed Pods alongside {blamed}")
            ], name
            assert pod["spec"]["containers"][0]["resources"]["requests"] == wanted
            assert pod["status"]["containerStatuses"][0]["allocatedResources"] == asked
            assert kept(state, uid, {}) == before


async def _resized(api: ApiClient, name: str, wanted: Json) -> Json:
    """The pod, once its kubelet has said something to it."""
    amounts = {"requests": wanted, "limits": wanted}
    wish = {"spec": {"containers": [{"name": "c", "resources": amounts}]}}
    answer = await patch(api, f"{PODS}/{name}/resize", wish, how=Patch.STRATEGIC)
    assert answer.code == HTTPStatus.OK, answer

    async def look() -> Json:
        return (await ask(api, "GET", f"{PODS}/{name}")).body

    what = f"the kubelet answered to {name}"
    await seconds_until(look, lambda pod: bool(_pending(pod)), what=what, within=30, every=0.1)
    # What it would do later, it would do by now.
    await asyncio.sleep(SETTLES_SECONDS)
    return await look()


def _pending(pod: Json) -> list[tuple[str, str]]:
    conditions = pod["status"].get("conditions", ())
    return [(one["reason"], one["message"]) for one in conditions if one["type"] == "PodResizePending"]
