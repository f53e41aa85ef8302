"""
Nobody weakens the intent of a pod where a namespace enforces a level: a real API server prevents it.

Necessary writes are allowed: those of owners, controllers, kubelets, schedulers and our programs.
"""

from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus

import pytest
import pytest_asyncio
from kubernetes_asyncio.client import ApiClient

from numalign.kube.client import Patch
from numalign.model.intent import ALIGNED, PINNED_AT, PLACEMENT, PLACEMENT_OBSERVED
from tests.system.e2e.guarded import Clients, binding, change, denied, granted, impersonated, in_force
from tools.clusters import shipped
from tools.clusters.api_objects import Store, namespace
from tools.clusters.api_requests import Answer, Json, ask, patch, pod
from tools.clusters.controlplane.planes import Plane

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("api")]

POLICIES = "numalign-levels"
SINGLE, RESTRICTED = "single-numa-node", "restricted"
POLICY, VOLCANO, RESOURCES = "numalign.io/policy", "volcano.sh/numa-topology-policy", "numalign.io/resources"

STRICT, LAX = "levels-strict", "levels-lax"
NAMESPACES = {STRICT: {"numalign.io/enforce": RESTRICTED}, LAX: {"numalign.io/default": RESTRICTED}}
PODS = f"/api/v1/namespaces/{STRICT}/pods"

TENANT = "tenant"
KUEUE = "system:serviceaccount:kueue-system:kueue-controller-manager"
JOBSET = "system:serviceaccount:jobset-system:jobset-controller-manager"
JOBS = "system:serviceaccount:kube-system:job-controller"
KUBELET, SCHEDULER = "system:node:large", "system:kube-scheduler"
AGENT = "system:serviceaccount:numalign-agent:numalign-agent"
CONTROLLER = f"system:serviceaccount:{shipped.NAMESPACE}:numalign-controller"
MASTERS = (KUEUE, JOBSET, JOBS, KUBELET, AGENT, CONTROLLER)

OF_PODS = ["pods", "pods/status", "pods/resize", "pods/ephemeralcontainers", "pods/binding", "bindings"]
OTHER_GATE = {"name": "kueue.x-k8s.io/admission"}
GATES = [{"name": "numalign.io/placement"}, OTHER_GATE]


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def clients(plane: Plane) -> AsyncIterator[Clients]:
    """A tenant and a scheduler with their roles, others with every right."""
    others = dict.fromkeys((TENANT, SCHEDULER), "system:authenticated")
    async with impersonated(plane, *MASTERS, **others) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="session", scope="module", autouse=True)
async def guarded(admin: ApiClient, clients: Clients, plane: Plane) -> AsyncIterator[None]:
    """The policy as it is shipped, two namespaces, and a tenant who may do everything with pods there."""
    store = Store(admin)
    rule = {"apiGroups": [""], "resources": OF_PODS, "verbs": ["*"]}
    for name, labels in NAMESPACES.items():
        for document in (namespace(name, labels), *granted(TENANT, rule, TENANT, name)):
            await store.apply(document)
    first = await made(admin, "first")

    async def denies() -> bool:
        return denied(await annotate(clients[TENANT], first, {POLICY: None}), POLICIES)

    documents = shipped.documents(shipped.MANIFESTS / "guard" / "levels.yaml")
    async with in_force(store, plane, documents, denies):
        yield


async def made(
    admin: ApiClient,
    name: str = "web",
    *,
    annotations: Mapping[str, str] | None = None,
    where: str = STRICT,
    gates: bool = False,
) -> str:
    path = f"/api/v1/namespaces/{where}/pods"
    await patch(admin, f"{path}/{name}", {"metadata": {"finalizers": None}}, how=Patch.MERGE)
    await ask(admin, "DELETE", f"{path}/{name}", gracePeriodSeconds="0")
    annotations = {POLICY: SINGLE} if annotations is None else annotations
    wish = pod(name, asks={}, annotations=annotations, finalizers=["batch.kubernetes.io/x"])
    wish["spec"] |= {"schedulingGates": GATES} if gates else {}
    answer = await ask(admin, "POST", path, wish)
    assert answer.code == HTTPStatus.CREATED, answer.body
    return f"{path}/{name}"


