"""
Which victims would make room that is aligned.

kube-scheduler chooses pods to evict by amounts of the whole node, and would evict two pods on two zones for
one that needs a zone. A node where the victims' room does not let the pod in is taken off its list, so that
nobody is evicted in vain; where it is not certain what the victims hold, nobody is kept from trying.
"""

from collections.abc import Mapping

from numalign.ledger.model import Basis, Prediction
from scorer.extender_protocol import Victims
from scorer.scheduler_state import PendingPod, SchedulerState


class Preemption:
    """Judges candidates for preemption."""

    def __init__(self, register: SchedulerState) -> None:
        self._register = register

    def worthwhile(self, subject: PendingPod, victims: Mapping[str, Victims]) -> dict[str, Victims]:
        """The nodes, with their victims as they came, where to evict these would let the pod in."""
        return {name: those for name, those in victims.items() if self._helps(name, those, subject)}

    def _helps(self, name: str, victims: Victims, subject: PendingPod) -> bool:
        offer = self._register.offer(name, subject, beside=(*victims.uids, subject.uid))
        if offer is not None and not offer.verdict.answered:
            # No eviction makes the answer any shorter.
            return not subject.question.intent.binding
        return offer is None or offer.verdict.admitted or not _certain(offer)


def _certain(offer: Prediction) -> bool:
    return offer.verdict.permanent or offer.basis is not Basis.REPORTED
