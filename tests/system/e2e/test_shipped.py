"""What is shipped is taken by a real API server as it stands, each object by itself."""

from http import HTTPStatus

import pytest
from kubernetes_asyncio.client.api_client import ApiClient

from tests.system.e2e.guarded import succeeded
from tools.clusters.api_objects import Store, namespace
from tools.clusters.api_requests import Json, create
from tools.generate.manifests import everything

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHIPPED: list[Json] = everything()
TEMPLATES = {
    each["metadata"]["name"]: each["spec"]["template"]
    for each in SHIPPED
    if each["kind"] in {"Deployment", "DaemonSet"}
}
LEVEL = "pod-security.kubernetes.io/enforce"
HOMES = {
    each["metadata"]["name"]: each["metadata"]["labels"][LEVEL]
    for each in SHIPPED
    if each["kind"] == "Namespace"
}


@pytest.mark.usefixtures("snapshot")
async def test_the_api_server_takes_every_object_that_is_shipped(admin: ApiClient) -> None:
    store = Store(admin)
    for document in SHIPPED:
        if document["kind"] == "Namespace":
            await store.apply(document)
    for document in SHIPPED:
        answer = await store.try_to_apply(document, dryRun="All", force="true")
        assert succeeded(answer), answer.body
        assert answer.warnings == [], document


@pytest.mark.parametrize("name", TEMPLATES)
async def test_pods_meet_the_level_of_their_namespace(admin: ApiClient, name: str) -> None:
    """All but the agent's are restricted; those need a privileged namespace, which is shipped for them."""
    template = TEMPLATES[name]
    wish = {**template, "apiVersion": "v1", "kind": "Pod", "metadata": {**template["metadata"], "name": name}}
    agents = name == "numalign-agent"
    for level in ("privileged", "baseline", "restricted"):
        home = namespace(f"{name}-{level}", {LEVEL: level})
        await Store(admin).apply(home)
        answer = await create(admin, wish, namespace=f"{name}-{level}", dryRun="All")
        await Store(admin).delete(home)
        denied = agents and level != "privileged"
        assert answer.code == (HTTPStatus.FORBIDDEN if denied else HTTPStatus.CREATED), answer
    assert HOMES[name if agents else "numalign-system"] == ("privileged" if agents else "restricted")
