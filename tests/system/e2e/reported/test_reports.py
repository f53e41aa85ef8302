"""
Policy reports and events of owners on a real API server, as their programs read them.

One test after another, on one cluster: the definitions of reports are not there, are installed, and the
reports are switched off.
"""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest
import pytest_asyncio
from kubernetes_asyncio.client.api_client import ApiClient

from numalign.kube.client import Api, Patch
from numalign.kube.decode.kubelet_reports import PLACEMENTS, ObservedPlacement, write_placements
from numalign.model.placement import Held
from tests.system.e2e.guarded import binding, denied, impersonated, succeeded
from tests.system.e2e.programs import OwnPlane, charted_rights, controllers_of, stocked
from tests.system.eventually import eventually
from tests.worlds.manifests import topology
from tests.worlds.notation import bag, node
from tools.clusters import shipped
from tools.clusters.api_objects import make_ready, namespace
from tools.clusters.api_requests import Json, ask
from tools.clusters.controlplane import schedulers
from tools.clusters.controlplane.planes import Plane
from tools.clusters.processes import Children, program, run
from tools.clusters.replicas import Replica
from tools.clusters.sim.desk import TOPOLOGIES

TEAM = "team"
PODS = f"/api/v1/namespaces/{TEAM}/pods"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{TEAM}/deployments"

USERS = {"admin": "system:masters", shipped.CONTROLLERS: shipped.GROUPS, **schedulers.USERS}
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
        own_plane("reported", users=USERS, needs=[schedulers.MANAGER]) as plane,
        plane.client("admin") as client,
        schedulers.controllers(children, plane),
        controllers_of(children, plane, *flags) as ours,
    ):
        await stocked(client, (*rights, namespace(TEAM, {"numalign.io/warn": "restricted"})))
        yield ReportedSite(plane, client, await ours.start())


pytestmark = pytest.mark.asyncio(loop_scope="session")

REPORTS = "/apis/wgpolicyk8s.io/v1alpha2"
REPORT = f"{REPORTS}/namespaces/{TEAM}/policyreports/numalign"
OF_NODES = f"{REPORTS}/clusterpolicyreports/numalign"

HELD: dict[str, Held] = {
    "good": {("node-1",): bag("cpu=2 mem=2Gi")},
    "bad": {("node-0",): bag("cpu=1 mem=1Gi"), ("node-1",): bag("cpu=1 mem=1Gi")},
    "lax": {},
}


def outcomes(report: Json) -> dict[tuple[str, str], str]:
    """What came of each rule, by the beginning of a pod's name and the rule."""
    return {
        (result["resources"][0]["name"].split("-")[0], result["rule"]): result["result"]
        for result in report["results"]
    }


EXPECTED = {
    ("bad", "aligned"): "fail",
    ("bad", "level-warn"): "pass",
    ("bad", "admitted-today"): "pass",
    ("good", "aligned"): "pass",
    ("good", "level-warn"): "pass",
    ("good", "admitted-today"): "pass",
    ("lax", "level-warn"): "warn",
    ("lax", "admitted-today"): "pass",
}


async def test_missing_report_definitions_are_no_error(site: ReportedSite) -> None:
    amounts = {"cpu": "32", "memory": "128Gi", "pods": "500"}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
    await site.create("/api/v1/nodes", {"metadata": {"name": "a"}, "status": status})
    await site.create(TOPOLOGIES, topology("a", MACHINE))
    await make_ready(site.api, "a")
    for name, policy in (("good", "restricted"), ("bad", "restricted"), ("lax", None)):
        await site.deploy(name, policy)
    await eventually(site.pods, lambda seen: len(seen) == 3, "there are three pods")
    await site.run(HELD, on="a")
    assert (await ask(site.api, "GET", REPORTS)).code == HTTPStatus.NOT_FOUND
    assert "report.failed" not in site.controller.log.read_text()


