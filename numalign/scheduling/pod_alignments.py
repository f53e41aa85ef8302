"""
The alignment of a node's pods that request it: what they were seen to have, compared with their intent.

Any user who may change a pod may have written its annotations; they are trusted as far as they match the
pod's own request. The report of the node's agent is better, and only that is enough to delete a pod for it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from numalign.decision.alignment import Alignment, alignment
from numalign.kube.pod_informer import PodInfo
from numalign.ledger.model import SEEN, Source
from numalign.model.intent import Policy
from numalign.scheduling.scheduler_state import PendingPod, SchedulerState


@dataclass(frozen=True, slots=True)
class PodAlignment:
    """The alignment of a pod; `by_kubelet` is whether its node's agent reported what it holds."""

    pod: PodInfo
    pending: PendingPod
    alignment: Alignment
    by_kubelet: bool


def pod_alignments(state: SchedulerState, name: str) -> Iterator[PodAlignment]:
    """Yield the alignment of each started pod on a node that requests it and is not being deleted."""
    info = state.reservations.node_info(name)
    for assigned_pod in info.assigned_pods if info else ():
        pod = state.pods.get(assigned_pod.uid)
        if not (info and pod and pod.node == name and assigned_pod.admitted) or pod.ended or pod.leaving:
            continue
        pending, record = state.waiting(pod.uid), assigned_pod.record
        if pending is None or pending.question.intent.policy is Policy.NONE:
            continue
        observed = record.held if record and record.source in SEEN else None
        unknown = (record.unknown if record else frozenset()) | assigned_pod.refuted
        question = pending.question
        judged = alignment(info.node, question.demand, question.intent, observed, unknown)
        yield PodAlignment(pod, pending, judged, bool(record and record.source is Source.KUBELET))