async def annotate(api: ApiClient, path: str, annotations: Mapping[str, str | None]) -> Answer:
    return await change(api, path, {"metadata": {"annotations": dict(annotations)}})


WEAKENED: dict[str, Mapping[str, str | None]] = {
    "removed": {POLICY: None},
    "loosened": {POLICY: "best-effort"},
    "nonsense": {POLICY: "strictly"},
    "opted out by another word": {VOLCANO: "none"},
    "less is aligned": {RESOURCES: "memory"},
}


@pytest.mark.parametrize("what", WEAKENED)
@pytest.mark.parametrize("gates", [False, True], ids=["", "gated"])
async def test_intent_of_a_pod_cannot_be_weakened(
    admin: ApiClient, clients: Clients, what: str, *, gates: bool
) -> None:
    path = await made(admin, gates=gates)
    for who in (TENANT, KUEUE, JOBS, KUBELET, AGENT, CONTROLLER):
        for part in ("", "/status"):
            answer = await annotate(clients[who], f"{path}{part}", WEAKENED[what])
            assert denied(answer, POLICIES), (who, part, answer.body)
            assert f"the annotation {next(iter(WEAKENED[what]))} of" in answer.body["message"]


@pytest.mark.parametrize("part", ["", "/status", "/resize", "/ephemeralcontainers"])
async def test_no_subresource_weakens_an_intent(admin: ApiClient, clients: Clients, part: str) -> None:
    path = await made(admin)
    weaker = {"metadata": {"annotations": {POLICY: "none"}}}
    await patch(clients[TENANT], f"{path}{part}", weaker, how=Patch.MERGE)
    found = (await ask(admin, "GET", path)).body
    bare = {**found, "metadata": {**found["metadata"], "annotations": None}}
    await ask(clients[TENANT], "PUT", f"{path}{part}", bare)
    assert (await ask(admin, "GET", path)).body["metadata"]["annotations"][POLICY] == SINGLE


@pytest.mark.parametrize("path", [f"{PODS}/web/binding", f"/api/v1/namespaces/{STRICT}/bindings"])
async def test_binding_cannot_weaken_an_intent(admin: ApiClient, clients: Clients, path: str) -> None:
    await made(admin)

    async def bound(who: str, annotations: Mapping[str, str]) -> Answer:
        wish = binding("web", "large", namespace=STRICT, annotations=dict(annotations))
        return await ask(clients[who], "POST", path, wish, dryRun="All")

    for weaker in ({POLICY: "none"}, {RESOURCES: "memory"}):
        assert denied(await bound(TENANT, weaker), POLICIES)
    for who, annotations in (
        (TENANT, {}),
        (TENANT, {"a": "b", POLICY: SINGLE}),
        (SCHEDULER, {PLACEMENT: "[]"}),
        (SCHEDULER, {POLICY: "best-effort", RESOURCES: "memory"}),
    ):
        # The role of kube-scheduler has no right to bindings, which is deprecated.
        if who != SCHEDULER or path.startswith(PODS):
            answer = await bound(who, annotations)
            assert answer.code == HTTPStatus.CREATED, answer.body


STRICTER: dict[str, tuple[Mapping[str, str], Mapping[str, str | None]]] = {
    "the other policy that meets the level": ({POLICY: SINGLE}, {POLICY: RESTRICTED}),
    "a stricter policy": ({POLICY: RESTRICTED}, {POLICY: SINGLE}),
    "one where there was none": ({}, {POLICY: SINGLE}),
    "one instead of an opt-out": ({POLICY: "none"}, {POLICY: RESTRICTED}),
    "everything instead of a part": ({POLICY: SINGLE, RESOURCES: "cpu"}, {RESOURCES: None}),
    "how it is aligned": ({POLICY: SINGLE, "numalign.io/scope": "pod"}, {"numalign.io/scope": None}),
    "something else": ({POLICY: SINGLE}, {"team": "blue", "numalign.io/aligned": "true"}),
}


