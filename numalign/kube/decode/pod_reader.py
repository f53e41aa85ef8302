"""
The single reader of pods: what is requested for a pod, including its namespace and the policy.

The webhook reads pods and templates, the scorer what schedulers send and what it watches, `kubectl numa`
manifests, and all must get the same result. A controller sends the same pod a thousand times under a thousand
names, and a cluster has a hundred thousand pods of a few hundred templates. Reading one takes a hundred times
as long as detecting that it was read before, so results are cached by a digest of everything in a pod that is
read, and only of that.

If a namespace or the policy exempts a pod, its content does not matter, not even its errors. A pod that does
not request alignment is never denied because of what cannot be read in it, so numalign never blocks users who
do not use it.
"""

from dataclasses import replace
from typing import TypeAlias
from weakref import WeakValueDictionary

import orjson

from numalign.cache import Question
from numalign.cache.pod_question import Exempt, Invalid, PodQuestion, StatedBy
from numalign.decision.evaluate import NO_INTENT
from numalign.kube import kinds
from numalign.kube.decode import pod_request
from numalign.kube.decode.pod_request import (
    PodRequest,
    first_of_each_place,
    has_pod_level,
    runtime_class,
    template_of,
)
from numalign.kube.decode.scheduling import UNCONSTRAINED, Scheduling, scheduling
from numalign.kube.effective_policy import EffectivePolicy
from numalign.lru import LRU, Caches, digest, is_large
from numalign.model import demand
from numalign.model.attributes import NO_SCHEDULE
from numalign.model.constraints import ANYWHERE, Tolerating, Toleration
from numalign.model.demand import MOST_SHARED, Demand
from numalign.model.errors import MOST_MISTAKES, Mistake
from numalign.model.intent import Intent, IntentAnnotations, Match, NamespaceRules, Policy, Scope
from numalign.model.resources import Kind, kind
from numalign.model.sharing import shared

REMEMBERED = 1024
UNASKED = "NUMA alignment is neither requested nor enforced for it"

PodReading: TypeAlias = PodQuestion | Exempt | Invalid
_Key = tuple[bytes, str, NamespaceRules, frozenset[str], int | None]
_Content = tuple[Demand | None, IntentAnnotations, str, tuple[Mistake, ...]]


class PodReader:
    """Reads pods, with a cache of recent results. How nodes must match is the same for all."""

    def __init__(self, match: Match = Match.SATISFIES, *, remembered: int = REMEMBERED) -> None:
        self._match = match
        self._requests: LRU[tuple[bytes, int, int | None], PodRequest] = LRU(
            remembered, large=lambda _key, request: is_large(request)
        )
        self._shared: WeakValueDictionary[_Content, PodRequest] = WeakValueDictionary()
        self._readings: LRU[_Key, PodReading] = LRU(remembered, large=_is_large)
        self._questions: LRU[Question, Question] = LRU(
            remembered, large=lambda question, _same: question.large
        )

    def caches(self) -> Caches:
        """Return the caches of pods."""
        return {"readings": self._readings, "askings": self._requests, "questions": self._questions}

    def request(
        self, pod: object, *, most_mistakes: int = MOST_MISTAKES + 1, server: int | None = None
    ) -> PodRequest:
        """Return the request of a v1 Pod by itself, with limited mistakes of containers and annotations.

        Equal requests share one value, as long as it is in use. `server` is as for `read`.
        """
        template = template_of(pod, kinds.ASKED)
        try:
            written = orjson.dumps(template, option=orjson.OPT_SORT_KEYS)
        except orjson.JSONEncodeError:
            # A number or a nesting that no API server stores: rare, and not worth caching.
            return self._decode(template, most_mistakes, server)
        key = digest(written), most_mistakes, server
        return self._requests.get(key, lambda: self._decode(template, most_mistakes, server))

    def _decode(self, template: dict[str, object], most_mistakes: int, server: int | None) -> PodRequest:
        request = pod_request.decode(template, most_mistakes=most_mistakes, server=server)
        content = (request.demand, request.written, request.runtime_class, request.unreadable)
        return self._shared.setdefault(content, request)

    def read(  # noqa: PLR0913  what a reading depends on
        self,
        pod: object,
        namespace: str,
        policy: EffectivePolicy,
        user: str = "",
        *,
        kept: Scheduling = UNCONSTRAINED,
        server: int | None = None,
    ) -> PodReading:
        """Return what is requested for a pod in a namespace; never raises.

        `pod` is a v1 Pod or a template of one, or its stored request, whose constraints on nodes are in
        `kept`. `user` is who creates it, as far as known. `server` is the minor version of the API server
        that is to store it, None for a pod that is stored.
        """
        request = pod if isinstance(pod, PodRequest) else None
        server = server if has_pod_level(pod) else None
        named = request.runtime_class if request else runtime_class(pod)
        if reason := policy.exemption(namespace, runtime_class=named, user=user):
            request = request or self.request(pod, server=server)
            return Exempt(reason, request.demand, request.unreadable)
        rules, unaligned = policy.rules_for(namespace), policy.policy.unaligned
        if request:
            reading = _reading(_aligned(request, unaligned), kept, namespace, rules, self._match)
        else:
            reading = self._cached(pod, namespace, rules, unaligned, server)
        # Nodes come and go, so this is not part of what is cached.
        if isinstance(reading, PodQuestion) and (names := reading.question.left_out(policy.unhinted)):
            return replace(reading, left_out=names)
        return reading

    def _cached(
        self,
        pod: object,
        namespace: str,
        rules: NamespaceRules,
        unaligned: frozenset[str],
        server: int | None,
    ) -> PodReading:
        def read() -> PodReading:
            request = _aligned(self.request(pod, server=server), unaligned)
            reading = _reading(request, scheduling(pod), namespace, rules, self._match)
            if isinstance(reading, PodQuestion):
                return replace(reading, question=self.shared(reading.question))
            return reading

        try:
            content = digest(orjson.dumps(template_of(pod, kinds.READ)))
        except orjson.JSONEncodeError:
            return read()
        return self._readings.get((content, namespace, rules, unaligned, server), read)

    def intent(self, request: PodRequest, namespace: str, policy: EffectivePolicy) -> Intent:
        """Return the intent for an existing pod; policy none if nothing is requested.

        If it cannot be read, only its policy counts: the pod was not evaluated, so it keeps no pod away.
        """
        if policy.exemption(namespace, runtime_class=request.runtime_class):
            return NO_INTENT
        written, rules = request.written, policy.rules_for(namespace)
        default = rules.default
        if written.wrong(default):
            return shared(Intent(written.policy or default or Policy.NONE))
        intent = _intent(written, rules, self._match)
        return shared(intent) if len(intent.resources) <= MOST_SHARED else intent

    def shared(self, question: Question) -> Question:
        """Return the equal question that is cached, if there is one: it is looked up faster."""
        return self._questions.get(question, lambda: question)


