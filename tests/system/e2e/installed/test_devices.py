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
from time import monotonic

import pytest
import pytest_asyncio

from numalign.kube.client import Patch
from numalign.kube.decode import shapes
from tests.system.e2e.clusters import Cluster, refused
from tools.clusters import api_requests, fleets, shipped
from tools.clusters.api_requests import Answer, Json, ask
from tools.clusters.fleets import Shape
from tools.clusters.processes import until
from tools.clusters.waiting import SELDOM, seconds_until

pytestmark = pytest.mark.asyncio(loop_scope="session")

GPU = "amd.com/gpu"
# What a vendor's feature discovery writes, and takes along when it is gone.
PRODUCT = "amd.com/gpu.product-name"
LARGE, SMALL = fleets.SHAPES["mi"], fleets.SHAPES["apu"]
LARGE_NODES, SMALL_NODES = fleets.names("mi"), fleets.names("apu")
KEPT = f"/api/v1/namespaces/{shipped.NAMESPACE}/configmaps/{shapes.NAME}"


def of(shape: Shape, count: int) -> Shape:
    """The same with so many GPUs in each zone."""
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
    """A device plugin that has just gone: the kubelet gives nothing out, and remembers how much there was."""
    whole = shape.zones * shape.devices[GPU]
    return [node(name, shape, allocatable=0, capacity=whole), fleets.topology(name, of(shape, 0))]


def five_minutes_later(name: str, shape: Shape) -> list[Json]:
    """And when the kubelet has forgotten it."""
    return [node(name, shape), fleets.topology(name, replace(shape, devices={}))]


def with_broken_devices(name: str, shape: Shape) -> list[Json]:
    """One of each zone is not counted any more."""
    fewer = of(shape, shape.devices[GPU] - 1)
    left, whole = (shape.zones * each.devices[GPU] for each in (fewer, shape))
    return [node(name, shape, allocatable=left, capacity=whole), fleets.topology(name, fewer)]


ALL = {**dict.fromkeys(LARGE_NODES, LARGE), **dict.fromkeys(SMALL_NODES, SMALL)}
ONLY_LARGE = dict.fromkeys(LARGE_NODES, LARGE)


@dataclass(frozen=True)
class Outage:
    """What happens to nodes."""

    cluster: Cluster

    async def write(self, nodes: Mapping[str, Shape], state: Callable[[str, Shape], list[Json]]) -> None:
        """These nodes are like this now."""
        for name, shape in nodes.items():
            for document in state(name, shape):
                await self.cluster.store.replace(document)

    async def unpublish(self) -> None:
        """No exporter tells of any of them."""
        for name, shape in ALL.items():
            await self.cluster.store.delete(fleets.topology(name, shape))

    async def scale_to_zero(self) -> None:
        """All of them are taken away, and their topologies collected."""
        for name in ALL:
            await self.cluster.leave(name)

    async def take_labels(self) -> None:
        """The feature discovery goes with the plugin."""
        await self.write(ALL, five_minutes_later)
        for name in ALL:
            await self._patch(name, {"metadata": {"labels": {PRODUCT: None}}})

    async def taint(self) -> None:
        """Somebody works on the large ones."""
        for name in LARGE_NODES:
            await self._patch(name, {"spec": {"taints": [{"key": "maintenance", "effect": "NoSchedule"}]}})

    async def _patch(self, name: str, body: Json) -> None:
        answer = await api_requests.patch(self.cluster.api, f"/api/v1/nodes/{name}", body, how=Patch.MERGE)
        assert answer.code == HTTPStatus.OK, answer.body


@dataclass(frozen=True)
class Wish:
    """A pod of one container."""

    asks: Mapping[str, str]
    policy: str

    async def answered(self, cluster: Cluster) -> Answer:
        """What would become of it."""
        told = {"numalign.io/policy": self.policy}
        return await api_requests.rehearse(cluster.api, asks=self.asks, annotations=told)


ALIGNED = (
    Wish({GPU: "4"}, "single-numa-node"),
    # All of it in two zones, for a kubelet takes nothing that spans different numbers of them.
    Wish({GPU: "8", "cpu": "64", "memory": "600Gi"}, "restricted"),
)
NEVER = Wish({GPU: "16"}, "single-numa-node")

Happen = Callable[[Outage], Awaitable[None]]

