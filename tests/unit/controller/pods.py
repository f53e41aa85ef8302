"""Pods of a ReplicaSet, as an informer has them and as an API server stores them."""

from dataclasses import replace
from typing import Any

from numalign.kube.decode.pod_request import PodRequest
from numalign.kube.pod_informer import Owner, Phase, PodInfo
from numalign.model.intent import IntentAnnotations
from tests.worlds.notation import asks

Json = dict[str, Any]

BORN = 1_000_000
TEAM = "team"
WEB = Owner("apps", "ReplicaSet", "web-1", "u1")
JOB = Owner("batch", "Job", "sum", "u2")
API_VERSIONS = {"ReplicaSet": "apps/v1", "Job": "batch/v1"}
REASON = "TopologyAffinityError"

_RUNNING = PodInfo(
    uid="",
    namespace=TEAM,
    name="",
    node="n",
    scheduler="default-scheduler",
    created=0,
    started=0,
    phase=Phase.RUNNING,
    acknowledged=True,
    leaving=False,
    reason="",
    message="",
    request=PodRequest(asks("cpu=2 mem=1Gi"), IntentAnnotations()),
    record=None,
)


def running(name: str, age: int = 0, owner: Owner | None = WEB, **fields: Any) -> PodInfo:  # noqa: ANN401  theirs
    """A pod created so many seconds after the first."""
    made = BORN + age
    return replace(_RUNNING, uid=f"uid-{name}", name=name, created=made, started=made, owner=owner, **fields)


def refused(name: str, age: int = 0, owner: Owner | None = WEB, **fields: Any) -> PodInfo:  # noqa: ANN401  as above
    """A pod that its kubelet rejected."""
    return running(name, age, owner, **{"phase": Phase.FAILED, "reason": REASON, **fields})


def stored(pod: PodInfo, **metadata: object) -> Json:
    """The v1 Pod."""
    references = [
        {**o._asdict(), "apiVersion": API_VERSIONS[o.kind], "controller": True} for o in [pod.owner] if o
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
            "resourceVersion": "7",
            "ownerReferences": references,
            **metadata,
        },
        "spec": {"nodeName": pod.node},
        "status": {"phase": pod.phase.value, **({"reason": pod.reason} if pod.reason else {})},
    }
