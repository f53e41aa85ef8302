"""
What the controller's account may do to pods: a real API server limits it to that.

Roles give it every right here, so only the policy of the chart protects the pods of others.
"""

from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus

import pytest
import pytest_asyncio
from kubernetes_asyncio.client import ApiClient

from numalign.scheduling.recent_refusals import REFUSALS
from tests.system.e2e.guarded import change, denied, impersonated, in_force, owner
from tools.clusters import shipped
from tools.clusters.api_objects import Store, namespace
from tools.clusters.api_requests import Json, ask, pod
from tools.clusters.controlplane.planes import Plane

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("api")]

PODS = "/api/v1/namespaces/{}/pods"

HEAL = "numalign.io/heal"
NAMESPACES = {"silent": {}, **{level: {HEAL: level} for level in ("none", "failed", "running")}}
SILENT = PODS.format("silent")

GATE, OTHER_GATE = {"name": "numalign.io/placement"}, {"name": "example.com/quota"}
ZONE = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}
OTHER_ZONE = {"key": "topology.kubernetes.io/zone", "operator": "NotIn", "values": ["b"]}
PIN = {"key": "metadata.name", "operator": "In", "values": ["large"]}
KEPT = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["large", "small"]}
KEPT_OFF = {"key": "numalign.io/node", "operator": "NotIn", "values": ["large"]}
PREFERRED = [{"weight": 1, "preference": {"matchExpressions": [ZONE]}}]
BEST = {"weight": 100, "preference": {"matchFields": [PIN]}}
RECORDS = {"numalign.io/placement": "[]", "numalign.io/pinned-at": "2026-11-23T01:00:00Z"}


def required(*terms: Json, **more: object) -> Json:
    chosen = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}
    return {"affinity": {"nodeAffinity": {**chosen, **more}}}


def zoned(number: int = 1, *more: Json, fields: Mapping[str, object] | None = None) -> list[Json]:
    return [{"matchExpressions": [ZONE, *more], **(fields or {})}] * number


PINNED = {"matchFields": [PIN]}


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def thief(plane: Plane) -> AsyncIterator[ApiClient]:
    """A client with the controller's name, with every right that roles can give."""
    async with impersonated(plane, shipped.CONTROLLERS) as clients:
        yield clients[shipped.CONTROLLERS]


@pytest_asyncio.fixture(loop_scope="session", scope="module", autouse=True)
async def guarded(admin: ApiClient, thief: ApiClient, plane: Plane) -> AsyncIterator[None]:
    """The policy as it is shipped, and namespaces whose labels allow removals."""
    for name, labels in NAMESPACES.items():
        await Store(admin).apply(namespace(name, labels))

    async def denies() -> bool:
        answer = await change(thief, "/api/v1/nodes/large", {"spec": {"unschedulable": True}})
        return answer.code != HTTPStatus.OK

    documents = shipped.documents(shipped.MANIFESTS / "guard" / "controller.yaml")
    async with in_force(Store(admin), plane, documents, denies):
        yield


async def gated(admin: ApiClient, name: str, *, gates: tuple[Json, ...] = (GATE,), **spec: object) -> str:
    wish = pod(name, asks={}, annotations={"team": "blue"}, labels={"app": "web"})
    await ask(admin, "DELETE", f"{SILENT}/{name}", gracePeriodSeconds="0")
    answer = await ask(
        admin, "POST", SILENT, {**wish, "spec": {**wish["spec"], **spec, "schedulingGates": gates}}
    )
    assert answer.code == HTTPStatus.CREATED, answer.body
    return f"{SILENT}/{name}"


def lifted(affinity: Json | None = None, gates: tuple[Json, ...] = ()) -> Json:
    return {"metadata": {"annotations": RECORDS}, "spec": {"schedulingGates": [*gates], **(affinity or {})}}


