"""What an agent publishes of a real kubelet makes its node known to the last CPU, and what comes next."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from kubernetes_asyncio.client.api_client import ApiClient

from agent.amounts import SeenDevices
from agent.api_server import ApiServer
from agent.https import HttpsClient, HttpsEndpoint, Unverified
from agent.kubelet_api import KubeletApi
from agent.observer import Observer
from agent.report import document, report
from numalign.decision.evaluate import evaluate
from numalign.kube.cluster_state import ClusterState, Snapshot
from numalign.model.bitset import union
from numalign.model.machine import read_list
from numalign.model.node import Known, Node, node_class
from numalign.model.resources import parse
from tests.kubelet.machines.pods import MARKS, Json, container, devices, remove, send, settled
from tests.kubelet.machines.test_observer import (
    CONFIGURATION,
    MACHINE,
    NAME,
    access,
    first_look,
    observing,
)
from tests.worlds.asked_for import KUBELETS
from tests.worlds.notation import asks
from tools.clusters.kubelets.build import versions
from tools.clusters.kubelets.clusters import RealCluster, started
from tools.clusters.kubelets.kubelets import RealNode

pytestmark = MARKS


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=versions())
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[RealCluster]:
    """One node of each version."""
    node = RealNode(name=NAME, machine=MACHINE, configuration=CONFIGURATION)
    with KUBELETS.or_skipped():
        async with started([node], version=request.param, others={"admin": "system:masters"}) as running:
            yield running


@pytest_asyncio.fixture(loop_scope="module")
async def api(cluster: RealCluster) -> AsyncIterator[ApiClient]:
    async with cluster.plane.client("admin") as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def observer(cluster: RealCluster) -> AsyncIterator[Observer]:
    kubelet = cluster.kubelets[NAME]
    direct = HttpsClient(HttpsEndpoint(kubelet.address, kubelet.port, Unverified(), lambda: "admin"))
    server = ApiServer(access(cluster, "admin"))
    looking = observing(kubelet, KubeletApi(NAME, direct=direct, api=server))
    await first_look(looking)
    yield looking
    direct.close()
    server.close()


async def published(observer: Observer) -> Json:
    """What the agent would publish now."""
    made, _ = report(await observer.observe(), SeenDevices())
    return document(NAME, made)


def seen(topology: Json) -> Snapshot:
    state = ClusterState()
    state.topologies.put(NAME, topology)
    return state.snapshot()


def free(node: Node) -> list[dict[str, int]]:
    """By zone, without what there is none of: exporters and descriptions differ in whether they list that."""
    return [dict(zone.free.positive()) for zone in node.zones]


def available(topology: Json) -> list[dict[str, int]]:
    rows = [{each["name"]: each["available"] for each in zone["resources"]} for zone in topology["zones"]]
    return [dict(parse(row).positive()) for row in rows]


async def test_node_is_known_as_its_kubelet_has_it(observer: Observer) -> None:
    topology = await published(observer)
    snapshot = seen(topology)
    [node] = snapshot.nodes

    assert not snapshot.problems
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
        [node] = state.snapshot().nodes
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


async def test_published_topology_predicts_the_kubelet(api: ApiClient, observer: Observer) -> None:
    predicted, done = {}, {}
    for name, text in PODS.items():
        [node] = seen(await published(observer)).nodes
        verdict = evaluate(node, asks(text.replace("gpu=", "example.com/gpu=")))
        await send(api, name, container("app", **amounts(text)), node=NAME)
        phase, _ = await settled(api, name)
        after = seen(await published(observer)).placements[NAME]
        uids = {each.uid: each.name for each in (await observer.observe()).pods}
        held = {uids[uid]: placed.cpus for uid, placed in after.items()}
        predicted[name] = (verdict.admitted, union(grant.cpus for grant in verdict.placement.grants))
        done[name] = (phase == "Running", held.get(name, 0))
    await remove(api, *PODS)

    assert predicted == done
    assert {admitted for admitted, _ in done.values()} == {True, False}


async def test_node_is_empty_once_its_pods_are_gone(observer: Observer) -> None:
    for _ in range(50):
        topology = await published(observer)
        [node] = seen(topology).nodes
        if node == node.emptied():
            break
        await asyncio.sleep(0.2)

    assert node == node.emptied()
