"""
Whether a pod may be admitted, and the warnings for its owner.

This is decided only here: the webhook answers with it, `kubectl numa` shows it in advance. A pod is refused
if its namespace requires more, or if no shape that the cluster has, had or declares could ever take it. That
is permanent, so if anything is not known the pod is admitted with a warning; the same holds if only no node
has room now.
"""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain, islice
from operator import attrgetter
from types import MappingProxyType

from numalign.cache import dra
from numalign.cache.cluster_cache import ClusterCache
from numalign.cache.pod_question import Pin, PodQuestion
from numalign.cache.question import Question
from numalign.cache.survey import Survey
from numalign.decision import pinning, taints, wording
from numalign.decision.pinning import PartialAlignment
from numalign.model.errors import Mistake
from numalign.model.intent import RESOURCES, NamespaceRules, Policy
from numalign.model.resources import CPU, MEMORY, Kind, kind
from numalign.shapes import KnownShape

LEVELS: Mapping[str, Callable[[NamespaceRules], Policy | None]] = MappingProxyType(
    {name: attrgetter(name) for name in ("enforce", "warn", "audit")}
)
"""The levels that a namespace can set for every pod in it, by name."""


class Reaction(StrEnum):
    """The reaction to a pod that cannot run as far as known."""

    DENY = "deny"
    WARN = "warn"


class RequestReaction(StrEnum):
    """The reaction to a pod because of what it requests, whatever nodes there are."""

    DENY = "deny"
    WARN = "warn"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class Refusals:
    """When a pod is refused because of the known shapes, not because of its namespace.

    `never` is for pods that no shape could take, `unknown_resources` for those that request a resource that
    none has ever listed. With `unknown_may_fit`, a node without topology that is large enough may take a pod.
    Whatever nodes there are, `taints` is for pods whose tolerations contradict their requests, `partial` for
    those whose policy applies to only a part of what they request.
    """

    never: Reaction = Reaction.DENY
    unknown_resources: Reaction = Reaction.WARN
    unknown_may_fit: bool = True
    taints: RequestReaction = RequestReaction.WARN
    partial: RequestReaction = RequestReaction.WARN


class AdmissionState(StrEnum):
    """What a decision rests on."""

    NOT_ASKED = "not-asked"
    BELOW_ENFORCED = "below-enforced"
    CONTRADICTS_TAINT = "contradicts-taint"
    PARTLY_ALIGNED = "partly-aligned"
    NOTHING_TO_ALIGN = "nothing-to-align"
    PLACED = "placed"
    NOT_KNOWN = "not-known"
    FITS = "fits"
    WAITS = "waits"
    NO_NODE_HERE = "no-node-here"
    NOT_MATCHED = "not-matched"
    UNKNOWN_RESOURCE = "unknown-resource"
    UNKNOWN_NODE = "unknown-node"
    NEVER = "never"


BY_ITSELF = frozenset(
    {AdmissionState.BELOW_ENFORCED, AdmissionState.CONTRADICTS_TAINT, AdmissionState.PARTLY_ALIGNED}
)
"""States in which a pod is refused for its request, whatever nodes there are."""


@dataclass(frozen=True, slots=True)
class AdmissionDecision:
    """The decision on a pod: it is refused if there is a `refusal`, else admitted.

    `waived` is a refusal that is not enforced, because of best-effort, the configured reaction or a pool that
    may grow. `unpinned` is what the pod's policy does not apply to, and why. Texts are complete; the code
    that shows them cuts them.
    """

    state: AdmissionState
    refusal: str | None = None
    waived: str | None = None
    warnings: tuple[str, ...] = ()
    unpinned: str | None = None

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """The warnings for the pod's owner, a waived refusal first."""
        waived = (wording.first_sentence(self.waived),) if self.waived else ()
        return (*waived, *self.warnings, *filter(None, [self.unpinned]))


NOTHING: AbstractSet[str] = frozenset()
"""The resources that DRA serves if it serves none."""


def answered(pod: PodQuestion, cache: ClusterCache, *, served: AbstractSet[str] = NOTHING) -> bool:
    """Return whether every evaluated node has answered in time."""
    if not pod.requests_alignment:
        return True
    question = dra.sure(pod.question, served)
    if pod.pin and pod.pin.node:
        verdict = cache.verdict(pod.pin.node, question)
        return verdict is None or verdict.answered
    return not cache.ever(question, pod.constraints).unanswered


