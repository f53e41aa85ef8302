"""Admission policies in force on a real API server, and users who come there with every right of roles."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

from kubernetes_asyncio.client import ApiClient

from numalign.kube.client import Patch
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import Answer, Json, patch
from tools.clusters.controlplane.planes import Plane
from tools.clusters.processes import until


@asynccontextmanager
async def impersonated(plane: Plane, *users: str, **groups: str) -> AsyncIterator[dict[str, ApiClient]]:
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


def denied(answer: Answer, by: str) -> bool:
    return answer.code in {403, 422} and by in answer.body["message"]


def owner(kind: str = "Namespace", name: str = "x") -> Json:
    uid = "00000000-0000-0000-0000-000000000000"
    return {"ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}]}


async def change(api: ApiClient, path: str, body: Json, how: Patch = Patch.MERGE) -> Answer:
    return await patch(api, path, body, how=how, dryRun="All")
