"""
Policy reports and events of owners on a real API server, as their programs read them.

One test after another, on one cluster: the definitions of reports are not there, are installed, and the
reports are switched off.
"""

import json
from http import HTTPStatus

import pytest

from tests.system.e2e.played import DEPLOYMENTS, SPREAD, TEAM, deploy
from tests.system.e2e.reported.conftest import OF_NODES, REPORT, REPORTS, ROLE, TOGETHER, ReportedSite
from tests.system.eventually import eventually
from tools.clusters import shipped
from tools.clusters.api_requests import Json, ask
from tools.clusters.processes import program, run
from tools.clusters.waiting import seconds_until

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVENTS = f"/api/v1/namespaces/{TEAM}/events"


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
    await site.add_node("a")
    for name, policy in (("good", "restricted"), ("bad", "restricted"), ("lax", None)):
        await deploy(site.api, name, 1, policy)

    await eventually(site.pods, lambda seen: len(seen) == 3, "there are three pods")
    await site.run({"good": TOGETHER, "bad": SPREAD, "lax": {}}, on="a")

    assert (await ask(site.api, "GET", REPORTS)).code == HTTPStatus.NOT_FOUND
    [controller] = site.replicas.running
    assert "report.failed" not in controller.log.read_text()


async def test_deployment_of_pods_below_warn_has_an_event(site: ReportedSite) -> None:
    async def events() -> dict[str, Json]:
        found = (await ask(site.api, "GET", EVENTS)).body["items"]
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
    await site.define()

    report = await site.until(REPORT, HTTPStatus.OK)

    assert outcomes(report) == EXPECTED
    assert report["summary"] == {"error": 0, "fail": 1, "warn": 1, "skip": 0, "pass": 6}
    [failed] = [result for result in report["results"] if result["result"] == "fail"]
    assert failed["source"] == failed["policy"] == "numalign"
    assert failed["resources"][0]["uid"] == (await site.pods())["bad"]["metadata"]["uid"]
    assert failed["properties"]["owner"].startswith("ReplicaSet/bad-")
    assert failed["timestamp"]["seconds"] > 0


async def test_nodes_are_in_a_report_of_the_cluster(site: ReportedSite) -> None:
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
    body = {
        "apiVersion": "wgpolicyk8s.io/v1alpha2",
        "kind": "PolicyReport",
        "metadata": {"name": "kyverno", "namespace": "default"},
        "results": [],
    }
    path = f"{REPORTS}/namespaces/default/policyreports"
    ours = {
        "name": "numalign",
        "namespace": "default",
        "labels": {"app.kubernetes.io/managed-by": "numalign"},
    }
    assert (await ask(site.api, "POST", path, body)).code == HTTPStatus.CREATED

    async with site.thief() as clients:
        thief = clients[shipped.CONTROLLERS]
        denied = [
            await ask(thief, "DELETE", f"{path}/kyverno"),
            await ask(thief, "POST", path, {**body, "metadata": {"name": "mine", "namespace": "default"}}),
            await ask(thief, "POST", path, {**body, "metadata": {**ours, "labels": {}}}),
        ]
        allowed = [
            await ask(thief, "POST", path, {**body, "metadata": ours}),
            await ask(thief, "DELETE", f"{path}/numalign"),
        ]

    assert [answer.code for answer in denied] == [HTTPStatus.FORBIDDEN] * 3, denied
    assert all("no policy report but its own" in answer.body["message"] for answer in denied)
    assert [answer.code for answer in allowed] == [HTTPStatus.CREATED, HTTPStatus.OK], allowed


async def test_report_is_removed_with_its_pods(site: ReportedSite) -> None:
    for name in ("good", "bad", "lax"):
        await ask(site.api, "DELETE", f"{DEPLOYMENTS}/{name}")
    for pod in (await site.pods()).values():
        path = f"/api/v1/namespaces/{TEAM}/pods/{pod['metadata']['name']}"
        await ask(site.api, "DELETE", path, gracePeriodSeconds="0")

    await site.until(REPORT, HTTPStatus.NOT_FOUND)

    [controller] = site.replicas.running

    async def log() -> str:
        return controller.log.read_text()

    # It hears of its success after the report has gone.
    await seconds_until(log, lambda text: "report.removed" in text, what="it was logged", within=30)


async def test_switched_off_reports_go_with_the_role(site: ReportedSite) -> None:
    await site.until(OF_NODES, HTTPStatus.OK)
    assert (await ask(site.api, "DELETE", ROLE)).code == HTTPStatus.OK

    await site.until(OF_NODES, HTTPStatus.NOT_FOUND)
    # Whoever wrote them may not any more.
    assert (await ask(site.api, "GET", f"{REPORTS}/policyreports")).body["items"][0]["metadata"]["name"] == (
        "kyverno"
    )
