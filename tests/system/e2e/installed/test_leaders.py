"""Replicas that come and go under load: all of the webhook answer, and one of the controller writes."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.system.e2e.clusters import Cluster, admitted
from tests.system.e2e.loads import LOADED, Load, load
from tools.clusters import fleets
from tools.clusters.controlplane.reviews import reviews

pytestmark = pytest.mark.asyncio(loop_scope="session")

# A lease stands for 15 s after its holder is gone; those who wait look every two to five seconds. The rest is
# what a busy machine needs.
TAKEN_OVER_SECONDS = 60


@asynccontextmanager
async def loaded(cluster: Cluster) -> AsyncIterator[Load]:
    async with load(cluster.api, LOADED, right=admitted, namespace="enforced") as count:
        await asyncio.sleep(1)
        yield count
        await asyncio.sleep(1)


async def seconds_to_label(cluster: Cluster, name: str) -> float:
    async with cluster.guest(name, fleets.SHAPES["cpu"]):
        return await cluster.until_labelled(name)


# ---- the webhook


async def test_no_review_fails_when_a_replica_is_ended(
    cluster: Cluster, print_at_end: Callable[[str], None]
) -> None:
    before = await reviews(cluster.api)
    async with loaded(cluster) as count:
        code = await cluster.replicas.stop(cluster.replicas.running[0])
        await cluster.replicas.start()
    asked = (await reviews(cluster.api)).since(before)

    assert (code, asked.failed, count.wrong) == (0, 0, [])
    assert count.right > 50
    print_at_end(f"replica ended by SIGTERM: 0 failed of {asked.asked} reviews ({count.right} pods)")


async def test_killed_replica_fails_no_review_after_endpoints(
    cluster: Cluster, print_at_end: Callable[[str], None]
) -> None:
    before = await reviews(cluster.api)
    async with loaded(cluster) as count:
        await cluster.replicas.kill(cluster.replicas.running[0])
        await asyncio.sleep(2)
        lost = len(count.wrong)
        await asyncio.sleep(2)
        await cluster.replicas.start()
    asked = (await reviews(cluster.api)).since(before)

    assert len(count.wrong) == lost
    print_at_end(
        f"replica killed by SIGKILL: {asked.failed} failed of {asked.asked} reviews ({lost} of"
        f" {count.right + lost} pods saw it)"
    )


# ---- the controller


async def test_stopped_leader_fails_no_review(cluster: Cluster, print_at_end: Callable[[str], None]) -> None:
    leader = (await cluster.until_led()).by
    before = await reviews(cluster.api)
    async with loaded(cluster) as count:
        ending = asyncio.create_task(cluster.controllers.stop(leader))
        next_leader = await cluster.until_led(by_other_than=leader, within=TAKEN_OVER_SECONDS)
        labelled = await seconds_to_label(cluster, "after-the-end")
        code = await ending
        await cluster.controllers.start()
    asked = (await reviews(cluster.api)).since(before)

    assert (code, asked.failed, count.wrong) == (0, 0, [])
    assert count.right > 50
    print_at_end(
        f"leader ended by SIGTERM: 0 failed of {asked.asked} reviews ({count.right} pods); another led after"
        f" {next_leader.seconds:.1f} s and labelled a new node in {labelled:.1f} s"
    )


async def test_killed_leader_fails_no_review(cluster: Cluster, print_at_end: Callable[[str], None]) -> None:
    leader = (await cluster.until_led()).by
    before = await reviews(cluster.api)
    async with loaded(cluster) as count:
        await cluster.controllers.kill(leader)
        next_leader = await cluster.until_led(by_other_than=leader, within=TAKEN_OVER_SECONDS)
        labelled = await seconds_to_label(cluster, "after-the-kill")
        await cluster.controllers.start()
    asked = (await reviews(cluster.api)).since(before)

    assert (asked.failed, count.wrong) == (0, [])
    print_at_end(
        f"leader killed by SIGKILL: 0 failed of {asked.asked} reviews ({count.right} pods); another led after"
        f" {next_leader.seconds:.1f} s and labelled a new node in {labelled:.1f} s"
    )


async def test_frozen_leader_does_not_lead_when_it_wakes(cluster: Cluster) -> None:
    leader = (await cluster.until_led()).by

    leader.child.send(signal.SIGSTOP)
    other = (await cluster.until_led(by_other_than=leader, within=TAKEN_OVER_SECONDS)).by
    leader.child.send(signal.SIGCONT)
    await asyncio.sleep(3)

    assert await cluster.leader() is other
    assert (await leader.metric("numalign_leader"), await other.metric("numalign_leader")) == (0, 1)
