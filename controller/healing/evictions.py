"""
Evictions of pods.

Only this module evicts. In a cluster with the EvictionRequest API (KEP-4563, alpha in 1.37), only this module
would have to change to create such a request instead.
"""

import asyncio
from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol
from urllib.parse import quote

from numalign.kube.client import Query
from numalign.kube.errors import ClusterError, Conflict, Failing, Forbidden, NotFound, Throttled
from numalign.kube.pod_informer import PodInfo

EVICT_SECONDS = 4.0
"""The timeout of an eviction in seconds, here and, from its arrival, on the API server."""

REQUESTED_BY = "numalign-controller"

LONGEST_REASON = 400
"""The limit of the reason in characters."""

_TWO_BUDGETS = "PodDisruptionBudget"


class Evictions(Protocol):
    """The part of an `Api` that is used here; `Api` raises `ClusterError`."""

    async def create(self, path: str, body: object, query: Query = (), *, what: str) -> object:
        """Create an object in the collection at a path."""


class EvictionAnswer(StrEnum):
    """The result of an eviction."""

    EVICTED = "evicted"
    BUDGET = "budget"
    BUDGETS = "budgets"
    GONE = "gone"
    FORBIDDEN = "forbidden"
    UNANSWERED = "unanswered"


def eviction(pod: PodInfo, *, reason: str) -> Mapping[str, object]:
    """Return the Eviction of the pod with this UID, and of no other.

    It names no resourceVersion. An API server compares that only after it has counted the pod in its
    PodDisruptionBudget (EvictionREST.Create of k8s.io/kubernetes, in
    pkg/registry/core/pod/storage/eviction.go): a write to the pod in between, such as a kubelet's, would keep
    the pod and use up the budget until the disruption controller forgets it (DeletionTimeout, two minutes),
    and each retry would be counted again.

    The annotations are those that descheduler writes, for the audit logs and interceptors that read them
    (sigs.k8s.io/descheduler, pkg/descheduler/evictions/evictions.go: evictPod).
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "annotations": {"reason": reason[:LONGEST_REASON], "requested-by": REQUESTED_BY},
        },
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }


async def evict(api: Evictions, pod: PodInfo, *, reason: str) -> tuple[EvictionAnswer, str]:
    """Evict a pod within its budget; return the result, and the error if it failed.

    After `UNANSWERED` it is unknown whether the pod is evicted until its deletion is observed. Never raises
    `ClusterError`.
    """
    path = f"/api/v1/namespaces/{quote(pod.namespace, safe='')}/pods/{quote(pod.name, safe='')}/eviction"
    body, what = eviction(pod, reason=reason), f"the eviction of pod {pod.namespace}/{pod.name}"
    try:
        async with asyncio.timeout(EVICT_SECONDS):
            await api.create(path, body, [("timeout", f"{EVICT_SECONDS:g}s")], what=what)
    except (ClusterError, TimeoutError) as error:
        return _answer(error), str(error) or f"the API server did not answer within {EVICT_SECONDS:g} s"
    return EvictionAnswer.EVICTED, ""


def _answer(error: Exception) -> EvictionAnswer:
    # The API server answers 500 for a pod with two budgets (EvictionREST.Create of k8s.io/kubernetes, in
    # pkg/registry/core/pod/storage/eviction.go), and for its own errors.
    if isinstance(error, Failing):
        two = _TWO_BUDGETS in str(error)
        return EvictionAnswer.BUDGETS if two else EvictionAnswer.UNANSWERED
    answers = (answer for kind, answer in _ANSWERS.items() if isinstance(error, kind))
    return next(answers, EvictionAnswer.UNANSWERED)


_ANSWERS: Mapping[type[ClusterError], EvictionAnswer] = {
    Throttled: EvictionAnswer.BUDGET,
    NotFound: EvictionAnswer.GONE,
    # Another pod has its name: the UID in the precondition differs.
    Conflict: EvictionAnswer.GONE,
    Forbidden: EvictionAnswer.FORBIDDEN,
}
