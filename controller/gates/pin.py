"""
The write that lifts the gate of a pod.

While a pod is gated, an API server accepts only changes that tighten its node affinity
(`validateNodeAffinityMutation` of pkg/apis/core/validation): no term may be added or removed, each may get
more requirements after its own, and one without any, which matches no node, must stay empty. So the
requirement that pins a pod is added to every other term. Lifting the last gate and tightening in one write is
valid, and nothing can be tightened afterwards.

Nodes are named by field, not by their hostname label: some autoscalers refuse pods that use the latter.
Several nodes can be named only by that label, because a field takes one value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from numalign.kube.decode.scheduling import PREFERRED, REQUIRED
from numalign.kube.kinds import Object
from numalign.model.constraints import NAME_FIELD, Operator
from numalign.model.intent import PLACEMENT_GATE

HOSTNAME_LABEL = "kubernetes.io/hostname"

HEAVIEST = 100
"""The highest weight of preferred terms."""


@dataclass(frozen=True, slots=True)
class PinTarget:
    """
    Where a pod may run from now on: on `node` alone, or on all nodes with one of these `hostnames`.

    With hostnames, the node is the best of them, where its zones are reserved.
    """

    node: str
    hostnames: tuple[str, ...] = ()


def pin_patch(pod: Mapping[str, object], target: PinTarget, annotations: Mapping[str, str]) -> Object:
    """
    Return the merge patch that lifts the gate of this v1 Pod and pins it.

    It has the UID and the resourceVersion of the pod that was read, so it changes that version or nothing.
    """
    metadata = _object(pod.get("metadata"))
    affinity = _object(_object(_object(pod.get("spec")).get("affinity")).get("nodeAffinity"))
    terms = _list(_object(affinity.get(REQUIRED)).get("nodeSelectorTerms"))
    pinned: Object = {REQUIRED: {"nodeSelectorTerms": _tightened(terms, target)}}
    if target.hostnames:
        pinned[PREFERRED] = [*_list(affinity.get(PREFERRED)), _preference(target.node)]
    gates = [gate for gate in gates_of(pod) if gate != PLACEMENT_GATE]
    return {
        "metadata": {
            "uid": metadata.get("uid"),
            "resourceVersion": metadata.get("resourceVersion"),
            "annotations": dict(annotations),
        },
        "spec": {
            "schedulingGates": [{"name": gate} for gate in gates] or None,
            "affinity": {"nodeAffinity": pinned},
        },
    }


def gates_of(pod: Mapping[str, object]) -> tuple[str, ...]:
    """Return the names of the scheduling gates of a v1 Pod."""
    gates = map(_object, _list(_object(pod.get("spec")).get("schedulingGates")))
    return tuple(name for gate in gates if isinstance(name := gate.get("name"), str))


def _tightened(terms: Sequence[Any], target: PinTarget) -> list[Any]:
    key, requirement = _requirement(target)
    if not terms:
        return [{key: [requirement]}]
    return [
        {**term, key: [*_list(term.get(key)), requirement]} if _has_any(term) else term
        for term in map(_object, terms)
    ]


def _has_any(term: Mapping[str, Any]) -> bool:
    return bool(term.get("matchExpressions") or term.get("matchFields"))


def _requirement(target: PinTarget) -> tuple[str, Object]:
    if target.hostnames:
        return "matchExpressions", _in(HOSTNAME_LABEL, target.hostnames)
    return "matchFields", _in(NAME_FIELD, (target.node,))


def _preference(node: str) -> Object:
    return {"weight": HEAVIEST, "preference": {"matchFields": [_in(NAME_FIELD, (node,))]}}


def _in(key: str, values: Sequence[str]) -> Object:
    return {"key": key, "operator": Operator.IN.value, "values": [*values]}


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
