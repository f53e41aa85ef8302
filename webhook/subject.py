"""
What a review is about: the pod's demand, its intent, and what its namespace asks.

Both endpoints read the same facts. A pod of which nobody asks anything is left before anything of it is
read, so that numalign can never stand in the way of those who do not use it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from numalign.cluster import kinds, pods
from numalign.cluster.parts import Part
from numalign.cluster.policy import NO_POLICY, ClusterPolicy
from numalign.fleet import Question
from numalign.fleet.pod_question import Excess, Pin
from numalign.rules import demand, intent
from numalign.rules.errors import BadInput, Mistake
from numalign.rules.intent import Match, NamespaceRules, Policy
from webhook.catalogue import Moment
from webhook.excess import excess
from webhook.patch import pinned
from webhook.review import Kind, Review, Verb

POD = Kind("", "v1", "Pod")

_OURS: Mapping[str, object] = MappingProxyType(
    {"metadata": {"annotations": (intent.PREFIX, intent.VOLCANO_POLICY)}}
)


class Skip(StrEnum):
    """Why a review is none of our business."""

    KIND = "kind"
    OPERATION = "operation"
    DISABLED = "disabled"
    EXEMPT = "exempt"
    SILENT = "silent"
    OWNED = "owned"
    UNCHANGED = "unchanged"


class Broken(BadInput):
    """Raised when a pod that numalign must look at cannot be read."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a pod says, the same for all pods of a template; see `Subject`."""

    question: Question
    stated: bool
    pin: Pin | None
    excess: Excess | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """One pod under review. `question` carries the intent, policy none where nobody stated one.

    Where there is an `excess`, nothing is known of what the pod's owners and its node affinity say.
    """

    namespace: str
    rules: NamespaceRules
    question: Question
    stated: bool
    pin: Pin | None
    excess: Excess | None
    pod: Mapping[str, Any]

    @property
    def policy(self) -> Policy:
        """What the pod asks for."""
        return self.question.intent.policy

    @property
    def asks(self) -> bool:
        """Whether the pod asks for any alignment; `none` opts out like silence."""
        return self.policy is not Policy.NONE


Reader = Callable[[object, NamespaceRules, Match], Said | None]
"""Reads a pod as `said` does."""


def said(pod: object, rules: NamespaceRules, match: Match) -> Said | None:
    """What a pod says, None if neither it nor its namespace asks anything; raises `Broken` as `subject`."""
    # Of the others there may be many.
    ours = kinds.cut(pod, _OURS)
    annotations = Part(ours)["metadata"]["annotations"].texts()
    stated, unclear = _attempt(partial(intent.parse, annotations, default=rules.default, match=match))
    if stated is None and not unclear and not (rules.enforce or rules.warn or rules.audit):
        return None
    raw: Any = pod
    whole, unreadable = _attempt(partial(pods.pod, raw))
    pin, misplaced = _attempt(partial(pinned, raw))
    if whole is None or unclear or unreadable or misplaced:
        mistakes = _each_place_once(unreadable, misplaced, unclear)
        raise Broken(sorted(mistakes, key=_as_in_a_manifest))
    question = Question(demand.of(whole), stated or intent.Intent(Policy.NONE))
    return Said(question, stated is not None, pin, excess(raw))


def subject(
    review: Review,
    moment: Moment,
    *,
    match: Match,
    policy: ClusterPolicy = NO_POLICY,
    reader: Reader = said,
) -> Subject | Skip:
    """Read the pod under review; raises `Broken` with every mistake of its annotations and amounts."""
    if review.kind != POD:
        return Skip.KIND
    if review.operation is not Verb.CREATE or review.sub_resource:
        return Skip.OPERATION
    rules = rules_of(review.namespace, moment, policy=policy)
    if rules.disabled:
        return Skip.DISABLED
    if exempt(review, review.object, policy=policy):
        return Skip.EXEMPT
    found = read(review.object, namespace=review.namespace, rules=rules, match=match, reader=reader)
    return found or Skip.SILENT


def rules_of(namespace: str, moment: Moment, *, policy: ClusterPolicy) -> NamespaceRules:
    """What is asked of the pods in a namespace, by its own labels and by the cluster's policy."""
    return policy.rules_for(moment.rules_of(namespace), moment.labels_of(namespace), namespace)


def exempt(review: Review, pod: object, *, policy: ClusterPolicy) -> str | None:
    """The exemption that holds for this pod, or template of one, in this review."""
    runtime_class = Part(pod)["spec"]["runtimeClassName"].text()
    return policy.exempts(user=review.user.username, namespace=review.namespace, runtime_class=runtime_class)


def read(
    pod: object, *, namespace: str, rules: NamespaceRules, match: Match, reader: Reader = said
) -> Subject | None:
    """A pod, or a template of one, of which anybody asks anything; raises `Broken` as `subject` does."""
    found = reader(pod, rules, match)
    raw: Any = pod
    if found is None:
        return None
    return Subject(namespace, rules, found.question, found.stated, found.pin, found.excess, raw)


Read = TypeVar("Read")


def _attempt(read: Callable[[], Read]) -> tuple[Read | None, tuple[Mistake, ...]]:
    """What a reader makes of the pod, or its mistakes, so that the next reader can tell its own."""
    try:
        return read(), ()
    except BadInput as error:
        return None, error.mistakes


def _each_place_once(*readers: tuple[Mistake, ...]) -> Iterator[Mistake]:
    """All mistakes; of a place that an earlier reader spoke of, only what that one said."""
    told: set[str] = set()
    for mistakes in readers:
        yield from (mistake for mistake in mistakes if mistake.where not in told)
        told |= {mistake.where for mistake in mistakes}


def _as_in_a_manifest(mistake: Mistake) -> bool:
    """Metadata stands before the spec."""
    return not mistake.where.startswith("metadata")
