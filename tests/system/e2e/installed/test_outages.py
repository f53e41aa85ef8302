"""The API server goes away and comes back, and what happened meanwhile is known afterwards."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial

import pytest

from tests.system.e2e.clusters import Cluster, admitted, load, refused, warned
from tools.clusters import fleets
from tools.clusters.api_objects import namespace
from tools.clusters.api_requests import gpus

pytestmark = pytest.mark.asyncio(loop_scope="session")

# At worst the longest pause before it tries again, one more while what it asks for is not served yet, one
# more if that is too old to be had, and the time to read everything.
RECOVERY_SECONDS = 120

SMALL = fleets.SHAPES["cpu"]
# What no other node of the fleet has so many of in a zone.
LEAVING = replace(SMALL, devices={"nvidia.com/gpu": 16})
GROWN = replace(SMALL, devices={"nvidia.com/gpu": 12})
JOINING = replace(SMALL, devices={"rdma/hca": 8})
HCAS = {"rdma/hca": "8"}


@asynccontextmanager
async def forgotten(cluster: Cluster) -> AsyncIterator[None]:
    """The API server calls a webhook that cannot reach it, and has restarted when that ends."""
    cluster.uplink.cut()
    await cluster.plane.kill()
    await cluster.plane.serve()
    yield
    cluster.uplink.mend()


@asynccontextmanager
async def frozen(cluster: Cluster) -> AsyncIterator[None]:
    """Our programs are stopped meanwhile, and notice nothing."""
    everyone = (*cluster.replicas.running, *cluster.controllers.running)
    for replica in everyone:
        replica.child.process.send_signal(signal.SIGSTOP)
    async with forgotten(cluster):
        yield
    for replica in everyone:
        replica.child.process.send_signal(signal.SIGCONT)


async def test_api_server_death_under_load_wrongs_no_answer(cluster: Cluster) -> None:
    before = [replica.lost for replica in cluster.replicas.running]
    async with load(cluster.api, right=admitted) as count:
        await asyncio.sleep(1)
        await cluster.plane.kill()
        answered = count.right
        await asyncio.sleep(2)
        await cluster.plane.serve()
        async with cluster.guest("after-the-restart", LEAVING):
            await cluster.until_answered(admitted, asks=gpus(16), within=RECOVERY_SECONDS)

    assert 0 < answered < count.right
    assert count.unanswered > 0
    assert count.wrong == []
    assert [replica.lost for replica in cluster.replicas.running] == before


@pytest.mark.parametrize("away", [forgotten, frozen])
async def test_changes_during_an_outage_are_known_afterwards(
    cluster: Cluster,
    away: Callable[[Cluster], AbstractAsyncContextManager[None]],
) -> None:
    """One node leaves and no ghost stays, one changes, one joins; and a namespace begins to enforce."""
    how = away.__name__.replace("_", "-")
    leaving, changing, joining = (f"{name}-{how}" for name in ("leaving", "changing", "joining"))
    team = namespace(f"team-{how}", {})
    enforcing = namespace(f"team-{how}", {"numalign.io/enforce": "single-numa-node"})
    until = partial(cluster.until_answered, within=RECOVERY_SECONDS)
    async with AsyncExitStack() as guests:
        await guests.enter_async_context(cluster.guest(leaving, LEAVING))
        await guests.enter_async_context(cluster.guest(changing, SMALL))
        await cluster.store.apply(team)
        # Some replicas are still catching up with the last outage.
        await cluster.until_all_admit(asks=gpus(16), within=RECOVERY_SECONDS)
        await until(lambda answer: not admitted(answer), asks=HCAS)

        async with away(cluster):
            await cluster.leave(leaving)
            await cluster.join(changing, GROWN)
            await guests.enter_async_context(cluster.guest(joining, JOINING))
            await cluster.store.apply(enforcing)

        # What was there once may come back, so that a pod is warned and not refused.
        await until(warned, asks=gpus(16))
        await until(admitted, asks=gpus(12))
        await until(admitted, asks=HCAS)
        await until(refused, asks=gpus(1), namespace=team["metadata"]["name"], annotations={})
        await cluster.until_all_admit(asks=gpus(12), within=RECOVERY_SECONDS)
    await until(warned, asks=gpus(12))
