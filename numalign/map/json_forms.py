"""
The views for programs: plain values that any JSON encoder accepts.

Formats are known ones: amounts are Kubernetes quantities, CPU ids are lists as in the kernel, and placements
are as in `numalign.io/placement`.
"""

from collections.abc import Iterable
from typing import Any

from numalign.map.views import (
    DeviceBox,
    Fleet,
    HeldInZones,
    NodeTile,
    NodeView,
    PodOnNode,
    PodView,
    WhatIfResult,
    WhatIfTemplate,
    ZoneBox,
    ZoneUse,
)
from numalign.model.intent import Exclusive
from numalign.model.machine import render_list
from numalign.model.resources import quantities

Form = dict[str, Any]
"""A JSON object."""


def fleet_json(fleet: Fleet) -> Form:
    """Return the nodes that a query shows, by class."""
    return {
        "revision": fleet.revision,
        "shown": fleet.count_shown,
        "all": fleet.count_all,
        "resources": list(fleet.resources),
        "classes": list(fleet.classes),
        "policies": list(fleet.policies),
        "conditions": {condition.value: count for condition, count in fleet.counts.items()},
        "groups": [
            {
                "class": group.node_class,
                "policy": group.policy,
                "scope": group.scope,
                "allocatable": quantities(group.allocatable),
                "free": quantities(group.free),
                "nodes": [tile_json(tile, fleet.now) for tile in group.tiles],
            }
            for group in fleet.groups
        ],
        "unknown": list(fleet.unknown),
    }


def tile_json(tile: NodeTile, now: float) -> Form:
    """Return one node of a fleet; `now` is in seconds since 1970."""
    age = tile.age(now)
    return {
        "name": tile.name,
        "class": tile.node_class,
        "policy": tile.policy,
        "scope": tile.scope,
        "conditions": sorted(tile.conditions),
        "source": tile.source,
        "age": None if age is None else int(age),
        "basis": tile.basis,
        "pods": tile.pods,
        "misaligned": tile.misaligned,
        "lacks": quantities(tile.missing),
        "zones": [*map(_zone, tile.zones)],
    }


def node_json(view: NodeView) -> Form:
    """Return one node with its pods; the name of a pod that the viewer may not see is `null`."""
    return {
        **tile_json(view.tile, view.now),
        "revision": view.revision,
        "machineKnown": view.machine_known,
        "exact": view.exact,
        "labels": dict(view.labels),
        "taints": list(view.taints),
        "sockets": [{"id": socket.id, "zones": [*map(_zone_box, socket.zones)]} for socket in view.sockets],
        "otherZones": list(view.other_zones),
        "sharedDevices": [*map(_device, view.shared_devices)],
        "podsHere": [*map(_pod_on_node, view.pods)],
        "hidden": view.hidden,
    }


def pod_json(view: PodView) -> Form:
    """Return one pod."""
    pod = view.pod
    return {
        "revision": view.revision,
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "owner": view.owner,
        "phase": pod.phase,
        "created": pod.created,
        "scheduler": pod.scheduler,
        "priority": pod.priority,
        "gates": list(pod.gates),
        "reason": pod.reason,
        "message": pod.message,
        "node": view.node or None,
        "pinned": pod.pinned or None,
        **_requests(view),
        "onNode": view.on_node and _pod_on_node(view.on_node),
        "zones": [*map(_zone, view.zones)],
        "beside": list(view.beside),
        "besideHidden": view.beside_hidden,
        "mistakes": list(view.mistakes),
    }


def what_if_json(result: WhatIfResult) -> Form:
    """Return the result of a what-if question."""
    return {
        "revision": result.revision,
        "kind": result.kind,
        "namespace": result.namespace,
        "name": result.name,
        "replicas": result.replicas,
        "fit": result.fit_count,
        "bounded": result.bounded,
        "placed": [
            {"template": placed.template, "node": placed.node, "zones": list(placed.zones)}
            for placed in result.placed
        ],
        "templates": [*map(_template, result.templates)],
    }


def _zone(use: ZoneUse) -> Form:
    return {
        "id": use.id,
        "name": use.name,
        "allocatable": quantities(use.allocatable),
        "free": quantities(use.free),
    }


def _zone_box(box: ZoneBox) -> Form:
    return {
        **_zone(box.use),
        "caches": [
            {
                "id": cache.id,
                "cores": [
                    {
                        "id": core.id,
                        "cpus": [{"id": cpu.id, "use": cpu.state, "pod": cpu.pod} for cpu in core.cpus],
                    }
                    for core in cache.cores
                ],
            }
            for cache in box.caches
        ],
        "devices": [*map(_device, box.devices)],
        "pods": list(box.pods),
    }


def _device(box: DeviceBox) -> Form:
    return {
        "resource": box.resource,
        "zones": list(box.zones),
        "total": box.total,
        "healthy": box.healthy,
        "free": box.free,
    }


def _pod_on_node(pod: PodOnNode) -> Form:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "owner": pod.owner,
        "policy": pod.policy,
        "exclusive": Exclusive.ZONE if pod.exclusive else None,
        "stage": pod.stage,
        "leaving": pod.leaving,
        "predicted": None if pod.predicted is None else _placement(pod.predicted),
        "observed": None if pod.observed is None else _placement(pod.observed),
        "agrees": pod.agrees,
        "cpus": None if pod.cpus is None else render_list(pod.cpus),
        "known": pod.source,
        "judgement": pod.judgement,
        "aligned": pod.aligned,
        "extent": pod.extent or None,
        "notPinned": list(pod.not_pinned),
        "why": pod.why or None,
    }


def _placement(held: Iterable[HeldInZones]) -> list[Form]:
    return [{"zones": list(part.zones), "amount": quantities(part.amounts)} for part in held]


def _requests(view: PodView | WhatIfTemplate) -> Form:
    """Return what a pod requests, and its alignment."""
    return {
        "intent": {
            "policy": view.intent.policy,
            "from": view.by,
            "scope": view.intent.scope,
            "resources": list(view.intent.resources),
            "exclusive": Exclusive.ZONE if view.intent.exclusive else None,
        },
        "demand": {
            "containers": [
                {
                    "name": step.container,
                    "role": step.role,
                    "asks": quantities(step.requests),
                    "notPinned": list(step.loose),
                }
                for step in view.containers
            ],
            "total": quantities(view.total),
        },
    }


def _template(template: WhatIfTemplate) -> Form:
    return {
        "where": template.where,
        "notes": list(template.notes),
        **_requests(template),
        "exempt": template.exempt,
        "refusal": template.refusal,
        "warnings": list(template.warnings),
        "counts": {answer.value: count for answer, count in template.counts.items()},
        "reasons": [
            {"nodes": count, "answer": answer, "reason": reason or None}
            for count, answer, reason in template.reasons
        ],
        "nodes": [
            {
                "name": node.name,
                "class": node.node_class,
                "verdict": node.answer,
                "reason": node.reason or None,
                "score": node.score,
                "placement": _placement(node.placement),
                "zones": list(node.zones),
                "doubts": list(node.doubts),
            }
            for node in template.nodes
        ],
        "unknown": list(template.unknown),
    }
