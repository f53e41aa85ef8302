"""
Asking for a pod to go.

This is the one place that does: where a cluster has the EvictionRequest API (KEP-4563, alpha in 1.37), it is
here that such a request would be made instead, and all else would stay as it is.
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
"""How long an eviction may take, here and, from when it arrives there, on the API server."""

REQUESTED_BY = "numalign-controller"

LONGEST_REASON = 400
"""Characters."""

_TWO_BUDGETS = "PodDisruptionBudget"


class Evictions(Protocol):
    """What of an `Api` is used; the real one raises `ClusterError`."""

    async def create(self, path: str, body: object, query: Query = (), *, what: str) -> object:
        """Make an object in the collection at a path."""


class EvictionAnswer(StrEnum):
    """What became of asking for a pod to go."""

    EVICTED = "evicted"
    BUDGET = "budget"
    BUDGETS = "budgets"
    GONE = "gone"
    FORBIDDEN = "forbidden"
    UNANSWERED = "unanswered"


def eviction(pod: PodInfo, *, reason: str) -> Mapping[str, object]:
    """The Eviction of this very pod, and of no other.

    It names no resourceVersion. An API server compares that only after it has counted the pod in its
    PodDisruptionBudget (EvictionREST.Create of k8s.io/kubernetes, in
    pkg/registry/core/pod/storage/eviction.go): a write to the pod in between, such as a kubelet's, would keep
    the pod and use up the budget until the disruption controller forgets it (DeletionTimeout, two minutes),
    and whoever asks again is counted again.

    The annotations are those that descheduler writes, so that audit logs and interceptors find the same
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


async def ask_to_go(api: Evictions, pod: PodInfo, *, reason: str) -> tuple[EvictionAnswer, str]:
    """Ask for a pod to go, within its budget; what came of it, and what the API server said.

    After `UNANSWERED` nobody knows whether it goes, until it is seen. Never raises `ClusterError`.
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
    # 500 is for a pod with two budgets (EvictionREST.Create of k8s.io/kubernetes, in
    # pkg/registry/core/pod/storage/eviction.go), and for faults of the API server.
    if isinstance(error, Failing):
        two = _TWO_BUDGETS in str(error)
        return EvictionAnswer.BUDGETS if two else EvictionAnswer.UNANSWERED
    answers = (answer for kind, answer in _ANSWERS.items() if isinstance(error, kind))
    return next(answers, EvictionAnswer.UNANSWERED)


_ANSWERS: Mapping[type[ClusterError], EvictionAnswer] = {
    Throttled: EvictionAnswer.BUDGET,
    NotFound: EvictionAnswer.GONE,
    # Another pod has its name.
    Conflict: EvictionAnswer.GONE,
    Forbidden: EvictionAnswer.FORBIDDEN,
}
