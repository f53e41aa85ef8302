"""
A cluster with the real controllers of workloads, and a controller that reports pods and tells their owners.

The controller comes as its service account with the roles of the chart, and the policy that keeps it to what
it may write is in force. Nodes are played: who schedules and who runs pods is the test.
"""

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import pytest
import pytest_asyncio
import yaml
from kubernetes_asyncio.client.api_client import ApiClient

from certs import authority
from numalign.kube.client import Api, Patch
from numalign.kube.decode.kubelet_reports import PLACEMENTS, ObservedPlacement, write_placements
from numalign.model.placement import Held
from tests.worlds.manifests import topology
from tests.worlds.notation import bag, node
from tools.clusters import shipped
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import Json, ask
from tools.clusters.controlplane import controllers
from tools.clusters.controlplane.planes import BINARIES, Place, Plane
from tools.clusters.gotools import UnavailableError
from tools.clusters.helm import build
from tools.clusters.processes import Children
from tools.clusters.replicas import ONLY_METRICS, Replicas, replicas
from tools.clusters.sim.desk import TOPOLOGIES, ApiDesk
from tools.clusters.waiting import SELDOM, seconds_until
from tools.generate.manifests import made

TEAM = "team"
PODS = f"/api/v1/namespaces/{TEAM}/pods"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
REPORTS = "/apis/wgpolicyk8s.io/v1alpha2"
REPORT = f"{REPORTS}/namespaces/{TEAM}/policyreports/numalign"
OF_NODES = f"{REPORTS}/clusterpolicyreports/numalign"
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/numalign-reports"

VALUES = "policyReports.enabled=true ownerEvents.enabled=true tls.source=cert-manager"
NAMES = frozenset({shipped.CONTROLLER, "numalign-reports"})
USERS = {"admin": "system:masters", shipped.CONTROLLERS: shipped.GROUPS, **controllers.USERS}

MACHINE = node("cpu=16 mem=64Gi", "cpu=16 mem=64Gi", policy="restricted")
SPREAD: Held = {("node-0",): bag("cpu=1 mem=1Gi"), ("node-1",): bag("cpu=1 mem=1Gi")}
TOGETHER: Held = {("node-1",): bag("cpu=2 mem=2Gi")}


