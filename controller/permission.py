"""
What a namespace allows now, read from the API server right before a pod in it is deleted or evicted.

The watch may be slightly outdated, and a plan takes many calls: a label that was removed meanwhile counts.
"""

from typing import Protocol, cast
from urllib.parse import quote

from numalign.kube.decode import namespaces
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.files.policy import ClusterPolicy
from numalign.kube.kinds import Object

MOST_BYTES = 2**21
"""The limit of a namespace that is read: an API server stores smaller objects only."""


class NamespaceReader(Protocol):
    """The method of `Api` that is used; the real one raises `ClusterError`."""

    async def get(self, path: str, *, what: str, most: int | None = None) -> object:
        """Return the object at `path`."""


async def current_policy(api: NamespaceReader, cluster: ClusterPolicy, namespace: str) -> EffectivePolicy:
    """Return the policy of one namespace by its current labels; raise `ClusterError`."""
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}"
    raw = await api.get(path, what=f"namespace {namespace}", most=MOST_BYTES)
    facts, _mistakes = namespaces.facts(cast("Object", raw))
    return EffectivePolicy(cluster, {namespace: facts.rules}, {namespace: facts.labels})