def decide(  # noqa: PLR0913  a pod, a cluster, and as of when and of what it is asked
    pod: PodQuestion,
    cache: ClusterCache,
    refusals: Refusals,
    *,
    now: float,
    served: AbstractSet[str] = NOTHING,
    runs: bool = False,
) -> AdmissionDecision:
    """Return the decision on whether a pod may be admitted.

    `now` is the wall clock, in seconds since 1970; `served` are the resources that DRA serves, for which no
    pod is refused. For a pod that `runs` already it is not checked whether a node has room: it has its own.
    """
    rules = pod.rules
    if rules.enforce and pod.requests_less_than(rules.enforce):
        # A namespace's level applies to every pod in it, whatever has placed it.
        return AdmissionDecision(AdmissionState.BELOW_ENFORCED, _enforcement_text(pod, rules.enforce))
    warnings = list[str]()
    if rules.warn and pod.requests_less_than(rules.warn):
        warnings.append(below_text(pod, rules.warn))
    contradictions = _contradictions(pod, refusals)
    if contradictions and refusals.taints is RequestReaction.DENY:
        text = " ".join(each.refusal for each in contradictions)
        return AdmissionDecision(AdmissionState.CONTRADICTS_TAINT, text, warnings=tuple(warnings))
    warnings += [each.warning for each in contradictions]
    if not pod.requests_alignment:
        return AdmissionDecision(AdmissionState.NOT_ASKED, warnings=tuple(warnings))
    question = dra.sure(pod.question, served)
    partial = pinning.partial(question.demand, question.intent)
    if partial and refusals.partial is RequestReaction.DENY and _is_final(pod, partial):
        return AdmissionDecision(AdmissionState.PARTLY_ALIGNED, partial.refusal, warnings=tuple(warnings))
    decision = _by_nodes(
        pod if question is pod.question else replace(pod, question=question), cache, refusals, now, runs=runs
    )
    if decision.state in _FOUND_A_NODE and (nothing := _nothing_to_align(pod)):
        decision = AdmissionDecision(AdmissionState.NOTHING_TO_ALIGN, unpinned=nothing)
    elif partial and not decision.refusal and refusals.partial is not RequestReaction.IGNORE:
        decision = replace(decision, unpinned=str(partial))
    if pod.excess:
        warnings.append(f"the pod was not changed: {pod.excess}")
    if unsure := dra.unknown(pod, served):
        warnings.append(unsure)
    warnings += _unrequested(pod, cache)
    return replace(decision, warnings=(*warnings, *decision.warnings)) if warnings else decision


def _contradictions(pod: PodQuestion, refusals: Refusals) -> tuple[taints.TaintContradiction, ...]:
    """Return the contradictions between the pod's tolerations and requests.

    A pod that is placed already has to tolerate any taint.
    """
    if pod.pin or refusals.taints is RequestReaction.IGNORE:
        return ()
    return taints.contradictions(pod.question.demand, pod.question.intent, pod.constraints.tolerations)


def _is_final(pod: PodQuestion, partial: PartialAlignment) -> bool:
    """Return whether what is not pinned for a pod is a reason to refuse it.

    A best-effort intent guarantees nothing. A container with a fraction of a CPU beside one with whole CPUs
    is how owners keep sidecars apart. A pod that is placed already would only be created again, and some
    kubelets pin Guaranteed pods with pod-level resources.
    """
    question = pod.question
    lost = {*partial.unpinned} - {*partial.applies_to}
    by_gate = question.demand.pod_level is not None and question.demand.gap is None
    return bool(lost) and question.intent.binding and pod.pin is None and not by_gate


_FOUND_A_NODE = frozenset({AdmissionState.PLACED, AdmissionState.FITS, AdmissionState.WAITS})


def _nothing_to_align(pod: PodQuestion) -> str | None:
    """Return why the pod's request has no effect; None if it has one."""
    demand, intent = pod.question.demand, pod.question.intent
    if pod.question.concerned:
        return None
    if demand.alignable and not pinning.unpinned_by(demand, intent):
        return f"{RESOURCES} lists nothing that a kubelet could align for this pod"
    return pinning.no_effect(demand, intent)


def shortfalls(pod: PodQuestion) -> tuple[str, ...]:
    """Return the names of the levels that a pod does not meet."""
    levels = {name: level for name, of in LEVELS.items() if (level := of(pod.rules))}
    return tuple(name for name, level in levels.items() if pod.requests_less_than(level))