LIFTED: dict[str, tuple[Json, Json]] = {
    "without a pin": ({}, lifted()),
    "without a pin, with terms": (required(*zoned(2)), lifted()),
    "pinned": ({}, lifted(required(PINNED))),
    "pinned in every term": (required(*zoned(2)), lifted(required(*zoned(2, fields=PINNED)))),
    "pinned beside a wish": (
        required(*zoned(), preferredDuringSchedulingIgnoredDuringExecution=PREFERRED),
        lifted(required(*zoned(fields=PINNED), preferredDuringSchedulingIgnoredDuringExecution=PREFERRED)),
    ),
    "kept to nodes": ({}, lifted(required({"matchExpressions": [KEPT]}))),
    "kept to nodes, one of them before the others": (
        required(*zoned(), preferredDuringSchedulingIgnoredDuringExecution=PREFERRED),
        lifted(required(*zoned(1, KEPT), preferredDuringSchedulingIgnoredDuringExecution=[*PREFERRED, BEST])),
    ),
    "kept off nodes": ({}, lifted(required({"matchExpressions": [KEPT_OFF]}))),
    "kept off nodes in every term": (required(*zoned(3)), lifted(required(*zoned(3, KEPT_OFF)))),
    "kept to nodes in every term": (required(*zoned(3)), lifted(required(*zoned(3, KEPT)))),
    "without a pin, with very many terms": (required(*zoned(3000)), lifted()),
    "pinned in a hundred terms": (required(*zoned(100)), lifted(required(*zoned(100, fields=PINNED)))),
}


@pytest.mark.parametrize("what", LIFTED)
async def test_controller_lifts_its_gate(admin: ApiClient, thief: ApiClient, what: str) -> None:
    spec, body = LIFTED[what]
    answer = await change(thief, await gated(admin, "waits", **spec), body)
    assert answer.code == HTTPStatus.OK, answer.body
    assert "schedulingGates" not in answer.body["spec"]


async def test_controller_lifts_no_other_gate(admin: ApiClient, thief: ApiClient) -> None:
    path = await gated(admin, "waits", gates=(OTHER_GATE, GATE))
    answer = await change(thief, path, lifted(required(PINNED), gates=(OTHER_GATE,)))
    assert answer.code == HTTPStatus.OK, answer.body
    assert denied(await change(thief, path, lifted(gates=(GATE,))), by="lift no gate of a Pod but")


async def test_controller_annotates_running_pods(admin: ApiClient, thief: ApiClient) -> None:
    path = await gated(admin, "runs", gates=())
    judged = {"numalign.io/aligned": "false", "numalign.io/aligned-why": "two zones"}
    answer = await change(thief, path, {"metadata": {"annotations": judged}})
    assert answer.code == HTTPStatus.OK, answer.body
    taken_away = dict.fromkeys(judged)
    assert (await change(thief, path, {"metadata": {"annotations": taken_away}})).code == HTTPStatus.OK