@dataclass(frozen=True, slots=True)
class ReportedSite:
    """A control plane with its controllers, and our controller."""

    plane: Plane
    api: ApiClient
    replicas: Replicas

    async def add_node(self, name: str) -> None:
        """A node of two zones, which is empty."""
        amounts = {"cpu": "32", "memory": "128Gi", "pods": "110"}
        status = {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        body = {"metadata": {"name": name}, "status": status}
        for path, document in (("/api/v1/nodes", body), (TOPOLOGIES, topology(name, MACHINE))):
            answer = await ask(self.api, "POST", path, document)
            assert answer.code == HTTPStatus.CREATED, answer.body

    async def deploy(self, name: str, policy: str | None) -> None:
        """A Deployment of one pod of 2 CPUs."""
        amounts = {"cpu": "2", "memory": "2Gi"}
        container = {"name": "main", "image": "main", "resources": {"limits": amounts, "requests": amounts}}
        annotations = {"numalign.io/policy": policy} if policy else {}
        template = {
            "metadata": {"labels": {"app": name}, "annotations": annotations},
            "spec": {"containers": [container]},
        }
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
        body = {"metadata": {"name": name, "namespace": TEAM}, "spec": spec}
        answer = await ask(self.api, "POST", f"/apis/apps/v1/namespaces/{TEAM}/deployments", body)
        assert answer.code == HTTPStatus.CREATED, answer.body

    async def pods(self) -> dict[str, Json]:
        """The pods by what their Deployment is called."""
        items = (await ask(self.api, "GET", PODS)).body["items"]
        return {each["metadata"]["labels"]["app"]: each for each in items}

    async def run(self, held: Mapping[str, Held], *, on: str) -> None:
        """The pods of these Deployments run on a node, whose agent says what they hold."""
        pods = await self.pods()
        now = "2026-11-22T08:00:00Z"
        for name in held:
            pod = pods[name]["metadata"]["name"]
            target = {"apiVersion": "v1", "kind": "Node", "name": on}
            binding = {"metadata": {"name": pod}, "target": target}
            assert (await ask(self.api, "POST", f"{PODS}/{pod}/binding", binding)).code == HTTPStatus.CREATED
            status = {"phase": "Running", "startTime": now}
            await self._patch(f"{PODS}/{pod}/status", {"status": status}, Patch.STRATEGIC)
        seen = {pods[name]["metadata"]["uid"]: ObservedPlacement(placed, 0) for name, placed in held.items()}
        annotations = {PLACEMENTS: write_placements(seen)}
        await self._patch(f"{TOPOLOGIES}/{on}", {"metadata": {"annotations": annotations}}, Patch.MERGE)

    async def define(self) -> None:
        """Somebody installs the definitions of policy reports."""
        text = (Path(__file__).parents[1] / "policyreports.yaml").read_text()
        for document in yaml.safe_load_all(text):
            answer = await ask(self.api, "POST", DEFINITIONS, document)
            assert answer.code == HTTPStatus.CREATED, answer.body

    async def until(self, path: str, code: HTTPStatus, *, within: float = 150) -> Json:
        """What stands at a path once it answers so."""

        async def answered() -> Json:
            answer = await ask(self.api, "GET", path)
            return {"code": answer.code, "body": answer.body}

        await seconds_until(
            answered,
            lambda seen: seen["code"] == code,
            what=f"{path} answers {code}",
            within=within,
            every=SELDOM,
        )
        return (await ask(self.api, "GET", path)).body

    async def _patch(self, path: str, body: Json, how: Patch) -> None:
        await Api(self.api, namespace=TEAM).patch(path, body, how=how, what=path)

    @asynccontextmanager
    async def thief(self) -> AsyncIterator[ApiClient]:
        """Somebody who is taken for the controller, with every right that roles can give."""
        async with self.plane.client("admin") as client:
            client.set_default_header("Impersonate-User", shipped.CONTROLLERS)
            client.set_default_header("Impersonate-Group", "system:masters")
            yield client


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
    children: Children,
    pair: authority.Files,
) -> AsyncIterator[ReportedSite]:
    """Without nodes, pods and definitions of reports; our controller leads."""
    try:
        [helm] = await build.find()
    except UnavailableError as error:
        pytest.skip(f"NOTHING WAS REPORTED: {error}")
    wanted = [each for (kind, name), each in (await made(helm, VALUES)).items() if _is_wanted(kind, name)]
    place = Place(pytestconfig.stash[BINARIES], tmp_path_factory.mktemp("reported"), pair)
    if not (place.binaries / controllers.PROGRAM).is_file():
        pytest.skip(f"{place.binaries} has no {controllers.PROGRAM}")
    plane = Plane(children, place, users=USERS)
    await plane.start()
    async with plane.client("admin") as client:
        await ApiDesk(Api(client, namespace="default")).learn()
        for document in (*shipped.documents(shipped.MANIFESTS / "namespace.yaml"), *wanted):
            await Store(client).apply(document)
        namespace = {"metadata": {"name": TEAM, "labels": {"numalign.io/warn": "restricted"}}}
        assert (await ask(client, "POST", "/api/v1/namespaces", namespace)).code == HTTPStatus.CREATED
        async with (
            controllers.controllers(children, plane),
            replicas(
                children, command=command(plane), name="controller", scheme="http", ports=ONLY_METRICS
            ) as ours,
        ):
            await ours.start()
            yield ReportedSite(plane, client, ours)
    await plane.end()


def _is_wanted(kind: str, name: str) -> bool:
    """Whether an object of the chart is about what the controller may do."""
    return name in NAMES and ("Role" in kind or "Policy" in kind) and kind != "NetworkPolicy"


def command(plane: Plane) -> tuple[str, ...]:
    """The controller, which does nothing about pods but tell of them."""
    return (
        *(sys.executable, "-m", "controller", f"--namespace={shipped.NAMESPACE}", "--bind=127.0.0.1"),
        f"--kubeconfig={plane.kubeconfig(shipped.CONTROLLERS, plane.folder)}",
        *("--policy-reports=true", "--owner-events=true", "--label-nodes=false", "--drain-seconds=1"),
    )
