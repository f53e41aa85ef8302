"""
Binding a pod and recording the reason, in one write with a deadline.

The API server copies the annotations of a Binding to the pod in the same write that sets its node
(pkg/registry/core/pod/storage of Kubernetes, assignPod). So there is no moment at which a pod is bound
without its record, and no second write that could fail.

Nor does a write take effect when another replica already leads. The client gives up after `BIND_SECONDS`, and
so does the API server, which gives each request the time of its `timeout`, calls to webhooks included
(WithRequestDeadline of k8s.io/apiserver). So a bind has succeeded or failed after at most twice that time,
whatever happened to its sender.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import quote

from numalign.kube.client import ObjectWriter
from numalign.kube.errors import ClusterError, Conflict, Forbidden, NotFound, Unauthorized, Unreachable
from numalign.runtime.clock import Sleep

BIND_SECONDS = 4.0
"""How long a bind may take, in this process and, from its arrival, on the API server."""

_ANSWERS = (Conflict, Forbidden, NotFound, Unauthorized)
"""After these answers the result of a bind is known."""


async def bind(  # noqa: PLR0913  a pod, a node, and what is recorded
    api: ObjectWriter, *, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str]
) -> None:
    """Bind a pod to a node, and add these annotations to it, or do nothing.

    Raise `ClusterError`: `Conflict` if the pod is bound already, is being deleted, waits behind a scheduling
    gate, or has another uid, and `NotFound` if it is gone. After `Unreachable` the result is unknown until
    the pod is seen.
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
    """The binds that may still take effect; called as `bind` is, without its API server."""

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
        self._in_flight = 0
        self._lost_until = 0.0

    async def __call__(self, **binding: object) -> None:
        """Bind a pod; raise `ClusterError` if it fails."""
        self._in_flight += 1
        try:
            await self._write(**binding)
        except _ANSWERS:
            raise
        except (ClusterError, asyncio.CancelledError):
            # The API server may still be working on it until its deadline.
            self._lost_until = self._clock() + BIND_SECONDS
            raise
        finally:
            self._in_flight -= 1

    async def landed(self) -> None:
        """Wait until no started bind can take effect any more; that takes at most twice `BIND_SECONDS`."""
        while self._in_flight or self._clock() < self._lost_until:
            await self._sleep(_LOOK_SECONDS)


_LOOK_SECONDS = 0.05
