"""
A cluster with the scheduler that everybody has, no extender, and a controller that keeps gates.

The kubelets' managers are the real ones. The controller comes as its service account with the roles that the
chart gives it for gates, and the policy that keeps it to what it may write is in force.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import pytest_asyncio

from numalign.model.intent import GATE, PLACEMENT_GATE, Gate
from tests.system.e2e import sites
from tests.system.e2e.own_planes import OwnPlane, charted_rights, controllers_of, need_managers, stocked
from tests.system.e2e.sites import SimulatedSite, counted
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
from tools.clusters.sim.shapes import SimNode
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