def below_text(pod: PodQuestion, level: Policy) -> str:
    """Return the message for the owner of a pod that requests less than its namespace expects."""
    asked = f"the pod requests {policy_text(pod)}"
    return f"this namespace expects NUMA alignment {level}; {left_out_text(pod, level) or asked}"


def left_out_text(pod: PodQuestion, level: Policy) -> str | None:
    """Return what is missing in a pod below a level if its policy is strict enough; None if it is not."""
    return wording.left_out(pod.left_out) if pod.policy.at_least(level) else None


def _enforcement_text(pod: PodQuestion, level: Policy) -> str:
    if pod.policy.at_least(level):
        return wording.left_out_text(pod.namespace, level, pod.left_out)
    return wording.enforcement_text(pod.namespace, level, pod.policy if pod.stated else None)


def policy_text(pod: PodQuestion) -> str:
    """Return the request of the pod in a word."""
    return pod.policy if pod.stated else "nothing"


def invalid_text(mistakes: tuple[Mistake, ...]) -> str:
    """Return why an unreadable pod is refused: its first mistake, and how many more there are."""
    first, *others = mistakes
    more = f" (and {len(others)} more)" if others else ""
    return f"{first.where}: {first.message}{more}"


def _by_nodes(
    pod: PodQuestion, cache: ClusterCache, refusals: Refusals, now: float, *, runs: bool
) -> AdmissionDecision:
    if not cache.informed:
        return AdmissionDecision(AdmissionState.NOT_KNOWN, warnings=(_NOT_CHECKED,))
    if pod.pin:
        # A pod that is placed already is not refused: its controller would only create it again.
        return AdmissionDecision(AdmissionState.PLACED, warnings=tuple(_of_its_node(pod, pod.pin, cache)))
    survey = cache.ever(pod.question, pod.constraints)
    if survey.able:
        warnings = (
            *_unlisted(survey, cache),
            *_not_answered(pod.question, survey),
            *survey.not_when_empty,
        )
        if runs or cache.now(pod.question, pod.constraints):
            return AdmissionDecision(AdmissionState.FITS, warnings=warnings)
        waits = waits_text(pod.question.intent.policy)
        return AdmissionDecision(AdmissionState.WAITS, warnings=(waits, *warnings))
    if survey.fallback:
        return AdmissionDecision(AdmissionState.NO_NODE_HERE, warnings=(_of_fallback(survey.fallback, now),))
    if survey.unmatched and not survey.unlisted:
        # That no known node has its operating system is no excuse for a pod too large for all of them.
        if pod.constraints.os and cache.too_small(pod.question):
            anywhere = replace(pod, constraints=replace(pod.constraints, os=""))
            return _by_nodes(anywhere, cache, refusals, now, runs=runs)
        return AdmissionDecision(AdmissionState.NOT_MATCHED, warnings=(_NOT_MATCHED,))
    return _unable(pod, cache, refusals, survey)


_NOT_CHECKED = "NUMA alignment was not checked: no node topology is known"
_NOT_MATCHED = (
    "NUMA alignment was not checked: node selector, affinity, OS and tolerations match no known node"
)


def waits_text(policy: Policy) -> str:
    """Return the warning for a pod that no node has room for."""
    return f"no node can provide {policy} alignment now; the pod will stay pending"


def _of_its_node(pod: PodQuestion, pin: Pin, cache: ClusterCache) -> Iterator[str]:
    if pin.node is None:
        survey = cache.ever(pod.question, pod.constraints)
        unknown = survey.unmatched or survey.bare or survey.incomplete or survey.may_grow
        if not (survey.able or survey.fallback or unknown):
            yield f"{pin.why}, but no node can ever align the pod"
        return
    verdict = cache.verdict(pin.node, pod.question)
    if verdict is not None and not verdict.answered:
        yield f"node {pin.node} was not evaluated: it {wording.of_node(verdict)}"
    elif verdict is not None and verdict.refusal:
        when = "" if verdict.permanent else " now"
        yield f"node {pin.node} cannot align the pod{when}: it {wording.of_node(verdict)}"


