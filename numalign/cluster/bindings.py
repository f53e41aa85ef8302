"""
Binding a pod, and recording why, in one write.

The API server copies the annotations of a Binding to the pod in the same write that gives it its node
(pkg/registry/core/pod/storage of Kubernetes, assignPod). So there is no moment at which a pod is bound and
nobody can read what it was promised, and no second write that could fail.
"""

from collections.abc import Mapping
from typing import Protocol
from urllib.parse import quote


class Writer(Protocol):
    """What of an `Api` is used; the real one raises `ClusterError`."""

    async def create(self, path: str, body: object, *, what: str) -> object:
        """Make an object in the collection at a path."""


async def bind(  # noqa: PLR0913  a pod, a node, and what is recorded
    api: Writer, *, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str]
) -> None:
    """Bind a pod to a node, and add these annotations to it, or do nothing.

    Raises `ClusterError`: `Conflict` for a pod that is bound already, is being deleted, waits behind a
    scheduling gate, or is not the one with this uid, and `Missing` for one that is gone. After `Unreachable`
    nobody knows whether it was done, until the pod is seen.
    """
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}/binding"
    metadata = {"name": name, "namespace": namespace, "uid": uid, "annotations": dict(annotations)}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    await api.create(path, binding, what=f"the binding of pod {namespace}/{name} to node {node}")
