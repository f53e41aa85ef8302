"""Devices, nodes and pools that are gone for a while: no pod is refused for it, whoever was restarted.

Each outage is what an API server shows of it. Pods that the large nodes can align in health are let in
before, during and after, with a warning as long as it lasts; a pod that no node could ever align is refused
all the time; and no label changes, but that of a node which was rebuilt.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus

import pytest
import pytest_asyncio

from numalign.kube.client import Patch
from numalign.kube.decode import shapes
from tests.system.e2e.clusters import Cluster, refused
from tests.system.eventually import eventually
from tools.clusters import fleets, shipped
from tools.clusters.api_requests import Answer, Json, ask, patch, rehearse
from tools.clusters.fleets import Shape
from tools.clusters.processes import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

GPU = "amd.com/gpu"
# What a vendor's feature discovery writes, and takes along when it is gone.
PRODUCT = "amd.com/gpu.product-name"
LARGE, SMALL = fleets.SHAPES["mi"], fleets.SHAPES["apu"]
LARGE_NODES, SMALL_NODES = fleets.names("mi"), fleets.names("apu")
KEPT = f"/api/v1/namespaces/{shipped.NAMESPACE}/configmaps/{shapes.NAME}"


def of(shape: Shape, count: int) -> Shape:
    return replace(shape, devices={GPU: count})


def node(name: str, shape: Shape, *, allocatable: int | None = None, capacity: int | None = None) -> Json:
    """As its kubelet writes it; None is a resource that is not listed any more."""
    made = fleets.node(name, shape)
    for column, amount in (("allocatable", allocatable), ("capacity", capacity)):
        listed = {key: text for key, text in made["status"][column].items() if key != GPU}
        made["status"][column] = listed if amount is None else {**listed, GPU: str(amount)}
    return made


def healthy(name: str, shape: Shape) -> list[Json]:
    """A node and its topology, as they should be; as the vendor's discovery labels it."""
    whole = shape.zones * shape.devices[GPU]
    made = node(name, shape, allocatable=whole, capacity=whole)
    made["metadata"]["labels"][PRODUCT] = "MI300"
    return [made, fleets.topology(name, shape)]


def without_its_plugin(name: str, shape: Shape) -> list[Json]:
    """A device plugin that has just gone: nothing is allocatable, and the capacity stays."""
    whole = shape.zones * shape.devices[GPU]
    return [node(name, shape, allocatable=0, capacity=whole), fleets.topology(name, of(shape, 0))]


def forgotten(name: str, shape: Shape) -> list[Json]:
    """A device plugin that is gone for five minutes: the kubelet lists its resource no more."""
    return [node(name, shape), fleets.topology(name, replace(shape, devices={}))]


def with_broken_devices(name: str, shape: Shape) -> list[Json]:
    fewer = of(shape, shape.devices[GPU] - 1)
    left, whole = (shape.zones * each.devices[GPU] for each in (fewer, shape))
    return [node(name, shape, allocatable=left, capacity=whole), fleets.topology(name, fewer)]


ALL = {**dict.fromkeys(LARGE_NODES, LARGE), **dict.fromkeys(SMALL_NODES, SMALL)}


@dataclass(frozen=True)
class Outage:
    cluster: Cluster

    async def write(self, nodes: Mapping[str, Shape], state: Callable[[str, Shape], list[Json]]) -> None:
        for name, shape in nodes.items():
            for document in state(name, shape):
                await self.cluster.store.replace(document)

    async def scale_to_zero(self) -> None:
        """All of them are taken away, and their topologies collected."""
        for name in ALL:
            await self.cluster.leave(name)

    async def take_labels(self) -> None:
        await self.write(ALL, forgotten)
        for name in ALL:
            body = {"metadata": {"labels": {PRODUCT: None}}}
            answer = await patch(self.cluster.api, f"/api/v1/nodes/{name}", body, how=Patch.MERGE)
            assert answer.code == HTTPStatus.OK, answer.body


@dataclass(frozen=True)
class Wish:
    asks: Mapping[str, str]
    policy: str

    async def answered(self, cluster: Cluster) -> Answer:
        annotations = {"numalign.io/policy": self.policy}
        return await rehearse(cluster.api, asks=self.asks, annotations=annotations)