def _aligned(request: PodRequest, unaligned: frozenset[str]) -> PodRequest:
    """Return the request without hints for resources that no device plugin serves."""
    if request.demand is None or not unaligned:
        return request
    return replace(request, demand=demand.unaligned(request.demand, unaligned))


def _reading(
    request: PodRequest, where: Scheduling, namespace: str, rules: NamespaceRules, match: Match
) -> PodReading:
    written, needs, constraints = request.written, request.demand, where.constraints
    wrong, unreadable = written.wrong(rules.default), (*request.unreadable, *where.mistakes)
    if needs is not None and not wrong and not unreadable:
        # A template has not passed the admission plugin ExtendedResourceToleration yet, which tolerates
        # taints that are named like an extended resource of the pod; where it is off, this errs in favour of
        # the pod.
        devices = [name for name in needs.total if kind(name) is Kind.DEVICE]
        if devices and constraints is not ANYWHERE:
            more = (Toleration(name, Tolerating.EXISTS, effect=NO_SCHEDULE) for name in devices)
            tolerations = tuple(dict.fromkeys((*constraints.tolerations, *more)))
            constraints = replace(constraints, tolerations=tolerations)
        return PodQuestion(
            Question(needs, _intent(written, rules, match)),
            constraints,
            rules,
            namespace,
            StatedBy.POD if written.policy else StatedBy.NAMESPACE if rules.default else None,
            where.pin,
            where.excess,
            where.claims,
        )
    policy = written.policy or rules.default or Policy.NONE
    if wrong or policy is not Policy.NONE or rules.enforce or rules.warn or rules.audit:
        mistakes = first_of_each_place(request.unreadable, where.mistakes, wrong)
        # In a manifest the spec is after the metadata.
        return Invalid(tuple(sorted(mistakes, key=lambda each: not each.where.startswith("metadata"))), needs)
    return Exempt(UNASKED, needs, unreadable)


def _intent(written: IntentAnnotations, rules: NamespaceRules, match: Match) -> Intent:
    intent = written.intent(rules.default, match) or NO_INTENT
    # Alignment of each container alone is less than an enforced level where kubelets align pods as a whole.
    if rules.enforce and rules.enforce.at_least(Policy.RESTRICTED) and intent.scope is Scope.CONTAINER:
        return replace(intent, scope=None)
    return intent


def _is_large(_key: _Key, reading: PodReading) -> bool:
    return reading.large if isinstance(reading, PodQuestion) else is_large(reading)