OUTAGES: Mapping[str, Happen] = {
    "the device plugin is down": lambda outage: outage.write(ALL, without_its_plugin),
    "five minutes later": lambda outage: outage.write(ALL, five_minutes_later),
    "one device of each zone is broken": lambda outage: outage.write(ALL, with_broken_devices),
    "only that of the large nodes is down": lambda outage: outage.write(ONLY_LARGE, without_its_plugin),
    "there is no topology yet": Outage.unpublish,
    "the labels of their discovery are gone too": Outage.take_labels,
    "tainted for maintenance": Outage.taint,
    "scaled to zero": Outage.scale_to_zero,
}


# ---- what is asked


def let_in(answer: Answer) -> bool:
    return answer.code == HTTPStatus.CREATED


def without_a_word(answer: Answer) -> bool:
    return let_in(answer) and not answer.warnings


def with_a_warning(answer: Answer) -> bool:
    return let_in(answer) and any(text.startswith("numalign: ") for text in answer.warnings)


async def until_all(cluster: Cluster, right: Callable[[Answer], bool]) -> None:
    """Both pods that can be aligned are answered so, and the one that cannot is refused."""
    for wish in ALIGNED:
        look = partial(wish.answered, cluster)
        await seconds_until(look, right, what=f"{wish} was answered so", within=60, every=SELDOM)
    assert refused(await NEVER.answered(cluster))


async def restart(cluster: Cluster) -> None:
    """Nobody of ours is left who could remember anything; then all are there again."""
    programs = (cluster.replicas, cluster.controllers)
    for everyone in programs:
        await asyncio.gather(*(everyone.stop(each) for each in tuple(everyone.running)))
    started = [await everyone.add() for everyone in programs for _ in range(2)]
    for each in started:
        await until(each.is_ready, what=f"{each.name} was ready", child=each.child)


async def until_labels_were_looked_at(cluster: Cluster, canary: str) -> None:
    """The controller that leads now has labelled a node that it had not seen."""
    async with cluster.guest(canary, fleets.SHAPES["cpu"]):
        await cluster.until_labelled(canary)


async def until_classed(cluster: Cluster, name: str, label: str | None) -> None:
    """Soon the node has this label."""
    await seconds_until(
        cluster.classes,
        lambda now: now[name] == label,
        what=f"{name} was labelled as what it is",
        within=60,
        every=SELDOM,
    )


async def remembered(cluster: Cluster) -> set[str]:
    """The classes of all shapes that are kept."""
    memory, mistakes = shapes.decode((await ask(cluster.api, "GET", KEPT)).body)
    assert mistakes == ()
    return {each.shape.node_class for each in memory.shapes}


@asynccontextmanager
async def lasting(cluster: Cluster, happen: Happen) -> AsyncIterator[None]:
    """During the block; then all nodes are well."""
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
    await until_all(cluster, without_a_word)
    found = {name: label for name, label in (await cluster.classes()).items() if name in ALL}
    await seconds_until(
        partial(remembered, cluster),
        lambda kept: kept >= {*found.values()},
        what="the shapes were kept",
        within=180,
        every=SELDOM,
    )
    return found


# ---- the outages


@pytest.mark.parametrize("what", OUTAGES)
async def test_no_pod_is_refused_for_an_outage(
    cluster: Cluster, classes: dict[str, str | None], what: str, tell: Callable[[str], None]
) -> None:
    began = monotonic()
    async with lasting(cluster, OUTAGES[what]):
        await until_all(cluster, with_a_warning)
        await restart(cluster)
        assert all([with_a_warning(await wish.answered(cluster)) for wish in ALIGNED])
        assert refused(await NEVER.answered(cluster))
        await until_labels_were_looked_at(cluster, f"canary-{[*OUTAGES].index(what)}")
        now = await cluster.classes()
        assert {name: now[name] for name in ALL if name in now}.items() <= classes.items()

    await until_all(cluster, without_a_word)
    await cluster.until_labelled(*ALL)
    after = await cluster.classes()
    assert {name: after[name] for name in ALL} == classes
    tell(f"{what}: nobody refused, all replicas restarted; {monotonic() - began:.0f} s")


async def test_rebuilt_node_gets_its_class_at_once(cluster: Cluster, classes: dict[str, str | None]) -> None:
    name = LARGE_NODES[0]
    for shape, alike in ((SMALL, SMALL_NODES[0]), (LARGE, name)):
        await cluster.leave(name)
        for document in healthy(name, shape):
            await cluster.store.replace(document)
        await until_classed(cluster, name, classes[alike])
