"""What roles allow the controller's account and the policy of the chart denies all the same."""

import base64
from collections.abc import AsyncIterator
from functools import partial
from http import HTTPStatus
from itertools import product

import pytest
import pytest_asyncio
from kubernetes_asyncio.client.api_client import ApiClient

from numalign.kube.client import Patch
from numalign.kube.decode import shapes
from tests.system.e2e.clusters import LEASE, Cluster
from tests.system.e2e.guarded import change, denied, impersonated, owner
from tests.system.eventually import eventually
from tools.clusters import shipped
from tools.clusters.api_requests import Json, ask

pytestmark = pytest.mark.asyncio(loop_scope="session")

NODE = "/api/v1/nodes/cpu-00"
SECRETS = f"/api/v1/namespaces/{shipped.NAMESPACE}/secrets"
CONFIGMAPS = f"/api/v1/namespaces/{shipped.NAMESPACE}/configmaps"
LEASES = LEASE.rpartition("/")[0]
KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
CONFIGURATIONS = [f"/apis/admissionregistration.k8s.io/v1/{kind}/{shipped.CONFIGURATION}" for kind in KINDS]


@pytest_asyncio.fixture(loop_scope="session")
async def thief(cluster: Cluster) -> AsyncIterator[ApiClient]:
    """A client with the controller's name and roles; the audit log has its requests as impersonated."""
    async with impersonated(cluster.plane, **{shipped.CONTROLLERS: "system:authenticated"}) as clients:
        yield clients[shipped.CONTROLLERS]


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def guarded(thief: ApiClient) -> None:
    """An API server learns of a policy by and by, as the tests that stood before gave it time to."""
    look = partial(change, thief, NODE, {"spec": {"unschedulable": True}})
    await eventually(look, lambda answer: answer.code != HTTPStatus.OK, "the policy was in force")


NODES: dict[str, Json] = {
    "a taint": {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}},
    "that it takes pods": {"spec": {"unschedulable": True}},
    "another label": {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}},
    "a label that is there": {"metadata": {"labels": {"kubernetes.io/hostname": "x"}}},
    "a label less": {"metadata": {"labels": {"kubernetes.io/hostname": None}}},
    "ours and another": {"metadata": {"labels": {shipped.LABEL: "x", "a": "b"}}},
    "an annotation": {"metadata": {"annotations": {"a": "b"}}},
    "a finalizer": {"metadata": {"finalizers": ["example.com/stay"]}},
    "an owner": {"metadata": owner()},
}


@pytest.mark.parametrize("what", NODES)
async def test_controller_changes_only_the_class_of_a_node(
    cluster: Cluster, thief: ApiClient, what: str
) -> None:
    # The administrator may, so it is the policy that says no.
    assert (await change(cluster.api, NODE, NODES[what])).code == HTTPStatus.OK
    assert denied(await change(thief, NODE, NODES[what]), by="nothing of a Node but its label")


@pytest.mark.parametrize("label", ["x", None])
async def test_controller_writes_and_removes_the_class(thief: ApiClient, label: str | None) -> None:
    answer = await change(thief, NODE, {"metadata": {"labels": {shipped.LABEL: label}}})
    assert answer.code == HTTPStatus.OK, answer.body


SECRETS_TOO = {**{key: ["*"] for key in ("apiGroups", "apiVersions", "operations")}, "resources": ["secrets"]}
ENTRIES: dict[str, Json] = {
    "what becomes of a failure": {"failurePolicy": None},
    "how long it takes": {"timeoutSeconds": 30},
    "which namespaces": {"namespaceSelector": {"matchLabels": {"a": "b"}}},
    "which objects": {"objectSelector": {"matchLabels": {"a": "b"}}},
    "where it is sent": {"clientConfig": {"url": "https://example.com/mutate"}},
    "what is sent": {"rules": [SECRETS_TOO]},
    "under which condition": {"matchConditions": [{"name": "never", "expression": "false"}]},
    "how a kind is understood": {"matchPolicy": "Exact"},
    "another name": {"name": "other.numalign.io"},
    "when it is called again": {"reinvocationPolicy": None},
}


OTHER = {"Fail": "Ignore", "Ignore": "Fail", "Never": "IfNeeded", "IfNeeded": "Never"}


async def with_changes(cluster: Cluster, path: str, changes: Json) -> Json:
    """All webhooks of a configuration, the first of them changed, as a merge patch sends them."""
    first, *others = (await ask(cluster.api, "GET", path)).body["webhooks"]
    other = {key: OTHER[first[key]] for key, value in changes.items() if value is None}
    return {"webhooks": [first | changes | other, *others]}


CHANGED = [*product(CONFIGURATIONS, [*ENTRIES][:-1]), (CONFIGURATIONS[0], [*ENTRIES][-1])]


