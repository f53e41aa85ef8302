"""Admission policies in force on a real API server, and users who come there with every right of roles."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from kubernetes_asyncio.client import ApiClient

from numalign.kube.client import Patch
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import Answer, Json, ask, patch
from tools.clusters.controlplane.planes import Plane
from tools.clusters.processes import until

Clients = Mapping[str, ApiClient]

RBAC = "rbac.authorization.k8s.io"


@asynccontextmanager
async def impersonated(plane: Plane, *users: str, **groups: str) -> AsyncIterator[Clients]:
    """A client for each of the users, who are all masters; `groups` names those who are not."""
    async with AsyncExitStack() as stack:
        found = {user: await stack.enter_async_context(plane.client("admin")) for user in (*users, *groups)}
        for user, client in found.items():
            client.set_default_header("Impersonate-User", user)
            client.set_default_header("Impersonate-Group", groups.get(user, "system:masters"))
        yield found


@asynccontextmanager
async def in_force(
    store: Store, plane: Plane, documents: Iterable[Json], denies: Callable[[], Awaitable[bool]]
) -> AsyncIterator[None]:
    """A policy with its binding during the block: API servers learn of both with a delay."""
    documents = [*documents]
    for document in documents:
        await store.apply(document)
    await until(denies, what="the policy was in force", child=plane.child, seconds=30)
    yield
    for document in reversed(documents):
        await store.delete(document)


def granted(name: str, rule: Json, user: str, namespace: str = "") -> list[Json]:
    """A role of a namespace, or else of the cluster, and the user whom it is given to."""
    kind = "Role" if namespace else "ClusterRole"
    about = {"name": name} | ({"namespace": namespace} if namespace else {})
    both: Json = {"apiVersion": f"{RBAC}/v1", "metadata": about}
    reference = {"apiGroup": RBAC, "kind": kind, "name": name}
    subject = {"apiGroup": RBAC, "kind": "User", "name": user}
    return [
        {**both, "kind": kind, "rules": [rule]},
        {**both, "kind": f"{kind}Binding", "roleRef": reference, "subjects": [subject]},
    ]


def denied(answer: Answer, by: str) -> bool:
    return answer.code in {403, 422} and by in answer.body["message"]


def succeeded(answer: Answer) -> bool:
    return answer.code in {200, 201}


def owner(kind: str = "Namespace", name: str = "x") -> Json:
    uid = "00000000-0000-0000-0000-000000000000"
    return {"ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}]}


FOREIGN: dict[str, Json] = {
    "a label": {"labels": {"a": "b"}},
    "an annotation": {"annotations": {"a": "b"}},
    "a finalizer": {"finalizers": ["example.com/stay"]},
    "an owner": owner(),
}
"""Metadata that none of our programs may write, on whatever object."""


async def change(api: ApiClient, path: str, body: Json, how: Patch = Patch.MERGE) -> Answer:
    return await patch(api, path, body, how=how, dryRun="All")


async def evict(api: ApiClient, path: str, **metadata: object) -> Answer:
    """Evict the pod at a path; the eviction itself may have metadata."""
    *_, namespace, _, name = path.split("/")
    about = {"name": name, "namespace": namespace, **metadata}
    return await ask(
        api, "POST", f"{path}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": about}
    )
