"""
A cluster with the real controllers of workloads, and a controller that writes reports and owners' events.

The controller comes as its service account with the roles of the chart, and the policy that keeps it to what
it may write is in force. No kubelet runs: the tests place and run pods.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest_asyncio
from kubernetes_asyncio.client.api_client import ApiClient

from numalign.kube.client import Api, Patch
from numalign.kube.decode.kubelet_reports import PLACEMENTS, ObservedPlacement, write_placements
from numalign.model.placement import Held
from tests.system.bindings import binding
from tests.system.e2e.own_planes import OwnPlane, charted_rights, controllers_of, stocked
from tests.system.eventually import eventually
from tests.worlds.manifests import topology
from tests.worlds.notation import node
from tools.clusters import shipped
from tools.clusters.api_objects import make_ready, namespace
from tools.clusters.api_requests import Json, ask
from tools.clusters.controlplane import controllers
from tools.clusters.controlplane.planes import Plane
from tools.clusters.processes import Children
from tools.clusters.replicas import Replica
from tools.clusters.sim.desk import TOPOLOGIES

TEAM = "team"
PODS = f"/api/v1/namespaces/{TEAM}/pods"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{TEAM}/deployments"

USERS = {"admin": "system:masters", shipped.CONTROLLERS: shipped.GROUPS, **controllers.USERS}
MACHINE = node("cpu=16 mem=64Gi", "cpu=16 mem=64Gi", policy="restricted")


@dataclass(frozen=True, slots=True)
class ReportedSite:
    """A control plane with its controllers, and our controller."""

    plane: Plane
    api: ApiClient
    controller: Replica

    async def create(self, path: str, document: Json) -> None:
        answer = await ask(self.api, "POST", path, document)
        assert answer.code == HTTPStatus.CREATED, answer.body

    async def add_node(self, name: str) -> None:
        amounts = {"cpu": "32", "memory": "128Gi", "pods": "500"}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
        await self.create("/api/v1/nodes", {"metadata": {"name": name}, "status": status})
        await self.create(TOPOLOGIES, topology(name, MACHINE))
        await make_ready(self.api, name)

    async def deploy(self, name: str, policy: str | None) -> None:
        amounts = {"cpu": "2", "memory": "2Gi"}
        container = {"name": "main", "image": "main", "resources": {"limits": amounts, "requests": amounts}}
        annotations = {"numalign.io/policy": policy} if policy else {}
        labels = {"app": name}
        template = {
            "metadata": {"labels": labels, "annotations": annotations},
            "spec": {"containers": [container]},
        }
        described = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        await self.create(DEPLOYMENTS, {"metadata": {"name": name, "namespace": TEAM}, "spec": described})

    async def pods(self) -> dict[str, Json]:
        items = (await ask(self.api, "GET", PODS)).body["items"]
        return {each["metadata"]["labels"]["app"]: each for each in items}

    async def run(self, held: Mapping[str, Held], *, on: str) -> None:
        """The pods of these Deployments run on a node, and hold this there as its agent observes."""
        pods, server = await self.pods(), Api(self.api, namespace=TEAM)
        for name in held:
            path = f"{PODS}/{pods[name]['metadata']['name']}"
            await self.create(f"{path}/binding", binding(pods[name]["metadata"]["name"], on))
            status = {"phase": "Running", "startTime": "2026-11-22T08:00:00Z"}
            await server.patch(f"{path}/status", {"status": status}, how=Patch.STRATEGIC, what=path)
        seen = {pods[name]["metadata"]["uid"]: ObservedPlacement(placed, 0) for name, placed in held.items()}
        body = {"metadata": {"annotations": {PLACEMENTS: write_placements(seen)}}}
        await server.patch(f"{TOPOLOGIES}/{on}", body, how=Patch.MERGE, what=on)

    async def define(self) -> None:
        for document in shipped.documents(Path(__file__).parents[1] / "policyreports.yaml"):
            await self.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", document)

    async def until(self, path: str, code: HTTPStatus) -> Json:
        """The object at a path once the API server answers with this code."""
        look = partial(ask, self.api, "GET", path)
        return (
            await eventually(look, lambda seen: seen.code == code, f"{path} answers {code}", within=150)
        ).body


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(own_plane: OwnPlane, children: Children) -> AsyncIterator[ReportedSite]:
    """Without nodes, pods and definitions of reports; our controller leads."""
    values = "policyReports.enabled=true ownerEvents.enabled=true tls.source=cert-manager"
    rights = await charted_rights(values, shipped.CONTROLLER, "numalign-reports")
    flags = "--policy-reports=true", "--owner-events=true", "--label-nodes=false"
    async with (
        own_plane("reported", users=USERS, needs=[controllers.PROGRAM]) as plane,
        plane.client("admin") as client,
        controllers.controllers(children, plane),
        controllers_of(children, plane, *flags) as ours,
    ):
        await stocked(client, (*rights, namespace(TEAM, {"numalign.io/warn": "restricted"})))
        yield ReportedSite(plane, client, await ours.start())
