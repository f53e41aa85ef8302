"""
The constraints of a pod on nodes: where it may go, and which controller has placed it already.

The pod is not validated yet. A wrong type is an error, as it is for an API server, which decodes objects
first. Invalid values of the right type are left to the API server: an unknown operator is ignored, so that no
pod is denied because of a newer API. A pod that exceeds a limit (`excess`) may go anywhere.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from numalign.cache import pod_question as limits
from numalign.cache.pod_question import ExceededLimit, Pin, PinReason
from numalign.kube.decode.parts import Part, group, inner, inner_list
from numalign.model.constraints import (
    ANYWHERE,
    NAME_FIELD,
    Constraints,
    Operator,
    Requirement,
    Term,
    Tolerating,
    Toleration,
)
from numalign.model.errors import Mistake

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

_AFFINITY = ("spec", "affinity", "nodeAffinity")
_TERMS = (*_AFFINITY, REQUIRED, "nodeSelectorTerms")
_OWNERS = ("metadata", "ownerReferences")
_DAEMON_GROUPS = frozenset({"apps", "apps.kruise.io"})
_OPERATORS = frozenset(Operator)
_TOLERATING: Mapping[str, Tolerating] = {"": Tolerating.EQUAL, **{word.value: word for word in Tolerating}}


@dataclass(frozen=True, slots=True)
class Scheduling:
    """The constraints of a pod on nodes, and its first claims; with an `excess`, only its node was read."""

    constraints: Constraints
    pin: Pin | None
    excess: ExceededLimit | None
    claims: tuple[str, ...] = ()
    mistakes: tuple[Mistake, ...] = ()


UNCONSTRAINED = Scheduling(ANYWHERE, pin=None, excess=None)
"""Of a pod of which only its request is known."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A requirement as the pod's owner wrote it, possibly one that Kubernetes will reject."""

    key: str
    operator: str
    values: frozenset[str]


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """A node selector term; `listed` where it has a list of expressions to append to."""

    expressions: tuple[Expression, ...]
    fields: tuple[Expression, ...]
    listed: bool

    @property
    def empty(self) -> bool:
        """Whether it has no requirement, and so matches no node."""
        return not self.expressions and not self.fields

    @property
    def names(self) -> frozenset[str]:
        """The nodes that the term requires by name."""
        named = [f.values for f in self.fields if f.key == NAME_FIELD and f.operator == Operator.IN]
        return frozenset().union(*named)


@dataclass(frozen=True, slots=True)
class NodeAffinity:
    """The node affinity of a pod; None for a missing list. With an `excess`, it was not read."""

    required: tuple[NodeTerm, ...] | None
    preferred: tuple[object, ...] | None
    excess: ExceededLimit | None


def scheduling(pod: object) -> Scheduling:
    """Return the constraints of a v1 Pod on nodes, with every mistake."""
    part = Part(pod)
    spec = part["spec"].required()
    affinity = node_affinity(part, spec)
    pin = pinned(part, spec, affinity)
    listed = spec["resourceClaims"].value
    # Others handle how many there are.
    claims = Part(listed[: limits.MOST_CLAIMS] if isinstance(listed, list) else listed)
    names = tuple(claim["name"].text() for claim in claims.objects())
    constraints = ANYWHERE
    if not affinity.excess:
        selected = spec["nodeSelector"].text_map()
        tolerations = []
        for each in spec["tolerations"].objects():
            key, operator, value, effect = (
                each[name].text() for name in ("key", "operator", "value", "effect")
            )
            tolerations.append(Toleration(key, _TOLERATING.get(operator), value, effect))
        constraints = Constraints(
            tuple(Requirement(key, Operator.IN, frozenset({value})) for key, value in selected.items()),
            None if affinity.required is None else _terms(affinity.required),
            tuple(dict.fromkeys(tolerations)),
            spec["os"]["name"].text(),
        )
    return Scheduling(constraints, pin, affinity.excess, names, tuple(part.mistakes))