@pytest.mark.parametrize(("path", "what"), CHANGED)
async def test_only_the_ca_bundle_may_change(
    cluster: Cluster, thief: ApiClient, path: str, what: str
) -> None:
    body = await with_changes(cluster, path, ENTRIES[what])
    assert (await change(cluster.api, path, body)).code == HTTPStatus.OK
    assert denied(await change(thief, path, body), by="nothing of a webhook configuration but caBundle")


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=KINDS)
async def test_no_webhook_comes_or_goes(cluster: Cluster, thief: ApiClient, path: str) -> None:
    first, *others = (await ask(cluster.api, "GET", path)).body["webhooks"]
    for webhooks in (others, [first, first | {"name": "more.numalign.io"}, *others]):
        answer = await change(thief, path, {"webhooks": webhooks})
        assert denied(answer, by="nothing of a webhook configuration but caBundle")


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=KINDS)
async def test_controller_writes_the_ca_bundle(cluster: Cluster, thief: ApiClient, path: str) -> None:
    first, *_ = (await ask(cluster.api, "GET", path)).body["webhooks"]
    bundle = {"clientConfig": {"caBundle": base64.b64encode(cluster.plane.ca.read_bytes()).decode()}}
    answer = await change(thief, path, {"webhooks": [{"name": first["name"]} | bundle]}, Patch.STRATEGIC)
    assert answer.code == HTTPStatus.OK, answer.body


def secret(name: str, kind: str, **annotations: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "annotations": annotations},
        "type": kind,
        "data": {"tls.crt": "", "tls.key": ""} if kind == "kubernetes.io/tls" else {},
    }


TOKEN = {"kubernetes.io/service-account.name": "numalign-scorer"}


@pytest.mark.parametrize(
    "made",
    [
        secret("token", "kubernetes.io/service-account-token", **TOKEN),
        secret(shipped.SECRET, "kubernetes.io/service-account-token", **TOKEN),
        secret("another", "kubernetes.io/tls"),
    ],
    ids=["a token of another account", "under our name", "another name"],
)
async def test_controller_creates_only_its_secret(thief: ApiClient, made: Json) -> None:
    answer = await ask(thief, "POST", SECRETS, made, dryRun="All")
    assert denied(answer, by="no Secret but the webhook's certificate")


async def test_controller_creates_only_its_lease(thief: ApiClient) -> None:
    made = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "numalign-scorer"}}
    answer = await ask(thief, "POST", LEASES, made, dryRun="All")
    assert denied(answer, by="no Lease but its own")


# ---- what nodes are in health

SHAPES: dict[str, Json] = {
    "a label": {"metadata": {"labels": {"a": "b"}}},
    "an annotation": {"metadata": {"annotations": {"a": "b"}}},
    "a finalizer": {"metadata": {"finalizers": ["example.com/stay"]}},
    "an owner": NODES["an owner"],
}


def configmap(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


@pytest_asyncio.fixture(loop_scope="session")
async def kept(cluster: Cluster) -> str:
    path = f"{CONFIGMAPS}/{shapes.NAME}"
    await eventually(
        partial(ask, cluster.api, "GET", path),
        lambda answer: answer.code == HTTPStatus.OK,
        "shapes were kept",
        within=180,
    )
    return path


@pytest_asyncio.fixture(loop_scope="session")
async def editor(cluster: Cluster) -> AsyncIterator[ApiClient]:
    """Somebody who may write every ConfigMap of our namespace."""
    called = {"name": "editor", "namespace": shipped.NAMESPACE}
    roles = "rbac.authorization.k8s.io"
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}
    role = {"apiVersion": f"{roles}/v1", "kind": "Role", "metadata": called, "rules": [rule]}
    binding = {
        "apiVersion": f"{roles}/v1",
        "kind": "RoleBinding",
        "metadata": called,
        "roleRef": {"apiGroup": roles, "kind": "Role", "name": "editor"},
        "subjects": [{"apiGroup": roles, "kind": "User", "name": "editor"}],
    }
    for made in (role, binding):
        await cluster.store.apply(made)
    async with cluster.plane.client("admin") as client:
        client.set_default_header("Impersonate-User", "editor")
        yield client
    for made in (binding, role):
        await cluster.store.delete(made)


async def test_controller_creates_only_its_configmap(thief: ApiClient) -> None:
    answer = await ask(thief, "POST", CONFIGMAPS, configmap("numalign-policy"), dryRun="All")
    assert denied(answer, by="no ConfigMap but the shapes")


@pytest.mark.parametrize("what", SHAPES)
async def test_controller_changes_only_the_data_of_shapes(
    cluster: Cluster, thief: ApiClient, kept: str, what: str
) -> None:
    stored = await unversioned(cluster, kept)
    changed = stored | {"metadata": stored["metadata"] | SHAPES[what]["metadata"]}
    answer = await ask(thief, "PUT", kept, changed, dryRun="All")
    assert denied(answer, by="nothing there but its data")


async def unversioned(cluster: Cluster, path: str) -> Json:
    """An object without its version: our own controller may write it meanwhile."""
    stored = (await ask(cluster.api, "GET", path)).body
    del stored["metadata"]["resourceVersion"]
    return stored


async def test_controller_writes_shapes(cluster: Cluster, thief: ApiClient, kept: str) -> None:
    stored = await unversioned(cluster, kept)
    answer = await ask(thief, "PUT", kept, stored | {"data": {"a": "{}"}}, dryRun="All")
    assert answer.code == HTTPStatus.OK, answer.body


async def test_only_administrators_write_shapes_besides(
    cluster: Cluster, editor: ApiClient, kept: str
) -> None:
    body = {"data": {"a": "{}"}}
    assert denied(await change(editor, kept, body), by="may be written by the controller of numalign")
    assert (await change(cluster.api, kept, body)).code == HTTPStatus.OK
    other = await ask(editor, "POST", CONFIGMAPS, configmap("other"), dryRun="All")
    assert other.code == HTTPStatus.CREATED
