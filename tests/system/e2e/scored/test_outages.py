"""Pods are placed rightly whoever dies meanwhile; they only wait."""

from collections.abc import Awaitable, Callable
from time import monotonic

import aiohttp
import pytest

from numalign.kube.bindings import BIND_SECONDS
from numalign.kube.lease import JITTER, LEASE_DURATION_SECONDS, RETRY_PERIOD_SECONDS
from numalign.ledger.reservations import NOTIFICATION_SECONDS
from tests.system.e2e.sites import Site, given, pod, recorded
from tests.system.eventually import eventually
from tools.clusters.replicas import Replica, Replicas
from tools.clusters.sim.cluster import Cluster
from tools.clusters.sim.fingerprints import Fingerprint
from tools.clusters.sim.shapes import SimNode

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(240)]

FLEET = [SimNode("wide-0", "two-by-four"), SimNode("wide-1", "two-by-four"), SimNode("narrow", "eight-zones")]
# All of them fit wherever others are put, and many find other zones if they come in another order.
SIZES = ((2, 0), (6, 1), (3, 1), (5, 0))
WISHES = [pod(f"p-{number:02}", cpu=cpu, gpu=gpu) for number, (cpu, gpu) in enumerate(SIZES * 6)]
NAMES = [wish["metadata"]["name"] for wish in WISHES]
FIRST, THEN, LAST = WISHES[:8], WISHES[8:16], WISHES[16:]

LOOK = RETRY_PERIOD_SECONDS * (1 + JITTER)
"""How long a replica that waits may sleep before it looks at the lease."""
BOUND = BIND_SECONDS + NOTIFICATION_SECONDS + 5.0
"""What passes until a new leader binds, and what a busy machine needs for everything beside waiting."""
CATCHING_UP_SECONDS = 120
"""What a scorer needs that lost the API server: it may pause for half a minute, more than once."""

Ending = Callable[[Replicas, Replica], Awaitable[object]]


async def all_run_where_they_were_reserved(site: Site, cluster: Cluster) -> None:
    """Every pod runs, none was refused, and each holds what is written on it."""
    await site.until_run(*NAMES, within=CATCHING_UP_SECONDS)
    assert cluster.rejections == []
    found = await site.pods()
    assert {name: recorded(each) for name, each in found.items()} == {
        name: given(cluster, each) for name, each in found.items()
    }


async def until_it_lacks_only_the_lease(replica: Replica) -> None:
    async def lacks() -> str:
        try:
            async with aiohttp.ClientSession() as session, session.get(f"{replica.telling}/readyz") as answer:
                return await answer.text()
        except aiohttp.ClientError:
            return ""

    def right(output: str) -> bool:
        return "lease" in output and "snapshot" not in output

    await eventually(lacks, right, f"{replica.name} was there")


@pytest.mark.parametrize(
    ("end", "within"),
    # It may have looked just before the last renewal, and just before that was too old.
    [(Replicas.kill, LOOK + LEASE_DURATION_SECONDS + LOOK + BOUND), (Replicas.stop, LOOK + BOUND)],
    ids=["killed", "stopped"],
)
async def test_when_the_scorer_ends_the_next_one_goes_on(site: Site, end: Ending, within: float) -> None:
    first, other = await site.leader(), await site.scorers.add()
    async with site.nodes(*FLEET, fingerprint=Fingerprint.ALL) as cluster:
        await until_it_lacks_only_the_lease(other)
        await site.create(*FIRST)
        await site.until_run(NAMES[0])

        await site.create(*THEN)
        began = monotonic()
        await end(site.scorers, first)
        await site.create(*LAST)
        leader, seconds = await site.leader(within=within), monotonic() - began

        await all_run_where_they_were_reserved(site, cluster)
        assert leader is other
        assert seconds < within


async def test_all_pods_are_placed_after_an_outage(site: Site) -> None:
    async with site.nodes(*FLEET, fingerprint=Fingerprint.ALL) as cluster:
        await site.create(*FIRST)
        await site.until_run(NAMES[0])
        await site.create(*THEN)
        await site.plane.kill()
        await site.plane.serve()
        await site.create(*LAST)
        await all_run_where_they_were_reserved(site, cluster)
