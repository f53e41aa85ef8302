"""Pods behind the gate run where their zones are, the important ones first, and none waits for ever."""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from random import Random

import pytest

from numalign.model.intent import PINNED_AT, PLACEMENT
from tests.system.e2e.gated.conftest import PATIENCE, GatedSite, gated
from tests.system.e2e.sites import PODS, given, recorded
from tests.system.eventually import eventually
from tools.clusters.api_requests import Json, ask
from tools.clusters.sim.shapes import SimNode
from tools.clusters.waiting import seconds_until

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(150)]

WIDE = SimNode("wide", "two-by-four")
FLEET = [*(SimNode(f"wide-{number}", "two-by-four") for number in range(3)), SimNode("narrow", "eight-zones")]
ZONE = {"key": "topology.kubernetes.io/zone", "operator": "DoesNotExist"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def affinity(*terms: Json, **more: object) -> Json:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [*terms]}, **more}}}


def pinned_to(node: str) -> Json:
    return {"key": "metadata.name", "operator": "In", "values": [node]}


async def test_crowd_runs_where_recorded_without_rejection(site: GatedSite) -> None:
    dice = Random(7)  # noqa: S311  nothing secret
    wishes = [gated(f"crowd-{n:02}", cpu=dice.randint(2, 8), gpu=dice.choice((0, 0, 1))) for n in range(24)]
    async with site.nodes(*FLEET) as cluster:
        await site.create(*wishes)
        await site.until({wish["metadata"]["name"]: "Running" for wish in wishes[:4]})
        for _ in range(60):
            fates = await site.fates()
            if not {"gated", "Pending"} & {*fates.values()}:
                break
            await asyncio.sleep(0.5)
        pods = await site.pods()
        assert [name for name, seen in fates.items() if seen == "Failed"] == []
        running = [pods[name] for name, seen in fates.items() if seen == "Running"]
        assert len(running) >= len(wishes) // 2
        for seen in running:
            if PINNED_AT in seen["metadata"]["annotations"] and PLACEMENT in seen["metadata"]["annotations"]:
                assert recorded(seen) == given(cluster, seen)


ANY_ZONE = {"matchExpressions": [ZONE]}
TERMS: dict[str, tuple[Mapping[str, object], int]] = {
    "without any": ({}, 1),
    "three terms": (affinity(*[ANY_ZONE] * 3), 3),
    "one of two names the node": (affinity({"matchFields": [pinned_to("wide")]}, ANY_ZONE), 2),
}


@pytest.mark.parametrize("what", TERMS)
async def test_pod_with_any_node_affinity_is_pinned(site: GatedSite, what: str) -> None:
    spec, pins = TERMS[what]
    async with site.nodes(WIDE, SimNode("other", "two-by-four")):
        await site.create(gated("asks", cpu=4, gpu=1, **spec))
        await site.until({"asks": "Running"})
        seen = (await site.pods())["asks"]
        assert PLACEMENT in seen["metadata"]["annotations"]
        terms = seen["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
        pin = pinned_to(seen["spec"]["nodeName"])
        assert sum(pin == term.get("matchFields", [None])[-1] for term in terms) == pins
        await site.until_event("asks", "NUMAPinned", "pinned to node")


async def test_a_pod_with_a_spread_is_kept_to_the_nodes_that_fit(site: GatedSite) -> None:
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
    async with site.nodes(WIDE, SimNode("other", "two-by-four")):
        wishes = [gated(f"web-{n}", cpu=4, topologySpreadConstraints=spread) for n in range(4)]
        for wish in wishes:
            wish["metadata"]["labels"] = {"app": "web"}
        await site.create(*wishes)
        await site.until({wish["metadata"]["name"]: "Running" for wish in wishes})
        pods = await site.pods()
        assert sorted(pods[f"web-{n}"]["spec"]["nodeName"] for n in range(4)) == ["other"] * 2 + ["wide"] * 2
        await site.until_event("web-0", "NUMAPinned", "topology spread")


async def test_pod_for_a_future_node_is_not_gated(site: GatedSite) -> None:
    async with site.nodes(SimNode("small", "two-by-four")):
        await site.create(gated("huge", cpu=200))
        took = await site.until({"huge": "pending"}, within=60)
        assert took < PATIENCE + 10
        await site.until_event("huge", "NUMAGateLifted", "no node had room")

        async def unschedulable() -> str:
            conditions = (await site.pods())["huge"]["status"].get("conditions", [])
            return next((each["reason"] for each in conditions if each["type"] == "PodScheduled"), "")

        await seconds_until(unschedulable, lambda seen: seen == "Unschedulable", what="it was", within=30)


async def test_unschedulable_pin_is_reported(site: GatedSite) -> None:
    keeps = {
        "podAntiAffinity": {
            REQUIRED: [
                {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"app": "unwanted"}},
                }
            ]
        }
    }
    async with site.nodes(WIDE):
        await site.create(gated("jealous", cpu=2, affinity=keeps))
        await site.until({"jealous": "Running"})
        wish = gated("unwanted", cpu=2)
        wish["metadata"]["labels"] = {"app": "unwanted"}
        await site.create(wish)
        await site.until({"unwanted": "pending"})
        await site.until_event("unwanted", "NUMAPinnedNotPlaced", "anti-affinity", within=40)
        assert (await site.fates())["unwanted"] == "pending"


async def test_killed_leader_leaves_no_gate_and_no_rejection(site: GatedSite) -> None:
    await site.controllers.start()
    dice = Random(11)  # noqa: S311  nothing secret
    wishes = [gated(f"many-{n:02}", cpu=dice.randint(2, 6), gpu=dice.choice((0, 1))) for n in range(40)]
    async with site.nodes(*FLEET):
        for wish in wishes[:20]:
            await site.create(wish)
        await site.controllers.kill(await site.leader())
        for wish in wishes[20:]:
            await site.create(wish)
        every = {wish["metadata"]["name"] for wish in wishes}

        async def left() -> list[str]:
            fates = await site.fates()
            return [name for name in every if fates[name] == "gated"]

        await eventually(left, lambda seen: not seen, "no gate was left")
        assert (await ask(site.api, "GET", PODS)).code == HTTPStatus.OK
        fates, pods = await site.fates(), await site.pods()
        pinned = [name for name in every if PINNED_AT in pods[name]["metadata"]["annotations"]]
        assert [name for name in pinned if fates[name] == "Failed"] == []
        assert pinned
