"""Pods of a ReplicaSet, as an informer has them and as an API server stores them."""

from dataclasses import replace
from typing import Any

from numalign.kube.pod_informer import Owner, Phase, PodInfo
from tests.worlds import scorer
from tests.worlds.scorer import Scorer, on, raw, uid

Json = dict[str, Any]

BORN = 1_000_000
WEB = Owner("apps", "ReplicaSet", "web-1", "u1")
JOB = Owner("batch", "Job", "sum", "u2")
API_VERSIONS = {"ReplicaSet": "apps/v1", "Job": "batch/v1"}
REASON = "TopologyAffinityError"

_SCORER = Scorer()
_SCORER.see(scorer.running(on("n", raw("cpu=2 mem=1Gi", policy=None))))
_RUNNING = _SCORER.state.pods[uid("web")]


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
        "status": {"phase": pod.phase.value, "reason": pod.reason},
    }
