"""What changes in the cluster, and how soon the next pod sees it."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from statistics import median

import pytest

from numalign.runtime.clock import utc_now
from tests.system.e2e.clusters import Cluster, admitted, refused, warned
from tools.clusters import fleets
from tools.clusters.api_objects import namespace
from tools.clusters.api_requests import INTENT, Answer, Json, ask, create, gpus, pod, rehearse
from tools.clusters.waiting import seconds_until

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROUNDS = 3
LARGE = fleets.LARGER
SMALL = fleets.SHAPES["dgx"]
TAKEN = replace(LARGE, taken=True)
PODS = "/api/v1/namespaces/team/pods"

Write = Callable[[str], Awaitable[object]]
Right = Callable[[Answer], bool]


def changes(cluster: Cluster) -> Iterator[tuple[str, Write, Right]]:
    """What happens to one node, and what is true afterwards of a pod that only it could ever align.

    Whatever it loses, it may get back: pods get warnings for that, and are not denied.
    """

    def publishes(shape: fleets.Shape) -> Write:
        return lambda name: cluster.store.replace(fleets.topology(name, shape))

    yield "a node joins", lambda name: cluster.join(name, LARGE), admitted
    yield "its zones are taken", publishes(TAKEN), warned
    yield "its zones are free", publishes(LARGE), admitted
    yield "it shrinks", publishes(SMALL), warned
    yield "it grows", publishes(LARGE), admitted
    yield "it publishes no more", lambda name: cluster.store.delete(fleets.topology(name, LARGE)), warned
    yield "it publishes again", publishes(LARGE), admitted
    yield "it leaves", cluster.leave, warned


async def test_namespace_enforces_from_its_first_pod(cluster: Cluster) -> None:
    for turn in range(ROUNDS):
        await cluster.store.apply(namespace(f"new-{turn}", {"numalign.io/enforce": "single-numa-node"}))
        answer = await rehearse(cluster.api, asks=gpus(1), namespace=f"new-{turn}", annotations={})
        assert answer.code == HTTPStatus.FORBIDDEN, answer.body


async def test_next_pod_sees_every_change_of_a_node_soon(cluster: Cluster) -> None:
    took: dict[str, list[float]] = defaultdict(list)
    for turn in range(ROUNDS):
        for what, write, right in changes(cluster):
            await write(f"guest-{turn}")
            took[what].append(await cluster.until_answered(right, asks=gpus(6)))
    for what, each in took.items():
        assert is_soon(each), what


async def test_deleted_node_with_a_topology_does_not_count(cluster: Cluster) -> None:
    async with cluster.guest("ghost", LARGE):
        await cluster.until_answered(admitted, asks=gpus(6))
        await cluster.store.delete(fleets.node("ghost", LARGE))
        await cluster.until_answered(warned, asks=gpus(6))


async def test_new_namespace_policy_applies_to_the_next_pod(cluster: Cluster) -> None:
    look = partial(rehearse, cluster.api, asks=gpus(4), namespace="changing", annotations={})
    labels: tuple[Json, ...] = ({}, {"numalign.io/enforce": "single-numa-node"})
    rights: tuple[Right, ...] = (lambda answer: answer.code == HTTPStatus.CREATED, refused)
    took = []
    for turn in range(2 * ROUNDS + 1):
        await cluster.store.apply(namespace("changing", labels[turn % 2]))
        right = rights[turn % 2]
        took.append(await seconds_until(look, right, what="the namespace was obeyed", within=60))
    assert is_soon(took[1:]), took


async def test_next_pod_avoids_a_node_that_rejected_one(cluster: Cluster) -> None:
    took = []
    for turn in range(ROUNDS):
        name = f"refused-{turn}"
        wish = pod(name, asks=gpus(3), annotations=INTENT)
        made = await create(cluster.api, {**wish, "spec": {**wish["spec"], "nodeName": f"node-{turn}"}})
        now = utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
        status = {"phase": "Failed", "reason": "TopologyAffinityError", "message": "no", "startTime": now}
        answer = await ask(cluster.api, "PUT", f"{PODS}/{name}/status", {**made.body, "status": status})
        assert answer.code == HTTPStatus.OK, answer.body
        took.append(await cluster.until_answered(partial(avoids, node=f"node-{turn}"), asks=gpus(3)))
        await ask(cluster.api, "DELETE", f"{PODS}/{name}", gracePeriodSeconds="0")

    await cluster.until_answered(
        lambda answer: all(avoids(answer, node=f"node-{turn}") for turn in range(ROUNDS)), asks=gpus(3)
    )
    assert not avoids(await rehearse(cluster.api, asks=gpus(4)), node="node-0")
    assert is_soon(took), took


def is_soon(seconds: Sequence[float]) -> bool:
    """Whether something usually takes less than a second, and little more where the machine is busy."""
    return median(seconds) <= 1 and max(seconds) <= 5


def avoids(answer: Answer, *, node: str) -> bool:
    affinity = answer.body.get("spec", {}).get("affinity", {}).get("nodeAffinity", {})
    wishes = affinity.get("preferredDuringSchedulingIgnoredDuringExecution", [])
    fields = [field for wish in wishes for field in wish["preference"].get("matchFields", [])]
    return {"key": "metadata.name", "operator": "NotIn", "values": [node]} in fields
