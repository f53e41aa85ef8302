"""
A cluster with the real controllers of workloads, and a controller that writes reports and owners' events.

The controller comes as its service account with the roles of the chart, and the policy that keeps it to what
it may write is in force. No kubelet runs: the tests place and run pods.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest_asyncio
from kubernetes_asyncio.client.api_client import ApiClient

from numalign.kube.client import Patch
from numalign.kube.decode.kubelet_reports import PLACEMENTS, ObservedPlacement, write_placements
from numalign.model.placement import Held
from tests.system.bindings import binding
from tests.system.e2e import played
from tests.system.e2e.guarded import impersonated
from tests.system.e2e.own_planes import OwnPlane, charted_rights, controllers_of, stocked
from tests.system.e2e.played import PODS, TEAM, change, create
from tests.system.eventually import eventually
from tests.worlds.notation import bag, node
from tools.clusters import shipped
from tools.clusters.api_objects import namespace
from tools.clusters.api_requests import Json, ask
from tools.clusters.controlplane import controllers
from tools.clusters.controlplane.planes import Plane
from tools.clusters.processes import Children
from tools.clusters.replicas import Replicas
from tools.clusters.sim.desk import TOPOLOGIES

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
REPORTS = "/apis/wgpolicyk8s.io/v1alpha2"
REPORT = f"{REPORTS}/namespaces/{TEAM}/policyreports/numalign"
OF_NODES = f"{REPORTS}/clusterpolicyreports/numalign"
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/numalign-reports"

VALUES = "policyReports.enabled=true ownerEvents.enabled=true tls.source=cert-manager"
USERS = {"admin": "system:masters", shipped.CONTROLLERS: shipped.GROUPS, **controllers.USERS}

MACHINE = node("cpu=16 mem=64Gi", "cpu=16 mem=64Gi", policy="restricted")
TOGETHER: Held = {("node-1",): bag("cpu=2 mem=2Gi")}


@dataclass(frozen=True, slots=True)
class ReportedSite:
    """A control plane with its controllers, and our controller."""

    plane: Plane
    api: ApiClient
    replicas: Replicas

    async def add_node(self, name: str) -> None:
        await played.add_node(self.api, name, MACHINE, cpu=32, gib=128)

    async def pods(self) -> dict[str, Json]:
        return {each["metadata"]["labels"]["app"]: each for each in await played.pods(self.api)}

    async def run(self, held: Mapping[str, Held], *, on: str) -> None:
        """The pods of these Deployments run on a node, and hold this there as its agent observes."""
        pods = await self.pods()
        for name in held:
            path = f"{PODS}/{pods[name]['metadata']['name']}"
            await create(self.api, f"{path}/binding", binding(pods[name]["metadata"]["name"], on))
            status = {"phase": "Running", "startTime": "2026-11-22T08:00:00Z"}
            await change(self.api, f"{path}/status", {"status": status}, Patch.STRATEGIC)
        seen = {pods[name]["metadata"]["uid"]: ObservedPlacement(placed, 0) for name, placed in held.items()}
        annotations = {PLACEMENTS: write_placements(seen)}
        await change(self.api, f"{TOPOLOGIES}/{on}", {"metadata": {"annotations": annotations}})

    async def define(self) -> None:
        for document in shipped.documents(Path(__file__).parents[1] / "policyreports.yaml"):
            await create(self.api, DEFINITIONS, document)

    async def until(self, path: str, code: HTTPStatus) -> Json:
        """The object at a path once the API server answers with this code."""
        look = partial(ask, self.api, "GET", path)
        return (
            await eventually(look, lambda seen: seen.code == code, f"{path} answers {code}", within=150)
        ).body

    def thief(self) -> AbstractAsyncContextManager[dict[str, ApiClient]]:
        """Somebody with the controller's name and with every right that roles can give."""
        return impersonated(self.plane, shipped.CONTROLLERS)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(own_plane: OwnPlane, children: Children) -> AsyncIterator[ReportedSite]:
    """Without nodes, pods and definitions of reports; our controller leads."""
    rights = await charted_rights(VALUES, shipped.CONTROLLER, "numalign-reports")
    flags = "--policy-reports=true", "--owner-events=true", "--label-nodes=false"
    async with (
        own_plane("reported", users=USERS, needs=[controllers.PROGRAM]) as plane,
        plane.client("admin") as client,
        controllers.controllers(children, plane),
        controllers_of(children, plane, *flags) as ours,
    ):
        await stocked(client, (*rights, namespace(TEAM, {"numalign.io/warn": "restricted"})))
        await ours.start()
        yield ReportedSite(plane, client, ours)
