"""
Which victims would make room that is aligned.

kube-scheduler chooses pods to evict by amounts of the whole node, and would evict two pods on two zones for
one that needs a zone. A node where the victims' room does not let the pod in is taken off its list, so that
nobody is evicted in vain; where it is not certain what the victims hold, nobody is kept from trying.
"""

from collections.abc import Mapping

from numalign.ledger.model import Basis
from numalign.scheduling.scheduler_state import PendingPod, SchedulerState
from scorer.extender_protocol import Victims


class Preemption:
    """Looks through candidates for preemption."""

    def __init__(self, state: SchedulerState) -> None:
        self._state = state

    def worthwhile(self, pod: PendingPod, victims: Mapping[str, Victims]) -> dict[str, Victims]:
        """The nodes, with their victims as they came, where to evict these would let the pod in."""
        return {name: pods for name, pods in victims.items() if self._helps(name, pods, pod)}

    def _helps(self, name: str, victims: Victims, pod: PendingPod) -> bool:
        prediction = self._state.predict(name, pod, without=(*victims.uids, pod.uid))
        if prediction is None:
            return True
        verdict = prediction.verdict
        if not verdict.answered:
            # No eviction makes the answer any shorter.
            return not pod.question.intent.binding
        certain = verdict.permanent or prediction.basis is not Basis.REPORTED
        return verdict.admitted or not certain
