"""What an agent reads from a real kubelet and publishes, and that it predicts what the kubelet does next."""

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
import pytest_asyncio
from kubernetes_asyncio.client.api_client import ApiClient

from agent.amounts import SeenDevices
from agent.hardware import hardware
from agent.https import ApiServer, HttpsClient
from agent.kubelet_api import KubeletApi
from agent.observation import ListedPod, Observation, Unobserved
from agent.observer import NodePaths, Observer
from agent.podresources import PodResources
from agent.report import document, report
from numalign.decision.evaluate import evaluate
from numalign.kube.access import Access
from numalign.kube.cluster import Cluster
from numalign.kube.cluster_state import ClusterState
from numalign.kube.decode.machines import machine
from numalign.kube.errors import ClusterError, Unreachable
from numalign.model.bitset import members, union
from numalign.model.machine import read_list
from numalign.model.node import Known, Node, node_class
from numalign.model.resources import parse
from tests.kubelet.machines.pods import MARKS, Json, container, devices, remove, send, settled
from tests.worlds.clusters import published as published_cluster
from tests.worlds.log import RecordedLog
from tests.worlds.notation import asks
from tests.worlds.opt_in import KUBELETS
from tools.clusters import builds
from tools.clusters.kubelets.clusters import RealCluster, started
from tools.clusters.kubelets.kubelets import RealKubelet, RealNode

pytestmark = MARKS

NAME = "odd"
SNEAK = "sneak"

# Zones with a gap, one of memory alone, caches within a zone, threads numbered on after all cores.
MACHINE: Json = {
    "zones": [
        {
            "id": zone,
            "socket": zone,
            "cores": [[core, core + 8] for core in range(4 * socket, 4 * socket + 4)],
            "uncoreCaches": [
                [core + thread for core in pair for thread in (0, 8)]
                for pair in ((4 * socket, 4 * socket + 1), (4 * socket + 2, 4 * socket + 3))
            ],
            "memory": 16 << 30,
            "reservedMemory": 1 << 29,
            "hugepages": {"2Mi": 64 * socket},
            "distances": [10 if other == zone else 21 for other in (0, 2, 3)],
        }
        for socket, zone in enumerate((0, 2))
    ]
    + [
        {
            "id": 3,
            "memory": 8 << 30,
            "reservedMemory": 1 << 29,
            "hugepages": {"2Mi": 0},
            "distances": [21, 21, 10],
        }
    ],
    "reservedSystemCPUs": "0,8",
    "devices": devices({0: 1, 2: 2}),
}
# Two zones in one socket, each with a cache of its own, of cores of a single thread.
PLAIN: Json = {
    "zones": [
        {
            "id": zone,
            "socket": 0,
            "cores": [[cpu] for cpu in range(4 * zone, 4 * zone + 4)],
            "memory": 16 << 30,
            "reservedMemory": 1 << 29,
            "distances": [10 if other == zone else 12 for other in (0, 1)],
        }
        for zone in (0, 1)
    ],
    "reservedSystemCPUs": "0",
}
CONFIGURATION = {
    "cpuManagerPolicy": "static",
    "memoryManagerPolicy": "Static",
    "topologyManagerPolicy": "restricted",
    "topologyManagerScope": "pod",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=builds.versions(builds.KUBELETS))
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[RealCluster]:
    machines = {NAME: MACHINE, "plain": PLAIN}
    nodes = [
        RealNode(name=name, machine=each, configuration=CONFIGURATION) for name, each in machines.items()
    ]
    others = {"admin": "system:masters", SNEAK: ""}
    with KUBELETS.or_skipped():
        async with started(nodes, version=request.param, others=others) as running:
            yield running


@pytest.fixture
def kubelet(cluster: RealCluster) -> RealKubelet:
    return cluster.kubelets[NAME]


@pytest_asyncio.fixture(loop_scope="module")
async def admin(cluster: RealCluster) -> AsyncIterator[ApiClient]:
    async with cluster.plane.client("admin") as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def pods(admin: ApiClient) -> AsyncIterator[None]:
    """Two pods on the node: an idle one, and one whose init container has ended."""
    init = container("init", "exit", cpu="4", memory="1Gi", gpu="1")
    await send(admin, "kept", container("app", cpu="2", memory="1Gi"), node=NAME, initContainers=[init])
    await send(admin, "idle", container("app", cpu="500m", memory="1Gi"), node=NAME)
    for name in ("kept", "idle"):
        assert (await settled(admin, name)) == ("Running", "")
    yield
    await remove(admin, "kept", "idle")


@pytest_asyncio.fixture(loop_scope="module")
async def observer(cluster: RealCluster, kubelet: RealKubelet) -> AsyncIterator[Observer]:
    """Somebody who may ask the kubelet directly, and believes it already."""
    direct = HttpsClient(own_port(kubelet, "admin"))
    server = ApiServer(access(cluster, "admin"))
    looking = observing(kubelet, KubeletApi(NAME, direct=direct, api=server))
    await first_look(looking)
    yield looking
    direct.close()
    server.close()


