"""
Which running pods violate which rules.

There are three checks of a running pod: whether it is aligned as requested, by what was observed of it; below
which levels of its namespace it is; and whether a pod like it would be admitted today, with the current
policy, namespaces and nodes. The rules are those of admission and of alignment and are defined there. Only
this module combines them, so that `kubectl numa check` and policy reports agree.

A pod is judged as its owner would recreate it: without the node that a scheduler chose for it, and whether or
not there is room for one more.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from numalign.cache.admission import LEVELS, AdmissionDecision, below_text, invalid_text
from numalign.cache.pod_question import Exempt, Invalid, PodQuestion
from numalign.decision import wording
from numalign.decision.alignment import Alignment, Judgement, why
from numalign.decision.pinning import PartialAlignment
from numalign.kube.decode.pod_reader import UNASKED, PodReader, PodReading
from numalign.kube.decode.scheduling import UNCONSTRAINED
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.pod_informer import PodInfo
from numalign.model.intent import Policy


class PodRule(StrEnum):
    """A check of a running pod."""

    ALIGNED = "aligned"
    ENFORCE = "level-enforce"
    WARN = "level-warn"
    AUDIT = "level-audit"
    ADMITTED = "admitted-today"


class RuleOutcome(StrEnum):
    """The outcome of a rule, the worst first; in the words of policy reports."""

    ERROR = "error"
    FAIL = "fail"
    WARN = "warn"
    SKIP = "skip"
    PASS = "pass"  # noqa: S105  an outcome


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The outcome of one rule for one pod; the message says why, empty if it passes without reserve."""

    rule: PodRule
    outcome: RuleOutcome
    message: str = ""


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A running pod, its policy, and the outcome of each rule that applies to it.

    `policy` is None if no alignment is requested. `exempt` is why it is exempt; it has no results then.
    `decision` is the admission decision of today, None for a pod that is exempt or cannot be read. `partial`
    is what its policy does not apply to if it is aligned.
    """

    pod: PodInfo
    policy: Policy | None
    judgement: Judgement
    results: tuple[RuleResult, ...] = ()
    decision: AdmissionDecision | None = None
    exempt: str = ""
    partial: PartialAlignment | None = None

    @property
    def outcome(self) -> RuleOutcome:
        """The worst outcome of all rules."""
        outcomes = (result.outcome for result in self.results)
        return min(outcomes, key=SEVEREST_FIRST.index, default=RuleOutcome.PASS)

    @property
    def falls_short(self) -> bool:
        """Whether somebody should look at it."""
        return self.outcome in SHORT

    @property
    def below(self) -> tuple[str, ...]:
        """The names of the levels of its namespace that it does not meet."""
        return tuple(
            name
            for name, rule in _LEVEL_RULES.items()
            if any(result.rule is rule and result.outcome in SHORT for result in self.results)
        )

    def result(self, rule: PodRule) -> RuleResult | None:
        """Return the outcome of a rule; None if it does not apply to the pod."""
        return next((result for result in self.results if result.rule is rule), None)


SEVEREST_FIRST = tuple(RuleOutcome)
"""The outcomes by severity, the worst first."""

SHORT = frozenset({RuleOutcome.ERROR, RuleOutcome.FAIL, RuleOutcome.WARN})
"""The outcomes of pods that violate a rule."""

_LEVEL_RULES: Mapping[str, PodRule] = MappingProxyType(
    {"enforce": PodRule.ENFORCE, "warn": PodRule.WARN, "audit": PodRule.AUDIT}
)
_ALIGNMENT: Mapping[Judgement, RuleOutcome] = MappingProxyType(
    {Judgement.ALIGNED: RuleOutcome.PASS, Judgement.MISALIGNED: RuleOutcome.FAIL}
)


@dataclass(eq=False, slots=True)
class RunningPodJudge:
    """Judges pods by a policy and a cluster that do not change meanwhile.

    `decide` is the current admission. Results count for all pods with the same request.
    """

    reader: PodReader
    policy: EffectivePolicy
    decide: Callable[[PodQuestion], AdmissionDecision]
    user: str = ""
    _by_request: dict[tuple[str, int, int], RunningPod] = field(init=False, default_factory=dict)

    def reading(self, pod: PodInfo) -> PodReading:
        """Return what is requested for a pod that its owner recreates."""
        kept = pod.recreated or UNCONSTRAINED
        return self.reader.read(pod.request, pod.namespace, self.policy, self.user, kept=kept)

    def judge(self, pod: PodInfo, alignment: Alignment | None) -> RunningPod:
        """Return the outcome of each rule for a pod; `alignment` is None if it was not judged."""
        # The first pod with a request is kept, so that the ids stay unique.
        key = pod.namespace, id(pod.request), id(pod.recreated)
        shared = self._by_request.get(key)
        if shared is None:
            shared = self._by_request[key] = self._judged(pod)
        if shared.policy in (None, Policy.NONE) or shared.exempt:
            return replace(shared, pod=pod)
        judged = alignment or Alignment(Judgement.NOT_OBSERVED)
        outcome = _ALIGNMENT.get(judged.judgement, RuleOutcome.SKIP)
        if outcome is RuleOutcome.FAIL and shared.policy is Policy.BEST_EFFORT:
            outcome = RuleOutcome.WARN
        results = (RuleResult(PodRule.ALIGNED, outcome, why(judged)), *shared.results)
        return replace(shared, pod=pod, judgement=judged.judgement, results=results, partial=judged.partial)

    def _judged(self, pod: PodInfo) -> RunningPod:
        """Return the results for all pods of a namespace with the request of this one, however aligned."""
        unasked = RunningPod(pod, None, Judgement.NOT_ASKED)
        match self.reading(pod):
            case Exempt(reason):
                # A pod without any request is not exempt by a decision.
                return replace(unasked, exempt="" if reason == UNASKED else reason)
            case Invalid(mistakes):
                unread = RuleResult(PodRule.ADMITTED, RuleOutcome.ERROR, invalid_text(mistakes))
                return replace(unasked, results=(unread,))
            case PodQuestion() as question:
                decision = self.decide(question)
                results = () if question.silent else (*_levels(question), _admitted(question, decision))
                policy = question.policy if question.stated else None
                return replace(unasked, policy=policy, results=results, decision=decision)


def _levels(pod: PodQuestion) -> Iterator[RuleResult]:
    for name, rule in _LEVEL_RULES.items():
        level = LEVELS[name](pod.rules)
        if level is not None and pod.requests_less_than(level):
            below = RuleOutcome.FAIL if rule is PodRule.ENFORCE else RuleOutcome.WARN
            yield RuleResult(rule, below, below_text(pod, level))
        elif level is not None:
            yield RuleResult(rule, RuleOutcome.PASS)


def _admitted(pod: PodQuestion, decision: AdmissionDecision) -> RuleResult:
    """Return the outcome of admission; being below a level is a result of its own."""
    if decision.refusal:
        return RuleResult(PodRule.ADMITTED, RuleOutcome.FAIL, decision.refusal)
    below = below_text(pod, pod.rules.warn) if pod.rules.warn else None
    waived = [wording.first_sentence(decision.waived)] if decision.waived else []
    unpinned = [decision.unpinned] if decision.unpinned else []
    warnings = [*waived, *(warning for warning in decision.warnings if warning != below), *unpinned]
    outcome = RuleOutcome.WARN if warnings else RuleOutcome.PASS
    return RuleResult(PodRule.ADMITTED, outcome, "; ".join(warnings))


def runs(pod: PodInfo) -> bool:
    """Return whether a pod is on a node, has not ended and is not being deleted."""
    return bool(pod.node) and not pod.ended and not pod.leaving