@pytest.mark.parametrize("what", STRICTER)
async def test_an_owner_changes_what_weakens_nothing(admin: ApiClient, clients: Clients, what: str) -> None:
    before, after = STRICTER[what]
    answer = await annotate(clients[TENANT], await made(admin, annotations=before), after)
    assert answer.code == HTTPStatus.OK, answer.body


ADMITTED = {
    "metadata": {
        "labels": {"kueue.x-k8s.io/managed": "true"},
        "annotations": {"kueue.x-k8s.io/workload": "w"},
    },
    "spec": {"schedulingGates": [GATES[0]], "nodeSelector": {"pool": "reserved"}},
}
LABELLED = {"labels": {"jobset.sigs.k8s.io/job-index": "0"}, "annotations": {"jobset.x-k8s.io/a": "b"}}
PINNED = {
    "metadata": {"annotations": {PLACEMENT: "[]", PINNED_AT: "2026-11-23T01:00:00Z"}},
    "spec": {"schedulingGates": [OTHER_GATE]},
}
IMAGE = {"spec": {"containers": [{"name": "main", "image": "registry.example/other"}]}}
WRITTEN: dict[str, tuple[str, str, Json]] = {
    "an owner labels": (TENANT, "", {"metadata": {"labels": {"app": "web"}}}),
    "an owner changes the image": (TENANT, "", IMAGE),
    "Kueue admits": (KUEUE, "", ADMITTED),
    "JobSet labels": (JOBSET, "", {"metadata": LABELLED}),
    "the job controller removes its finalizer": (JOBS, "", {"metadata": {"finalizers": None}}),
    "a kubelet reports the status": (KUBELET, "/status", {"status": {"phase": "Running", "message": "m"}}),
    "the agent annotates": (AGENT, "", {"metadata": {"annotations": {PLACEMENT_OBSERVED: "[]"}}}),
    "the controller pins": (CONTROLLER, "", PINNED),
    "the controller judges": (CONTROLLER, "", {"metadata": {"annotations": {ALIGNED: "false"}}}),
}


@pytest.mark.parametrize("what", WRITTEN)
@pytest.mark.parametrize(
    "annotations",
    [{POLICY: SINGLE}, {}, {POLICY: "none", RESOURCES: "memory"}],
    ids=["", "without annotations", "from before"],
)
async def test_necessary_writes_are_allowed(
    admin: ApiClient, clients: Clients, what: str, annotations: Mapping[str, str]
) -> None:
    who, part, body = WRITTEN[what]
    path = await made(admin, annotations=annotations, gates="schedulingGates" in body.get("spec", {}))
    how = Patch.STRATEGIC if "containers" in str(body) else Patch.MERGE
    answer = await change(clients[who], f"{path}{part}", body, how)
    assert answer.code == HTTPStatus.OK, answer.body


async def test_pod_of_30000_annotations_can_be_written(admin: ApiClient, clients: Clients) -> None:
    many = {f"a{number}": "" for number in range(30_000)}
    path = await made(admin, annotations={**many, POLICY: SINGLE})
    answer = await change(clients[KUBELET], f"{path}/status", {"status": {"message": "m"}})
    assert answer.code == HTTPStatus.OK
    assert denied(await annotate(clients[TENANT], path, {POLICY: None}), POLICIES)
    # Owners delete what they may not weaken.
    answer = await ask(clients[TENANT], "DELETE", path, gracePeriodSeconds="0", dryRun="All")
    assert answer.code == HTTPStatus.OK


async def test_intent_may_be_weakened_where_nothing_is_enforced(admin: ApiClient, clients: Clients) -> None:
    path = await made(admin, where=LAX)
    for what in WEAKENED.values():
        assert (await annotate(clients[TENANT], path, what)).code == HTTPStatus.OK
