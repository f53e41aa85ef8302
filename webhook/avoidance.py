"""
Which nodes a pod that is created had better avoid, for they have just refused one like it.

Pods are watched anyway, to be counted. Of those that a kubelet refused it is noted which node that was; of
all others nothing. What is written is a preference of a pod that is new, so it ends with
that pod, and no pod waits for want of another node.
"""

from dataclasses import dataclass

from numalign.kube.decode.parts import Part
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.kinds import Object
from numalign.kube.pod_counts import MOST_MISTAKES
from numalign.kube.pod_informer import Phase
from numalign.scheduling.recent_refusals import REFUSALS, RecentRefusals
from webhook import patch
from webhook.patch import Unsteered
from webhook.review import Allowed, Patched
from webhook.subject import ReviewedPod

AVOIDED = "avoided"
"""The audit annotation with the nodes that a pod is to avoid."""


@dataclass(frozen=True, slots=True)
class Avoidance:
    """What was seen of pods that a kubelet refused, read by `reader`."""

    refusals: RecentRefusals
    reader: PodReader

    def see(self, pod: Object) -> None:
        """A pod is there like this; what cannot be read of it tells nothing."""
        # Nearly all pods are none of these, and there are a hundred thousand.
        phase = pod["status"].get("phase") if isinstance(pod.get("status"), dict) else None
        if phase != Phase.FAILED:
            return
        whole = Part(pod)
        metadata, status = whole["metadata"], whole["status"]
        if status["reason"].text() not in REFUSALS:
            return
        at = status["startTime"].time() or metadata["creationTimestamp"].time()
        # After a start there may be thousands that failed long ago.
        if not self.refusals.recent(at):
            return
        demand = self.reader.request(pod, most_mistakes=MOST_MISTAKES).demand
        if demand is not None:
            node = whole["spec"]["nodeName"].text()
            self.refusals.put(metadata["namespace"].text(), demand, node=node, at=at)

    def nodes(self, pod: ReviewedPod) -> tuple[str, ...]:
        """The nodes that a pod under review should not be sent to first."""
        return self.refusals.nodes(pod.request.namespace, pod.request.question.demand)


def avoiding(answer: Allowed | Patched, pod: ReviewedPod, nodes: tuple[str, ...]) -> Allowed | Patched:
    """The answer about a pod, which avoids these nodes too, if it asks to be aligned at all."""
    if not nodes or not pod.request.asks:
        return answer
    before = answer.operations if isinstance(answer, Patched) else ()
    try:
        operations = patch.avoid(pod.pod, nodes, after=before)
    except Unsteered:
        # Whoever kept it from classes has said so.
        return answer
    if not operations:
        return answer
    audit = {**answer.audit, AVOIDED: ",".join(nodes)}
    return Patched(operations=(*before, *operations), audit=audit)
