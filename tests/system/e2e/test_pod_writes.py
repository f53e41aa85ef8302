"""
What the controller's account may do to pods: a real API server keeps it to that.

It comes here with every right that roles can give, so only the policy of the chart is between it and the
pods of everybody.
"""

from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus

import pytest
import pytest_asyncio
from kubernetes_asyncio.client import ApiClient

from numalign.kube.client import Patch
from numalign.scheduling.recent_refusals import REFUSALS
from tools.clusters import api_requests, shipped
from tools.clusters.api_objects import Store, namespace
from tools.clusters.api_requests import Answer, Json, ask, pod
from tools.clusters.controlplane.planes import Plane
from tools.clusters.processes import until

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("api")]

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
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
    """The affinity of a spec."""
    chosen = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}
    return {"affinity": {"nodeAffinity": {**chosen, **more}}}


def zoned(number: int = 1, *more: Json, fields: Mapping[str, object] | None = None) -> list[Json]:
    """So many terms that ask for a zone, and for `more`."""
    return [{"matchExpressions": [ZONE, *more], **(fields or {})}] * number


PINNED = {"matchFields": [PIN]}


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def thief(plane: Plane) -> AsyncIterator[ApiClient]:
    """Somebody who is taken for the controller, with every right that roles can give."""
    async with plane.client("admin") as client:
        client.set_default_header("Impersonate-User", shipped.CONTROLLERS)
        client.set_default_header("Impersonate-Group", "system:masters")
        yield client


@pytest_asyncio.fixture(loop_scope="session", scope="module", autouse=True)
async def guarded(admin: ApiClient, thief: ApiClient, plane: Plane) -> AsyncIterator[None]:
    """The policy as it is shipped, and namespaces that say what may be removed."""
    for name, labels in NAMESPACES.items():
        await Store(admin).apply(namespace(name, labels))
    documents = shipped.documents(shipped.MANIFESTS / "guard" / "controller.yaml")
    for path, document in zip((POLICIES, BINDINGS), documents, strict=True):
        answer = await ask(admin, "POST", path, document)
        assert answer.code == HTTPStatus.CREATED, answer.body

    async def denies() -> bool:
        answer = await api_requests.patch(
            thief, "/api/v1/nodes/large", {"spec": {"unschedulable": True}}, how=Patch.MERGE, dryRun="All"
        )
        return answer.code != HTTPStatus.OK

    await until(denies, what="the policy was in force", child=plane.child, seconds=30)
    yield
    for path in (BINDINGS, POLICIES):
        await ask(admin, "DELETE", f"{path}/numalign-controller")


async def gated(admin: ApiClient, name: str, *, gates: tuple[Json, ...] = (GATE,), **spec: object) -> str:
    """The path of a pod that waits behind gates."""
    wish = pod(name, asks={}, annotations={"team": "blue"}, labels={"app": "web"})
    await ask(admin, "DELETE", f"{SILENT}/{name}", gracePeriodSeconds="0")
    answer = await ask(
        admin, "POST", SILENT, {**wish, "spec": {**wish["spec"], **spec, "schedulingGates": gates}}
    )
    assert answer.code == HTTPStatus.CREATED, answer.body
    return f"{SILENT}/{name}"


async def patch(api: ApiClient, path: str, body: Json) -> Answer:
    """Nothing is stored."""
    return await api_requests.patch(api, path, body, how=Patch.MERGE, dryRun="All")


def denied(answer: Answer, by: str) -> bool:
    return answer.code == HTTPStatus.FORBIDDEN and by in answer.body["message"]


def lifted(affinity: Json | None = None, gates: tuple[Json, ...] = ()) -> Json:
    """The change by which a pod is let go."""
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
async def test_a_pod_is_let_go(admin: ApiClient, thief: ApiClient, what: str) -> None:
    spec, change = LIFTED[what]
    answer = await patch(thief, await gated(admin, "waits", **spec), change)
    assert answer.code == HTTPStatus.OK, answer.body
    assert "schedulingGates" not in answer.body["spec"]


