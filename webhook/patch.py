"""
What numalign writes into a pod: one requirement on the nodes that may run it.

The API server refuses the whole request when a patch does not apply, even where the webhook is set to be
ignored (k8s.io/apiserver, mutating/dispatcher.go). So every operation is made for the exact object that
was received: missing parents are created, nothing is tested or removed, and the only thing replaced is a
requirement on our own key. After the patch a pod matches the same nodes as before or fewer, never another
one, and a second pass finds nothing to do.

Terms are ORed and a term without requirements matches no node (k8s.io/component-helpers, nodeaffinity):
to add to such a term would open it, so it stays as it is.

Nobody has validated the pod yet. One with more in it than is read (`excess`) is left alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Literal, TypeAlias

import orjson

from numalign.cache.pod_question import Pin
from numalign.kube.decode import label_syntax, scheduling
from numalign.kube.decode.parts import Part
from numalign.kube.decode.scheduling import Expression, NodeAffinity, NodeTerm
from numalign.model.errors import BadPod

Json: TypeAlias = "str | int | Mapping[str, Json] | Sequence[Json]"

# The heaviest that Kubernetes knows: the owner asked for alignment in so many words.
WEIGHT = 100

LONGEST_PATCH = 2**19
"""Bytes of a patch; an API server stores no object of more than some 1.5 MiB."""

_REQUIRED = ("affinity", "nodeAffinity", scheduling.REQUIRED)
_PREFERRED = ("affinity", "nodeAffinity", scheduling.PREFERRED)


class Unsteered(Exception):
    """Raised for a pod that is left as it is; `str()` is what there is too much of."""


class Mode(StrEnum):
    """How hard a pod is kept to the nodes that can align it."""

    EXCLUDE = "exclude"
    INCLUDE = "include"
    PREFER = "prefer"
    OFF = "off"


class Operator(StrEnum):
    """How a node's label must stand to the values."""

    IN = "In"
    NOT_IN = "NotIn"


@dataclass(frozen=True, slots=True)
class Requirement:
    """
    What a node's label must be, or must not be; no values ask for nothing.

    Values are kept sorted and once each, so that the same set gives the same bytes. Raises `ValueError`
    for a key or a value that no label can have.
    """

    key: str
    operator: Operator
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        if impossible := label_syntax.impossible(self.key, self.values):
            raise ValueError(impossible)
        object.__setattr__(self, "values", tuple(sorted(set(self.values))))


@dataclass(frozen=True, slots=True)
class Operation:
    """One step of a JSON patch (RFC 6902); its fields, in order, are the members on the wire."""

    op: Literal["add", "replace"]
    path: str
    value: Json


def inject(pod: Mapping[str, object], requirement: Requirement, *, mode: Mode) -> tuple[Operation, ...]:
    """
    Operations that make the pod ask for the requirement; none where it asks for as much already.

    A pinned pod is never patched. Raises `BadPod` where the pod's affinity has not the shape that
    Kubernetes gives it, `Unsteered` where there is too much of it or of the patch, and `ValueError` for a
    requirement that contradicts the mode.
    """
    if requirement.operator is not _OPERATORS.get(mode, requirement.operator):
        raise ValueError(f"mode {mode} cannot write {requirement.operator}")
    if mode is Mode.OFF or not requirement.values:
        return ()
    shape = _read(pod)
    if shape.pin:
        return ()
    if shape.affinity.excess:
        raise Unsteered(shape.affinity.excess)
    return tuple(_short(_WRITERS[mode](shape, requirement)))


@dataclass(frozen=True, slots=True)
class _Shape:
    """What of a pod decides its patch."""

    spec: Mapping[str, object]
    affinity: NodeAffinity
    pin: Pin | None


def _read(pod: Mapping[str, object]) -> _Shape:
    """Take apart what decides the patch, or raise `BadPod` with all that is wrong."""
    whole = Part(pod)
    spec = whole["spec"].required()
    affinity = scheduling.node_affinity(whole, spec)
    pin = scheduling.pinned(whole, spec, affinity)
    whole.raise_mistakes(BadPod)
    return _Shape(spec.value if isinstance(spec.value, dict) else {}, affinity, pin)


