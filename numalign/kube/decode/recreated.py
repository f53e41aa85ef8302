"""
The constraints on nodes that a running pod would have if its owner recreated it.

A scheduler writes the name of the node into a pod, and the controller of numalign a pin, or nodes to keep it
off. None of these is the owner's request, so none counts for a recreated pod. Other references to a node (of
a DaemonSet, or the owner's own affinity) stay, and so does a pod that a kubelet mirrors from a file on its
own disk.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import orjson

from numalign.cache.pod_question import MOST_OWNERS, ExceededLimit, Pin, PinReason
from numalign.kube import kinds
from numalign.kube.decode.parts import Part, inner
from numalign.kube.decode.pod_request import MOST_KEPT
from numalign.kube.decode.scheduling import Scheduling, scheduling
from numalign.lru import LRU, digest, is_large
from numalign.model.constraints import ANYWHERE, NAME_FIELD, Constraints, Operator, Requirement, Term
from numalign.model.intent import CLASS_LABEL, NODE_LABEL, PINNED_AT

REMEMBERED = 1024
"""The size of the cache: the pods of a template are equal."""


class RecreatedScheduling:
    """Decodes these constraints of pods; equal pods share one value."""

    def __init__(self) -> None:
        self.cache: LRU[bytes, Scheduling] = LRU(REMEMBERED, large=lambda _key, kept: is_large(kept))

    def of(self, pod: Mapping[str, object]) -> Scheduling:
        """Return the constraints of a recreated v1 Pod, with every mistake; less of one that is too large."""
        fields: dict[str, Any] = kinds.cut(pod, kinds.PLACED)  # type: ignore[assignment]
        spec, node = fields.get("spec"), inner(pod, "spec", "nodeName")
        if isinstance(spec, dict):
            fields = {**fields, "spec": {key: spec[key] for key in spec if key != "nodeName"}}
        pinned = inner(pod, "metadata", "annotations", PINNED_AT) is not None
        owners = islice(Part(fields)["metadata"]["ownerReferences"].objects(), MOST_OWNERS)
        stays = any(owner["kind"].text() == "Node" and owner["apiVersion"].text() == "v1" for owner in owners)
        try:
            key = digest(orjson.dumps([fields, node if pinned or stays else None, pinned, stays]))
        except orjson.JSONEncodeError:
            return _recreated(fields, node, pinned=pinned, stays=stays)

        def read() -> Scheduling:
            whole = _recreated(fields, node, pinned=pinned, stays=stays)
            # Each pod has its own as long as it lives, in limited size.
            large = len(repr(whole)) > MOST_KEPT
            return Scheduling(ANYWHERE, whole.pin, ExceededLimit.SIZE) if large else whole

        return self.cache.get(key, read)


def _recreated(fields: Mapping[str, object], node: object, *, pinned: bool, stays: bool) -> Scheduling:
    written = scheduling(fields)
    if not isinstance(node, str) or not node:
        return written
    if stays:
        return replace(written, pin=Pin(node, PinReason.NODE_NAME))
    constraints = without_exclusions(written.constraints)
    if constraints != written.constraints:
        written = replace(written, constraints=constraints)
    unpinned = without_pin(constraints, node) if pinned else constraints
    return written if unpinned == constraints else replace(written, constraints=unpinned, pin=None)


def without_pin(constraints: Constraints, node: str) -> Constraints:
    """Return the constraints without the pin to a node, which is in every term or is the only one."""
    if constraints.terms is None:
        return constraints
    pin = Requirement(NAME_FIELD, Operator.IN, frozenset({node}))
    unpinned_terms = tuple(
        Term(term.expressions, tuple(each for each in term.fields if each != pin))
        for term in constraints.terms
    )
    only_pinned = unpinned_terms == (Term(),) and constraints.terms != unpinned_terms
    return replace(constraints, terms=None if only_pinned else unpinned_terms)


def without_classes(constraints: Constraints) -> Constraints:
    """Return the constraints without those on classes of nodes, which only repeat what these would answer."""
    return _without(constraints, lambda each: each.key == CLASS_LABEL)


def without_exclusions(constraints: Constraints) -> Constraints:
    """Return the constraints without the nodes that the controller excluded as it lifted the pod's gate."""
    return _without(constraints, lambda each: each.key == NODE_LABEL and each.operator is Operator.NOT_IN)


def _without(constraints: Constraints, drop: Callable[[Requirement], bool]) -> Constraints:
    """Return the constraints without some requirements; a term that has no others matches every node."""
    if constraints.terms is None:
        return constraints
    others = tuple(
        Term(tuple(each for each in term.expressions if not drop(each)), term.fields)
        for term in constraints.terms
    )
    emptied = any(left == Term() != term for left, term in zip(others, constraints.terms, strict=True))
    return replace(constraints, terms=None if emptied else others)
