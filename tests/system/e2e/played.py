"""Nodes without kubelets, and Deployments whose pods tests run on them."""

from http import HTTPStatus

from kubernetes_asyncio.client.api_client import ApiClient

from numalign.kube.client import Api, Patch
from numalign.model.node import Node
from numalign.model.placement import Held
from tests.worlds.manifests import topology
from tests.worlds.notation import bag
from tools.clusters.api_objects import make_ready
from tools.clusters.api_requests import Json, ask
from tools.clusters.sim.desk import TOPOLOGIES

TEAM = "team"
PODS = f"/api/v1/namespaces/{TEAM}/pods"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{TEAM}/deployments"

SPREAD: Held = {("node-0",): bag("cpu=1 mem=1Gi"), ("node-1",): bag("cpu=1 mem=1Gi")}
"""What a pod of 2 CPUs holds that is misaligned."""


async def create(api: ApiClient, path: str, document: Json) -> None:
    answer = await ask(api, "POST", path, document)
    assert answer.code == HTTPStatus.CREATED, answer.body


async def change(api: ApiClient, path: str, body: Json, how: Patch = Patch.MERGE) -> None:
    """Patch an object; raises errors as our own programs see them."""
    await Api(api, namespace=TEAM).patch(path, body, how=how, what=path)


async def add_node(api: ApiClient, name: str, machine: Node, *, cpu: int, gib: int) -> None:
    amounts = {"cpu": str(cpu), "memory": f"{gib}Gi", "pods": "500"}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    await create(api, "/api/v1/nodes", {"metadata": metadata, "status": status})
    await create(api, TOPOLOGIES, topology(name, machine))
    await make_ready(api, name)


async def deploy(api: ApiClient, name: str, replicas: int, policy: str | None, **spec: object) -> None:
    amounts = {"cpu": "2", "memory": "2Gi"}
    container = {"name": "main", "image": "main", "resources": {"limits": amounts, "requests": amounts}}
    annotations = {"numalign.io/policy": policy} if policy else {}
    template = {
        "metadata": {"labels": {"app": name}, "annotations": annotations},
        "spec": {"containers": [container], **spec},
    }
    selector = {"matchLabels": {"app": name}}
    described = {"replicas": replicas, "selector": selector, "template": template}
    await create(api, DEPLOYMENTS, {"metadata": {"name": name, "namespace": TEAM}, "spec": described})


async def pods(api: ApiClient) -> list[Json]:
    items: list[Json] = (await ask(api, "GET", PODS)).body["items"]
    return items
