"""Pods behind the gate run where their zones are, the important ones first, and none waits for ever."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from random import Random

import pytest
import pytest_asyncio

from numalign.model.intent import GATE, PINNED_AT, PLACEMENT, PLACEMENT_GATE, PLACEMENT_OBSERVED, Gate
from tests.system.e2e import sites
from tests.system.e2e.guarded import granted_uses, rights_of
from tests.system.e2e.programs import OwnPlane, charted_rights, controllers_of, need_managers, stocked
from tests.system.e2e.sites import SimulatedSite, counted, given, recorded
from tests.system.eventually import eventually
from tools.clusters import shipped
from tools.clusters.api_objects import namespace
from tools.clusters.api_requests import INTENT, Json
from tools.clusters.controlplane.schedulers import USERS as SCHEDULERS
from tools.clusters.controlplane.schedulers import scheduler
from tools.clusters.processes import Children
from tools.clusters.replicas import Replica, Replicas
from tools.clusters.sim.cluster import Cluster, simulated
from tools.clusters.sim.fingerprints import Fingerprint
from tools.clusters.sim.shapes import GPU, SimNode
from tools.clusters.waiting import SELDOM, seconds_until

USERS = {"admin": "system:masters", shipped.CONTROLLERS: shipped.GROUPS, **SCHEDULERS}
PATIENCE = 10
"""Seconds that a pod waits for zones here, and that a pin waits for its scheduler."""


@dataclass(frozen=True, slots=True)
class GatedSite(SimulatedSite):
    """A control plane with its scheduler, and controllers beside it."""

    controllers: Replicas
    roles: Sequence[Json]

    @asynccontextmanager
    async def nodes(self, *machines: SimNode, observe: bool = False) -> AsyncIterator[Cluster]:
        """These nodes during the block, once the controller knows them; afterwards neither they nor pods."""
        try:
            async with simulated(
                self.server, machines, fingerprint=Fingerprint.ALL, observe=observe
            ) as cluster:
                await sites.until_nodes(await self.leader(), len(machines))
                yield cluster
        finally:
            # After the exporters have ended: they would publish the topologies again.
            await self.clear(machines)
            await sites.until_nodes(await self.leader(), 0)

    async def fates(self) -> dict[str, str]:
        """What each pod is: gated, pending, or in the phase that its kubelet says."""
        return {
            name: "gated" if seen["spec"].get("schedulingGates") else sites.phase(seen) or "pending"
            for name, seen in (await self.pods()).items()
        }

    async def until(self, wanted: Mapping[str, str], *, within: float = 30) -> float:
        return await seconds_until(
            self.fates,
            lambda seen: wanted.items() <= seen.items(),
            what=f"{dict(wanted)}",
            within=within,
            every=SELDOM,
        )

    async def until_event(self, name: str, reason: str, text: str) -> None:
        """Returns when an event of this reason on a pod contains the text."""
        await eventually(
            partial(self.events, name, reason),
            lambda seen: any(text in each for each in seen),
            f"{reason} was {text}",
        )

    async def leader(self) -> Replica:
        async def leading() -> list[Replica]:
            running = [each for each in self.controllers.running if each.ready]
            return [each for each in running if await counted(each, "numalign_leader")]

        [leader] = await eventually(leading, lambda seen: len(seen) == 1, "one led")
        return leader


def gated(name: str, *, cpu: int, gpu: int = 0, app: str = "", **spec: object) -> Json:
    """A pod that wants all of it from one zone, and waits behind the gate."""
    gates = [{"name": PLACEMENT_GATE}]
    wish = sites.pod(name, cpu=cpu, gpu=gpu, annotations=INTENT, schedulingGates=gates, **spec)
    return wish | {"metadata": wish["metadata"] | {"labels": {"app": app}}}


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def site(own_plane: OwnPlane, children: Children) -> AsyncIterator[GatedSite]:
    await need_managers()
    rights = await charted_rights("gates.enabled=true tls.source=cert-manager")
    patience = f"--gate-patience-seconds={PATIENCE}", f"--pin-patience-seconds={PATIENCE}"
    async with (
        own_plane("gated", users=USERS, needs=["kube-scheduler"], audited=(shipped.CONTROLLERS,)) as plane,
        plane.client("admin") as client,
        controllers_of(children, plane, "--gates=true", *patience) as controllers,
        scheduler(children, plane),
    ):
        store = await stocked(client, (*rights, namespace("default", {GATE: Gate.ENABLED})))
        await controllers.start()
        running = GatedSite(plane, store, controllers, rights)
        await running.leader()
        yield running


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

        fates = await eventually(
            site.fates, lambda seen: not {"gated", "Pending"} & {*seen.values()}, "no pod was on its way"
        )
        pods = await site.pods()
        assert "Failed" not in fates.values()
        running = [pods[name] for name, fate in fates.items() if fate == "Running"]
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
        await site.create(gated("asks", cpu=4, gpu=1, app="", **spec))
        await site.until({"asks": "Running"})
        seen = (await site.pods())["asks"]
        assert PLACEMENT in seen["metadata"]["annotations"]
        terms = seen["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
        pin = pinned_to(seen["spec"]["nodeName"])
        assert sum(pin == term.get("matchFields", [None])[-1] for term in terms) == pins
        await site.until_event("asks", "NUMAPinned", "pinned to node")


async def test_what_a_pod_holds_is_written_to_it(site: GatedSite) -> None:
    async with site.nodes(WIDE, observe=True) as cluster:
        await site.create(gated("seen", cpu=8, gpu=3))
        await site.until({"seen": "Running"})
        await cluster.idle()
        [observed] = json.loads((await site.pods())["seen"]["metadata"]["annotations"][PLACEMENT_OBSERVED])
        assert observed["amount"] == {"cpu": "8", "memory": str(8 * 2**30), GPU: "3"}


def by_host(app: str, **more: object) -> Json:
    return {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": app}},
        **more,
    }


async def test_a_pod_with_a_spread_is_kept_to_the_nodes_that_fit(site: GatedSite) -> None:
    spread = [by_host("web", maxSkew=1, whenUnsatisfiable="DoNotSchedule")]
    names = [f"web-{n}" for n in range(4)]
    async with site.nodes(WIDE, SimNode("other", "two-by-four")):
        await site.create(
            *(gated(name, cpu=4, app="web", topologySpreadConstraints=spread) for name in names)
        )
        await site.until(dict.fromkeys(names, "Running"))
        pods = await site.pods()
        assert sorted(pods[name]["spec"]["nodeName"] for name in names) == ["other"] * 2 + ["wide"] * 2
        await site.until_event("web-0", "NUMAPinned", "topology spread")


async def test_pod_for_a_future_node_is_not_gated(site: GatedSite) -> None:
    async with site.nodes(SimNode("small", "two-by-four")):
        await site.create(gated("huge", cpu=200))
        took = await site.until({"huge": "pending"}, within=60)
        assert took < PATIENCE + 10
        await site.until_event("huge", "NUMAGateLifted", "no node had room")

        async def reason() -> str:
            conditions = (await site.pods())["huge"]["status"].get("conditions", [])
            return next((each["reason"] for each in conditions if each["type"] == "PodScheduled"), "")

        await eventually(reason, lambda seen: seen == "Unschedulable", "it was")


async def test_unschedulable_pin_is_reported(site: GatedSite) -> None:
    keeps = {"podAntiAffinity": {REQUIRED: [by_host("unwanted")]}}
    async with site.nodes(WIDE):
        await site.create(gated("jealous", cpu=2, affinity=keeps))
        await site.until({"jealous": "Running"})
        await site.create(gated("unwanted", cpu=2, app="unwanted"))
        await site.until({"unwanted": "pending"})
        await site.until_event("unwanted", "NUMAPinnedNotPlaced", "anti-affinity")
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
        fates = await eventually(site.fates, lambda seen: "gated" not in seen.values(), "no gate was left")
        pods = await site.pods()
        pinned = [name for name, seen in pods.items() if PINNED_AT in seen["metadata"]["annotations"]]
        assert len(fates) == len(wishes)
        assert [name for name in pinned if fates[name] == "Failed"] == []
        assert pinned


# ---- the rights, in the audit log of all that these tests made the controller do

OF_GATES = {
    *(("resource.k8s.io", "deviceclasses", verb) for verb in ("list", "watch")),
    *(("", "pods", verb) for verb in ("get", "patch")),
}


async def test_gates_use_all_their_rights_and_no_other(site: GatedSite) -> None:
    allowed, usual = [rights_of(shipped.CONTROLLER, roles) for roles in (site.roles, shipped.objects())]
    assert {right[1:4] for right in allowed if not right[0]} - {right[1:4] for right in usual} == OF_GATES
    uses = granted_uses(site.plane, shipped.CONTROLLERS, allowed)
    assert OF_GATES - {(use.group, use.resource, use.verb) for use in uses} == set()
