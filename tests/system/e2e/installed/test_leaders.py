"""Replicas that come and go under load: all of the webhook answer, and one of the controller writes."""

import asyncio
import signal

import pytest

from tests.system.e2e.clusters import Cluster, admitted
from tests.system.e2e.loads import load, lossless
from tools.clusters import fleets

pytestmark = pytest.mark.asyncio(loop_scope="session")


# ---- the webhook


async def test_no_review_fails_when_a_replica_is_ended(cluster: Cluster) -> None:
    async with lossless(cluster.api, right=admitted):
        assert await cluster.replicas.stop(cluster.replicas.running[0]) == 0
        await cluster.replicas.start()


async def test_killed_replica_fails_no_review_after_endpoints(cluster: Cluster) -> None:
    """Calls under way on its connections are lost."""
    async with load(cluster.api, right=admitted) as count:
        await asyncio.sleep(1)
        await cluster.replicas.kill(cluster.replicas.running[0])
        await asyncio.sleep(2)
        lost = len(count.wrong)
        await asyncio.sleep(2)
        await cluster.replicas.start()

    assert len(count.wrong) == lost


# ---- the controller


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_ended_leader_fails_no_review_and_another_labels(cluster: Cluster, how: str) -> None:
    leader = await cluster.until_led()
    async with lossless(cluster.api, right=admitted):
        ending = asyncio.create_task(getattr(cluster.controllers, how)(leader))
        await cluster.until_led(by_other_than=leader)
        async with cluster.guest(f"after-the-{how}", fleets.SHAPES["cpu"]):
            await cluster.until_labelled(f"after-the-{how}")
        assert not await ending
        await cluster.controllers.start()


async def test_frozen_leader_does_not_lead_when_it_wakes(cluster: Cluster) -> None:
    leader = await cluster.until_led()
    leader.child.send(signal.SIGSTOP)
    other = await cluster.until_led(by_other_than=leader)
    leader.child.send(signal.SIGCONT)
    await asyncio.sleep(3)
    assert await cluster.leader() is other
    assert (await leader.metric("numalign_leader"), await other.metric("numalign_leader")) == (0, 1)


async def test_webhook_gets_ready_without_a_controller(cluster: Cluster) -> None:
    async with lossless(cluster.api, right=admitted):
        for each in tuple(cluster.controllers.running):
            await cluster.controllers.stop(each)
        await cluster.replicas.stop(await cluster.replicas.start())
        for _ in range(2):
            await cluster.controllers.start()
