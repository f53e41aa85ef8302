"""A real kubelet on a machine that does not exist: two zones of four cores of two threads, four GPUs."""

import json
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path

import pytest
import pytest_asyncio
from kubernetes_asyncio.client.api_client import ApiClient

from tests.kubelet.machines.pods import MARKS, Json, container, devices, phase, remove, send, settled
from tests.worlds.asked_for import KUBELETS
from tools.clusters.api_requests import ask
from tools.clusters.kubelets.build import versions
from tools.clusters.kubelets.clusters import RealCluster, started
from tools.clusters.kubelets.kubelets import RealKubelet, RealNode

pytestmark = MARKS

NAME = "a"
GPU = "example.com/gpu"
SNEAK = {"sneak": ""}

MACHINE: Json = {
    "zones": [
        {
            "id": zone,
            "socket": zone,
            "cores": [[core, core + 8] for core in range(4 * zone, 4 * zone + 4)],
            "memory": 16 << 30,
            "reservedMemory": 1 << 29,
            "hugepages": {"2Mi": 64 * zone},
            "distances": [10 if other == zone else 21 for other in (0, 1)],
        }
        for zone in (0, 1)
    ],
    "reservedSystemCPUs": "0,8",
    "devices": devices({0: 2, 1: 2}),
}
CONFIGURATION = {
    "cpuManagerPolicy": "static",
    "memoryManagerPolicy": "Static",
    "topologyManagerPolicy": "single-numa-node",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=versions())
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[RealCluster]:
    """One node of each version."""
    node = RealNode(name=NAME, machine=MACHINE, configuration=CONFIGURATION, labels={"rack": "one"})
    others = {"admin": "system:masters", **SNEAK}
    with KUBELETS.or_skipped():
        async with started([node], version=request.param, others=others) as running:
            yield running


@pytest.fixture
def kubelet(cluster: RealCluster) -> RealKubelet:
    return cluster.kubelets[NAME]


@pytest_asyncio.fixture(loop_scope="module")
async def api(cluster: RealCluster) -> AsyncIterator[ApiClient]:
    """The administrator, who leaves no pods behind."""
    async with cluster.plane.client("admin") as client:
        yield client
        pods = (await ask(client, "GET", "/api/v1/namespaces/default/pods")).body["items"]
        await remove(client, *(pod["metadata"]["name"] for pod in pods))


async def node(api: ApiClient) -> Json:
    return (await ask(api, "GET", f"/api/v1/nodes/{NAME}")).body


def cpus(kubelet: RealKubelet) -> list[str]:
    """The CPUs that the kubelet has given out, as its checkpoint lists them."""
    state = json.loads((kubelet.state / "cpu_manager_state").read_text())
    return sorted(cpus for pod in state.get("entries", {}).values() for cpus in pod.values())


async def test_node_has_the_resources_of_the_machine(api: ApiClient) -> None:
    seen = await node(api)

    assert seen["metadata"]["labels"]["rack"] == "one"
    assert "taints" not in seen["spec"]
    wanted = {"cpu": "14", "memory": f"{31 * 1024 - 128}Mi", "hugepages-2Mi": "128Mi", GPU: "4"}
    assert {name: seen["status"]["allocatable"][name] for name in wanted} == wanted


async def test_pod_that_fits_a_zone_is_admitted_and_pinned(api: ApiClient, kubelet: RealKubelet) -> None:
    await send(api, "fits", container("a", cpu="4", memory="1Gi", gpu="1"), node=NAME)

    assert await settled(api, "fits") == ("Running", "")
    assert cpus(kubelet) in (["1-2,9-10"], ["4-5,12-13"])


async def test_pod_that_fits_no_zone_is_rejected(api: ApiClient) -> None:
    await send(api, "wide", container("a", cpu="4", memory="1Gi", gpu="3"), node=NAME)

    assert await settled(api, "wide") == ("Failed", "TopologyAffinityError")


@pytest.mark.parametrize("turn", range(3))
async def test_deleted_pod_frees_its_zone(api: ApiClient, turn: int) -> None:
    await send(api, f"turn-{turn}", container("a", cpu="8", memory="1Gi", gpu="2"), node=NAME)

    assert await settled(api, f"turn-{turn}") == ("Running", "")