def own_port(kubelet: RealKubelet, token: str) -> Access:
    return Access(f"https://{kubelet.address}:{kubelet.port}", token=token, verify=False)


def access(cluster: RealCluster, token: str) -> Access:
    return Access(cluster.plane.url, authority=str(cluster.plane.ca), token=token)


def observing(kubelet: RealKubelet, api: KubeletApi) -> Observer:
    paths = NodePaths(kubelet.podresources, kubelet.sysfs, kubelet.state)
    return Observer(paths, api, log=RecordedLog().log)


async def first_look(observer: Observer) -> Observation:
    """One that is believed: a kubelet that has just started may still have CPUs of a pod that is gone."""
    while True:
        try:
            return await observer.observe()
        except Unobserved:
            await asyncio.sleep(0.1)


async def seeing(cluster: RealCluster, node: str) -> Observation:
    server = ApiServer(access(cluster, "admin"))
    try:
        return await first_look(observing(cluster.kubelets[node], KubeletApi(node, direct=None, api=server)))
    finally:
        server.close()


def phases(seen: Observation) -> dict[str, str]:
    return {pod.name: pod.phase for pod in seen.pods}


async def test_agent_reads_the_machine_as_described(kubelet: RealKubelet) -> None:
    made, read = machine(MACHINE), hardware(kubelet.sysfs)
    assert read.cores == made.cores
    assert read.banks == tuple(replace(bank, reserved=None) for bank in made.banks)


@pytest.mark.parametrize("name", [NAME, "plain"])
async def test_agent_sees_cpus_as_the_kubelet_logs_them(cluster: RealCluster, name: str) -> None:
    kubelet = cluster.kubelets[name]
    [*_, logged] = re.findall(r'"Detected CPU topology" topology=(\{.*\})', kubelet.log.read_text())

    assert json.loads(logged)["CPUDetails"] == {
        str(cpu): {
            "NUMANodeID": core.zone,
            "SocketID": core.socket,
            "CoreID": next(members(core.threads)),
            "UncoreCacheID": core.cache,
        }
        for core in hardware(kubelet.sysfs).cores
        for cpu in members(core.threads)
    }


async def published(observer: Observer) -> Json:
    made, _ = report(await observer.observe(), SeenDevices())
    return document(NAME, made)


def cluster_of(topology: Json) -> Cluster:
    state = ClusterState()
    state.topologies.put(NAME, topology)
    return published_cluster(state)


def free(node: Node) -> list[dict[str, int]]:
    """By zone, without what there is none of: exporters and descriptions differ in whether they list that."""
    return [dict(zone.free.positive()) for zone in node.zones]


def available(topology: Json) -> list[dict[str, int]]:
    rows = [{each["name"]: each["available"] for each in zone["resources"]} for zone in topology["zones"]]
    return [dict(parse(row).positive()) for row in rows]


async def test_node_is_known_as_its_kubelet_has_it(observer: Observer) -> None:
    topology = await published(observer)
    known = cluster_of(topology)
    [node] = known.nodes
    assert not known.problems
    assert (node.known, node.policy, node.scope) == (Known.MACHINE, "restricted", "pod")
    assert free(node) == available(topology)
    assert node.stock
    assert node.stock.cpus == read_list("1-7,9-15")


async def test_unhealthy_device_changes_no_node_class(cluster: RealCluster, observer: Observer) -> None:
    kubelet, state, before = cluster.kubelets[NAME], ClusterState(), SeenDevices()
    states: list[tuple[str, int, bool]] = []
    for listed in (MACHINE["devices"], devices({0: 1, 2: 2}, "gpu-2-1"), {}, MACHINE["devices"]):
        await kubelet.devices(listed)
        made, before = report(await observer.observe(), before)
        state.topologies.put(NAME, document(NAME, made))
        [node] = published_cluster(state).nodes
        healthy = sum(zone.allocatable.get("example.com/gpu", 0) for zone in node.zones)
        states.append((node_class(node), healthy, node.health is not None))
    well = states[0][0]
    assert states == [(well, 3, False), (well, 2, True), (well, 0, True), (well, 3, False)]


PODS = {
    "small": "cpu=2 mem=1Gi gpu=1",
    "odd": "cpu=3 mem=1Gi",
    "wide": "cpu=7 mem=2Gi",
    "more": "cpu=2 mem=1Gi gpu=2",
    "last": "cpu=1 mem=1Gi gpu=1",
}


def amounts(text: str) -> dict[str, str]:
    names = {"cpu": "cpu", "mem": "memory", "gpu": "gpu"}
    return {names[name]: amount for name, _, amount in (word.partition("=") for word in text.split())}


