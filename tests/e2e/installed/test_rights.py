"""The roles that are shipped are exactly what the program needs: it was refused nothing, and used them all.

Read from the API server's audit log, after all that the other tests made the program do.
"""

from collections.abc import Iterator
from itertools import product

import pytest

from tests.e2e import audits, shipped
from tests.e2e.asking import Json
from tests.e2e.audits import Use
from tests.e2e.clusters import Cluster

pytestmark = pytest.mark.last

Right = tuple[str, str, str, str, str]
"""Namespace (empty for all), group, resource, verb, name (empty for any)."""


def granted() -> set[Right]:
    """All that the shipped roles allow."""
    roles = [document for document in shipped.objects() if document["kind"] in {"Role", "ClusterRole"}]
    return {right for role in roles for rule in role["rules"] for right in rights(role, rule)}


def rights(role: Json, rule: Json) -> Iterator[Right]:
    """Of one rule."""
    where = role["metadata"].get("namespace", "")
    names = rule.get("resourceNames", [""])
    for group, resource, verb, name in product(rule["apiGroups"], rule["resources"], rule["verbs"], names):
        yield where, group, resource, verb, name


def exercises(use: Use, right: Right) -> bool:
    where, group, resource, verb, name = right
    return (
        (use.group, use.resource, use.verb) == (group, resource, verb)
        and where in {"", use.namespace}
        and name in {"", use.name}
    )


@pytest.mark.asyncio(loop_scope="session")
async def test_the_program_was_never_refused_anything(cluster: Cluster) -> None:
    found = audits.uses(cluster.plane.folder, user=shipped.ACCOUNT)

    assert found
    refused = [use for use in found if use.code in {401, 403} and not cluster.plane.starting(use.at)]
    assert refused == []


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.usefixtures("rotation")
async def test_every_right_that_is_granted_was_used(cluster: Cluster) -> None:
    found = set(audits.uses(cluster.plane.folder, user=shipped.ACCOUNT))

    allowed = granted()
    assert allowed
    assert {right for right in allowed if not any(exercises(use, right) for use in found)} == set()


@pytest.mark.asyncio(loop_scope="session")
async def test_every_request_was_allowed_by_what_is_shipped_and_by_nothing_else(cluster: Cluster) -> None:
    found = set(audits.uses(cluster.plane.folder, user=shipped.ACCOUNT))

    allowed = granted()
    asked = {use for use in found if use.resource}
    assert {use for use in asked if not any(exercises(use, right) for right in allowed)} == set()


def test_no_role_gives_what_is_dangerous_by_default() -> None:
    """The node proxy leads into every kubelet; a wildcard leads everywhere."""
    allowed = granted()

    assert {right for right in allowed if right[2] == "nodes/proxy" or "*" in right} == set()
    assert {right for right in allowed if right[2] == "secrets" and not right[0]} == set()
