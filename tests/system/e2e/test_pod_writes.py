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
from tests.system.e2e.guarded import FOREIGN, change, denied, evict, impersonated, in_force, succeeded
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


def required(*terms: Json, preferred: list[Json] | None = None) -> Json:
    chosen: Json = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}
    if preferred is not None:
        chosen["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return {"affinity": {"nodeAffinity": chosen}}


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
        return not succeeded(await change(thief, "/api/v1/nodes/large", {"spec": {"unschedulable": True}}))

    documents = shipped.documents(shipped.MANIFESTS / "guard" / "controller.yaml")
    async with in_force(Store(admin), plane, documents, denies):
        yield


async def gated(admin: ApiClient, name: str, *, gates: tuple[Json, ...] = (GATE,), **spec: object) -> str:
    wish = pod(name, asks={}, annotations={"team": "blue"}, labels={"app": "web"})
    wish["spec"] |= {**spec, "schedulingGates": gates}
    await ask(admin, "DELETE", f"{SILENT}/{name}", gracePeriodSeconds="0")
    answer = await ask(admin, "POST", SILENT, wish)
    assert answer.code == HTTPStatus.CREATED, answer.body
    return f"{SILENT}/{name}"


def lifted(affinity: Json | None = None, gates: tuple[Json, ...] = ()) -> Json:
    return {"metadata": {"annotations": RECORDS}, "spec": {"schedulingGates": [*gates], **(affinity or {})}}


WISHING = required(*zoned(), preferred=PREFERRED)

LIFTED: dict[str, tuple[Json, Json]] = {
    "without a pin": ({}, lifted()),
    "without a pin, with very many terms": (required(*zoned(3000)), lifted()),
    "pinned": ({}, lifted(required(PINNED))),
    "pinned in a hundred terms": (required(*zoned(100)), lifted(required(*zoned(100, fields=PINNED)))),
    "pinned beside a wish": (WISHING, lifted(required(*zoned(fields=PINNED), preferred=PREFERRED))),
    "kept to nodes": ({}, lifted(required({"matchExpressions": [KEPT]}))),
    "kept to nodes, one of them before the others": (
        WISHING,
        lifted(required(*zoned(1, KEPT), preferred=[*PREFERRED, BEST])),
    ),
    "kept to nodes in every term": (required(*zoned(3)), lifted(required(*zoned(3, KEPT)))),
    "kept off nodes": ({}, lifted(required({"matchExpressions": [KEPT_OFF]}))),
    "kept off nodes in every term": (required(*zoned(3)), lifted(required(*zoned(3, KEPT_OFF)))),
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
    for annotations in (judged, dict.fromkeys(judged)):
        answer = await change(thief, path, {"metadata": {"annotations": annotations}})
        assert answer.code == HTTPStatus.OK, answer.body


AMOUNTS = {"requests": {"cpu": "8", "memory": "32Gi"}, "limits": {"cpu": "8", "memory": "32Gi"}}
TOLERATED = [
    {
        "key": f"node.kubernetes.io/{what}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for what in ("not-ready", "unreachable")
]
"""What every pod gets."""

CHANGES: dict[str, Json] = {
    "an image": {"spec": {"containers": [{"name": "main", "image": "other", "resources": AMOUNTS}]}},
    "a deadline": {"spec": {"activeDeadlineSeconds": 1}},
    "a toleration": {"spec": {"tolerations": [*TOLERATED, {"operator": "Exists"}]}},
    "a node selector": {"spec": {"nodeSelector": {"a": "b"}}},
    **{what: {"metadata": metadata} for what, metadata in FOREIGN.items()},
    "another value of a label": {"metadata": {"labels": {"app": "other"}}},
    "a label less": {"metadata": {"labels": {"app": None}}},
    "another value of an annotation": {"metadata": {"annotations": {"team": "red"}}},
    "an annotation less": {"metadata": {"annotations": {"team": None}}},
    "an annotation of its owner": {"metadata": {"annotations": {"numalign.io/policy": "none"}}},
}
NOTHING_ELSE, NO_AFFINITY = "nothing of a Pod but its gate", "nothing to the affinity of a Pod"
REFUSED: dict[str, tuple[Json, Json, str]] = {
    **{what: ({}, body, NOTHING_ELSE) for what, body in CHANGES.items()},
    **{
        f"{what}, and its gate goes": (
            {},
            {**body, "spec": {**body.get("spec", {}), "schedulingGates": []}},
            NOTHING_ELSE,
        )
        for what, body in CHANGES.items()
    },
    "a zone": ({}, lifted(required(*zoned())), NO_AFFINITY),
    "one more zone": (required(*zoned()), lifted(required(*zoned(1, OTHER_ZONE))), NO_AFFINITY),
    "a zone in one of two terms": (
        required(*zoned(2)),
        lifted(required(*zoned(), *zoned(1, OTHER_ZONE))),
        NO_AFFINITY,
    ),
    "a pin and a zone": ({}, lifted(required({**PINNED, "matchExpressions": [ZONE]})), NO_AFFINITY),
    "a pin and a wish less": (WISHING, lifted(required(*zoned(fields=PINNED), preferred=[])), NO_AFFINITY),
    "a pin and a wish": ({}, lifted(required(PINNED, preferred=PREFERRED)), NO_AFFINITY),
    "a pin while it waits": ({}, {"spec": required(PINNED)}, "only as it lifts the gate"),
    "a pin at another gate": (
        {"gates": (OTHER_GATE,)},
        {"spec": required(PINNED)},
        "only as it lifts the gate",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_controller_changes_nothing_else_of_a_pod(
    admin: ApiClient, thief: ApiClient, what: str
) -> None:
    spec, body, by = REFUSED[what]
    path = await gated(admin, "waits", **spec)
    # The administrator may, so it is the policy that says no.
    assert (await change(admin, path, body)).code == HTTPStatus.OK
    assert denied(await change(thief, path, body), by=by)


# ---- what it removes


async def ended(admin: ApiClient, where: str, **status: str) -> str:
    path = f"{PODS.format(where)}/ended"
    await ask(admin, "DELETE", path, gracePeriodSeconds="0")
    made = await ask(admin, "POST", PODS.format(where), pod("ended", asks={}))
    assert made.code == HTTPStatus.CREATED, made.body
    answer = await ask(admin, "PUT", f"{path}/status", {**made.body, "status": status})
    assert answer.code == HTTPStatus.OK, answer.body
    return path


@pytest.mark.parametrize("reason", sorted(REFUSALS - {"NotAnswered"}))
@pytest.mark.parametrize("where", ["failed", "running"])
async def test_rejected_pod_is_deleted_only_if_labelled(
    admin: ApiClient, thief: ApiClient, where: str, reason: str
) -> None:
    path = await ended(admin, where, phase="Failed", reason=reason)
    answer = await ask(thief, "DELETE", path, dryRun="All")
    assert answer.code == HTTPStatus.OK, answer.body


STAY: dict[str, tuple[str, str, str]] = {
    # of what                          namespace  phase        reason
    "a namespace that says nothing": ("silent",  "Failed",    "TopologyAffinityError"),
    "a namespace that says no":      ("none",    "Failed",    "TopologyAffinityError"),
    "a pod that runs":               ("running", "Running",   ""),
    "a pod that waits":              ("running", "Pending",   ""),
    "a pod that is done":            ("failed",  "Succeeded", ""),
    "a pod that failed by itself":   ("failed",  "Failed",    ""),
    "a pod that was evicted":        ("failed",  "Failed",    "Evicted"),
    "a pod that says so and runs":   ("running", "Running",   "TopologyAffinityError"),
}  # fmt: skip


@pytest.mark.parametrize("what", STAY)
async def test_no_other_pod_is_deleted(admin: ApiClient, thief: ApiClient, what: str) -> None:
    where, phase, reason = STAY[what]
    path = await ended(admin, where, phase=phase, reason=reason)
    assert (await ask(admin, "DELETE", path, dryRun="All")).code == HTTPStatus.OK
    # Nor by a deletion of all pods that there are.
    for each in (path, path.rpartition("/")[0]):
        answer = await ask(thief, "DELETE", each, dryRun="All")
        assert denied(answer, by="delete no Pod but one that its kubelet")


@pytest.mark.parametrize("where", NAMESPACES)
async def test_pod_is_evicted_only_in_labelled_namespaces(
    admin: ApiClient, thief: ApiClient, where: str
) -> None:
    answer = await evict(thief, await ended(admin, where, phase="Running"))
    if where == "running":
        assert answer.code == HTTPStatus.CREATED, answer.body
    else:
        assert denied(answer, by="evict no Pod but in a namespace whose label numalign.io/heal is running")