async def test_published_topology_predicts_the_kubelet(admin: ApiClient, observer: Observer) -> None:
    predicted, done = {}, {}
    for name, text in PODS.items():
        [node] = cluster_of(await published(observer)).nodes
        verdict = evaluate(node, asks(text.replace("gpu=", "example.com/gpu=")))
        await send(admin, name, container("app", **amounts(text)), node=NAME)
        phase, _ = await settled(admin, name)
        after = cluster_of(await published(observer)).states[NAME].placements or {}
        uids = {each.uid: each.name for each in (await observer.observe()).pods}
        held = {uids[uid]: placed.cpus for uid, placed in after.items()}
        predicted[name] = (verdict.admitted, union(grant.cpus for grant in verdict.placement.grants))
        done[name] = (phase == "Running", held.get(name, 0))
    await remove(admin, *PODS)

    assert predicted == done
    assert {admitted for admitted, _ in done.values()} == {True, False}


async def test_node_is_empty_once_its_pods_are_gone(observer: Observer) -> None:
    for _ in range(50):
        topology = await published(observer)
        [node] = cluster_of(topology).nodes
        if node == node.emptied():
            break
        await asyncio.sleep(0.2)
    assert node == node.emptied()


@pytest.mark.usefixtures("pods")
async def test_agent_sees_running_and_ended_containers(observer: Observer) -> None:
    seen = await observer.observe()
    ended = next(pod for pod in seen.pods if pod.name == "kept")
    listed = {pod.name: pod.containers for pod in seen.listed}
    assert phases(seen) == {"kept": "Running", "idle": "Running"}
    assert ended.init_containers == ("init",)
    assert [each.name for each in listed["kept"]] == ["app"]
    assert listed["kept"][0].cpus.bit_count() == 2
    assert listed["idle"][0].cpus == 0
    assert seen.checkpoints is not None
    assert seen.checkpoints.cpus[ended.uid]["init"].bit_count() == 4
    assert [held.resource for held in seen.checkpoints.devices[ended.uid]["init"]] == ["example.com/gpu"]


async def test_allocatable_is_that_of_the_machine(observer: Observer) -> None:
    allocatable = (await observer.observe()).allocatable
    assert allocatable.cpus == read_list("1-7,9-15")
    assert {(device.id, *device.zones) for device in allocatable.devices} == {
        ("gpu-0-0", 0),
        ("gpu-2-0", 2),
        ("gpu-2-1", 2),
    }
    memory = {block.zones: block.size for block in allocatable.memory if block.resource == "memory"}
    assert memory == {(0,): 31 << 29, (2,): (31 << 29) - (128 << 20), (3,): 15 << 29}
    pages = {block.zones: block.size for block in allocatable.memory if block.resource == "hugepages-2Mi"}
    assert pages == {(2,): 128 << 20}


async def test_forbidden_agent_reads_through_the_api_server(
    cluster: RealCluster, kubelet: RealKubelet, observer: Observer
) -> None:
    sneak = HttpsClient(own_port(kubelet, SNEAK))
    allowed, forbidden = (ApiServer(access(cluster, token)) for token in ("admin", SNEAK))
    by_detour = await first_look(observing(kubelet, KubeletApi(NAME, direct=sneak, api=allowed)))
    assert by_detour.kubelet == (await observer.observe()).kubelet
    with pytest.raises(ClusterError, match="403"):
        await KubeletApi(NAME, direct=sneak, api=forbidden).configuration()
    for client in (sneak, allowed, forbidden):
        client.close()


@pytest.mark.usefixtures("pods")
async def test_starting_kubelet_is_not_believed_without_its_pods(
    kubelet: RealKubelet, observer: Observer
) -> None:
    before = await observer.observe()
    restart = asyncio.create_task(kubelet.restart())
    lists = list[frozenset[ListedPod]]()
    while not (restart.done() and lists):
        try:
            lists.append(frozenset((await observer.observe()).listed))
        except (Unobserved, Unreachable):
            await asyncio.sleep(0.02)
    await restart
    assert {*lists} == {frozenset(before.listed)}


async def test_hanging_kubelet_ends_in_a_timeout(kubelet: RealKubelet) -> None:
    hanging = PodResources(kubelet.podresources, within=0.5)
    assert kubelet.child is not None
    kubelet.child.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(Unreachable, match="no answer within"):
            await list_forever(hanging)
    finally:
        kubelet.child.process.send_signal(signal.SIGCONT)


async def list_forever(resources: PodResources) -> NoReturn:
    """A kubelet may answer once more before a signal reaches it."""
    while True:
        await resources.listed()


async def test_unhealthy_device_is_not_allocatable(kubelet: RealKubelet, observer: Observer) -> None:
    await kubelet.devices(devices({0: 1, 2: 2}, "gpu-2-1"))
    ill = await observer.observe()
    await kubelet.devices(MACHINE["devices"])
    assert {device.id for device in ill.allocatable.devices} == {"gpu-0-0", "gpu-2-0"}
    assert len((await observer.observe()).allocatable.devices) == 3


async def test_kubelet_changes_nothing_of_the_host(kubelet: RealKubelet) -> None:
    assert not exists("/var/lib/kubelet/cpu_manager_state")
    assert str(kubelet.folder) not in mounts()


def exists(path: str) -> bool:
    return Path(path).exists()


def mounts() -> str:
    return Path("/proc/self/mounts").read_text(encoding="utf-8")