ALIGNED = (
    Wish({GPU: "4"}, "single-numa-node"),
    # All of it in two zones, for a kubelet takes nothing that spans different numbers of them.
    Wish({GPU: "8", "cpu": "64", "memory": "600Gi"}, "restricted"),
)
NEVER = Wish({GPU: "16"}, "single-numa-node")

Happen = Callable[[Outage], Awaitable[None]]

OUTAGES: Mapping[str, Happen] = {
    "the device plugin is down": lambda outage: outage.write(ALL, without_its_plugin),
    "one device of each zone is broken": lambda outage: outage.write(ALL, with_broken_devices),
    "five minutes later, without discovery's labels": Outage.take_labels,
    "scaled to zero": Outage.scale_to_zero,
}


# ---- what is asked


def without_warning(answer: Answer) -> bool:
    return answer.code == HTTPStatus.CREATED and not answer.warnings


def with_warning(answer: Answer) -> bool:
    return answer.code == HTTPStatus.CREATED and any("numalign: " in text for text in answer.warnings)


async def until_all(cluster: Cluster, right: Callable[[Answer], bool]) -> None:
    """Both pods that can be aligned are answered so, and the one that cannot is refused."""
    for wish in ALIGNED:
        look = partial(wish.answered, cluster)
        await eventually(look, right, f"{wish} was answered so")
    assert refused(await NEVER.answered(cluster))


async def restart(cluster: Cluster) -> None:
    """All programs end, with all that they remember, and start again."""
    programs = (cluster.replicas, cluster.controllers)
    for everyone in programs:
        await asyncio.gather(*(everyone.stop(each) for each in tuple(everyone.running)))
    started = [await everyone.add() for everyone in programs for _ in range(2)]
    for each in started:
        await until(each.is_ready, what=f"{each.name} was ready", child=each.child)


async def remembered(cluster: Cluster) -> set[str]:
    memory, mistakes = shapes.decode((await ask(cluster.api, "GET", KEPT)).body)
    assert mistakes == ()
    return {each.shape.node_class for each in memory.shapes}


@asynccontextmanager
async def lasting(cluster: Cluster, happen: Happen) -> AsyncIterator[None]:
    outage = Outage(cluster)
    await happen(outage)
    try:
        yield
    finally:
        await outage.write(ALL, healthy)


@pytest_asyncio.fixture(loop_scope="session", scope="module", autouse=True)
async def classes(cluster: Cluster) -> dict[str, str | None]:
    """The label of each node in health, once what they are is kept."""
    await Outage(cluster).write(ALL, healthy)
    await cluster.until_labelled(*ALL)
    await until_all(cluster, without_warning)
    found = {name: label for name, label in (await cluster.classes()).items() if name in ALL}
    await eventually(
        partial(remembered, cluster),
        lambda kept: kept >= {*found.values()},
        "the shapes were kept",
        within=180,
    )
    return found


# ---- the outages


@pytest.mark.parametrize("what", OUTAGES)
async def test_no_pod_is_refused_for_an_outage(
    cluster: Cluster, classes: dict[str, str | None], what: str
) -> None:
    async with lasting(cluster, OUTAGES[what]):
        await until_all(cluster, with_warning)
        await restart(cluster)
        assert all([with_warning(await wish.answered(cluster)) for wish in ALIGNED])
        assert refused(await NEVER.answered(cluster))
        # The controller that leads now labels a node that it had not seen.
        canary = f"canary-{[*OUTAGES].index(what)}"
        async with cluster.guest(canary, fleets.SHAPES["cpu"]):
            await cluster.until_labelled(canary)
        now = await cluster.classes()
        assert {name: now[name] for name in ALL if name in now}.items() <= classes.items()

    await until_all(cluster, without_warning)
    await cluster.until_labelled(*ALL)
    after = await cluster.classes()
    assert {name: after[name] for name in ALL} == classes


async def test_rebuilt_node_gets_its_class_at_once(cluster: Cluster, classes: dict[str, str | None]) -> None:
    name = LARGE_NODES[0]
    for shape, alike in ((SMALL, SMALL_NODES[0]), (LARGE, name)):
        await cluster.leave(name)
        for document in healthy(name, shape):
            await cluster.store.replace(document)

        def right(now: Mapping[str, str | None], label: str | None = classes[alike]) -> bool:
            return now[name] == label

        await eventually(cluster.classes, right, f"{name} was labelled")
