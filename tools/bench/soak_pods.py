"""
Pods that no program has seen: no two share a name or a UID, and no two templates an amount or a label.

A pod follows from its number alone, and two consecutive numbers share a template. Half of the pods request
nothing of numalign, like most pods of a cluster; some contain more than is remembered, request resources that
no node has, are in namespaces that do not exist, or are invalid.
"""

import random
import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

Json = dict[str, Any]

NAMESPACES = tuple(f"team-{number}" for number in range(20))
POLICY = "numalign.io/policy"
GPU = "nvidia.com/gpu"

OF_ONE_TEMPLATE = 2
EVERY: Mapping[str, int] = MappingProxyType(
    {"broken": 50, "long": 40, "strange": 30, "unknown": 10, "asking": 2}
)
"""Of so many templates, one is broken, or contains more than is remembered, and so on."""

LONG = 20_000
"""Bytes of an annotation, more than is remembered of a pod."""

_POLICIES = ("single-numa-node", "restricted", "best-effort", "none")


def made(number: int) -> Json:
    """Return the pod of this number."""
    template = number // OF_ONE_TEMPLATE
    dice = random.Random(template)  # noqa: S311 - it makes input, not secrets
    containers = [_container(at, template, dice) for at in range(dice.choice((1, 1, 2, 3)))]
    annotations = {"example.com/build": f"{dice.getrandbits(64):x}"}
    if _is("asking", template):
        annotations[POLICY] = dice.choice(_POLICIES)
    if broken(number):
        # With the policy none, the amounts of a pod do not matter.
        containers[0]["resources"]["requests"] = {"cpu": f"{template}q"}
        annotations[POLICY] = "restricted"
    if _is("long", template):
        annotations["example.com/long"] = f"{template}-" * (LONG // len(f"{template}-"))
    unknown = _is("unknown", template)
    namespace = f"unknown-{template}" if unknown else NAMESPACES[template % len(NAMESPACES)]
    metadata = {
        "name": f"soak-{template}-{number}",
        "namespace": namespace,
        "uid": str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))),
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "labels": {"app": f"soak-{template}", "pod-template-hash": f"{dice.getrandbits(40):x}"},
        "annotations": annotations,
    }
    spec = {"containers": containers, "restartPolicy": "Always", "schedulerName": "default-scheduler"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def broken(number: int) -> bool:
    """Return whether the pod of this number is invalid."""
    return _is("broken", number // OF_ONE_TEMPLATE)


def _is(kind: str, template: int) -> bool:
    # Each kind begins at a different template, so that most odd templates are odd in one way.
    return template % EVERY[kind] == len(kind) % EVERY[kind]


def _container(at: int, template: int, dice: random.Random) -> Json:
    amounts = {
        "cpu": dice.choice((f"{dice.randrange(100, 4000)}m", "1", "2", "4")),
        "memory": str(dice.randrange(2**27, 2**31)),
        **dice.choice(({}, {}, {}, {GPU: "1"})),
    }
    if _is("strange", template):
        amounts[f"example.com/device-{template}"] = "1"
    return {
        "name": f"c{at}",
        "image": f"registry.example.com/team/soak:{template}",
        "env": [{"name": f"SETTING_{each}", "value": f"value-{template}"} for each in range(4)],
        "resources": {"requests": amounts, "limits": dict(amounts)},
    }


def deployment(pod: Json) -> tuple[Json, tuple[str, str, str]]:
    """Return the Deployment that creates a pod, with its group, kind and resource."""
    metadata = pod["metadata"]
    template = {"metadata": {key: metadata[key] for key in ("labels", "annotations")}, "spec": pod["spec"]}
    made = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {key: metadata[key] for key in ("name", "namespace", "labels")},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": metadata["name"]}},
            "template": template,
        },
    }
    return made, ("apps", "Deployment", "deployments")
