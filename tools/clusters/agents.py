"""The shipped objects of the agent, and the tokens that kubelets request for its pods."""

from functools import partial
from http import HTTPStatus

from kubernetes_asyncio.client.api_client import ApiClient

from tools.clusters import shipped
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import Json, ask
from tools.clusters.waiting import SELDOM, seconds_until

AGENT, HOME = "numalign-agent", "numalign-agent"
ACCOUNT = f"system:serviceaccount:{HOME}:{AGENT}"
"""Its user name at API servers."""
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"


def objects() -> list[Json]:
    """Return the shipped objects that matter to an API server, the namespaces first."""
    # Without controllers, a DaemonSet has no pods, and a quota counts nothing.
    return shipped.objects(("guard", "agent", "agent/guard"), without=("DaemonSet", "ResourceQuota"))


async def define(store: Store) -> None:
    """Install the CustomResourceDefinition of topologies, and return when they are served."""
    for document in shipped.documents(shipped.DEPLOY / "crd" / "noderesourcetopologies.yaml"):
        await store.apply(document)
    look = partial(ask, store.api, "GET", TOPOLOGIES)
    what = "topologies were served"
    await seconds_until(look, lambda answer: answer.code == 200, what=what, within=30, every=SELDOM)


def pod(name: str, node: str) -> Json:
    """Return a pod of an agent on a node, or on none if `node` is empty."""
    placed = {"nodeName": node} if node else {}
    containers = [{"name": "agent", "image": "registry.example/agent"}]
    spec = {"serviceAccountName": AGENT, "containers": containers, **placed}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": HOME}, "spec": spec}


async def token(admin: ApiClient, bound_to: str | None = None) -> str:
    """Request a token as a kubelet does for a pod of an agent, bound to the pod of that name, if any."""
    spec: Json = {"expirationSeconds": 3600}
    if bound_to:
        found = await ask(admin, "GET", f"/api/v1/namespaces/{HOME}/pods/{bound_to}")
        about = {"name": bound_to, "uid": found.body["metadata"]["uid"]}
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", **about}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = f"/api/v1/namespaces/{HOME}/serviceaccounts/{AGENT}/token"
    answer = await ask(admin, "POST", path, request)
    assert answer.code == HTTPStatus.CREATED, answer.body
    made: str = answer.body["status"]["token"]
    return made
