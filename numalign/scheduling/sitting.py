"""
How the pods of a node sit that ask for alignment: what they were seen to have, held against their intent.

What stands on a pod itself anybody may have written who may change the pod; it is taken as far as the pod's
own request bears it out. The word of the agent beside the kubelet is better, and where a pod is to be ended
for it, nothing else will do.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from numalign.decision.alignment import Alignment, alignment
from numalign.kube.pod_informer import PodInfo
from numalign.ledger.model import SEEN, AssignedPod, NodeInfo, Source
from numalign.model.intent import Policy
from numalign.scheduling.scheduler_state import PendingPod, SchedulerState


@dataclass(frozen=True, slots=True)
class Sitting:
    """How a pod sits; `by_kubelet` if the agent beside its kubelet says what it holds."""

    pod: PodInfo
    pending: PendingPod
    alignment: Alignment
    by_kubelet: bool


def sittings(state: SchedulerState, name: str) -> Iterator[Sitting]:
    """How each pod on a node sits that asks for alignment, has been started, and is not on its way out."""
    info = state.reservations.node_info(name)
    for assigned_pod in info.assigned_pods if info else ():
        pod = state.pods.get(assigned_pod.uid)
        if info and pod and pod.node == name and assigned_pod.admitted and not (pod.ended or pod.leaving):
            sitting = _sitting(state, info, pod, assigned_pod)
            if sitting:
                yield sitting


def _sitting(
    state: SchedulerState, info: NodeInfo, pod: PodInfo, assigned_pod: AssignedPod
) -> Sitting | None:
    pending, record = state.waiting(pod.uid), assigned_pod.record
    if pending is None or pending.question.intent.policy is Policy.NONE:
        return None
    observed = record.held if record and record.source in SEEN else None
    unknown = record.unknown if record else frozenset()
    question = pending.question
    judged = alignment(info.node, question.demand, question.intent, observed, unknown | assigned_pod.refuted)
    return Sitting(pod, pending, judged, bool(record and record.source is Source.KUBELET))
