"""
Only named accounts write the records by which nodes are reserved: a real API server enforces it.

Roles allow every account here everything with pods; the policy of the chart alone guards records.
"""

from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus

import pytest
import pytest_asyncio
from kubernetes_asyncio.client import ApiClient

from numalign.kube.decode.placements import KAI_OBSERVED, KEYS
from numalign.model.intent import PINNED_AT, PLACEMENT
from tests.system.e2e.guarded import Clients, binding, denied, evict, impersonated, in_force
from tools.clusters import shipped
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import Json, ask, create, pod, read
from tools.clusters.controlplane.planes import Plane
from tools.clusters.processes import until

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("api")]

POLICY = "numalign-records"
PODS = "/api/v1/namespaces/team/pods"

SCORER = f"system:serviceaccount:{shipped.NAMESPACE}:numalign-scorer"
EXPORTER = "system:serviceaccount:kai-scheduler:exporter"
CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"
KUBELET, TENANT = "system:node:large", "tenant"
PEOPLE = (SCORER, EXPORTER, CONTROLLER, KUBELET, TENANT, "administrator")

RECORD = {PLACEMENT: '[{"zones":["node-0"],"amount":{"cpu":"8"}}]'}
LIE = {PLACEMENT: "[]"}


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def clients(plane: Plane) -> AsyncIterator[Clients]:
    async with impersonated(plane, *PEOPLE) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="session", scope="module", autouse=True)
async def guarded(admin: ApiClient, clients: Clients, plane: Plane) -> AsyncIterator[None]:
    """The policy as it is shipped, with one more writer; gone afterwards, for others bind here too."""
    policy, to_all = shipped.documents(shipped.MANIFESTS / "scorer" / "guard" / "records.yaml")
    [condition] = policy["spec"]["matchConditions"]
    condition["expression"] = condition["expression"].replace(f"'{SCORER}'", f"'{SCORER}', '{EXPORTER}'")

    async def denies() -> bool:
        lie = pod("first", asks={}, annotations=LIE)
        return denied(await create(clients[TENANT], lie, dryRun="All"), POLICY)

    async def allows() -> bool:
        return not await denies()

    async with in_force(Store(admin), plane, (policy, to_all), denies):
        yield
    await until(allows, what="the policy was gone", child=plane.child, seconds=30)


def bind(name: str, annotations: Mapping[str, str]) -> Json:
    return binding(name, "large", namespace="team", annotations=dict(annotations))


async def bound(clients: Clients, name: str) -> Json:
    made = await create(clients[TENANT], pod(name, asks={}))
    assert made.code == HTTPStatus.CREATED, made.body
    answer = await ask(clients[SCORER], "POST", f"{PODS}/{name}/binding", bind(name, RECORD))
    assert answer.code == HTTPStatus.CREATED, answer.body
    return (await read(clients[TENANT], name)).body


async def annotations_of(clients: Clients, name: str) -> Mapping[str, str]:
    found: Mapping[str, str] = (await read(clients[TENANT], name)).body["metadata"].get("annotations", {})
    return found


def annotated(found: Json, annotations: Mapping[str, str | None]) -> Json:
    """The same object with other annotations; None takes one away."""
    changed = {**found["metadata"].get("annotations", {}), **annotations}
    kept = {key: text for key, text in changed.items() if text is not None}
    return {**found, "metadata": {**found["metadata"], "annotations": kept}}


@pytest.mark.parametrize("key", sorted({*KEYS, PINNED_AT}))
@pytest.mark.parametrize("who", [TENANT, "administrator", CONTROLLER, KUBELET])
async def test_pod_cannot_be_created_with_a_record(clients: Clients, who: str, key: str) -> None:
    answer = await create(clients[who], pod("liar", asks={}, annotations={key: "[]"}))
    assert denied(answer, POLICY), answer
    for part in (f"the annotation {key} ", SCORER, f"not by {who}: remove it from the pod or its template"):
        assert part in answer.body["message"]
    honest = await create(clients[who], pod("honest", asks={}), dryRun="All")
    assert honest.code == HTTPStatus.CREATED, honest


CHANGES: dict[str, Mapping[str, str | None]] = {
    "change": LIE,
    "remove": {PLACEMENT: None},
    "pin": {PINNED_AT: "2026-11-23T01:00:00Z"},
    "add": {KAI_OBSERVED: '[{"zone":"node-0","amount":{"cpu":"64"}}]'},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("part", ["", "/status"])
async def test_record_cannot_be_changed(
    clients: Clients, part: str, change: Mapping[str, str | None]
) -> None:
    found = await bound(clients, "kept")
    answer = await ask(clients[TENANT], "PUT", f"{PODS}/kept{part}", annotated(found, change))
    assert denied(answer, POLICY), answer
    assert "leave it as it is" in answer.body["message"]
    assert await annotations_of(clients, "kept") == RECORD


@pytest.mark.parametrize("part", ["ephemeralcontainers", "resize"])
async def test_subresources_change_no_record(clients: Clients, part: str) -> None:
    found = await bound(clients, "kept")
    await ask(clients[TENANT], "PUT", f"{PODS}/kept/{part}", annotated(found, LIE))
    assert await annotations_of(clients, "kept") == RECORD


@pytest.mark.parametrize("part", ["pods/waits/binding", "bindings"])
@pytest.mark.parametrize("who", [TENANT, "administrator", CONTROLLER])
async def test_record_cannot_be_set_by_a_binding(clients: Clients, who: str, part: str) -> None:
    await create(clients[TENANT], pod("waits", asks={}))
    path = f"/api/v1/namespaces/team/{part}"
    answer = await ask(clients[who], "POST", path, bind("waits", LIE))
    assert denied(answer, POLICY), answer
    assert "nodeName" not in (await read(clients[TENANT], "waits")).body["spec"]
    assert (await ask(clients[who], "POST", path, bind("waits", {}))).code == HTTPStatus.CREATED


async def test_eviction_carries_no_record(clients: Clients) -> None:
    await bound(clients, "evicted")
    assert denied(await evict(clients[TENANT], f"{PODS}/evicted", annotations=LIE), POLICY)
    assert (await evict(clients[TENANT], f"{PODS}/evicted")).code == HTTPStatus.CREATED


async def test_pods_with_records_can_be_written_otherwise(clients: Clients) -> None:
    """By accounts that the policy names, by kubelets, and by owners."""
    found = await bound(clients, "written")
    running = {**found, "status": {**found["status"], "phase": "Running", "hostIP": "10.0.0.1"}}
    reported = await ask(clients[KUBELET], "PUT", f"{PODS}/written/status", running)
    assert (reported.code, reported.body["status"]["phase"]) == (HTTPStatus.OK, "Running"), reported
    labelled = await ask(
        clients[TENANT], "PUT", f"{PODS}/written", annotated(reported.body, {"team": "blue"})
    )
    assert labelled.code == HTTPStatus.OK, labelled
    observed = annotated(labelled.body, CHANGES["add"])
    assert (await ask(clients[EXPORTER], "PUT", f"{PODS}/written", observed)).code == HTTPStatus.OK

    assert await annotations_of(clients, "written") == {**RECORD, "team": "blue", **CHANGES["add"]}
