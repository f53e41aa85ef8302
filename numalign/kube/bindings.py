"""
Binding a pod, and recording why, in one write that is soon over.

The API server copies the annotations of a Binding to the pod in the same write that gives it its node
(pkg/registry/core/pod/storage of Kubernetes, assignPod). So there is no moment at which a pod is bound and
nobody can read what it was promised, and no second write that could fail.

Nor is there a write that lands when somebody else leads already. Whoever is not answered within
`BIND_SECONDS` goes away, and so does the API server, which gives each request the time that its `timeout`
asks for, its calls to webhooks included (WithRequestDeadline of k8s.io/apiserver). So a bind that is begun at
all has landed or failed after twice that time, whatever became of who began it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import quote

from numalign.kube.client import ObjectWriter
from numalign.kube.errors import ClusterError, Conflict, Forbidden, NotFound, Unauthorized, Unreachable
from numalign.runtime.clock import Sleep

BIND_SECONDS = 4.0
"""How long a bind may take, here and, from when it arrives there, on the API server."""

_ANSWERS = (Conflict, Forbidden, NotFound, Unauthorized)
"""After these it is known what became of a bind."""


async def bind(  # noqa: PLR0913  a pod, a node, and what is recorded
    api: ObjectWriter, *, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str]
) -> None:
    """Bind a pod to a node, and add these annotations to it, or do nothing.

    Raises `ClusterError`: `Conflict` for a pod that is bound already, is being deleted, waits behind a
    scheduling gate, or is not the one with this uid, and `NotFound` for one that is gone. After `Unreachable`
    nobody knows whether it was done, until the pod is seen.
    """
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}/binding"
    metadata = {"name": name, "namespace": namespace, "uid": uid, "annotations": dict(annotations)}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    what = f"the binding of pod {namespace}/{name} to node {node}"
    try:
        async with asyncio.timeout(BIND_SECONDS):
            await api.create(path, binding, [("timeout", f"{BIND_SECONDS:g}s")], what=what)
    except TimeoutError as error:
        raise Unreachable(f"the API server did not answer within {BIND_SECONDS:g} s: {what}") from error


class BindsInFlight:
    """Binds that were begun through it and may still land; called as `bind` is without its API server."""

    def __init__(
        self,
        write: Callable[..., Awaitable[None]],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._write = write
        self._clock = clock
        self._sleep = sleep
        self._flying = 0
        self._lost_until = 0.0

    async def __call__(self, **binding: object) -> None:
        """Bind a pod; raises `ClusterError`."""
        self._flying += 1
        try:
            await self._write(**binding)
        except _ANSWERS:
            raise
        except (ClusterError, asyncio.CancelledError):
            # The API server may be at it for as long as it was given.
            self._lost_until = self._clock() + BIND_SECONDS
            raise
        finally:
            self._flying -= 1

    async def landed(self) -> None:
        """Wait until nothing that was begun can land any more; that takes at most twice `BIND_SECONDS`."""
        while self._flying or self._clock() < self._lost_until:
            await self._sleep(_LOOK_SECONDS)


_LOOK_SECONDS = 0.05
