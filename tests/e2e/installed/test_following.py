"""What changes in the cluster, and how soon the next pod sees it."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from http import HTTPStatus

import pytest

from harness import fleets
from harness.api_objects import namespace
from harness.api_requests import Answer, Json, gpus, rehearse
from harness.waiting import seconds_until
from tests.e2e.clusters import Cluster, admitted, refused, warned
from tests.e2e.figures import quantile, spread

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROUNDS = 8
LARGE = fleets.LARGER
SMALL = fleets.SHAPES["dgx"]
TAKEN = replace(LARGE, taken=True)

Write = Callable[[str], Awaitable[object]]
Right = Callable[[Answer], bool]


def changes(cluster: Cluster) -> Iterator[tuple[str, Write, Right]]:
    """What happens to one node, and what is true afterwards of a pod that only it could ever align.

    Whatever it loses, it may get back: nobody is refused for that, but told to wait.
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


async def test_the_next_pod_sees_every_change_of_a_node_within_a_second(
    cluster: Cluster, tell: Callable[[str], None]
) -> None:
    took: dict[str, list[float]] = defaultdict(list)
    for turn in range(ROUNDS):
        for what, write, right in changes(cluster):
            await write(f"guest-{turn}")
            took[what].append(await cluster.until_answered(right, asks=gpus(6)))

    everything = [seconds for each in took.values() for seconds in each]
    tell(f"from a change of a node or its topology to its effect: {spread(everything, what='changes')}")
    assert quantile(everything, 0.99) <= 1, took


async def test_a_node_that_is_gone_counts_no_more_even_while_its_topology_stays(cluster: Cluster) -> None:
    """Who published it is gone; nfd-gc, where it runs at all, looks for what it missed once an hour."""
    async with cluster.guest("ghost", LARGE):
        await cluster.until_answered(admitted, asks=gpus(6))
        await cluster.store.delete(fleets.node("ghost", LARGE))

        await cluster.until_answered(warned, asks=gpus(6))


async def test_the_next_pod_sees_what_a_namespace_asks_within_a_second(
    cluster: Cluster, tell: Callable[[str], None]
) -> None:
    """A pod that says nothing: refused where a namespace enforces, and only there."""
    look = partial(rehearse, cluster.api, asks=gpus(4), namespace="changing", annotations={})
    labels: tuple[Json, ...] = ({}, {"numalign.io/enforce": "single-numa-node"})
    rights: tuple[Right, ...] = (lambda answer: answer.code == HTTPStatus.CREATED, refused)
    took = []
    for turn in range(2 * ROUNDS + 1):
        await cluster.store.apply(namespace("changing", labels[turn % 2]))
        right = rights[turn % 2]
        took.append(await seconds_until(look, right, what="the namespace was obeyed", within=10))

    tell(f"from a change of a namespace's labels to its effect: {spread(took[1:], what='changes')}")
    assert quantile(took[1:], 0.99) <= 1, took