def _short(operations: Iterable[Operation]) -> Iterator[Operation]:
    """The operations, one by one; raises `Unsteered` at the one that makes the patch too long."""
    room = LONGEST_PATCH
    for operation in operations:
        room -= len(orjson.dumps(operation))
        if room < 0:
            raise Unsteered(f"its patch would be longer than {LONGEST_PATCH} bytes")
        yield operation


def _require(shape: _Shape, requirement: Requirement) -> Iterator[Operation]:
    """AND the requirement into each term that can match a node, or make the only term."""
    if shape.affinity.required is None:
        only: Json = {"matchExpressions": [_wire(requirement)]}
        yield _plant(shape.spec, _REQUIRED, {"nodeSelectorTerms": [only]})
        return
    path = "/".join(("/spec", *_REQUIRED, "nodeSelectorTerms"))
    for index, term in enumerate(shape.affinity.required):
        if tightened := _tighten(term, f"{path}/{index}/matchExpressions", requirement):
            yield tightened


def _tighten(term: NodeTerm, path: str, requirement: Requirement) -> Operation | None:
    if term.empty or any(_implies(written, requirement) for written in term.expressions):
        return None
    if not term.listed:
        return Operation("add", path, [_wire(requirement)])
    for index, written in enumerate(term.expressions):
        if _joins(written, requirement):
            values = tuple(written.values.union(requirement.values))
            return Operation("replace", f"{path}/{index}", _wire(requirement, values))
    return Operation("add", f"{path}/-", _wire(requirement))


def _implies(written: Expression, requirement: Requirement) -> bool:
    """Whether every node that passes what is written passes the requirement as well."""
    enough = _ENOUGH.get((written.operator, requirement.operator))
    return bool(
        enough and written.key == requirement.key and enough(written.values, frozenset(requirement.values))
    )


def _joins(written: Expression, requirement: Requirement) -> bool:
    """
    Whether the requirement can be written into what stands there.

    Only exclusions grow together: nobody can tell whose values these are, so none is ever taken away. One
    without values is a mistake that Kubernetes will name; values from us would hide it.
    """
    return (
        requirement.operator is Operator.NOT_IN
        and (written.key, written.operator) == (requirement.key, Operator.NOT_IN)
        and bool(written.values)
    )


def _prefer(shape: _Shape, requirement: Requirement) -> Iterator[Operation]:
    """Add our preference beside what the owner prefers, unless it is there."""
    term: Json = {"weight": WEIGHT, "preference": {"matchExpressions": [_wire(requirement)]}}
    if shape.affinity.preferred is None:
        yield _plant(shape.spec, _PREFERRED, [term])
    elif term not in shape.affinity.preferred:
        yield Operation("add", "/".join(("/spec", *_PREFERRED, "-")), term)


def _plant(here: Mapping[str, object], steps: Sequence[str], leaf: Json, path: str = "/spec") -> Operation:
    """Add a leaf with every parent of it that is missing or null."""
    step, *rest = steps
    below, path = here.get(step), f"{path}/{step}"
    if isinstance(below, dict):
        return _plant(below, rest, leaf, path)
    for parent in reversed(rest):
        leaf = {parent: leaf}
    return Operation("add", path, leaf)


def _wire(requirement: Requirement, values: Sequence[str] = ()) -> Json:
    """The requirement as Kubernetes writes it, with other values if given."""
    return {
        "key": requirement.key,
        "operator": requirement.operator.value,
        "values": sorted(values or requirement.values),
    }


# What is written, what we would write -> when the first makes the second needless.
_ENOUGH: Mapping[tuple[str, str], Callable[[frozenset[str], frozenset[str]], bool]] = MappingProxyType(
    {
        ("NotIn", "NotIn"): frozenset.issuperset,
        ("In", "NotIn"): frozenset.isdisjoint,
        ("In", "In"): frozenset.issubset,
    }
)

_OPERATORS = MappingProxyType({Mode.EXCLUDE: Operator.NOT_IN, Mode.INCLUDE: Operator.IN})

_WRITERS: Mapping[Mode, Callable[[_Shape, Requirement], Iterator[Operation]]] = MappingProxyType(
    {Mode.EXCLUDE: _require, Mode.INCLUDE: _require, Mode.PREFER: _prefer}
)
