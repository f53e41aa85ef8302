"""Karpenter makes nodes for pods that numalign keeps from others; it counts by node, and numalign by zone."""

from collections.abc import Sequence
from functools import partial
from http import HTTPStatus

import pytest

from numalign.model.intent import NODE_LABEL
from tests.system.e2e.placing import why
from tests.system.ecosystem import pools as karpenter
from tests.system.ecosystem.pools import Pools
from tests.system.eventually import eventually
from tests.system.workloads.installed import GATE
from tests.system.workloads.stages import EACH, Stage, looking
from tools.clusters import shipped
from tools.clusters.api_requests import Answer, Json, create

pytestmark = pytest.mark.asyncio(loop_scope="session")

NEVER = "Never"
DISRUPTED = "karpenter.sh/do-not-disrupt"
STRICT = ("strict-1", "strict-2")
IN_POOL = {"karpenter.sh/nodepool": karpenter.NAME}
BOTH_ZONES = 12
"""CPUs that no node has in a zone, and nodes of the NodePool have in two."""


async def test_new_node_is_known_by_its_topology(pools: Pools) -> None:
    """Karpenter itself sets a random class on its nodes, because the webhook's affinity has this label."""
    stage = pools.stage
    async with pools.pool(consolidate_after=NEVER), stage.home("launched", {}) as home:
        unknown = await rehearsed(stage, home)
        await stage.block(home, "large-1", cpus=EACH)
        await stage.store.apply(karpenter.deployment(home, "wide", cpus=5, pools=["b"]))
        [node] = await pools.until_made(1)
        await pools.make_ready(node)
        invented = node["metadata"]["labels"][shipped.LABEL]
        unpublished = await rehearsed(stage, home)
        pod = await pools.until_runs(home, "wide")
        await pools.publish(node)

        async def label() -> str:
            [seen] = await pools.nodes()
            return str(seen["metadata"]["labels"][shipped.LABEL])

        known = await eventually(label, lambda seen: seen != invented, "the node had its class")
        unnamed = await eventually(
            partial(rehearsed, stage, home),
            lambda answer: answer.warnings != unpublished.warnings,
            "the node counted with its topology",
        )
        named = await rehearsed(stage, home, **IN_POOL)

    assert off(pod, shipped.LABEL)
    assert pod["spec"]["nodeName"] == node["metadata"]["name"]
    # Nobody knew what nodes of the NodePool are like, and so nothing was denied.
    assert (unknown.code, unpublished.code) == (HTTPStatus.CREATED, HTTPStatus.CREATED)
    assert "NUMA alignment was not checked" in unknown.warnings[0]
    assert "1 node without one may" in unpublished.warnings[0]
    assert known.startswith("2x8cpu")
    # The NodePool may launch other nodes than its first one.
    for answer in (unnamed, named):
        assert answer.code == HTTPStatus.CREATED
        assert "node pool karpenter.sh/nodepool=made may get other nodes" in answer.warnings[0]
        assert "1 has at most 8 cpu in one NUMA zone" in answer.warnings[0]


async def test_for_a_gated_pod_that_fits_no_zone_a_node_is_made(pools: Pools) -> None:
    """One node has four CPUs free, two in each zone; a Job that may not fail once is not lost there."""
    stage = pools.stage
    gated = {GATE: "enabled"}
    async with pools.pool(consolidate_after=NEVER), pools.ours.home("fragmented", gated) as home:
        await stage.block(home, "strict-1", cpus=4)
        await stage.block(home, "strict-2", cpus=EACH)
        async with looking(stage, home, ("wide", "once")) as looked:
            await stage.store.apply(karpenter.deployment(home, "wide", cpus=4, pools=["a"]))
            job = karpenter.job(home, "once", cpus=4, pools=["a"])
            await stage.store.apply(job)
            await eventually(pools.claims, any, "a node was made")
            [node] = await pools.until_made(1)
            await pools.make_ready(node)
            placed = [await pools.until_runs(home, name) for name in ("wide", "once")]
            refusals = looked.refused("wide") + looked.refused("once")
            claims = len(await pools.claims())
            await pools.report(placed[1], {"phase": "Succeeded"})
            await stage.until_ended(job)

    assert (claims, refusals) == (1, 0)
    assert {pod["spec"]["nodeName"] for pod in placed} == {node["metadata"]["name"]}
    assert [off(pod, NODE_LABEL) for pod in placed] == [["strict-1"]] * 2


