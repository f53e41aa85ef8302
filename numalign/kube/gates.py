"""
The scheduling gate `numalign.io/placement`: the pods behind it, its controller, and lifting it.

The pod need not be read to lift it: a strategic merge patch removes one gate from the list by its name,
whatever else the list has, and the uid protects a recreated pod.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from urllib.parse import quote

from numalign.kube.bindings import BIND_SECONDS
from numalign.kube.client import Patch, Query
from numalign.kube.decode.parts import Part
from numalign.kube.errors import Gone, NotFound, Unreachable
from numalign.kube.kinds import Object
from numalign.kube.selectors import EVERYTHING, LabelSelector
from numalign.model.intent import PLACEMENT_GATE

LEASE = "numalign-controller"
"""The lease whose holder lifts gates."""

PAGE = 500
TIMEOUT: Query = (("timeout", f"{BIND_SECONDS:g}s"),)
"""How long an API server may work on a write: after that it has succeeded or failed."""


class PodApi(Protocol):
    """The part of an `Api` that is used; the real one raises `ClusterError`."""

    async def get(self, path: str, query: Query = (), *, what: str, most: int | None = None) -> object:
        """Return the object at a path."""

    async def patch(self, path: str, body: object, query: Query = (), *, how: Patch, what: str) -> object:
        """Patch the object at a path."""


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod behind the gate; `others` are its other scheduling gates."""

    namespace: str
    name: str
    uid: str
    others: tuple[str, ...] = ()


def pod_path(namespace: str, name: str) -> str:
    """Return the path of a pod on the API server."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"


def lift_patch(uid: str) -> Object:
    """Return the strategic merge patch that lifts the gate of the pod with this uid, and nothing else.

    Other gates stay, and without this gate nothing happens.
    """
    gate = {"$patch": "delete", "name": PLACEMENT_GATE}
    return {"metadata": {"uid": uid}, "spec": {"schedulingGates": [gate]}}


async def lift(api: PodApi, *, namespace: str, name: str, uid: str) -> None:
    """Lift the gate of a pod; raise `ClusterError` if that fails."""
    what = f"the gate of pod {namespace}/{name}"
    async with answered_within(BIND_SECONDS, what=what):
        await api.patch(pod_path(namespace, name), lift_patch(uid), TIMEOUT, how=Patch.STRATEGIC, what=what)


async def waiting(
    api: PodApi, *, namespace: str | None, selector: LabelSelector = EVERYTHING
) -> list[WaitingPod]:
    """Return the pods behind the gate with these labels, in a namespace or, if it is None, in all.

    Raise `ClusterError`.
    """
    place = f"namespaces/{quote(namespace, safe='')}/" if namespace else ""
    path, what = f"/api/v1/{place}pods", "the list of pods"
    # A pod behind a gate is on no node, so it is pending.
    pending = ("fieldSelector", "status.phase=Pending")
    pods: dict[str, WaitingPod] = {}
    query: list[tuple[str, str]] = [pending, ("limit", str(PAGE))]
    while True:
        try:
            part = Part(await api.get(path, query, what=what))
        except Gone:
            if dict(query).keys() == {"fieldSelector"}:
                raise
            # The next page has expired; the pods seen before still count.
            query = [pending]
            continue
        selected = (
            pod
            for pod in part["items"].objects()
            if selector.matches(dict(pod["metadata"]["labels"].text_map()))
        )
        pods |= {pod.uid: pod for pod in map(_waiting, selected) if pod}
        following = part["metadata"]["continue"].text()
        if not following:
            return [*pods.values()]
        query = [pending, ("limit", str(PAGE)), ("continue", following)]


def _waiting(pod: Part) -> WaitingPod | None:
    metadata = pod["metadata"]
    gates = [gate["name"].text() for gate in pod["spec"]["schedulingGates"].objects()]
    if PLACEMENT_GATE not in gates:
        return None
    others = tuple(gate for gate in gates if gate != PLACEMENT_GATE)
    return WaitingPod(metadata["namespace"].text(), metadata["name"].text(), metadata["uid"].text(), others)


async def renewed(api: PodApi, *, namespace: str) -> datetime | None:
    """Return when a controller last renewed its lease; None if never, or if that cannot be read.

    Raise `ClusterError`.
    """
    path = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}/leases/{LEASE}"
    try:
        lease = Part(await api.get(path, what=f"lease {namespace}/{LEASE}"))
    except NotFound:
        return None
    if not lease["spec"]["holderIdentity"].text():
        return None
    try:
        moment = datetime.fromisoformat(lease["spec"]["renewTime"].text())
    except ValueError:
        return None
    return moment if moment.tzinfo else None


@asynccontextmanager
async def answered_within(seconds: float, *, what: str) -> AsyncIterator[None]:
    """Raise `Unreachable` if the body takes longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise Unreachable(f"the API server did not answer within {seconds:g} s: {what}") from error