async def test_deployment_of_pods_below_warn_has_an_event(site: ReportedSite) -> None:
    async def events() -> dict[str, Json]:
        found = (await ask(site.api, "GET", f"/api/v1/namespaces/{TEAM}/events")).body["items"]
        return {each["involvedObject"]["name"]: each for each in found if each["reason"] == "NUMABelowWarn"}

    found = await eventually(events, lambda seen: "lax" in seen, "it has an event")
    assert [*found] == ["lax"]
    deployment = (await ask(site.api, "GET", f"{DEPLOYMENTS}/lax")).body
    involved = found["lax"]["involvedObject"]
    assert (involved["kind"], involved["uid"]) == ("Deployment", deployment["metadata"]["uid"])
    assert found["lax"]["message"] == (
        "its pods are admitted with a warning: this namespace expects NUMA alignment restricted; the pod"
        " requests nothing"
    )


async def test_reports_begin_once_their_kinds_are_installed(site: ReportedSite) -> None:
    for document in shipped.documents(Path(__file__).parents[1] / "policyreports.yaml"):
        await site.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", document)

    report = await site.until(REPORT, HTTPStatus.OK)

    assert outcomes(report) == EXPECTED
    assert report["summary"] == {"error": 0, "fail": 1, "warn": 1, "skip": 0, "pass": 6}
    [failed] = [result for result in report["results"] if result["result"] == "fail"]
    assert failed["source"] == failed["policy"] == "numalign"
    assert failed["resources"][0]["uid"] == (await site.pods())["bad"]["metadata"]["uid"]
    assert failed["properties"]["owner"].startswith("ReplicaSet/bad-")
    assert failed["timestamp"]["seconds"] > 0
    report = await site.until(OF_NODES, HTTPStatus.OK)

    assert [(result["resources"][0]["name"], result["result"]) for result in report["results"]] == [
        ("a", "pass")
    ]


async def test_check_agrees_with_the_reports(site: ReportedSite) -> None:
    kubeconfig = site.plane.kubeconfig("admin", site.plane.folder)
    code, output = await run(
        program("kubectl-numa"), "check", "-A", "--all", "-o", "json", f"--kubeconfig={kubeconfig}"
    )

    assert code == 1, output
    answer = json.loads(output[output.index("[") :])
    shown = {
        (pod["name"].split("-")[0], result["rule"]): result["outcome"]
        for pod in answer
        for result in pod["results"]
    }
    assert shown == EXPECTED


async def test_reports_of_others_are_left_alone(site: ReportedSite) -> None:
    body = {"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "results": []}
    path = f"{REPORTS}/namespaces/default/policyreports"

    def named(name: str, **labels: str) -> Json:
        return {**body, "metadata": {"name": name, "namespace": "default", "labels": labels}}

    ours = named("numalign", **{"app.kubernetes.io/managed-by": "numalign"})
    assert succeeded(await ask(site.api, "POST", path, named("kyverno")))

    # Somebody with the controller's name and with every right that roles can give.
    async with impersonated(site.plane, shipped.CONTROLLERS) as clients:
        thief = clients[shipped.CONTROLLERS]
        for method, where, wish in (
            ("DELETE", f"{path}/kyverno", None),
            ("POST", path, named("mine")),
            ("POST", path, named("numalign")),
        ):
            answer = await ask(thief, method, where, wish)
            assert denied(answer, "no policy report but its own"), answer
        assert succeeded(await ask(thief, "POST", path, ours))
        assert succeeded(await ask(thief, "DELETE", f"{path}/numalign"))


async def test_report_is_removed_with_its_pods(site: ReportedSite) -> None:
    for name in HELD:
        await ask(site.api, "DELETE", f"{DEPLOYMENTS}/{name}")
    for pod in (await site.pods()).values():
        await ask(site.api, "DELETE", f"{PODS}/{pod['metadata']['name']}", gracePeriodSeconds="0")

    await site.until(REPORT, HTTPStatus.NOT_FOUND)

    async def log() -> str:
        return site.controller.log.read_text()

    # It hears of its success after the report has gone.
    await eventually(log, lambda text: "report.removed" in text, "it was logged")


async def test_switched_off_reports_go_with_the_role(site: ReportedSite) -> None:
    await site.until(OF_NODES, HTTPStatus.OK)
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/numalign-reports"
    assert succeeded(await ask(site.api, "DELETE", role))
    await site.until(OF_NODES, HTTPStatus.NOT_FOUND)
    # Those of others stay.
    left = (await ask(site.api, "GET", f"{REPORTS}/policyreports")).body["items"]
    assert [each["metadata"]["name"] for each in left] == ["kyverno"]
