"""
Evictions of pods.

Only this module evicts. In a cluster with the EvictionRequest API (KEP-4563, alpha in 1.37), only this module
would have to change to create such a request instead.
"""

from enum import StrEnum

from numalign.kube.client import Api
from numalign.kube.errors import ClusterError, Conflict, Failing, Forbidden, NotFound, Throttled
from numalign.kube.gates import pod_path
from numalign.kube.pod_informer import PodInfo
from numalign.kube.writes import answer

EVICT_SECONDS = 4.0
"""The timeout of an eviction in seconds, here and, from its arrival, on the API server."""

LONGEST_REASON = 400
"""The limit of the reason in characters."""


class EvictionAnswer(StrEnum):
    """The result of an eviction."""

    EVICTED = "evicted"
    BUDGET = "budget"
    BUDGETS = "budgets"
    GONE = "gone"
    FORBIDDEN = "forbidden"
    UNANSWERED = "unanswered"


async def evict(api: Api, pod: PodInfo, *, reason: str) -> tuple[EvictionAnswer, str]:
    """Evict the pod with this UID and no other, within its budget; return the result, and why it failed.

    After `UNANSWERED` it is unknown whether the pod is evicted until its deletion is observed. Never raises
    `ClusterError`.
    """
    metadata = {
        "name": pod.name,
        "namespace": pod.namespace,
        # As descheduler writes them, for the audit logs and interceptors that read them
        # (sigs.k8s.io/descheduler, pkg/descheduler/evictions/evictions.go: evictPod).
        "annotations": {"reason": reason[:LONGEST_REASON], "requested-by": "numalign-controller"},
    }
    # No resourceVersion: an API server compares it only after it has counted the pod in its
    # PodDisruptionBudget (EvictionREST.Create of k8s.io/kubernetes, in
    # pkg/registry/core/pod/storage/eviction.go). A write to the pod in between, such as a kubelet's, would
    # keep the pod and use up the budget until the disruption controller forgets it (DeletionTimeout, two
    # minutes), and each retry would be counted again.
    options = {"preconditions": {"uid": pod.uid}}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options}
    path, what = pod_path(pod.namespace, pod.name), f"the eviction of pod {pod.namespace}/{pod.name}"
    request = api.create(f"{path}/eviction", body, [("timeout", f"{EVICT_SECONDS:g}s")], what=what)
    try:
        await answer(request, within=EVICT_SECONDS)
    except Throttled as error:
        return EvictionAnswer.BUDGET, str(error)
    except (NotFound, Conflict) as error:
        # After a conflict, another pod has its name: the UID in the precondition differs.
        return EvictionAnswer.GONE, str(error)
    except Forbidden as error:
        return EvictionAnswer.FORBIDDEN, str(error)
    except ClusterError as error:
        # The API server answers 500 for a pod with two budgets (EvictionREST.Create of k8s.io/kubernetes, in
        # pkg/registry/core/pod/storage/eviction.go), and for its own errors.
        two = isinstance(error, Failing) and "PodDisruptionBudget" in str(error)
        return EvictionAnswer.BUDGETS if two else EvictionAnswer.UNANSWERED, str(error)
    return EvictionAnswer.EVICTED, ""