def _unable(pod: PodQuestion, cache: ClusterCache, refusals: Refusals, survey: Survey) -> AdmissionDecision:
    """Return the decision if nothing known could take the pod, even where it may go."""
    pool = survey.may_grow if refusals.unknown_may_fit else survey.grown_by
    if unlisted := tuple(_unlisted(survey, cache)):
        if refusals.unknown_resources is Reaction.DENY and not (survey.incomplete or pool):
            return _against(pod, refusals, AdmissionState.UNKNOWN_RESOURCE, "; ".join(unlisted))
        unmatched = (_NOT_MATCHED,) if survey.unmatched else ()
        return AdmissionDecision(AdmissionState.UNKNOWN_RESOURCE, warnings=(*unlisted, *unmatched))
    if survey.bare and refusals.unknown_may_fit:
        may = f"no node with a NUMA topology can align the pod; {wording.nodes(survey.bare)} without one may"
        return AdmissionDecision(AdmissionState.UNKNOWN_NODE, warnings=(may,))
    if survey.incomplete:
        return AdmissionDecision(AdmissionState.NO_NODE_HERE, warnings=(_NOT_KEPT,))
    # An exclusive pod may not request less.
    least = Policy.RESTRICTED if pod.question.intent.exclusive else Policy.BEST_EFFORT
    floor = max(pod.rules.enforce or least, least, key=[*Policy].index)
    why = cache.why_not(pod.question, pod.constraints, floor=floor)
    if not why:
        # It may use only nodes without topology, and these are too small.
        return AdmissionDecision(AdmissionState.NOT_MATCHED, warnings=(_NOT_MATCHED,))
    if pool:
        now = f"node pool {pool} may get other nodes; now {wording.first_sentence(why)}"
        return AdmissionDecision(AdmissionState.UNKNOWN_NODE, waived=now)
    return _against(pod, refusals, AdmissionState.NEVER, why)


def _against(pod: PodQuestion, refusals: Refusals, state: AdmissionState, why: str) -> AdmissionDecision:
    if refusals.never is Reaction.WARN or not pod.question.intent.binding:
        return AdmissionDecision(state, waived=why)
    return AdmissionDecision(state, why)


def _of_fallback(fallback: KnownShape, now: float) -> str:
    if fallback.seen is not None:
        return f"{_NOT_HERE}; last seen {wording.ago(now - fallback.seen)} ago"
    if fallback.declared:
        return f"{_NOT_HERE}; the policy file declares such nodes"
    return "nodes that could align the pod exist, but it may not be scheduled to them now"


_NOT_HERE = "no node that could align the pod exists now"
_NOT_KEPT = (
    "no known node shape can align the pod, but not all that were seen are remembered; it may stay pending"
)


def _unlisted(survey: Survey, cache: ClusterCache) -> Iterator[str]:
    """Yield messages on resources that no node lists, each with the closest name."""
    if survey.unlisted:
        listed = _listed(cache)
        yield from (wording.unlisted(name, listed) for name in survey.unlisted[:MOST_NAMED])


def _unrequested(pod: PodQuestion, cache: ClusterCache) -> Iterator[str]:
    """Yield messages on resources that the owner wants aligned and no container requests."""
    demand, intent = pod.question.demand, pod.question.intent
    requested = {*demand.total, *chain.from_iterable(step.devices for step in demand.steps)}
    if unmatched := [*islice(intent.unmatched(requested), MOST_NAMED)]:
        own, listed = (
            [name for name in names if not intent.names(name)]
            for names in (sorted(requested)[:MOST_COMPARED], _listed(cache))
        )
        yield from (wording.unrequested(name, own, listed) for name in unmatched)


def _listed(cache: ClusterCache) -> list[str]:
    """Return the names of resources that a misspelt one is compared with."""
    return [CPU, MEMORY, *sorted(name for name in cache.listed if kind(name) is Kind.DEVICE)[:MOST_COMPARED]]


MOST_NAMED = 4
"""The limit of reported resources that no node lists, and of those that no container requests: a name is
suggested for each."""

MOST_COMPARED = 256
"""The limit of names of resources that a misspelt one is compared with."""


def _not_answered(question: Question, survey: Survey) -> Iterator[str]:
    """Yield a warning on nodes that do not answer for so many containers; the pod may still fit there."""
    silent, count = survey.unanswered, len(question.demand.steps)
    if silent:
        who = "1 node was" if silent == 1 else f"{silent} nodes were"
        what = "1 container" if count == 1 else f"{count} containers"
        yield f"{who} not evaluated: placing {what} on so many NUMA zones takes too long"
