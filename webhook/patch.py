"""
The patch for a pod: a requirement on its nodes, its scheduler, its scheduling gate, and an annotation.

The API server rejects the whole request when a patch does not apply, even if the webhook's failure policy is
Ignore (k8s.io/apiserver, mutating/dispatcher.go). So every operation is made for the exact object that was
received: missing parents are created, nothing is tested or removed, and nothing is replaced but a requirement
on our own key, and the name of the scheduler if nobody has chosen it. After the patch a pod matches the same
nodes as before or fewer, never another one, the only new gate is ours, and a second pass changes nothing.

Terms are ORed and a term without requirements matches no node (k8s.io/component-helpers, nodeaffinity): a
requirement added to such a term would make it match, so it is left unchanged.

The pod has not been validated yet. A pod with more in it than is read (`excess`) is left alone.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Literal, TypeAlias

import orjson

from numalign.kube.decode import label_syntax, scheduling
from numalign.kube.decode.parts import Part
from numalign.kube.decode.scheduling import Expression, NodeAffinity
from numalign.model.constraints import NAME_FIELD, Operator, Requirement
from numalign.model.errors import BadPod
from numalign.model.intent import NODE_LABEL
from numalign.model.node import node_label

Json: TypeAlias = "str | int | Mapping[str, Json] | Sequence[Json]"

# The highest weight in Kubernetes: the owner requests alignment explicitly.
WEIGHT = 100

LONGEST_PATCH = 2**19  # Bytes of a patch; an API server stores no object of more than about 1.5 MiB.
_REQUIRED = ("affinity", "nodeAffinity", scheduling.REQUIRED)
_PREFERRED = ("affinity", "nodeAffinity", scheduling.PREFERRED)


class Unsteered(Exception):
    """Raised for a pod that is left unchanged; `str()` is what there is too much of."""


class Mode(StrEnum):
    """How a pod is kept on the nodes that can align it."""

    EXCLUDE = "exclude"
    INCLUDE = "include"
    PREFER = "prefer"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a JSON patch (RFC 6902); its fields, in order, are the members of the JSON object."""

    op: Literal["add", "replace"]
    path: str
    value: Json