def node_affinity(pod: Part, spec: Part) -> NodeAffinity:
    """Return the node affinity in the spec of a pod, every mistake noted; null counts as absent."""
    too_much = excess(pod.value)
    affinity = Part(None) if too_much else spec["affinity"]["nodeAffinity"]
    required, preferred = affinity[REQUIRED], affinity[PREFERRED]
    terms = tuple(
        NodeTerm(
            tuple(map(_expression, term["matchExpressions"].elements())),
            tuple(map(_expression, term["matchFields"].elements())),
            listed=term["matchExpressions"].value is not None,
        )
        for term in required["nodeSelectorTerms"].elements()
    )
    preferences = tuple(preference.value for preference in preferred.objects())
    return NodeAffinity(
        None if required.value is None else terms, None if preferred.value is None else preferences, too_much
    )


def _expression(part: Part) -> Expression:
    listed = part["values"]
    # There may be thousands of values.
    if isinstance(listed.value, list) and all(type(value) is str for value in listed.value):
        values = frozenset(listed.value)
    else:
        values = frozenset(value.text() for value in listed.elements())
    return Expression(part["key"].text(), part["operator"].text(), values)


def pinned(pod: Part, spec: Part, affinity: NodeAffinity) -> Pin | None:
    """Return what has placed the pod already, or None if a scheduler may place it freely.

    The DaemonSet controller reads the node back from the pod's affinity (kubernetes,
    pkg/controller/daemon/util), so such a pod is checked against its node and never patched. If its affinity
    or its owners exceed a limit, they do not count.
    """
    node_name, of_daemon = spec["nodeName"].text(), False
    if not crowded(pod.value):
        # All owners are read, to find the mistakes of the last ones too.
        for owner in pod["metadata"]["ownerReferences"].elements():
            if owner["kind"].text() == "DaemonSet" and group(owner["apiVersion"].text()) in _DAEMON_GROUPS:
                of_daemon |= owner["controller"].value is True
    if node_name:
        return Pin(node_name, PinReason.NODE_NAME)
    names = [term.names for term in affinity.required or () if not term.empty]
    every = frozenset[str]().union(*names)
    only_one = next(iter(every)) if len(every) == 1 and all(names) else None
    if of_daemon:
        return Pin(only_one, PinReason.DAEMON_SET)
    return Pin(only_one, PinReason.NODE_FIELD) if names and all(names) else None


def _terms(written: Iterable[NodeTerm]) -> tuple[Term, ...] | None:
    """Return the terms of the rules; None if one is unknown, so that any node may match."""
    terms = []
    for each in written:
        fields = [expression for expression in each.fields if expression.key == NAME_FIELD]
        term = Term(_requirements(each.expressions), _requirements(fields))
        if term == Term() and not each.empty:
            return None
        terms.append(term)
    return tuple(terms)


def _requirements(written: Iterable[Expression]) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(expression.key, Operator(expression.operator), expression.values)
        for expression in written
        if expression.operator in _OPERATORS
    )


def excess(pod: object) -> ExceededLimit | None:
    """Return the limit that a pod exceeds; values with an unexpected shape count as empty.

    A mutating webhook is called before the API server validates anything, so a pod may have a hundred
    thousand terms, and a patch that tightens each of them would be as long again. Such a pod is never refused
    for it, and never steered. Its lists are only measured, not read, so that this costs no more than for any
    other pod.
    """
    terms = inner_list(pod, *_TERMS)
    selected = inner(pod, "spec", "nodeSelector")
    lengths = {
        ExceededLimit.OWNERS: (len(inner_list(pod, *_OWNERS)), limits.MOST_OWNERS),
        ExceededLimit.SELECTOR: (len(selected) if isinstance(selected, dict) else 0, limits.MOST_SELECTED),
        ExceededLimit.TOLERATIONS: (len(inner_list(pod, "spec", "tolerations")), limits.MOST_TOLERATIONS),
        ExceededLimit.TERMS: (
            max(len(terms), len(inner_list(pod, *_AFFINITY, PREFERRED))),
            limits.MOST_TERMS,
        ),
    }
    for limit, (length, most) in lengths.items():
        if length > most:
            return limit
    lists = [inner_list(term, key) for term in terms for key in ("matchExpressions", "matchFields")]
    if sum(map(len, lists)) > limits.MOST_REQUIREMENTS:
        return ExceededLimit.REQUIREMENTS
    values = sum(len(inner_list(requirement, "values")) for listed in lists for requirement in listed)
    return ExceededLimit.VALUES if values > limits.MOST_VALUES else None


def crowded(owned: object) -> bool:
    """Return whether an object of any kind has more owners than are read."""
    return len(inner_list(owned, *_OWNERS)) > limits.MOST_OWNERS
