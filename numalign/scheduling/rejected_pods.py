"""
Pods that a kubelet rejected: which they are, by their status, and since when.

A kubelet rejects a pod for good: it sets the phase Failed with a reason, and records the time as the start
(rejectPod of k8s.io/kubernetes, pkg/kubelet/kubelet.go). Only a few of the reasons are about NUMA zones
(`REFUSALS`).
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from numalign.decision.wording import ago
from numalign.kube.decode.parts import Part
from numalign.kube.pod_informer import LONGEST_MESSAGE, LONGEST_NAME, Owner, Phase, PodInfo, owner_of
from numalign.model.errors import one_line
from numalign.scheduling.recent_refusals import REFUSALS, failed_at

_BEGINNING = "Pod was rejected: "
"""What a kubelet puts before every message."""

_SHORTAGE = "OutOf"
"""The beginning of reasons about the node as a whole, as OutOfcpu (pkg/kubelet/lifecycle/predicate.go)."""


@dataclass(frozen=True, slots=True)
class RejectedPod:
    """A pod that its kubelet rejected, `at` that many seconds since 1970, 0 if unknown.

    `reason` and `message` are those of its status; `owner` is its controller.
    """

    uid: str
    namespace: str
    name: str
    node: str
    reason: str
    message: str
    at: int
    owner: Owner | None = None
    runtime_class: str = ""

    @property
    def about_zones(self) -> bool:
        """Whether the reason is about NUMA zones."""
        return self.reason in REFUSALS

    @property
    def why(self) -> str:
        """The reason, and what the kubelet said."""
        said = self.message.removeprefix(_BEGINNING)
        return f"{self.reason}: {said}" if said else self.reason

    def when(self, now: float) -> str:
        """Return how long ago that was, `now` in seconds since 1970; empty if unknown."""
        return f"{ago(max(0.0, now - self.at))} ago" if self.at else ""

    def sentence(self, now: float) -> str:
        """Return which kubelet rejected the pod, when and why; `now` as above."""
        return f"{' '.join(filter(None, ['rejected by', self.node, self.when(now)]))}: {one_line(self.why)}"

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        at = datetime.fromtimestamp(self.at, UTC).isoformat() if self.at else None
        return {"node": self.node, "at": at, "reason": self.reason, "message": self.message}


def of_pod(pod: PodInfo) -> RejectedPod | None:
    """Return a watched pod that its kubelet rejected, else None."""
    if not _rejected(pod.phase, pod.node, pod.reason, pod.message):
        return None
    who, at, runtime_class = (pod.uid, pod.namespace, pod.name), failed_at(pod), pod.request.runtime_class
    return RejectedPod(*who, pod.node, pod.reason, pod.message, at, pod.owner, runtime_class)


def read(raw: object) -> RejectedPod | None:
    """Return a v1 Pod that its kubelet rejected, else None."""
    part = Part(raw)
    metadata, spec, status = part["metadata"], part["spec"], part["status"]
    node, reason = spec["nodeName"].text(), status["reason"].text()[:LONGEST_NAME]
    message = status["message"].text()[:LONGEST_MESSAGE]
    if not _rejected(status["phase"].value, node, reason, message):
        return None
    who = metadata["uid"].uid(), metadata["namespace"].text(), metadata["name"].text()
    at = max(status["startTime"].time(), metadata["creationTimestamp"].time())
    runtime_class = spec["runtimeClassName"].text()
    return RejectedPod(*who, node, reason, message, at, owner_of(metadata), runtime_class)


def _rejected(phase: object, node: str, reason: str, message: str) -> bool:
    known = reason in REFUSALS or reason.startswith(_SHORTAGE) or message.startswith(_BEGINNING)
    return phase == Phase.FAILED and bool(node and reason) and known