def inject(pod: Mapping[str, object], requirement: Requirement, *, mode: Mode) -> tuple[Operation, ...]:
    """Return operations that add the requirement to a pod; none if it has as much already.

    A requirement without values changes nothing, and a pinned pod is never patched. Raise `BadPod` if the
    pod's affinity is malformed, `Unsteered` if it or the patch is too large, and `ValueError` for a
    requirement that no label can meet or that contradicts the mode.
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
    if mode is not Mode.PREFER:
        return whole(_require(_spec(pod), affinity, requirement))
    preference: Json = {"matchExpressions": [_wire(requirement)]}
    return whole(_add_preferred(_spec(pod), {"weight": WEIGHT, "preference": preference}))


def avoid(
    pod: Mapping[str, object],
    nodes: Sequence[str],
    *,
    labelled: Container[str] = (),
    after: Iterable[Operation] = (),
) -> tuple[Operation, ...]:
    """Return operations that make the pod prefer all other nodes, in a patch `after` its other operations.

    Nodes that are `labelled` with `NODE_LABEL` are named by it: Karpenter takes no notice of fields. The
    operations take `after` into account: parents that it creates are not created again. A pinned pod is never
    patched. Raise `BadPod` and `Unsteered` as `inject` does.
    """
    if not nodes or _affinity(pod) is None:
        return ()
    # A requirement on a field may have one value (ValidateNodeFieldSelectorRequirement of k8s.io/kubernetes,
    # pkg/apis/core/validation); those of one term are ANDed.
    fields = [_not_in(NAME_FIELD, [name]) for name in nodes if name not in labelled]
    labels = [node_label(name) for name in nodes if name in labelled]
    preference: dict[str, Json] = {"matchExpressions": [_not_in(NODE_LABEL, labels)]} if labels else {}
    if fields:
        preference["matchFields"] = fields
    spec = _spec(pod)
    for operation in after:
        steps = tuple(operation.path.split("/")[2:])
        if steps and steps == _PREFERRED[: len(steps)]:
            spec = _with(spec, steps, operation.value)
    return tuple(_add_preferred(spec, {"weight": WEIGHT, "preference": preference}))


def _not_in(key: str, values: Sequence[str]) -> Json:
    return {"key": key, "operator": "NotIn", "values": values}


def _affinity(pod: Mapping[str, object]) -> NodeAffinity | None:
    """Return the node affinity of a pod; None if it is pinned. Raise `BadPod` and `Unsteered`."""
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
    """Set the scheduler of a pod that names none, replacing the default that the API server set."""
    return Operation("add", "/spec/schedulerName", scheduler)


def hold(spec: Mapping[str, object], gate: str) -> Operation:
    """Add a scheduling gate to a pod with this spec."""
    entry: Json = {"name": gate}
    if spec.get("schedulingGates") is None:
        return Operation("add", "/spec/schedulingGates", [entry])
    return Operation("add", "/spec/schedulingGates/-", entry)


def annotate(pod: Mapping[str, object], key: str, value: str) -> tuple[Operation, ...]:
    """Return operations that add an annotation to a pod; none if it has this one, whatever its value."""
    metadata = pod.get("metadata")
    if not isinstance(metadata, dict):
        return ()
    annotations = metadata.get("annotations")
    if not isinstance(annotations, dict):
        return (Operation("add", "/metadata/annotations", {key: value}),)
    # RFC 6901 writes a slash in a key as ~1.
    path = f"/metadata/annotations/{key.replace('/', '~1')}"
    return () if key in annotations else (Operation("add", path, value),)


def whole(operations: Iterable[Operation]) -> tuple[Operation, ...]:
    """Return the operations as one patch; raise `Unsteered` at the one that makes it too long."""
    patch, room = list[Operation](), LONGEST_PATCH
    for operation in operations:
        room -= len(orjson.dumps(operation))
        if room < 0:
            raise Unsteered(f"its patch would be longer than {LONGEST_PATCH} bytes")
        patch.append(operation)
    return tuple(patch)


def _require(
    spec: Mapping[str, object], affinity: NodeAffinity, requirement: Requirement
) -> Iterator[Operation]:
    """AND the requirement into each term that can match a node, or add the only term."""
    if affinity.required is None:
        only: Json = {"matchExpressions": [_wire(requirement)]}
        yield _plant(spec, _REQUIRED, {"nodeSelectorTerms": [only]})
        return
    terms = "/".join(("/spec", *_REQUIRED, "nodeSelectorTerms"))
    for index, term in enumerate(affinity.required):
        if term.empty or any(_implies(written, requirement) for written in term.expressions):
            continue
        path = f"{terms}/{index}/matchExpressions"
        if not term.listed:
            yield Operation("add", path, [_wire(requirement)])
            continue
        for at, written in enumerate(term.expressions):
            # Only exclusions are merged: it is unknown who added their values, so none is ever removed. An
            # exclusion without values is a mistake that Kubernetes will report; our values would hide it.
            ours = (written.key, written.operator) == (requirement.key, requirement.operator)
            if ours and requirement.operator is Operator.NOT_IN and written.values:
                wider = replace(requirement, values=written.values | requirement.values)
                yield Operation("replace", f"{path}/{at}", _wire(wider))
                break
        else:
            yield Operation("add", f"{path}/-", _wire(requirement))


def _implies(written: Expression, requirement: Requirement) -> bool:
    """Return whether every node that meets `written` meets the requirement as well."""
    enough = _ENOUGH.get((written.operator, requirement.operator))
    return bool(enough and written.key == requirement.key and enough(written.values, requirement.values))


def _add_preferred(spec: Mapping[str, object], term: Json) -> Iterator[Operation]:
    terms: object = spec
    for step in _PREFERRED:
        terms = terms.get(step) if isinstance(terms, dict) else None
    if not isinstance(terms, list):
        yield _plant(spec, _PREFERRED, [term])
    elif term not in terms:
        yield Operation("add", "/".join(("/spec", *_PREFERRED, "-")), term)


def _with(parent: Mapping[str, object], steps: Sequence[str], leaf: object) -> Mapping[str, object]:
    """Return a copy with another value at the end of these steps; all parents exist."""
    step, *below = steps
    child = parent.get(step)
    return {**parent, step: _with(child, below, leaf) if below and isinstance(child, dict) else leaf}


def _plant(parent: Mapping[str, object], steps: Sequence[str], leaf: Json, path: str = "/spec") -> Operation:
    """Add a leaf with every parent that is missing or null."""
    step, *below = steps
    child, path = parent.get(step), f"{path}/{step}"
    if isinstance(child, dict):
        return _plant(child, below, leaf, path)
    for name in reversed(below):
        leaf = {name: leaf}
    return Operation("add", path, leaf)


def _wire(requirement: Requirement) -> Json:
    """Return the JSON of Kubernetes; values are sorted, so that equal sets give equal bytes."""
    values = sorted(requirement.values)
    return {"key": requirement.key, "operator": requirement.operator.value, "values": values}


# (operator in the pod, our operator) -> whether the pod's values make ours unnecessary.
_ENOUGH: Mapping[tuple[str, str], Callable[[frozenset[str], frozenset[str]], bool]] = MappingProxyType(
    {
        ("NotIn", "NotIn"): frozenset.issuperset,
        ("In", "NotIn"): frozenset.isdisjoint,
        ("In", "In"): frozenset.issubset,
    }
)

_OPERATORS = MappingProxyType({Mode.EXCLUDE: Operator.NOT_IN, Mode.INCLUDE: Operator.IN})