async def test_containers_end_by_themselves(api: ApiClient) -> None:
    first = container("first", "exit", cpu="1", memory="1Gi")
    second = container("second", "sleep", "0.5", cpu="2", memory="1Gi")
    await send(api, "steps", container("a", cpu="2", memory="1Gi"), node=NAME, initContainers=[first, second])
    await send(api, "short", container("a", "sleep", "0.2", cpu="1", memory="1Gi"), node=NAME)

    [short] = (await phase(api, "short", "Succeeded"))["containerStatuses"]
    assert short["state"]["terminated"]["exitCode"] == 0
    assert await settled(api, "steps") == ("Running", "")


async def test_unhealthy_and_missing_devices_are_not_given(api: ApiClient, kubelet: RealKubelet) -> None:
    await kubelet.devices(devices({0: 2, 1: 2}, "gpu-0-0", "gpu-1-1"))
    await send(api, "two", container("a", cpu="1", memory="1Gi", gpu="2"), node=NAME)
    assert await settled(api, "two") == ("Failed", "TopologyAffinityError")

    await kubelet.devices({})
    assert (await node(api))["status"]["allocatable"][GPU] == "0"

    await kubelet.devices(MACHINE["devices"])
    await send(api, "again", container("a", cpu="1", memory="1Gi", gpu="2"), node=NAME)
    assert await settled(api, "again") == ("Running", "")


async def test_restarted_kubelet_remembers_its_pods(api: ApiClient, kubelet: RealKubelet) -> None:
    await send(api, "stays", container("a", cpu="4", memory="1Gi", gpu="2"), node=NAME)
    await settled(api, "stays")
    before = cpus(kubelet)

    await kubelet.restart()
    await send(api, "comes", container("a", cpu="4", memory="1Gi", gpu="3"), node=NAME)

    assert await settled(api, "comes") == ("Failed", "TopologyAffinityError")
    assert cpus(kubelet) == before
    assert (await phase(api, "stays", "Running"))["phase"] == "Running"


async def test_kubelet_starts_without_its_state(api: ApiClient, kubelet: RealKubelet) -> None:
    await send(api, "old", container("a", cpu="4", memory="1Gi"), node=NAME)
    await settled(api, "old")

    await kubelet.stop()
    kubelet.delete_state()
    await kubelet.serve()

    await send(api, "new", container("a", cpu="6", memory="1Gi"), node=NAME)
    assert (await settled(api, "new"))[0] in ("Running", "Failed")


async def test_killed_kubelet_serves_new_devices(api: ApiClient, kubelet: RealKubelet) -> None:
    await kubelet.kill()
    await kubelet.devices(devices({0: 1, 1: 2}))
    await kubelet.serve()
    assert (await node(api))["status"]["allocatable"][GPU] == "3"

    await kubelet.devices(MACHINE["devices"])


async def test_kubelet_answers_only_authorized_clients(kubelet: RealKubelet) -> None:
    code, answer = await kubelet.get("/configz", "admin")

    assert code == HTTPStatus.OK
    assert json.loads(answer)["kubeletconfig"]["topologyManagerPolicy"] == "single-numa-node"
    assert (await kubelet.get("/configz", "sneak"))[0] == HTTPStatus.FORBIDDEN
    assert (await kubelet.get("/configz", "stranger"))[0] == HTTPStatus.UNAUTHORIZED


async def test_api_server_proxies_to_the_kubelet(api: ApiClient) -> None:
    answer = await ask(api, "GET", f"/api/v1/nodes/{NAME}/proxy/configz")

    assert answer.body["kubeletconfig"]["cpuManagerPolicy"] == "static"


async def test_pod_resources_socket_is_reachable(kubelet: RealKubelet) -> None:
    assert kubelet.podresources.is_socket()


async def test_kubelet_changes_nothing_of_the_host(kubelet: RealKubelet) -> None:
    assert not exists("/var/lib/kubelet/cpu_manager_state")
    assert str(kubelet.folder) not in mounts()


def exists(path: str) -> bool:
    return Path(path).exists()


def mounts() -> str:
    return Path("/proc/self/mounts").read_text(encoding="utf-8")
