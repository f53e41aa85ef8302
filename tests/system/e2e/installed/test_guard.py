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
from tests.system.e2e.guarded import FOREIGN, Clients, change, denied, granted, impersonated, succeeded
from tests.system.eventually import eventually
from tools.clusters import shipped
from tools.clusters.api_requests import Json, ask

pytestmark = pytest.mark.asyncio(loop_scope="session")

NODE = "/api/v1/nodes/cpu-00"
HOME = f"/api/v1/namespaces/{shipped.NAMESPACE}"
KEPT = f"{HOME}/configmaps/{shapes.NAME}"
KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
CONFIGURATIONS = [f"/apis/admissionregistration.k8s.io/v1/{kind}/{shipped.CONFIGURATION}" for kind in KINDS]
EDITOR = "editor"


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def clients(cluster: Cluster) -> AsyncIterator[Clients]:
    """Clients with the name and roles of the controller, and of somebody who may write every ConfigMap there.

    The policy is in force, of which an API server learns by and by, and the shapes of nodes are kept.
    """
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}
    rights = granted(EDITOR, rule, EDITOR, shipped.NAMESPACE)
    for document in rights:
        await cluster.store.apply(document)
    look = partial(ask, cluster.api, "GET", KEPT)
    await eventually(look, succeeded, "shapes were kept", within=180)
    users = dict.fromkeys((shipped.CONTROLLERS, EDITOR), "system:authenticated")
    async with impersonated(cluster.plane, **users) as found:
        look = partial(change, found[shipped.CONTROLLERS], NODE, {"spec": {"unschedulable": True}})
        await eventually(look, lambda answer: not succeeded(answer), "the policy was in force")
        yield found
    for document in rights:
        await cluster.store.delete(document)


@pytest.fixture
def thief(clients: Clients) -> ApiClient:
    return clients[shipped.CONTROLLERS]


NODES: dict[str, Json] = {
    "a taint": {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}},
    "that it takes pods": {"spec": {"unschedulable": True}},
    **{what: {"metadata": metadata} for what, metadata in FOREIGN.items()},
    "a label that is there": {"metadata": {"labels": {"kubernetes.io/hostname": "x"}}},
    "a label less": {"metadata": {"labels": {"kubernetes.io/hostname": None}}},
    "ours and another": {"metadata": {"labels": {shipped.LABEL: "x", "a": "b"}}},
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
CHANGED = [*product(CONFIGURATIONS, [*ENTRIES][:-1]), (CONFIGURATIONS[0], [*ENTRIES][-1])]


async def entries(cluster: Cluster, path: str) -> list[Json]:
    found: list[Json] = (await ask(cluster.api, "GET", path)).body["webhooks"]
    return found


@pytest.mark.parametrize(("path", "what"), CHANGED)
async def test_only_the_ca_bundle_may_change(
    cluster: Cluster, thief: ApiClient, path: str, what: str
) -> None:
    first, *others = await entries(cluster, path)
    other = {key: OTHER[first[key]] if value is None else value for key, value in ENTRIES[what].items()}
    body = {"webhooks": [first | other, *others]}
    assert (await change(cluster.api, path, body)).code == HTTPStatus.OK
    assert denied(await change(thief, path, body), by="nothing of a webhook configuration but caBundle")


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=KINDS)
async def test_no_webhook_comes_or_goes(cluster: Cluster, thief: ApiClient, path: str) -> None:
    first, *others = await entries(cluster, path)
    for webhooks in (others, [first, first | {"name": "more.numalign.io"}, *others]):
        answer = await change(thief, path, {"webhooks": webhooks})
        assert denied(answer, by="nothing of a webhook configuration but caBundle")
    bundle = {"clientConfig": {"caBundle": base64.b64encode(cluster.plane.ca.read_bytes()).decode()}}
    answer = await change(thief, path, {"webhooks": [{"name": first["name"]} | bundle]}, Patch.STRATEGIC)
    assert answer.code == HTTPStatus.OK, answer.body


def secret(name: str, kind: str) -> Json:
    annotations = {"kubernetes.io/service-account.name": "numalign-scorer"}
    data = {"tls.crt": "", "tls.key": ""} if kind == "tls" else {}
    metadata = {"name": name, "annotations": annotations}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": f"kubernetes.io/{kind}",
        "data": data,
    }


def configmap(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


LEASES = LEASE.rpartition("/")[0]
FOREIGN_LEASE = {
    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "numalign-scorer"}
}  # fmt: skip
MADE = {
    # what is made: where, the object, and as what it is denied
    "a token of another account": (f"{HOME}/secrets", secret("token", "service-account-token"), "Secret"),
    "a token under our name": (f"{HOME}/secrets", secret(shipped.SECRET, "service-account-token"), "Secret"),
    "another secret": (f"{HOME}/secrets", secret("another", "tls"), "Secret but the webhook's certificate"),
    "another lease": (LEASES, FOREIGN_LEASE, "Lease but its own"),
    "another ConfigMap": (f"{HOME}/configmaps", configmap("numalign-policy"), "ConfigMap but the shapes"),
}


@pytest.mark.parametrize("what", MADE)
async def test_controller_creates_only_what_is_its_own(thief: ApiClient, what: str) -> None:
    path, made, by = MADE[what]
    assert denied(await ask(thief, "POST", path, made, dryRun="All"), by=f"no {by}")


# ---- what nodes are in health


async def unversioned(cluster: Cluster) -> Json:
    """The shapes without their version: our own controller may write them meanwhile."""
    stored = (await ask(cluster.api, "GET", KEPT)).body
    del stored["metadata"]["resourceVersion"]
    return stored


@pytest.mark.parametrize("what", FOREIGN)
async def test_controller_changes_only_the_data_of_shapes(
    cluster: Cluster, thief: ApiClient, what: str
) -> None:
    stored = await unversioned(cluster)
    changed = stored | {"metadata": stored["metadata"] | FOREIGN[what]}
    assert denied(await ask(thief, "PUT", KEPT, changed, dryRun="All"), by="nothing there but its data")


async def test_only_controller_and_administrators_write_shapes(cluster: Cluster, clients: Clients) -> None:
    body = {"data": {"a": "{}"}}
    own = await ask(
        clients[shipped.CONTROLLERS], "PUT", KEPT, await unversioned(cluster) | body, dryRun="All"
    )
    assert own.code == HTTPStatus.OK, own.body
    denial = await change(clients[EDITOR], KEPT, body)
    assert denied(denial, by="may be written by the controller of numalign")
    assert (await change(cluster.api, KEPT, body)).code == HTTPStatus.OK
    other = await ask(clients[EDITOR], "POST", f"{HOME}/configmaps", configmap("other"), dryRun="All")
    assert other.code == HTTPStatus.CREATED
