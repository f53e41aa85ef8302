"""
The writes that lift the gate of a pod and restrict where it may go.

While a pod is gated, an API server accepts only changes that tighten its node affinity
(`validateNodeAffinityMutation` of pkg/apis/core/validation): no term may be added or removed, each may get
more requirements after its own, and one without any, which matches no node, must stay empty. So the
requirement that pins a pod is added to every other term. Lifting the last gate and tightening in one write is
valid, and nothing can be tightened afterwards.

A pod is pinned by field. Several nodes can be named only by their hostname label, because a field takes one
value. Nodes are excluded by our own label: Karpenter launches nothing for a pod that requires a field or a
hostname (`validateNodeSelectorTerm` of pkg/controllers/provisioning in v1.15.0).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from numalign.kube.decode.scheduling import PREFERRED, REQUIRED
from numalign.kube.kinds import Object
from numalign.model.constraints import NAME_FIELD, Operator
from numalign.model.intent import NODE_LABEL, PLACEMENT_GATE

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
    field = _requires(NAME_FIELD, Operator.IN, (target.node,))
    if target.hostnames:
        hostnames = _requires(HOSTNAME_LABEL, Operator.IN, target.hostnames)
        pinned = _required(pod, "matchExpressions", hostnames)
        preference = {"weight": HEAVIEST, "preference": {"matchFields": [field]}}
        pinned[PREFERRED] = [*_list(_node_affinity(pod).get(PREFERRED)), preference]
    else:
        pinned = _required(pod, "matchFields", field)
    patch = _patch(pod, pinned)
    patch["metadata"]["annotations"] = dict(annotations)
    return patch


def exclusion_patch(pod: Mapping[str, object], labels: Sequence[str]) -> Object:
    """
    Return the merge patch that lifts the gate of this v1 Pod and keeps it off nodes with these `NODE_LABEL`s.

    Like a pin, it changes the version that was read or nothing.
    """
    return _patch(pod, _required(pod, "matchExpressions", _requires(NODE_LABEL, Operator.NOT_IN, labels)))


def term_count(pod: Mapping[str, object]) -> int:
    """Return how many required terms of a v1 Pod get a requirement that is added to it; at least 1."""
    return max(1, sum(map(_has_any, map(_object, _terms(pod)))))


def _patch(pod: Mapping[str, object], node_affinity: Object) -> Object:
    metadata = _object(pod.get("metadata"))
    gates = [gate for gate in gates_of(pod) if gate != PLACEMENT_GATE]
    return {
        "metadata": {"uid": metadata.get("uid"), "resourceVersion": metadata.get("resourceVersion")},
        "spec": {
            "schedulingGates": [{"name": gate} for gate in gates] or None,
            "affinity": {"nodeAffinity": node_affinity},
        },
    }


def gates_of(pod: Mapping[str, object]) -> tuple[str, ...]:
    """Return the names of the scheduling gates of a v1 Pod."""
    gates = map(_object, _list(_object(pod.get("spec")).get("schedulingGates")))
    return tuple(name for gate in gates if isinstance(name := gate.get("name"), str))


def _node_affinity(pod: Mapping[str, object]) -> Mapping[str, Any]:
    return _object(_object(_object(pod.get("spec")).get("affinity")).get("nodeAffinity"))


def _terms(pod: Mapping[str, object]) -> list[Any]:
    return _list(_object(_node_affinity(pod).get(REQUIRED)).get("nodeSelectorTerms"))


def _required(pod: Mapping[str, object], key: str, requirement: Object) -> Object:
    """Return the required node affinity with a requirement in every term that has any."""
    tightened = [
        {**term, key: [*_list(term.get(key)), requirement]} if _has_any(term) else term
        for term in map(_object, _terms(pod))
    ]
    return {REQUIRED: {"nodeSelectorTerms": tightened or [{key: [requirement]}]}}


def _has_any(term: Mapping[str, Any]) -> bool:
    return bool(term.get("matchExpressions") or term.get("matchFields"))


def _requires(key: str, operator: Operator, values: Sequence[str]) -> Object:
    return {"key": key, "operator": operator.value, "values": [*values]}


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