AMOUNTS = {"requests": {"cpu": "8", "memory": "32Gi"}, "limits": {"cpu": "8", "memory": "32Gi"}}
ANOTHER_IMAGE = [{"name": "main", "image": "registry.example/miner", "resources": AMOUNTS}]
# Every pod gets these.
TOLERATED = [
    {
        "key": f"node.kubernetes.io/{what}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for what in ("not-ready", "unreachable")
]
CHANGES: dict[str, Json] = {
    "an image": {"spec": {"containers": ANOTHER_IMAGE}},
    "a deadline": {"spec": {"activeDeadlineSeconds": 1}},
    "a toleration": {"spec": {"tolerations": [*TOLERATED, {"operator": "Exists"}]}},
    "a node selector": {"spec": {"nodeSelector": {"a": "b"}}},
    "a label": {"metadata": {"labels": {"app": "other"}}},
    "a label less": {"metadata": {"labels": {"app": None}}},
    "an annotation": {"metadata": {"annotations": {"team": "red"}}},
    "an annotation less": {"metadata": {"annotations": {"team": None}}},
    "an annotation of its owner": {"metadata": {"annotations": {"numalign.io/policy": "none"}}},
    "a finalizer": {"metadata": {"finalizers": ["example.com/stay"]}},
    "an owner": {"metadata": owner()},
}


@pytest.mark.parametrize("what", CHANGES)
async def test_controller_changes_nothing_else_of_a_pod(
    admin: ApiClient, thief: ApiClient, what: str
) -> None:
    path = await gated(admin, "waits")
    # The administrator may, so it is the policy that says no; also where the gate goes with it.
    assert (await change(admin, path, CHANGES[what])).code == HTTPStatus.OK
    body = {"spec": {}, **CHANGES[what]}
    for each in (body, {**body, "spec": {**body["spec"], "schedulingGates": []}}):
        assert denied(await change(thief, path, each), by="nothing of a Pod but its gate")


ELSEWHERE: dict[str, tuple[Json, Json]] = {
    "a zone": ({}, required(*zoned())),
    "one more zone": (required(*zoned()), required(*zoned(1, OTHER_ZONE))),
    "a zone in one of two terms": (required(*zoned(2)), required(*zoned(), *zoned(1, OTHER_ZONE))),
    "a pin and a zone": ({}, required({**PINNED, "matchExpressions": [ZONE]})),
    "a pin and a wish less": (
        required(*zoned(), preferredDuringSchedulingIgnoredDuringExecution=PREFERRED),
        required(*zoned(fields=PINNED), preferredDuringSchedulingIgnoredDuringExecution=[]),
    ),
    "a pin and a wish": ({}, required(PINNED, preferredDuringSchedulingIgnoredDuringExecution=PREFERRED)),
}


@pytest.mark.parametrize("what", ELSEWHERE)
async def test_no_pod_is_sent_elsewhere_but_to_nodes_by_name(
    admin: ApiClient, thief: ApiClient, what: str
) -> None:
    spec, affinity = ELSEWHERE[what]
    path = await gated(admin, "waits", **spec)
    assert (await change(admin, path, lifted(affinity))).code == HTTPStatus.OK
    assert denied(await change(thief, path, lifted(affinity)), by="nothing to the affinity of a Pod")


@pytest.mark.parametrize("gates", [(GATE,), (OTHER_GATE,)], ids=["its own", "another"])
async def test_a_pod_is_pinned_only_as_it_is_let_go(
    admin: ApiClient, thief: ApiClient, gates: tuple[Json, ...]
) -> None:
    path = await gated(admin, "waits", gates=gates)
    body = {"spec": required(PINNED)}
    assert (await change(admin, path, body)).code == HTTPStatus.OK
    assert denied(await change(thief, path, body), by="only as it lifts the gate")


# ---- what it removes


async def ended(admin: ApiClient, where: str, status: Mapping[str, str]) -> str:
    path = f"{PODS.format(where)}/ended"
    await ask(admin, "DELETE", path, gracePeriodSeconds="0")
    made = await ask(admin, "POST", PODS.format(where), pod("ended", asks={}))
    assert made.code == HTTPStatus.CREATED, made.body
    answer = await ask(admin, "PUT", f"{path}/status", {**made.body, "status": dict(status)})
    assert answer.code == HTTPStatus.OK, answer.body
    return path


REFUSED = {"phase": "Failed", "reason": "TopologyAffinityError"}
REASONS = sorted(REFUSALS - {"NotAnswered"})


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("where", ["failed", "running"])
async def test_rejected_pod_is_deleted_only_if_labelled(
    admin: ApiClient, thief: ApiClient, where: str, reason: str
) -> None:
    path = await ended(admin, where, {"phase": "Failed", "reason": reason})
    answer = await ask(thief, "DELETE", path, dryRun="All")
    assert answer.code == HTTPStatus.OK, answer.body


STAY: dict[str, tuple[str, Mapping[str, str]]] = {
    "a namespace that says nothing": ("silent", REFUSED),
    "a namespace that says no": ("none", REFUSED),
    "a pod that runs": ("running", {"phase": "Running"}),
    "a pod that waits": ("running", {"phase": "Pending"}),
    "a pod that is done": ("failed", {"phase": "Succeeded"}),
    "a pod that failed by itself": ("failed", {"phase": "Failed"}),
    "a pod that was evicted": ("failed", {"phase": "Failed", "reason": "Evicted"}),
    "a pod that says so and runs": ("running", {"phase": "Running", "reason": "TopologyAffinityError"}),
}


@pytest.mark.parametrize("what", STAY)
async def test_no_other_pod_is_deleted(admin: ApiClient, thief: ApiClient, what: str) -> None:
    path = await ended(admin, *STAY[what])
    assert (await ask(admin, "DELETE", path, dryRun="All")).code == HTTPStatus.OK
    assert denied(await ask(thief, "DELETE", path, dryRun="All"), by="delete no Pod but one that its kubelet")


async def test_controller_deletes_no_collection_of_pods(admin: ApiClient, thief: ApiClient) -> None:
    await ended(admin, "running", {"phase": "Running"})
    answer = await ask(thief, "DELETE", PODS.format("running"), dryRun="All")
    assert denied(answer, by="delete no Pod but one that its kubelet")


@pytest.mark.parametrize("where", NAMESPACES)
async def test_pod_is_evicted_only_in_labelled_namespaces(
    admin: ApiClient, thief: ApiClient, where: str
) -> None:
    path = await ended(admin, where, {"phase": "Running"})
    metadata = {"name": "ended", "namespace": where}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    answer = await ask(thief, "POST", f"{path}/eviction", eviction)
    if where == "running":
        assert answer.code == HTTPStatus.CREATED, answer.body
    else:
        assert denied(answer, by="evict no Pod but in a namespace whose label numalign.io/heal is running")
