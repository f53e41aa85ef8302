"""Devices, nodes and pools that are gone for a while: no pod is refused for it, whoever was restarted.

Pods that the large nodes can align in health are let in with a warning as long as an outage lasts; a pod that
no node could ever align is refused all the time; and no label changes, but that of a rebuilt node.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
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


ALL = {**dict.fromkeys(LARGE_NODES, LARGE), **dict.fromkeys(SMALL_NODES, SMALL)}


def published(name: str, shape: Shape, left: int | None) -> list[Json]:
    """A node and its topology, as the vendor's discovery labels it, with so many devices left of each zone.

    None are left once the kubelet lists the resource no more.
    """
    whole = shape.zones * shape.devices[GPU]
    made = fleets.node(name, shape)
    made["metadata"]["labels"][PRODUCT] = "MI300"
    for column, amount in (("allocatable", shape.zones * (left or 0)), ("capacity", whole)):
        made["status"][column] = {**made["status"][column], GPU: str(amount)}
        if left is None:
            del made["status"][column][GPU]
    devices = {} if left is None else {GPU: left}
    return [made, fleets.topology(name, replace(shape, devices=devices))]


async def write(cluster: Cluster, left: Callable[[int], int | None]) -> None:
    """So many devices are left of those that each zone has in health."""
    for name, shape in ALL.items():
        for document in published(name, shape, left(shape.devices[GPU])):
            await cluster.store.replace(document)


async def without_labels(cluster: Cluster) -> None:
    """A device plugin is gone for five minutes, and discovery with what it wrote."""
    await write(cluster, lambda _: None)
    for name in ALL:
        body = {"metadata": {"labels": {PRODUCT: None}}}
        answer = await patch(cluster.api, f"/api/v1/nodes/{name}", body, how=Patch.MERGE)
        assert answer.code == HTTPStatus.OK, answer.body


async def scaled_to_zero(cluster: Cluster) -> None:
    """All of them are taken away, and their topologies collected."""
    for name in ALL:
        await cluster.leave(name)


OUTAGES: Mapping[str, tuple[Callable[[Cluster], Awaitable[None]], bool]] = {
    # what happens: how, and whether all programs restart meanwhile
    "the device plugin is down": (lambda cluster: write(cluster, lambda _: 0), False),
    "one device of each zone is broken": (lambda cluster: write(cluster, lambda whole: whole - 1), False),
    "five minutes later, without discovery's labels": (without_labels, True),
    "scaled to zero": (scaled_to_zero, True),
}

ALIGNED = (
    ({GPU: "4"}, "single-numa-node"),
    # All of it in two zones, for a kubelet takes nothing that spans different numbers of them.
    ({GPU: "8", "cpu": "64", "memory": "600Gi"}, "restricted"),
)
NEVER = ({GPU: "16"}, "single-numa-node")


async def answered(cluster: Cluster, *wishes: tuple[Mapping[str, str], str]) -> list[Answer]:
    return [
        await rehearse(cluster.api, asks=asks, annotations={"numalign.io/policy": policy})
        for asks, policy in wishes
    ]


async def until_created(cluster: Cluster, *, warned: bool) -> None:
    """Both pods that can be aligned are created, warned or not, and the one that cannot is refused."""

    def right(answers: Sequence[Answer]) -> bool:
        texts = [answer.warnings for answer in answers]
        as_warned = [any("numalign: " in text for text in each) if warned else not each for each in texts]
        return all(as_warned) and {answer.code for answer in answers} == {HTTPStatus.CREATED}

    await eventually(partial(answered, cluster, *ALIGNED), right, f"they were created, {warned=}")
    [never] = await answered(cluster, NEVER)
    assert refused(never)


async def restart(cluster: Cluster) -> None:
    """All programs end, with all that they remember, and start again; the leader labels a node."""
    programs = (cluster.replicas, cluster.controllers)
    for everyone in programs:
        await asyncio.gather(*(everyone.stop(each) for each in tuple(everyone.running)))
    started = [await everyone.add() for everyone in programs for _ in range(2)]
    for each in started:
        await until(each.is_ready, what=f"{each.name} was ready", child=each.child)
    canary = f"canary-{started[0].name}"
    async with cluster.guest(canary, fleets.SHAPES["cpu"]):
        await cluster.until_labelled(canary)


@pytest_asyncio.fixture(loop_scope="session", scope="module", autouse=True)
async def classes(cluster: Cluster) -> dict[str, str | None]:
    """The label of each node in health, once what they are is kept."""
    await write(cluster, int)
    await cluster.until_labelled(*ALL)
    await until_created(cluster, warned=False)
    found = {name: label for name, label in (await cluster.classes()).items() if name in ALL}

    def kept(answer: Answer) -> bool:
        memory, mistakes = shapes.decode(answer.body)
        assert mistakes == ()
        return {each.shape.node_class for each in memory.shapes} >= {*found.values()}

    await eventually(partial(ask, cluster.api, "GET", KEPT), kept, "the shapes were kept", within=180)
    return found


@pytest.mark.parametrize("what", OUTAGES)
async def test_no_pod_is_refused_for_an_outage(
    cluster: Cluster, classes: dict[str, str | None], what: str
) -> None:
    happen, restarts = OUTAGES[what]
    await happen(cluster)
    try:
        await until_created(cluster, warned=True)
        if restarts:
            await restart(cluster)
            # At once, for it is kept what nodes are in health.
            assert [answer.code for answer in await answered(cluster, *ALIGNED)] == [HTTPStatus.CREATED] * 2
            await until_created(cluster, warned=True)
        now = await cluster.classes()
        assert {name: now[name] for name in ALL if name in now}.items() <= classes.items()
    finally:
        await write(cluster, int)

    await until_created(cluster, warned=False)
    await cluster.until_labelled(*ALL)
    after = await cluster.classes()
    assert {name: after[name] for name in ALL} == classes


async def test_rebuilt_node_gets_its_class_at_once(cluster: Cluster, classes: dict[str, str | None]) -> None:
    name = LARGE_NODES[0]
    for shape, alike in ((SMALL, SMALL_NODES[0]), (LARGE, name)):
        await cluster.leave(name)
        for document in published(name, shape, shape.devices[GPU]):
            await cluster.store.replace(document)

        def right(now: Mapping[str, str | None], label: str | None = classes[alike]) -> bool:
            return now[name] == label

        await eventually(cluster.classes, right, f"{name} was labelled")
