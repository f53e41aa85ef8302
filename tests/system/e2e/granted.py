"""What roles allow an account, and which requests make use of it."""

from collections.abc import Iterable
from http import HTTPStatus
from itertools import product

from kubernetes_asyncio.client.api_client import ApiClient

from tests.system.eventually import eventually
from tools.clusters.api_requests import Json, ask
from tools.clusters.controlplane import audits
from tools.clusters.controlplane.audits import Use
from tools.clusters.controlplane.planes import Plane

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
