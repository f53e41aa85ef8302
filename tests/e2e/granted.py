"""What roles allow an account, and which requests make use of it."""

from collections.abc import Iterable, Iterator
from itertools import product

from harness.api_requests import Json
from harness.controlplane.audits import Use

Right = tuple[str, str, str, str, str]
"""Namespace (empty for all), group, resource, verb, name (empty for any)."""


def rights_of(name: str, documents: Iterable[Json]) -> set[Right]:
    """All that the roles of this name allow, among objects that are installed."""
    called = [document for document in documents if document["metadata"]["name"] == name]
    roles = [document for document in called if document["kind"] in {"Role", "ClusterRole"}]
    return {right for role in roles for rule in role["rules"] for right in _rights(role, rule)}


def _rights(role: Json, rule: Json) -> Iterator[Right]:
    """Of one rule."""
    where = role["metadata"].get("namespace", "")
    names = rule.get("resourceNames", [""])
    for group, resource, verb, name in product(rule["apiGroups"], rule["resources"], rule["verbs"], names):
        yield where, group, resource, verb, name


def exercises(use: Use, right: Right) -> bool:
    """Whether a request is one that the right is for."""
    where, group, resource, verb, name = right
    return (
        (use.group, use.resource, use.verb) == (group, resource, verb)
        and where in {"", use.namespace}
        and name in {"", use.name}
    )
