"""A pod runs where its zones were reserved, or waits and says why."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.system.e2e.placing import is_bound
from tests.system.e2e.sites import PODS, Site, given, on, pod, recorded
from tests.system.eventually import eventually
from tools.clusters.api_requests import ask
from tools.clusters.sim.desk import TOPOLOGIES
from tools.clusters.sim.fingerprints import Fingerprint, fingerprint
from tools.clusters.sim.shapes import SimNode

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

PUBLISHED: Mapping[str, Mapping[str, Any]] = {
    "after five seconds": {"delay": 5, "fingerprint": Fingerprint.ALL},
    "without fingerprints": {"delay": 1},
}
ATTRIBUTE = "nodeTopologyPodsFingerprint"
CPUS = {"a": 3, "b": 3, "c": 2}
NO_ROOM = (
    "0/1 nodes are available: 1 node(s) have no NUMA zone with {0} cpu and {0}Gi memory free"
    " (numalign: single-numa-node)."
)


def by_zone(pods: Mapping[str, Any]) -> dict[str, str]:
    """For whom each of a node's zones is reserved, where nobody shares one."""
    reserved = {name: recorded(each) for name, each in pods.items()}
    return {zone: name for name, held in reserved.items() for [zone] in held or ()}


@pytest.mark.parametrize("published", PUBLISHED)
async def test_third_pod_binds_once_a_zone_is_free(site: Site, published: str) -> None:
    # A pod of the same name that was on the same node before would be one more thing to tell apart.
    node = SimNode(f"two-{[*PUBLISHED].index(published)}", "small")
    async with site.nodes(node, **PUBLISHED[published]) as cluster:
        await site.create(*(pod(name, cpu=cpu) for name, cpu in CPUS.items()))

        await eventually(site.running, lambda seen: len(seen) == 2, "two ran")
        [third] = CPUS.keys() - await site.running()
        await site.until_event(third, "FailedScheduling", NO_ROOM.format(CPUS[third]))
        assert await site.running() == CPUS.keys() - {third}
        # That the second one leaves makes no difference to where the first one sits.
        await site.delete(by_zone(await site.pods())["node-1"])
        await site.until_run(third)

        assert cluster.rejections == []


async def test_unknown_zones_are_held_until_the_topology_shows(site: Site) -> None:
    async with site.nodes(SimNode("doubted", "small"), delay=2, fingerprint=Fingerprint.ALL) as cluster:
        await site.create(pod("a", cpu=3), pod("b", cpu=3))
        await site.until_run("a", "b")
        first, last = by_zone(await site.pods())["node-0"], pod("last", cpu=2)

        async def has_room() -> bool:
            return bool((await site.rank(last))["nodes"][0]["fits"])

        await site.delete(first)
        await eventually(has_room, bool, "there was room")
        topology = (await ask(site.api, "GET", f"{TOPOLOGIES}/doubted")).body
        await site.create(last)
        await site.until_run("last")

        [tells_of] = [each["value"] for each in topology["attributes"] if each["name"] == ATTRIBUTE]
        left = {"a", "b"} - {first}
        assert tells_of in {fingerprint(("default", name) for name in names) for names in ({"a", "b"}, left)}
        assert cluster.rejections == []


async def test_bind_writes_the_placement_of_the_kubelet(site: Site) -> None:
    machines = [SimNode("wide", "two-by-four"), SimNode("narrow", "eight-zones")]
    async with site.nodes(*machines, fingerprint=Fingerprint.ALL) as cluster:
        version = (await ask(site.api, "GET", PODS)).body["metadata"]["resourceVersion"]
        wishes = [
            pod(f"p-{cpu}", cpu=cpu, gpu=1, **on("narrow" if cpu % 2 else "wide")) for cpu in range(4, 10)
        ]
        await site.create(*wishes)
        await site.until_run(*(wish["metadata"]["name"] for wish in wishes))

        for name, seen in (await site.pods()).items():
            assert recorded(seen) == given(cluster, seen) != {}, name
        bound = [seen for seen in await site.since(version) if is_bound(seen)]
        assert all(recorded(seen) for seen in bound)
