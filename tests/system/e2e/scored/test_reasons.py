"""What people read of a pod that waits: `kubectl describe pod`, as the real scheduler puts it together."""

from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest
import pytest_asyncio

from tests.system.e2e.sites import Site, on, pod
from tools.clusters.api_requests import Json, ask
from tools.clusters.sim.desk import TOPOLOGIES
from tools.clusters.sim.fingerprints import Fingerprint
from tools.clusters.sim.shapes import SimNode

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

MACHINES = [
    SimNode("strict-0", "small"),
    SimNode("strict-1", "small"),
    SimNode("loose", "small", policy="none"),
    SimNode("unknown", "small"),
]
NEVER = "node(s) have no NUMA zone with 6 cpu and 6Gi memory (numalign: single-numa-node)"
UNALIGNED = 'node(s) have Topology Manager policy "none" (numalign: single-numa-node)'
UNKNOWN = "node(s) publish no NUMA topology, and the pod requests NUMA alignment (numalign)"
ELSEWHERE = "node(s) didn't match Pod's node affinity/selector"
UNREADABLE = (
    'numalign: metadata.annotations[numalign.io/policy]: "dunno" is not a known value; expected one of'
    " none, best-effort, restricted, single-numa-node"
)


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def motley(site: Site) -> AsyncIterator[Site]:
    """With nodes of all kinds, each of which says no for a reason of its own."""
    async with site.nodes(*MACHINES, fingerprint=Fingerprint.ALL):
        answer = await ask(site.api, "DELETE", f"{TOPOLOGIES}/unknown")
        assert answer.code == HTTPStatus.OK, answer.body
        await site.until_ranked(["strict-0", "strict-1", "loose"])
        yield site


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        pytest.param(
            pod("aligned", cpu=6),
            f"0/4 nodes are available: 1 {UNALIGNED}, 1 {UNKNOWN}, 2 {NEVER}.",
            id="of every kind of node",
        ),
        pytest.param(
            pod("plain", cpu=6, annotations={}, **on("strict-0")),
            f"0/4 nodes are available: 1 {NEVER}, 3 {ELSEWHERE}.",
            id="even if it does not ask to be aligned",
        ),
        pytest.param(
            pod("typo", cpu=6, annotations={"numalign.io/policy": "dunno"}),
            UNREADABLE,
            id="of its own mistake",
        ),
    ],
)
async def test_pending_pod_has_the_reason(motley: Site, wish: Json, reason: str) -> None:
    await motley.create(wish)
    await motley.until_event(wish["metadata"]["name"], "FailedScheduling", reason)