async def test_it_lifts_its_gate_and_leaves_the_others(admin: ApiClient, thief: ApiClient) -> None:
    path = await gated(admin, "waits", gates=(OTHER_GATE, GATE))
    answer = await patch(thief, path, lifted(required(PINNED), gates=(OTHER_GATE,)))
    assert answer.code == HTTPStatus.OK, answer.body
    assert denied(await patch(thief, path, lifted(gates=(GATE,))), by="lift no gate of a Pod but")


async def test_it_annotates_what_runs(admin: ApiClient, thief: ApiClient) -> None:
    path = await gated(admin, "runs", gates=())
    said = {"numalign.io/aligned": "false", "numalign.io/aligned-why": "two zones"}
    answer = await patch(thief, path, {"metadata": {"annotations": said}})
    assert answer.code == HTTPStatus.OK, answer.body
    taken_away = dict.fromkeys(said)
    assert (await patch(thief, path, {"metadata": {"annotations": taken_away}})).code == HTTPStatus.OK


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
    "an owner": {
        "metadata": {
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Namespace",
                    "name": "x",
                    "uid": "00000000-0000-0000-0000-000000000000",
                }
            ]
        }
    },
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
async def test_nothing_else_of_a_pod_changes(admin: ApiClient, thief: ApiClient, what: str) -> None:
    path = await gated(admin, "waits")
    # The administrator may, so it is the policy that says no; also where the gate goes with it.
    assert (await patch(admin, path, CHANGES[what])).code == HTTPStatus.OK
    change = {"spec": {}, **CHANGES[what]}
    for each in (change, {**change, "spec": {**change["spec"], "schedulingGates": []}}):
        assert denied(await patch(thief, path, each), by="nothing of a Pod but its gate")


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
    assert (await patch(admin, path, lifted(affinity))).code == HTTPStatus.OK
    assert denied(await patch(thief, path, lifted(affinity)), by="nothing to the affinity of a Pod")


@pytest.mark.parametrize("gates", [(GATE,), (OTHER_GATE,)], ids=["its own", "another"])
async def test_a_pod_is_pinned_only_as_it_is_let_go(
    admin: ApiClient, thief: ApiClient, gates: tuple[Json, ...]
) -> None:
    path = await gated(admin, "waits", gates=gates)
    change = {"spec": required(PINNED)}
    assert (await patch(admin, path, change)).code == HTTPStatus.OK
    assert denied(await patch(thief, path, change), by="only as it lifts the gate")


# ---- what it removes


async def ended(admin: ApiClient, where: str, status: Mapping[str, str]) -> str:
    """The path of a pod in that state."""
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


async def test_nor_are_all_at_once(admin: ApiClient, thief: ApiClient) -> None:
    await ended(admin, "running", {"phase": "Running"})
    answer = await ask(thief, "DELETE", PODS.format("running"), dryRun="All")
    assert denied(answer, by="delete no Pod but one that its kubelet")


@pytest.mark.parametrize("where", NAMESPACES)
async def test_pod_is_evicted_only_in_labelled_namespaces(
    admin: ApiClient, thief: ApiClient, where: str
) -> None:
    path = await ended(admin, where, {"phase": "Running"})
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "ended", "namespace": where},
    }
    answer = await ask(thief, "POST", f"{path}/eviction", eviction)
    if where == "running":
        assert answer.code == HTTPStatus.CREATED, answer.body
    else:
        assert denied(answer, by="evict no Pod but in a namespace whose label numalign.io/heal is running")


async def test_other_writers_are_not_guarded(admin: ApiClient) -> None:
    """A person may do what he may."""
    path = await gated(admin, "waits")
    assert (await patch(admin, path, CHANGES["an image"])).code == HTTPStatus.OK
