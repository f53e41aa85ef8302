"""
What numalign writes into a pod: one requirement on the nodes that may run it, and who places it.

The API server refuses the whole request when a patch does not apply, even where the webhook is set to be
ignored (k8s.io/apiserver, mutating/dispatcher.go). So every operation is made for the exact object that
was received: missing parents are created, nothing is tested or removed, and nothing replaced but a
requirement on our own key and the name of the scheduler, where that is nobody's choice. After the patch a pod
matches the same nodes as before or fewer, never another one, the only gate that came is ours, and a second
pass finds nothing to do.

Terms are ORed and a term without requirements matches no node (k8s.io/component-helpers, nodeaffinity):
to add to such a term would open it, so it stays as it is.

Nobody has validated the pod yet. One with more in it than is read (`excess`) is left alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Literal, TypeAlias

import orjson

from numalign.kube.decode import label_syntax, scheduling
from numalign.kube.decode.parts import Part
from numalign.kube.decode.scheduling import Expression, NodeAffinity, NodeTerm
from numalign.model.constraints import NAME_FIELD, Operator, Requirement
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


@dataclass(frozen=True, slots=True)
class Operation:
    """One step of a JSON patch (RFC 6902); its fields, in order, are the members on the wire."""

    op: Literal["add", "replace"]
    path: str
    value: Json


def inject(pod: Mapping[str, object], requirement: Requirement, *, mode: Mode) -> tuple[Operation, ...]:
    """
    Operations that make the pod ask for the requirement; none where it asks for as much already.

    A requirement of no values asks for nothing, and a pinned pod is never patched. Raises `BadPod` where the
    pod's affinity has not the shape that Kubernetes gives it, `Unsteered` where there is too much of it or of
    the patch, and `ValueError` for a requirement that no label can meet or that contradicts the mode.
    """
    if wrong := label_syntax.impossible(requirement.key, sorted(requirement.values)):
        raise ValueError(wrong)
    if requirement.operator is not _OPERATORS.get(mode, requirement.operator):
        raise ValueError(f"mode {mode} cannot write {requirement.operator}")
    if mode is Mode.OFF or not requirement.values:
        return ()
    affinity = _affinity(pod)
    if affinity is None:
        return ()
    return whole((_prefer if mode is Mode.PREFER else _require)(_spec(pod), affinity, requirement))


def avoid(
    pod: Mapping[str, object], nodes: Sequence[str], *, after: Iterable[Operation] = ()
) -> tuple[Operation, ...]:
    """
    Operations that make the pod prefer all other nodes, in a patch `after` those that it has already.

    They do not depend on `after` being applied alone: what that plants is not planted again. A pinned pod is
    never patched. Raises `BadPod` and `Unsteered` as `inject` does.
    """
    if not nodes or _affinity(pod) is None:
        return ()
    # Of a field there may be one value in a requirement (ValidateNodeFieldSelectorRequirement of k8s.io/
    # kubernetes, pkg/apis/core/validation); those of one term are ANDed.
    fields: Json = [{"key": NAME_FIELD, "operator": "NotIn", "values": [name]} for name in nodes]
    term: Json = {"weight": WEIGHT, "preference": {"matchFields": fields}}
    return tuple(_wish(_planted(_spec(pod), after), term))


def _affinity(pod: Mapping[str, object]) -> NodeAffinity | None:
    """The node affinity of a pod; None if somebody has placed it. Raises `BadPod` and `Unsteered`."""
    part = Part(pod)
    spec = part["spec"].required()
    affinity = scheduling.node_affinity(part, spec)
    pin = scheduling.pinned(part, spec, affinity)
    part.raise_mistakes(BadPod)
    if pin:
        return None
    if affinity.excess:
        raise Unsteered(affinity.excess)
    return affinity


def _spec(pod: Mapping[str, object]) -> Mapping[str, object]:
    spec = pod.get("spec")
    return spec if isinstance(spec, dict) else {}


def route(scheduler: str) -> Operation:
    """Hand a pod that names nobody to this scheduler, over what the API server wrote there itself."""
    return Operation("add", "/spec/schedulerName", scheduler)


def hold(spec: Mapping[str, object], gate: str) -> Operation:
    """Have a pod of this spec wait at one more gate."""
    entry: Json = {"name": gate}
    if spec.get("schedulingGates") is None:
        return Operation("add", "/spec/schedulingGates", [entry])
    return Operation("add", "/spec/schedulingGates/-", entry)


def whole(operations: Iterable[Operation]) -> tuple[Operation, ...]:
    """The operations as one patch; raises `Unsteered` where that is too long."""
    return tuple(_short(operations))


def _short(operations: Iterable[Operation]) -> Iterator[Operation]:
    """The operations, one by one; raises `Unsteered` at the one that makes the patch too long."""
    room = LONGEST_PATCH
    for operation in operations:
        room -= len(orjson.dumps(operation))
        if room < 0:
            raise Unsteered(f"its patch would be longer than {LONGEST_PATCH} bytes")
        yield operation


def _require(
    spec: Mapping[str, object], affinity: NodeAffinity, requirement: Requirement
) -> Iterator[Operation]:
    """AND the requirement into each term that can match a node, or make the only term."""
    if affinity.required is None:
        only: Json = {"matchExpressions": [_wire(requirement)]}
        yield _plant(spec, _REQUIRED, {"nodeSelectorTerms": [only]})
        return
    path = "/".join(("/spec", *_REQUIRED, "nodeSelectorTerms"))
    for index, term in enumerate(affinity.required):
        if tightened := _tighten(term, f"{path}/{index}/matchExpressions", requirement):
            yield tightened


def _tighten(term: NodeTerm, path: str, requirement: Requirement) -> Operation | None:
    if term.empty or any(_implies(written, requirement) for written in term.expressions):
        return None
    if not term.listed:
        return Operation("add", path, [_wire(requirement)])
    for index, written in enumerate(term.expressions):
        if _joins(written, requirement):
            wider = replace(requirement, values=written.values | requirement.values)
            return Operation("replace", f"{path}/{index}", _wire(wider))
    return Operation("add", f"{path}/-", _wire(requirement))


def _implies(written: Expression, requirement: Requirement) -> bool:
    """Whether every node that passes what is written passes the requirement as well."""
    enough = _ENOUGH.get((written.operator, requirement.operator))
    return bool(enough and written.key == requirement.key and enough(written.values, requirement.values))


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


def _prefer(
    spec: Mapping[str, object], _affinity: NodeAffinity, requirement: Requirement
) -> Iterator[Operation]:
    """Add our preference beside what the owner prefers, unless it is there."""
    return _wish(spec, {"weight": WEIGHT, "preference": {"matchExpressions": [_wire(requirement)]}})


def _wish(spec: Mapping[str, object], term: Json) -> Iterator[Operation]:
    """Add a preferred term, unless it is there."""
    wishes: object = spec
    for step in _PREFERRED:
        wishes = wishes.get(step) if isinstance(wishes, dict) else None
    if not isinstance(wishes, list):
        yield _plant(spec, _PREFERRED, [term])
    elif term not in wishes:
        yield Operation("add", "/".join(("/spec", *_PREFERRED, "-")), term)


def _planted(spec: Mapping[str, object], operations: Iterable[Operation]) -> Mapping[str, object]:
    """The spec with what operations plant above our preference, or in its place."""
    for operation in operations:
        steps = tuple(operation.path.split("/")[2:])
        if steps and steps == _PREFERRED[: len(steps)]:
            spec = _with(spec, steps, operation.value)
    return spec


def _with(parent: Mapping[str, object], steps: Sequence[str], leaf: object) -> Mapping[str, object]:
    """A copy with another value at the end of these steps, all parents of which are there."""
    step, *below = steps
    child = parent.get(step)
    return {**parent, step: _with(child, below, leaf) if below and isinstance(child, dict) else leaf}


def _plant(parent: Mapping[str, object], steps: Sequence[str], leaf: Json, path: str = "/spec") -> Operation:
    """Add a leaf with every parent of it that is missing or null."""
    step, *below = steps
    child, path = parent.get(step), f"{path}/{step}"
    if isinstance(child, dict):
        return _plant(child, below, leaf, path)
    for name in reversed(below):
        leaf = {name: leaf}
    return Operation("add", path, leaf)


def _wire(requirement: Requirement) -> Json:
    """As Kubernetes writes it; values are sorted, so that the same set gives the same bytes."""
    return {
        "key": requirement.key,
        "operator": requirement.operator.value,
        "values": sorted(requirement.values),
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
