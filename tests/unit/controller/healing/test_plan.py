"""What healing would do, in lines, and nothing of it done."""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller.healing.eviction_limits import Rates
from controller.healing.plan import HealingRules, plan
from numalign.kube.decode.scheduling import REQUIRED
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.kube.kinds import PODS_IN_FILES, Object
from numalign.model.intent import Match
from tests.unit.controller.healing.conftest import HEALED, SPREAD, TOGETHER, Cluster, Leader, a_cluster, web
from tests.worlds.scorer import NOW, TEAM, Raw, snapshot

WHY = 'container "c0" holds cpu in zone 0 and zone 1: 2 NUMA zones, and single-numa-node allows one'


async def planned(cluster: Cluster, *, gates: bool = True) -> tuple[str, ...]:
    """The plan, by what a file would hold of this cluster."""
    leader = Leader(cluster)
    policy = PolicyKeeper(None, log=leader.told.log, registry=CollectorRegistry())
    stored: dict[str, Object] = {
        made["metadata"]["uid"]: PODS_IN_FILES.described(made) for made in cluster.pods.values()
    }
    namespaces: dict[str, Any] = {**cluster.namespaces}
    seen = snapshot(cluster.nodes, placements=cluster.placements, **namespaces)
    rules = HealingRules(policy, Match.SATISFIES, gates, Rates(owner=600, node=300, cluster=6))
    return await plan(seen, stored, rules, now=NOW)


def with_port(made: Raw) -> Raw:
    """The pod with a port of its node."""
    [container] = made["spec"]["containers"]
    return {**made, "spec": {**made["spec"], "containers": [{**container, "ports": [{"hostPort": 80}]}]}}


async def misaligned(cluster: Cluster, *pods: Raw) -> None:
    for made in pods:
        await cluster.runs(made, "a", SPREAD)


async def test_who_would_go_where_and_when() -> None:
    cluster = await a_cluster("a", "b")
    await misaligned(cluster, web("web-1", "one"), web("web-2", "two"), web("web-3", "one"))

    assert await planned(cluster) == (
        f"pod team/web-1 on a would be moved to b, after 600 s at the earliest: {WHY}",
        f"pod team/web-2 on a would be moved to b, after 900 s at the earliest: {WHY}",
        f"pod team/web-3 on a would be moved to b, after 1200 s at the earliest: {WHY}",
    )


async def test_what_is_held_for_one_is_not_there_for_the_next() -> None:
    cluster = await a_cluster("a", "b")
    await misaligned(cluster, *(web(f"web-{at}", f"owner-{at}") for at in range(4)))
    for at in range(7):
        await cluster.runs(web(f"there-{at}", f"other-{at}"), "b", {f"node-{at % 2}": "cpu=4"})

    lines = await planned(cluster)

    assert [("would be moved" in line) for line in lines] == [True, False, False, False]
    assert "it waits for another node that would align it now" in lines[-1]


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (
            web("web-1", spec={"volumes": [{"name": "x", "emptyDir": {}}]}),
            "it has an emptyDir or hostPath volume",
        ),
        (web("web-1", annotations={"scheduling.k8s.io/group-name": "x"}), "a pod group that runs as a whole"),
        (
            web("web-1", spec={"topologySpreadConstraints": [{}]}),
            ("numalign does not evaluate its topology spread"),
        ),
        (
            web("web-1", spec={"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}}),
            "numalign does not evaluate its affinity to other pods",
        ),
        (with_port(web("web-1")), "numalign does not evaluate its host ports"),
    ],
    ids=["local storage", "a gang", "spread", "affinity", "host ports"],
)
async def test_who_stays_and_why(made: Raw, words: str) -> None:
    cluster = await a_cluster("a", "b")
    await misaligned(cluster, made)

    [line] = await planned(cluster)

    assert "is misaligned and stays" in line
    assert words in line


async def test_what_it_waits_for() -> None:
    cluster = await a_cluster("a", "b")
    await misaligned(cluster, web("web-1"))

    [line] = await planned(cluster, gates=False)

    assert "it waits for --gates on the controller" in line


async def test_nothing_is_planned_where_nobody_asks_for_it() -> None:
    cluster = await a_cluster("a", "b", namespaces={TEAM: {"gate": "enabled"}})
    await misaligned(cluster, web("web-1"))
    assert await planned(cluster) == ("no misaligned pod would be moved",)

    cluster.namespaces = {TEAM: HEALED}
    cluster.pods.clear()
    await cluster.runs(web("web-2"), "a", TOGETHER)
    assert await planned(cluster) == ("no misaligned pod would be moved",)


async def test_a_plan_writes_nothing() -> None:
    cluster = await a_cluster("a", "b")
    await misaligned(cluster, web("web-1"))
    before = cluster.version

    await planned(cluster)

    assert (cluster.version, cluster.asked) == (before, [])
