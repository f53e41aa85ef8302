"""
The current answer of each node to a pod, and the reason.

To filter and rank thousands of nodes it is enough to know which take the pod and how well, and for that all
are evaluated at once. To know the pod's zones on a node, and for which pods it would have to wait, that node
is evaluated by itself.

Reasons are as the scheduler shows them: kube-scheduler counts nodes by the text of their reason and prints
`0/40 nodes are available: 12 node(s) ...` (k8s.io/kubernetes, pkg/scheduler/framework/types.go, FitError).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from numalign.cache.batch import UNKNOWN, Batch
from numalign.cache.scheduler_cache import NotEligible
from numalign.decision import wording
from numalign.decision.verdict import Verdict
from numalign.ledger.model import Prediction
from numalign.model.constraints import Unmet
from numalign.runtime.cooperative import computed
from numalign.scheduling.scheduler_state import PendingPod, SchedulerState

T = TypeVar("T")

NO_TOPOLOGY = f"node(s) {wording.NO_TOPOLOGY}, and the pod requests NUMA alignment (numalign)"
"""For a node without a topology, and a pod that must be aligned."""

WAITING = "node(s) are still admitting pods that were bound earlier (numalign)"
"""For a node where it is not certain which pod comes first."""

POD_GROUP = "node(s) have no NUMA zone left beside other pods of the pod group (numalign)"
"""For a node that takes a pod by itself, but not after the other members of its group."""


def reason(verdict: Verdict) -> str:
    """Return the reason of a refusal; raise `ValueError` for any other verdict."""
    words = wording.reason(verdict)
    return f"node(s) {words} (numalign: {verdict.refusal.policy})" if verdict.refusal else words


def over_quota(why: str) -> str:
    """Return the reason of every node for a pod that has to wait for the quota of its namespace."""
    return f"node(s) beyond the quota: {why} (numalign)"


def kept_away(unmet: Unmet) -> str:
    """Return the reason of a node where the pod may not run, whatever it has."""
    return f"node(s) {unmet}"


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
        """Return which of these nodes take the pod, in their order, and whether all of them have answered."""
        batch, unknown_fit = self.batch(names, pod), self._unknown_fit(pod)
        refusals = {code: why for code, why in batch.refusals.items() if why.answered or not unknown_fit}
        texts = {code: reason(verdict) for code, verdict in refusals.items()}
        permanent = {code for code, verdict in refusals.items() if verdict.permanent}
        if not unknown_fit:
            # An eviction there would not produce a topology.
            texts[UNKNOWN] = NO_TOPOLOGY
            permanent.add(UNKNOWN)
        fit, (failed, unresolvable) = batch.split(texts.keys() - permanent, permanent)
        filtered = Filtered(
            [*fit],
            {name: texts[code] for name, code in failed.items()},
            {name: texts[code] for name, code in unresolvable.items()},
        )
        return filtered, batch.answered

    def of(self, names: Iterable[str], pod: PendingPod) -> list[NodeAnswer]:
        """Return the answers of these nodes, each by itself, in their order."""
        answers, unknown_fit = list[NodeAnswer](), self._unknown_fit(pod)
        for name in names:
            # The pod's own reservation does not block it.
            prediction = self.state.predict(name, pod, without=(pod.uid,))
            verdict = prediction.verdict if prediction else None
            if verdict is None:
                why = "" if unknown_fit else NO_TOPOLOGY
                answer = NodeAnswer(name, None, fits=unknown_fit, permanent=not unknown_fit, reason=why)
            elif verdict.admitted:
                answer = NodeAnswer(name, prediction, fits=True)
            elif not verdict.answered:
                answer = NodeAnswer(name, None, fits=unknown_fit, reason=reason(verdict), answered=False)
            else:
                why, permanent = reason(verdict), verdict.permanent
                answer = NodeAnswer(name, prediction, fits=False, permanent=permanent, reason=why)
            answers.append(answer)
        return answers

    def of_not_eligible(self, away: Mapping[str, NotEligible], pod: PendingPod) -> list[NodeAnswer]:
        """Return the answers of nodes that the pod may not use; permanent refusals before passing reasons."""
        later = [name for name, why in away.items() if not why.lasting]
        never = {answer.name: answer for answer in self.of(later, pod) if answer.permanent}
        return [
            never.get(name)
            or NodeAnswer(name, None, fits=False, permanent=why.lasting, reason=kept_away(why.unmet))
            for name, why in away.items()
        ]

    def not_eligible(self, names: Sequence[str], pod: PendingPod) -> Mapping[str, NotEligible]:
        """Return which of these nodes the pod may not use, and why."""
        return self.state.cache.not_eligible(names, pod.constraints, now=self.clock())

    def _unknown_fit(self, pod: PendingPod) -> bool:
        """Return whether the pod may use a node without topology, or one that takes too long to evaluate."""
        return self.unknown == "may-fit" or not pod.question.intent.binding
