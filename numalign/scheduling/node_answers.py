"""
The current answer of each node to a pod, and the reason.

To filter and rank thousands of nodes it is enough to know which take the pod and how well, and for that all
are evaluated at once. To know the pod's zones on a node, and for which pods it would have to wait, that node
is evaluated by itself.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from numalign.cache.batch import UNKNOWN, Batch
from numalign.cache.scheduler_cache import NotEligible
from numalign.ledger.model import Prediction
from numalign.runtime.cooperative import computed
from numalign.scheduling import reasons
from numalign.scheduling.scheduler_state import PendingPod, SchedulerState

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Filtered:
    """The candidates after filtering: each is fit, or has the reason why it is not.

    A node that `failed` may become fit when other pods leave; one that is `unresolvable` will not, and no pod
    is evicted for it.
    """

    fit: Sequence[str]
    failed: dict[str, str]
    unresolvable: dict[str, str]


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """The answer of one node; `prediction` is None without a topology, or if it has not `answered`."""

    name: str
    prediction: Prediction | None
    fits: bool
    permanent: bool = False
    reason: str = ""
    answered: bool = True


@dataclass(frozen=True, slots=True)
class NodeAnswers:
    """Evaluates nodes. Pods that must be aligned fit on nodes without topology only if those `may-fit`."""

    state: SchedulerState
    unknown: Literal["cannot-fit", "may-fit"]
    clock: Callable[[], float]

    async def evaluate(self, answer: Callable[[], T]) -> T:
        """Return an answer that is computed here, while other tasks run in between."""
        return await computed(self.state.cache.pace, answer)

    def batch(self, names: Sequence[str], pod: PendingPod) -> Batch:
        """Return which of these nodes take the pod, and how well."""
        return self.state.cache.ask(names, pod.question, now=self.clock(), uid=pod.uid, created=pod.created)

    def filtered(self, names: Sequence[str], pod: PendingPod) -> tuple[Filtered, bool]:
        """Return which of these nodes take the pod, and whether all of them have answered."""
        batch = self.batch(names, pod)
        return _filtered(batch, unknown_fit=self._unknown_fit(pod)), batch.answered

    def of(self, names: Iterable[str], pod: PendingPod) -> list[NodeAnswer]:
        """Return the answers of these nodes, each by itself, in their order."""
        return [self._of_node(name, pod) for name in names]

    def of_not_eligible(
        self, reasons_by_name: Mapping[str, NotEligible], pod: PendingPod
    ) -> list[NodeAnswer]:
        """Return the answers of nodes that the pod may not use.

        For one that will take pods again, a permanent refusal takes precedence.
        """
        later = [name for name, why in reasons_by_name.items() if not why.lasting]
        never = {answer.name: answer for answer in self.of(later, pod) if answer.permanent}
        return [
            never.get(name)
            or NodeAnswer(name, None, fits=False, permanent=why.lasting, reason=reasons.kept_away(why.unmet))
            for name, why in reasons_by_name.items()
        ]

    def not_eligible(self, names: Sequence[str], pod: PendingPod) -> Mapping[str, NotEligible]:
        """Return which of these nodes the pod may not use, and why."""
        return self.state.cache.not_eligible(names, pod.constraints, now=self.clock())

    def _of_node(self, name: str, pod: PendingPod) -> NodeAnswer:
        # The pod's own reservation does not block it.
        prediction = self.state.predict(name, pod, without=(pod.uid,))
        if prediction is None:
            fits = self._unknown_fit(pod)
            return NodeAnswer(
                name, None, fits=fits, permanent=not fits, reason="" if fits else reasons.UNKNOWN
            )
        verdict = prediction.verdict
        if verdict.admitted:
            return NodeAnswer(name, prediction, fits=True)
        reason = reasons.reason(verdict)
        if not verdict.answered:
            return NodeAnswer(name, None, fits=self._unknown_fit(pod), reason=reason, answered=False)
        return NodeAnswer(name, prediction, fits=False, permanent=verdict.permanent, reason=reason)

    def _unknown_fit(self, pod: PendingPod) -> bool:
        """Return whether the pod may use a node without topology, or one that takes too long to evaluate."""
        return self.unknown == "may-fit" or not pod.question.intent.binding


def _filtered(batch: Batch, *, unknown_fit: bool) -> Filtered:
    """Return the nodes that take the pod, and the reasons of the others, in the order of the call.

    With `unknown_fit`, nodes without topology take it, and so do those that take too long to evaluate.
    """
    refusals = {
        code: verdict for code, verdict in batch.refusals.items() if verdict.answered or not unknown_fit
    }
    texts = {code: reasons.reason(verdict) for code, verdict in refusals.items()}
    permanent = {code for code, verdict in refusals.items() if verdict.permanent}
    if not unknown_fit:
        # An eviction there would not produce a topology.
        texts[UNKNOWN] = reasons.UNKNOWN
        permanent.add(UNKNOWN)
    fit, (failed, unresolvable) = batch.split(texts.keys() - permanent, permanent)
    return Filtered(
        [*fit],
        {name: texts[code] for name, code in failed.items()},
        {name: texts[code] for name, code in unresolvable.items()},
    )
