"""
Which nodes a pod may run on by labels, taints and conditions, whatever their resources.

Restates kube-scheduler's plugins NodeAffinity, TaintToleration and NodeUnschedulable, which match the node
selector, required node affinity and tolerations with labels and taints. The operating system of a pod is
checked by the kubelet alone, which rejects the pod on any other (PodOSNotSupported). Passing taints, which
follow the condition of a node, count for what can be placed now, never for what could ever be placed. No pod
is refused for what cannot be read here: a toleration of a newer API tolerates every taint it may mean.

Sources: GetRequiredNodeAffinity of k8s.io/component-helpers/scheduling/corev1/nodeaffinity, and
FindMatchingUntoleratedTaint of k8s.io/component-helpers/scheduling/corev1 with Toleration.ToleratesTaint; and
rejectPodAdmissionBasedOnOSField of pkg/kubelet/lifecycle/predicate.go.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from numalign.model.attributes import NOT_READY, UNSCHEDULABLE, Attributes, Taint

NAME_FIELD = "metadata.name"
"""The only field of a node that a term can match."""


class Operator(StrEnum):
    """How a requirement compares a label with its values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """A requirement on one label, as in v1.NodeSelectorRequirement and metav1.LabelSelectorRequirement."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet it; a missing label meets `NotIn`."""
        return self.allows(labels.get(self.key))

    def allows(self, value: str | None) -> bool:
        """Return whether a label with this value meets it; None means that the label is missing."""
        return _ALLOWS[self.operator](value, self.values)

    def __str__(self) -> str:
        """Return it as kubectl writes it: `tier in (gold,silver)`."""
        return _SHOWN[self.operator].format(key=self.key, values=",".join(sorted(self.values)))


def whole_number(text: str) -> int | None:
    """Return the value of a label as strconv.ParseInt reads it; None if it is not a whole number."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST_NUMBER else None


_LONGEST_NUMBER = 19


def _beyond(sign: int) -> Callable[[str | None, frozenset[str]], bool]:
    def compared(value: str | None, values: frozenset[str]) -> bool:
        has, bounds = whole_number(value) if value is not None else None, [*map(whole_number, values)]
        return has is not None and all(bound is not None and sign * has > sign * bound for bound in bounds)

    return compared


_ALLOWS: Mapping[Operator, Callable[[str | None, frozenset[str]], bool]] = MappingProxyType(
    {
        Operator.IN: lambda value, values: value in values,
        Operator.NOT_IN: lambda value, values: value not in values,
        Operator.EXISTS: lambda value, _: value is not None,
        Operator.DOES_NOT_EXIST: lambda value, _: value is None,
        Operator.GT: _beyond(1),
        Operator.LT: _beyond(-1),
    }
)

_SHOWN: Mapping[Operator, str] = MappingProxyType(
    {
        Operator.IN: "{key} in ({values})",
        Operator.NOT_IN: "{key} notin ({values})",
        Operator.EXISTS: "{key}",
        Operator.DOES_NOT_EXIST: "!{key}",
        Operator.GT: "{key} > {values}",
        Operator.LT: "{key} < {values}",
    }
)


class Tolerating(StrEnum):
    """How a toleration is compared with a taint."""

    EQUAL = "Equal"
    EXISTS = "Exists"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A v1.Toleration: an empty key matches all keys, an empty effect all effects.

    `operator` is None for an operator of a newer API, which tolerates every taint that key and effect match.
    """

    key: str = ""
    operator: Tolerating | None = Tolerating.EQUAL
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Return whether it tolerates this taint (Toleration.ToleratesTaint)."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return self.operator is not Tolerating.EQUAL or self.value == taint.value


@dataclass(frozen=True, slots=True)
class Term:
    """A v1.NodeSelectorTerm: all requirements must hold, and a term without any matches no node."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def holds(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether all expressions match these labels and all fields this name; False if empty."""
        if not self.expressions and not self.fields:
            return False
        return all(one.allows(name) for one in self.fields) and all(
            expression.holds(labels) for expression in self.expressions
        )


@dataclass(frozen=True, slots=True)
class Constraints:
    """The nodes that a pod may run on.

    Every requirement of its node `selector` must hold, and one of the `terms` of its required node affinity,
    if it has any. The node must have its `os`, unless that is empty. The default is no constraint at all.
    """

    selector: tuple[Requirement, ...] = ()
    terms: tuple[Term, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    os: str = ""
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # Every cache lookup needs the hash, and there may be a thousand requirements.
        object.__setattr__(self, "_hash", hash((self.selector, self.terms, self.tolerations, self.os)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def selective(self) -> bool:
        """Whether there is a node selector or required node affinity."""
        return bool(self.selector) or self.terms is not None

    def select(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether the node selector and the required node affinity match a node."""
        if not all(requirement.holds(labels) for requirement in self.selector):
            return False
        return self.terms is None or any(term.holds(name, labels) for term in self.terms)

    def run_on(self, os: str) -> bool:
        """Return whether the pod may run on a node of this operating system; it may if that is unknown."""
        return "" in (os, self.os) or self.os == os

    def tolerate(self, taints: Iterable[Taint]) -> bool:
        """Return whether the pod tolerates all of these taints."""
        return all(any(toleration.tolerates(taint) for toleration in self.tolerations) for taint in taints)


ANYWHERE = Constraints(tolerations=(Toleration(operator=Tolerating.EXISTS),))
"""The constraints of a pod whose own cannot be read: it may run on every node."""


class Unmet(StrEnum):
    """Why a pod may not go to a node, in the words of kube-scheduler."""

    AFFINITY = "didn't match the pod's node affinity/selector"
    OS = "didn't match the pod's operating system"
    TAINT = "had untolerated taints"
    CORDONED = "were unschedulable"
    NOT_READY = "were not ready"


def unmet_ever(constraints: Constraints, name: str, attributes: Attributes) -> Unmet | None:
    """Return why labels, operating system or lasting taints of a node keep the pod away; None if none do."""
    if constraints.selective and not constraints.select(name, attributes.labels):
        return Unmet.AFFINITY
    if not constraints.run_on(attributes.os):
        return Unmet.OS
    return None if constraints.tolerate(attributes.lasting) else Unmet.TAINT


def unmet_now(constraints: Constraints, name: str, attributes: Attributes) -> Unmet | None:
    """Return why the pod may not go to a node now, conditions and passing taints included; None if it may."""
    if lasting := unmet_ever(constraints, name, attributes):
        return lasting
    if attributes.cordoned and not constraints.tolerate([UNSCHEDULABLE]):
        return Unmet.CORDONED
    # The scheduler checks the taint that goes with the condition, and pods of DaemonSets tolerate it.
    if not attributes.ready and not constraints.tolerate([NOT_READY]):
        return Unmet.NOT_READY
    return None if constraints.tolerate(attributes.taints) else Unmet.TAINT
