"""Who may do what on a real API server: roles, policies in force, and users with every right of roles."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from itertools import product

from kubernetes_asyncio.client.api_client import ApiClient

from numalign.kube.client import Patch
from tests.system.eventually import eventually
from tools.clusters.api_objects import Store
from tools.clusters.api_requests import Answer, Json, ask, patch
from tools.clusters.controlplane import audits
from tools.clusters.controlplane.audits import Use
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


REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

Right = tuple[str, str, str, str, str]
"""Namespace (empty for all), group, resource, verb, name (empty for any)."""


def rights_of(name: str, documents: Iterable[Json]) -> set[Right]:
    """All that the roles of this name allow, among objects that are installed."""
    return {
        (role["metadata"].get("namespace", ""), *right)
        for role in documents
        if role["metadata"]["name"] == name and role["kind"] in {"Role", "ClusterRole"}
        for rule in role["rules"]
        for right in product(
            rule["apiGroups"], rule["resources"], rule["verbs"], rule.get("resourceNames", [""])
        )
    }


async def of_served_groups(api: ApiClient, rights: Iterable[Right]) -> set[Right]:
    """Those of which the API server knows the group: before 1.34 it has no resource.k8s.io by default."""
    rights = set(rights)
    served = {""} | {
        group
        for group in {group for _, group, *_ in rights} - {""}
        if (await ask(api, "GET", f"/apis/{group}")).code == HTTPStatus.OK
    }
    return {right for right in rights if right[1] in served}


async def until_allowed(api: ApiClient, user: str, rights: Iterable[Right]) -> None:
    """Returns when the API server has learned that a user may do all of this: roles reach it by a watch."""
    for where, group, resource, verb, name in rights:
        attributes = {"namespace": where, "group": group, "resource": resource, "verb": verb, "name": name}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": attributes},
        }

        async def allowed(review: Json = review) -> bool:
            return bool((await ask(api, "POST", REVIEWS, review)).body["status"]["allowed"])

        await eventually(allowed, bool, f"{user} was allowed to {verb} {resource}")


def exercises(use: Use, right: Right) -> bool:
    where, group, resource, verb, name = right
    return (
        (use.group, use.resource, use.verb) == (group, resource, verb)
        and where in {"", use.namespace}
        and name in {"", use.name}
    )


def granted_uses(plane: Plane, user: str, allowed: Iterable[Right]) -> list[Use]:
    """All uses of rights by a user; fails if one is beyond those allowed, or was forbidden."""
    allowed = [*allowed]
    found = audits.uses(plane.folder, user=user)
    assert found
    assert [use for use in found if use.code in {401, 403} and not plane.starting(use.at)] == []
    uses = [use for use in found if use.resource]
    assert {use for use in uses if not any(exercises(use, right) for right in allowed)} == set()
    return uses


def binding(name: str, node: str, **metadata: object) -> Json:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **metadata}, "target": target}
