"""
What a namespace enforces stays, whoever changes a pod and by whichever way: a real API server keeps it.

And nobody is kept from what has to be written: no owner, controller, kubelet or scheduler, nor our programs.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from http import HTTPStatus

import pytest
import pytest_asyncio
from kubernetes_asyncio.client import ApiClient

from numalign.kube.client import Patch
from numalign.model.intent import ALIGNED, ALIGNED_WHY, PINNED_AT, PLACEMENT, PLACEMENT_OBSERVED
from tools.clusters import api_requests, shipped
from tools.clusters.api_objects import Store, namespace
from tools.clusters.api_requests import Answer, Json, ask, pod
from tools.clusters.controlplane.planes import Plane
from tools.clusters.processes import until

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("api")]

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
RBAC = "rbac.authorization.k8s.io"
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
PEOPLE = dict.fromkeys((KUEUE, JOBSET, JOBS, KUBELET, AGENT, CONTROLLER), "system:masters")

OF_PODS = ("pods", "pods/status", "pods/resize", "pods/ephemeralcontainers", "pods/binding", "bindings")
PARTS = ("", "/status", "/resize", "/ephemeralcontainers")
OTHER_GATE = {"name": "kueue.x-k8s.io/admission"}
GATES = [{"name": "numalign.io/placement"}, OTHER_GATE]

Clients = Mapping[str, ApiClient]


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def clients(plane: Plane) -> AsyncIterator[Clients]:
    """Who comes to the API server: a tenant and a scheduler with their roles, others with every right."""
    async with AsyncExitStack() as stack:
        made = {who: plane.client("admin") for who in (TENANT, SCHEDULER, *PEOPLE)}
        for who, client in made.items():
            stack.push_async_callback(client.close)
            client.set_default_header("Impersonate-User", who)
            client.set_default_header("Impersonate-Group", PEOPLE.get(who, "system:authenticated"))
        yield made


@pytest_asyncio.fixture(loop_scope="session", scope="module", autouse=True)
async def guarded(admin: ApiClient, clients: Clients, plane: Plane) -> AsyncIterator[None]:
    """The policy as it is shipped, two namespaces, and a tenant who may do everything with pods there."""
    store = Store(admin)
    for name, labels in NAMESPACES.items():
        await store.apply(namespace(name, labels))
        about = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": TENANT, "namespace": name}}
        rule = {"apiGroups": [""], "resources": [*OF_PODS], "verbs": ["*"]}
        await store.apply({**about, "kind": "Role", "rules": [rule]})
        subject = {"apiGroup": RBAC, "kind": "User", "name": TENANT}
        role = {"apiGroup": RBAC, "kind": "Role", "name": TENANT}
        await store.apply({**about, "kind": "RoleBinding", "roleRef": role, "subjects": [subject]})
    policy, binding = shipped.documents(shipped.MANIFESTS / "guard" / "levels.yaml")
    for path, document in ((POLICIES, policy), (BINDINGS, binding)):
        answer = await ask(admin, "POST", path, document)
        assert answer.code == HTTPStatus.CREATED, answer.body
    first = await made(admin, "first")

    async def denies() -> bool:
        return denied(await annotate(clients[TENANT], first, {POLICY: None}))

    await until(denies, what="the policy was in force", child=plane.child, seconds=30)
    yield
    for path in (BINDINGS, POLICIES):
        await ask(admin, "DELETE", f"{path}/numalign-levels")


async def made(
    admin: ApiClient,
    name: str,
    *,
    annotations: Mapping[str, str] | None = None,
    where: str = STRICT,
    gates: bool = False,
    **metadata: object,
) -> str:
    """The path of a new pod, of an owner who was admitted."""
    path = f"/api/v1/namespaces/{where}/pods"
    await ask(admin, "DELETE", f"{path}/{name}", gracePeriodSeconds="0")
    told = {POLICY: SINGLE} if annotations is None else annotations
    wish = pod(name, asks={}, annotations=told, **metadata)
    spec = {**wish["spec"], **({"schedulingGates": GATES} if gates else {})}
    answer = await ask(admin, "POST", path, {**wish, "spec": spec})
    assert answer.code == HTTPStatus.CREATED, answer.body
    return f"{path}/{name}"


async def annotate(api: ApiClient, path: str, annotations: Mapping[str, str | None]) -> Answer:
    return await change(api, path, {"metadata": {"annotations": dict(annotations)}})


async def change(api: ApiClient, path: str, body: Json) -> Answer:
    """Nothing is stored."""
    return await api_requests.patch(api, path, body, how=Patch.MERGE, dryRun="All")


def denied(answer: Answer) -> bool:
    return answer.code == HTTPStatus.FORBIDDEN and "numalign-levels" in answer.body["message"]


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
    path = await made(admin, "web", gates=gates)
    for who in (TENANT, KUEUE, JOBS, KUBELET, AGENT, CONTROLLER):
        for part in ("", "/status"):
            answer = await annotate(clients[who], f"{path}{part}", WEAKENED[what])
            assert denied(answer), (who, part, answer.body)
            assert f"the annotation {next(iter(WEAKENED[what]))} of" in answer.body["message"]


@pytest.mark.parametrize("part", PARTS)
async def test_no_way_leads_around_it(admin: ApiClient, clients: Clients, part: str) -> None:
    path = await made(admin, "web")
    await api_requests.patch(
        clients[TENANT], f"{path}{part}", {"metadata": {"annotations": {POLICY: "none"}}}, how=Patch.MERGE
    )
    found = (await ask(admin, "GET", path)).body
    await ask(clients[TENANT], "PUT", f"{path}{part}", bare(found))

    assert (await ask(admin, "GET", path)).body["metadata"]["annotations"][POLICY] == SINGLE


def bare(found: Json) -> Json:
    """The same pod without any annotation."""
    return {**found, "metadata": {**found["metadata"], "annotations": None}}


def binding(annotations: Mapping[str, str]) -> Json:
    metadata = {"name": "web", "namespace": STRICT, "annotations": dict(annotations)}
    target = {"apiVersion": "v1", "kind": "Node", "name": "large"}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


@pytest.mark.parametrize("path", [f"{PODS}/web/binding", f"/api/v1/namespaces/{STRICT}/bindings"])
async def test_binding_cannot_weaken_an_intent(admin: ApiClient, clients: Clients, path: str) -> None:
    await made(admin, "web")
    for weaker in ({POLICY: "none"}, {RESOURCES: "memory"}):
        assert denied(await ask(clients[TENANT], "POST", path, binding(weaker), dryRun="All"))
    for who, annotations in (
        (TENANT, {}),
        (TENANT, {"a": "b", POLICY: SINGLE}),
        (SCHEDULER, {PLACEMENT: "[]"}),
        (SCHEDULER, {POLICY: "best-effort", RESOURCES: "memory"}),
    ):
        # The role of kube-scheduler has no right to bindings, which is deprecated.
        if who != SCHEDULER or path.startswith(PODS):
            answer = await ask(clients[who], "POST", path, binding(annotations), dryRun="All")
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
    path = await made(admin, "web", annotations=before)
    answer = await annotate(clients[TENANT], path, after)

    assert answer.code == HTTPStatus.OK, answer.body


SUSPENDED = {
    "kueue.x-k8s.io/workload": "w",
    "cluster-autoscaler.kubernetes.io/consume-provisioning-request": "p",
}
WRITTEN: dict[str, tuple[str, str, Json]] = {
    "an owner labels": (TENANT, "", {"metadata": {"labels": {"app": "web"}}}),
    "an owner changes the image": (
        TENANT,
        "",
        {"spec": {"containers": [{"name": "main", "image": "registry.example/other"}]}},
    ),
    "Kueue lets go": (
        KUEUE,
        "",
        {
            "metadata": {"labels": {"kueue.x-k8s.io/managed": "true"}, "annotations": SUSPENDED},
            "spec": {"schedulingGates": [GATES[0]], "nodeSelector": {"pool": "reserved"}},
        },
    ),
    "JobSet labels": (
        JOBSET,
        "",
        {
            "metadata": {
                "labels": {"jobset.sigs.k8s.io/job-index": "0"},
                "annotations": {"jobset.x-k8s.io/a": "b"},
            }
        },
    ),
    "the job controller removes its finalizer": (JOBS, "", {"metadata": {"finalizers": None}}),
    "a kubelet tells the status": (KUBELET, "/status", {"status": {"phase": "Running", "message": "m"}}),
    "the agent annotates": (AGENT, "", {"metadata": {"annotations": {PLACEMENT_OBSERVED: "[]"}}}),
    "the controller pins": (
        CONTROLLER,
        "",
        {
            "metadata": {"annotations": {PLACEMENT: "[]", PINNED_AT: "2026-11-23T01:00:00Z"}},
            "spec": {"schedulingGates": [OTHER_GATE]},
        },
    ),
    "the controller judges": (
        CONTROLLER,
        "",
        {"metadata": {"annotations": {ALIGNED: "false", ALIGNED_WHY: "two zones"}}},
    ),
}


@pytest.mark.parametrize("what", WRITTEN)
@pytest.mark.parametrize(
    "annotations",
    [{POLICY: SINGLE}, {}, {POLICY: "none", RESOURCES: "memory"}],
    ids=["", "without annotations", "from before"],
)
async def test_what_has_to_be_written_is(
    admin: ApiClient, clients: Clients, what: str, annotations: Mapping[str, str]
) -> None:
    who, part, body = WRITTEN[what]
    gates = "schedulingGates" in body.get("spec", {})
    path = await made(
        admin, "web", annotations=annotations, gates=gates, finalizers=["batch.kubernetes.io/x"]
    )
    answer = await api_requests.patch(
        clients[who],
        f"{path}{part}",
        body,
        how=Patch.STRATEGIC if "containers" in str(body) else Patch.MERGE,
        dryRun="All",
    )
    await api_requests.patch(admin, path, {"metadata": {"finalizers": None}}, how=Patch.MERGE)

    assert answer.code == HTTPStatus.OK, answer.body


async def test_a_pod_with_very_many_annotations_is_written_as_any(admin: ApiClient, clients: Clients) -> None:
    many = {f"a{number}": "" for number in range(30_000)}
    path = await made(admin, "web", annotations={**many, POLICY: SINGLE})

    assert (
        await change(clients[KUBELET], f"{path}/status", {"status": {"message": "m"}})
    ).code == HTTPStatus.OK
    assert denied(await annotate(clients[TENANT], path, {POLICY: None}))


async def test_where_nothing_is_enforced_owners_do_as_they_like(admin: ApiClient, clients: Clients) -> None:
    path = await made(admin, "web", where=LAX)
    for what in WEAKENED.values():
        assert (await annotate(clients[TENANT], path, what)).code == HTTPStatus.OK


async def test_a_pod_is_deleted_as_ever(admin: ApiClient, clients: Clients) -> None:
    path = await made(admin, "web")

    assert (await ask(clients[TENANT], "DELETE", path, gracePeriodSeconds="0")).code == HTTPStatus.OK