@pytest.mark.usefixtures("scored")
@pytest.mark.parametrize(
    ("field", "key", "claims"),
    [("matchFields", "metadata.name", 0), ("matchExpressions", NODE_LABEL, 1)],
    ids=["by name", "by label"],
)
async def test_karpenter_counts_preferences_by_node_label(
    pools: Pools, field: str, key: str, claims: int
) -> None:
    """The pod waits for its scheduler, because its node has four CPUs free, and two in each zone."""
    stage = pools.stage
    routed = {"numalign.io/scheduler": "numalign-scheduler"}
    async with pools.pool(consolidate_after=NEVER), stage.home(f"wishing-{claims}", routed) as home:
        await stage.block(home, "strict-1", cpus=4)
        await stage.block(home, "strict-2", cpus=EACH)
        wish = karpenter.deployment(home, "wide", cpus=4, pools=["a"])
        term = {
            "weight": 100,
            "preference": {field: [{"key": key, "operator": "NotIn", "values": ["strict-1"]}]},
        }
        affinity = wish["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [term]
        await stage.store.apply(wish)

        async def considered() -> bool:
            """Karpenter has made a node, or says that the pod should get to one that there is."""
            events = await stage.events(home)
            return bool(await pools.claims()) or any(each["reason"] == "Nominated" for each in events)

        await eventually(considered, bool, "Karpenter had a plan")
        made = len(await pools.claims())
        # A node that Karpenter does not know yet would outlive its NodeClaim.
        await pools.until_made(made)

    assert made == claims


@pytest.mark.usefixtures("scored")
async def test_consolidation_evicts_pods_without_a_free_zone(pools: Pools) -> None:
    stage = pools.stage
    by_scorer = {"numalign.io/scheduler": "numalign-scheduler"}
    async with (
        pools.pool(consolidate_after="1s"),
        stage.home("consolidated", by_scorer) as home,
        stage.home("undisrupted", by_scorer | {"numalign.io/do-not-disrupt": "enabled"}) as undisrupted,
        stage.home("filled", {}) as filled,
    ):
        await stage.block(home, *STRICT, cpus=4)
        await stage.block(filled, *STRICT, cpus=EACH - 4)
        for namespace, name in ((undisrupted, "kept"), (home, "evicted")):
            wish = karpenter.deployment(namespace, name, cpus=4, pools=["a"])
            [container] = wish["spec"]["template"]["spec"]["containers"]
            # On another node than all others like it.
            container["ports"] = [{"containerPort": 80, "hostPort": 80}]
            await stage.store.apply(wish)
        for node in await pools.until_made(2):
            await pools.make_ready(node)
            await pools.publish(node)
        kept, evicted = await pools.until_runs(undisrupted, "kept"), await pools.until_runs(home, "evicted")
        for name in STRICT:
            await stage.unblock(filled, name)

        def uids(*pods: Json) -> list[str]:
            return [pod["metadata"]["uid"] for pod in pods]

        def replaced(pods: Sequence[Json]) -> bool:
            return uids(*pods) != uids(evicted) and [bool(why(pod)) for pod in pods] == [True]

        [pending] = await eventually(
            partial(stage.pods, home, "evicted"),
            replaced,
            "the pod was evicted and another one was pending",
            within=120,
        )
        [left] = await stage.pods(undisrupted, "kept")

    assert uids(left) == uids(kept)
    assert [each["metadata"]["annotations"].get(DISRUPTED) for each in (kept, evicted)] == ["true", None]
    assert "2 node(s) have no NUMA zone with 4 cpu free" in why(pending)


async def rehearsed(stage: Stage, home: str, **selector: str) -> Answer:
    """The answer to a pod for nodes of the NodePool that no node could align, if they were all alike."""
    wish = karpenter.template("rehearsal", cpus=BOTH_ZONES, pools=[])
    wish["spec"] |= {"nodeSelector": selector}
    pod = {"apiVersion": "v1", "kind": "Pod", **wish, "metadata": {**wish["metadata"], "name": "rehearsal"}}
    return await create(stage.api, pod, namespace=home, dryRun="All")


def off(pod: Json, key: str) -> list[str]:
    """The values of a label off which a pod is kept."""
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return [
        value
        for term in required["nodeSelectorTerms"]
        for each in term["matchExpressions"]
        if (each["key"], each["operator"]) == (key, "NotIn")
        for value in each["values"]
    ]
