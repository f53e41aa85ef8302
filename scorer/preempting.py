"""
Filter preemption candidates by whether evicting the victims would make aligned room.

kube-scheduler chooses pods to evict by amounts of the whole node, and would evict two pods on two zones for a
pod that needs one zone. A node where evicting the victims does not admit the pod is removed from the
candidates, so that no pod is evicted in vain; if it is uncertain what the victims hold, the node is kept.
"""

from collections.abc import Mapping

from numalign.ledger.model import Basis
from numalign.scheduling.scheduler_state import PendingPod, SchedulerState
from scorer.extender_protocol import Victims


class Preemption:
    """Evaluates candidates for preemption."""

    def __init__(self, state: SchedulerState) -> None:
        self._state = state

    def worthwhile(self, pod: PendingPod, victims: Mapping[str, Victims]) -> dict[str, Victims]:
        """Return the nodes, with their victims as received, where evicting these would admit the pod."""
        return {name: pods for name, pods in victims.items() if self._helps(name, pods, pod)}

    def _helps(self, name: str, victims: Victims, pod: PendingPod) -> bool:
        prediction = self._state.predict(name, pod, without=(*victims.uids, pod.uid))
        if prediction is None:
            return True
        verdict = prediction.verdict
        if not verdict.answered:
            # An eviction does not make the evaluation any shorter.
            return not pod.question.intent.binding
        certain = verdict.permanent or prediction.basis is not Basis.REPORTED
        return verdict.admitted or not certain
