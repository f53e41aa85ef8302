"""
Which nodes a new pod should avoid because they recently rejected a similar pod.

Pods are watched anyway, to be counted. For pods that a kubelet rejected, the node is remembered; of all
others nothing. The patch is a preference of a new pod, so it ends with that pod, and no pod stays pending for
lack of another node.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from numalign.kube.decode.parts import Part
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.kinds import Object
from numalign.kube.pod_counts import MOST_MISTAKES
from numalign.kube.pod_informer import Phase
from numalign.model.node import is_labelled
from numalign.scheduling.recent_refusals import AVOID_SECONDS, REFUSALS, RecentRefusals
from webhook import patch
from webhook.patch import Unsteered
from webhook.review import Allowed, Patched
from webhook.subject import ReviewedPod

AVOIDED = "avoided"
"""The audit annotation with the nodes that a pod should avoid."""


@dataclass(frozen=True, slots=True)
class Avoidance:
    """Recent rejections by kubelets; pods are read by `reader`."""

    refusals: RecentRefusals
    reader: PodReader

    def update_pod(self, pod: Object, *, counted: bool) -> None:
        """Handle a pod that was added or changed; ignore what cannot be read.

        `counted` is whether it was seen before it ended.
        """
        # Nearly all pods are not failed, and there may be a hundred thousand.
        phase = pod["status"].get("phase") if isinstance(pod.get("status"), dict) else None
        if phase != Phase.FAILED:
            return
        whole = Part(pod)
        metadata, status = whole["metadata"], whole["status"]
        if status["reason"].text() not in REFUSALS:
            return
        at = max(status["startTime"].time(), metadata["creationTimestamp"].time())
        age = 0.0 if counted else self.refusals.age(at)
        # After a start there may be thousands that failed long ago.
        if age >= AVOID_SECONDS:
            return
        demand = self.reader.request(pod, most_mistakes=MOST_MISTAKES).demand
        if demand is not None:
            node = whole["spec"]["nodeName"].text()
            self.refusals.put(metadata["namespace"].text(), demand, node=node, age=age)

    def nodes(self, pod: ReviewedPod) -> tuple[str, ...]:
        """Return the nodes that a pod under review should avoid."""
        return self.refusals.nodes(pod.request.namespace, pod.request.question.demand)


def with_avoidance(
    answer: Allowed | Patched,
    pod: ReviewedPod,
    nodes: tuple[str, ...],
    node_labels: Mapping[str, Mapping[str, str]],
) -> Allowed | Patched:
    """
    Return the response about a pod, extended to avoid these nodes if the pod requests alignment.

    `node_labels` are the labels of every node.
    """
    if not nodes or not pod.request.requests_alignment:
        return answer
    before = answer.operations if isinstance(answer, Patched) else ()
    labelled = {name for name in nodes if is_labelled(name, node_labels)}
    try:
        operations = patch.avoid(pod.pod, nodes, labelled=labelled, after=before)
    except Unsteered:
        # The operation that keeps it off classes has already reported that.
        return answer
    if not operations:
        return answer
    audit = {**answer.audit, AVOIDED: ",".join(nodes)}
    return Patched(operations=(*before, *operations), audit=audit)
