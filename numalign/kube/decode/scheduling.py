"""
The constraints of a pod on nodes: where it may go, and which controller has placed it already.

The pod is not validated yet. A wrong type is an error, as it is for an API server, which decodes objects
first. Invalid values of the right type are left to the API server: an unknown operator is ignored, so that no
pod is denied because of a newer API. A pod that exceeds a limit (`excess`) may go anywhere.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from numalign.cache.pod_question import MOST_CLAIMS, ExceededLimit, Pin, PinReason
from numalign.kube.decode.excess import crowded, excess
from numalign.kube.decode.parts import Part, group
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

_NOTHING = Part(None)
_DAEMON_GROUPS = frozenset({"apps", "apps.kruise.io"})


@dataclass(frozen=True, slots=True)
class Scheduling:
    """The constraints of a pod on nodes; `claims` are the names of its first resource claims.

    With an `excess`, only the name of its node was read.
    """

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
    claims = tuple(_claims(spec["resourceClaims"]))
    constraints = ANYWHERE if affinity.excess else _constraints(spec, affinity)
    return Scheduling(constraints, pin, affinity.excess, claims, tuple(part.mistakes))


def node_affinity(pod: Part, spec: Part) -> NodeAffinity:
    """Return the node affinity in the spec of a pod, every mistake noted; null counts as absent."""
    too_much = excess(pod.value)
    affinity = _NOTHING if too_much else spec["affinity"]["nodeAffinity"]
    required, preferred = affinity[REQUIRED], affinity[PREFERRED]
    terms = tuple(_term(term) for term in required["nodeSelectorTerms"].elements())
    preferences = tuple(preference.value for preference in preferred.objects())
    return NodeAffinity(
        None if required.value is None else terms,
        None if preferred.value is None else preferences,
        too_much,
    )


def pinned(pod: Part, spec: Part, affinity: NodeAffinity) -> Pin | None:
    """Return what has placed the pod already, or None if a scheduler may place it freely.

    The DaemonSet controller reads the node back from the pod's affinity (kubernetes,
    pkg/controller/daemon/util), so such a pod is checked against its node and never patched. If its affinity
    or its owners exceed a limit, they do not count.
    """
    node_name, daemon = spec["nodeName"].text(), _owned_by_daemon(pod)
    names = [term.names for term in affinity.required or () if not term.empty]
    if node_name:
        return Pin(node_name, PinReason.NODE_NAME)
    if daemon:
        return Pin(_only_one(names), PinReason.DAEMON_SET)
    return Pin(_only_one(names), PinReason.NODE_FIELD) if names and all(names) else None


def _only_one(names: Sequence[frozenset[str]]) -> str | None:
    """Return the node that every term names, if it is the same one."""
    every = frozenset().union(*names)
    return next(iter(every)) if len(every) == 1 and all(names) else None


def _owned_by_daemon(pod: Part) -> bool:
    if crowded(pod.value):
        return False
    # All of them are read, to find the mistakes of the last ones too.
    daemons = list(map(_is_daemon, pod["metadata"]["ownerReferences"].elements()))
    return any(daemons)


def _is_daemon(owner: Part) -> bool:
    daemon = owner["kind"].text() == "DaemonSet" and group(owner["apiVersion"].text()) in _DAEMON_GROUPS
    return daemon and owner["controller"].value is True


def _term(term: Part) -> NodeTerm:
    return NodeTerm(
        tuple(map(_expression, term["matchExpressions"].elements())),
        tuple(map(_expression, term["matchFields"].elements())),
        listed=term["matchExpressions"].value is not None,
    )


def _expression(part: Part) -> Expression:
    values = _values(part["values"])
    return Expression(part["key"].text(), part["operator"].text(), values)


def _values(part: Part) -> frozenset[str]:
    values = part.value
    # There may be thousands of values.
    if isinstance(values, list) and all(type(value) is str for value in values):
        return frozenset(values)
    return frozenset(value.text() for value in part.elements())


def _constraints(spec: Part, affinity: NodeAffinity) -> Constraints:
    selected = spec["nodeSelector"].text_map()
    return Constraints(
        tuple(Requirement(key, Operator.IN, frozenset({value})) for key, value in selected.items()),
        None if affinity.required is None else _terms(affinity.required),
        tuple(dict.fromkeys(map(_toleration, spec["tolerations"].objects()))),
        spec["os"]["name"].text(),
    )


def _terms(written: Iterable[NodeTerm]) -> tuple[Term, ...] | None:
    """Return the terms of the rules; None if one is unknown, so that any node may match."""
    terms = tuple(map(_known_term, written))
    return None if None in terms else tuple(term for term in terms if term)


def _known_term(written: NodeTerm) -> Term | None:
    fields = [expression for expression in written.fields if expression.key == NAME_FIELD]
    term = Term(_requirements(written.expressions), _requirements(fields))
    return term if written.empty or term != Term() else None


def _requirements(written: Iterable[Expression]) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(expression.key, Operator(expression.operator), expression.values)
        for expression in written
        if expression.operator in _OPERATORS
    )


_OPERATORS = frozenset(Operator)


def _toleration(part: Part) -> Toleration:
    key, operator, value, effect = (part[name].text() for name in ("key", "operator", "value", "effect"))
    return Toleration(key, _TOLERATING.get(operator), value, effect)


_TOLERATING: Mapping[str, Tolerating] = {"": Tolerating.EQUAL, **{word.value: word for word in Tolerating}}


def _claims(part: Part) -> Iterable[str]:
    """Return the names of the first claims; others handle their number."""
    claims = part.value[:MOST_CLAIMS] if isinstance(part.value, list) else part.value
    return (claim["name"].text() for claim in Part(claims).objects())
