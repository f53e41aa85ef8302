"""
The one reader of pods: what somebody asks of a cluster with a pod, its namespace and the policy heard.

The webhook reads pods and templates, the scorer what schedulers send, `kubectl numa` manifests, and all must
come to the same answer. A controller sends the same pod a thousand times under a thousand names, and to read
it takes many times as long as to see that it was read before, so what was read is remembered by everything in
it that anybody reads, and only by that.

Where a namespace or the policy exempts a pod, nothing of it matters, not even its mistakes. Nobody is refused
for what cannot be read in a pod of which nobody asks anything, so that numalign can never stand in the way of
those who do not use it.
"""

from dataclasses import replace
from typing import TypeAlias

import orjson

from numalign.cache import Question
from numalign.cache.pod_question import Exempt, Invalid, PodQuestion, StatedBy
from numalign.decision.evaluate import NO_INTENT
from numalign.kube import kinds
from numalign.kube.decode import scheduling
from numalign.kube.decode.pod_request import (
    REMEMBERED,
    PodRequest,
    PodRequestDecoder,
    each_place_once,
    runtime_class,
    told,
)
from numalign.kube.decode.scheduling import UNCONSTRAINED, Scheduling
from numalign.kube.effective_policy import EffectivePolicy
from numalign.lru import LRU, Caches, digest
from numalign.memory_size import weight
from numalign.model.attributes import NO_SCHEDULE
from numalign.model.constraints import ANYWHERE, Constraints, Tolerating, Toleration
from numalign.model.demand import Demand
from numalign.model.errors import Mistake
from numalign.model.intent import Match, NamespaceRules, Policy
from numalign.model.resources import Kind, kind

UNASKED = "nobody asks anything of it"

Meaning: TypeAlias = PodQuestion | Exempt | Invalid
"""What was read of a pod."""

_Key = tuple[bytes, str, NamespaceRules]


class PodReader:
    """Reads pods, and remembers what was read most recently. How nodes must match is the same for all."""

    def __init__(self, match: Match = Match.SATISFIES, *, remembered: int = REMEMBERED) -> None:
        self._match = match
        self._askings = PodRequestDecoder(remembered)
        self._meanings: LRU[_Key, Meaning] = LRU(remembered, weigh=_weight)
        self._questions: LRU[Question, Question] = LRU(remembered, weigh=_weight_of_question)

    def __len__(self) -> int:
        """How many different pods are remembered."""
        return len(self._meanings)

    def caches(self) -> Caches:
        """What is remembered of pods."""
        return {
            "readings": self._meanings,
            "readings_askings": self._askings.cache,
            "questions": self._questions,
        }

    def read(self, raw: object, *, namespace: str, policies: EffectivePolicy, user: str = "") -> Meaning:
        """What a v1 Pod asks, or a template of one, in a namespace; whatever it is, it is read or told of.

        `user` is who makes it, as far as that is known.
        """
        if reason := policies.exemption(namespace, runtime_class=runtime_class(raw), user=user):
            return _exempt(reason, self._askings.of(raw))
        rules = policies.rules_for(namespace)
        written = _written(raw)
        if written is None:
            return self._read(raw, namespace, rules)
        return self._meanings.get((written, namespace, rules), lambda: self._read(raw, namespace, rules))

    def heard(self, asking: PodRequest, *, namespace: str, policies: EffectivePolicy) -> Meaning:
        """What a pod asks of which nothing is kept but what it says by itself; it may go anywhere."""
        if reason := policies.exemption(namespace, runtime_class=asking.runtime_class):
            return _exempt(reason, asking)
        return _meaning(asking, UNCONSTRAINED, namespace, policies.rules_for(namespace), self._match)

    def _read(self, raw: object, namespace: str, rules: NamespaceRules) -> Meaning:
        asking, where = self._askings.of(raw), scheduling.scheduling(raw)
        found = _meaning(asking, where, namespace, rules, self._match)
        if not isinstance(found, PodQuestion):
            return found
        # What is remembered by question is found sooner if equal questions are the same one.
        return replace(found, question=self._questions.get(found.question, lambda: found.question))


def _meaning(
    asking: PodRequest, where: Scheduling, namespace: str, rules: NamespaceRules, match: Match
) -> Meaning:
    written, demand = asking.written, asking.demand
    policy = written.policy or rules.default
    wrong, unreadable = written.wrong(rules.default), (*asking.unreadable, *where.mistakes)
    if demand is not None and not wrong and not unreadable:
        return PodQuestion(
            Question(demand, written.intent(rules.default, match) or NO_INTENT),
            _admitted(where.constraints, demand),
            rules,
            namespace,
            _by(written.policy, rules.default),
            where.pin,
            where.excess,
            where.claims,
        )
    asked = wrong or (policy or Policy.NONE) is not Policy.NONE or _levels(rules)
    if not asked:
        return Exempt(UNASKED, demand, unreadable)
    return Invalid(_in_order(asking.unreadable, where.mistakes, wrong), demand)


def _exempt(reason: str, asking: PodRequest) -> Exempt:
    return Exempt(reason, asking.demand, asking.unreadable)


def _by(own: Policy | None, default: Policy | None) -> StatedBy | None:
    if own:
        return StatedBy.POD
    return StatedBy.NAMESPACE if default else None


def _levels(rules: NamespaceRules) -> bool:
    """Whether a namespace asks anything of pods that ask nothing themselves."""
    return bool(rules.enforce or rules.warn or rules.audit)


def _admitted(constraints: Constraints, asked: Demand) -> Constraints:
    """The constraints as admission may leave them: with tolerations of what the pod asks for.

    A template has not passed the admission plugin ExtendedResourceToleration yet, which tolerates taints
    that are named like an extended resource of the pod; where it is off, this errs on the side of the pod.
    """
    devices = [name for name in asked.total if kind(name) is Kind.DEVICE]
    if not devices or constraints is ANYWHERE:
        return constraints
    more = (Toleration(name, Tolerating.EXISTS, effect=NO_SCHEDULE) for name in devices)
    return replace(constraints, tolerations=tuple(dict.fromkeys((*constraints.tolerations, *more))))


def _in_order(*readers: tuple[Mistake, ...]) -> tuple[Mistake, ...]:
    """All mistakes as they stand in a manifest; of a place only what the first reader told."""
    return tuple(sorted(each_place_once(*readers), key=_as_in_a_manifest))


def _as_in_a_manifest(mistake: Mistake) -> bool:
    """Metadata stands before the spec."""
    return not mistake.where.startswith("metadata")


def _weight(key: _Key, meaning: Meaning) -> int:
    """A question is shared by those that mean the same, and weighed once."""
    return weight(key) + (meaning.weight if isinstance(meaning, PodQuestion) else weight(meaning))


def _weight_of_question(question: Question, _same: Question) -> int:
    return question.weight


def _written(pod: object) -> bytes | None:
    """A digest of all that is read of a pod; None for what is too deep to be remembered."""
    try:
        return digest(orjson.dumps(told(pod, kinds.READ)))
    except orjson.JSONEncodeError:
        return None
