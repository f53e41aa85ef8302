"""
A synthetic cluster and the pods that arrive in it, the same for the same numbers.

Machines of one model never report the same bytes, so the memory of each zone varies by a few MiB: nodes of
one class then have different shapes, which is the worst case for a cache of answers.
"""

import itertools
import random
from collections.abc import Iterator
from typing import Any

Raw = dict[str, Any]

ZONES = 4
CLASSES = 20
GPU = "nvidia.com/gpu"
POLICY = "numalign.io/policy"

EVERY = 8
TOO_MANY = 8

_SEED = 20
_MIB = 2**20
_POLICIES = ("single-numa-node", "restricted", "best-effort", "single-numa-node", "none")
_ASKED = ("single-numa-node", "restricted", "single-numa-node", "best-effort")
_MODELS = tuple(itertools.product((16, 24, 32, 48, 64), (0, 1, 2, 4)))


def snapshot(nodes: int) -> Raw:
    """Return so many nodes of twenty models as kubectl prints them, most of them partly in use."""
    dice = _dice()
    items = [each for number in range(nodes) for each in _node(number, dice)]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def templates(number: int) -> Iterator[Raw]:
    """Yield so many different workloads; every eighth requests more GPUs than any zone has, in one zone."""
    dice = _dice()
    for index in range(number):
        gpus = TOO_MANY if index % EVERY == EVERY - 1 else dice.choice((0, 0, 1, 1, 2, 4))
        yield _pod(index, dice, gpus=gpus)


def _dice() -> random.Random:
    return random.Random(_SEED)  # noqa: S311 - it makes input, not secrets


def _node(number: int, dice: random.Random) -> tuple[Raw, Raw]:
    model = number % CLASSES
    cpus, gpus = _MODELS[model]
    name = f"node-{number:05}"
    policy = _POLICIES[model % len(_POLICIES)]
    zones = [_zone(at, cpus, gpus, dice) for at in range(ZONES)]
    allocatable = {
        "cpu": str(cpus * ZONES),
        "memory": str(sum(int(zone["resources"][1]["allocatable"]) for zone in zones)),
        "pods": "110",
        **({GPU: str(gpus * ZONES)} if gpus else {}),
    }
    topology = {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": policy},
            {"name": "topologyManagerScope", "value": "pod" if model % 2 else "container"},
        ],
        "zones": zones,
    }
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    return {**node, "status": {"allocatable": allocatable}}, topology


def _zone(at: int, cpus: int, gpus: int, dice: random.Random) -> Raw:
    memory = (4 * cpus * 1024 + 500 + dice.randrange(16)) * _MIB
    used = dice.choice((0, 0, 1, 2, 4))
    amounts = {"cpu": cpus, "memory": memory, **({GPU: gpus} if gpus else {})}
    return {
        "name": f"node-{at}",
        "type": "Node",
        "costs": [{"name": f"node-{to}", "value": 10 if to == at else 21} for to in range(ZONES)],
        "resources": [
            {
                "name": name,
                "capacity": str(amount),
                "allocatable": str(amount),
                "available": str(amount - amount * used // 4),
            }
            for name, amount in amounts.items()
        ],
    }


def _pod(index: int, dice: random.Random, *, gpus: int) -> Raw:
    """Return a Guaranteed pod of one to three containers, as long as the pods of an API server."""
    containers = [
        _container(f"c{at}", index, dice, gpus=gpus if at == 0 else 0)
        for at in range(dice.choice((1, 1, 2, 3)))
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"workload-{index}-",
            "namespace": "team",
            "labels": {"app": f"workload-{index}", "pod-template-hash": f"{index:010}"},
            "annotations": {POLICY: _ASKED[0] if gpus == TOO_MANY else _ASKED[index % len(_ASKED)]},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "1", "controller": True}
            ],
            "managedFields": [_managed(len(containers))],
        },
        "spec": {
            "containers": containers,
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "serviceAccountName": "default",
            "tolerations": [
                {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
                for key in ("not-ready", "unreachable")
            ],
            "volumes": [{"name": f"v{at}", "configMap": {"name": f"config-{at}"}} for at in range(4)],
        },
    }


def _container(name: str, index: int, dice: random.Random, *, gpus: int) -> Raw:
    # Each template has another number of KiB, so that no two request the same.
    memory = dice.choice((2, 4, 8, 16)) * 2**30 + index * 1024
    amounts = {
        "cpu": str(dice.choice((1, 2, 4, 8))),
        "memory": str(memory),
        **({GPU: str(gpus)} if gpus else {}),
    }
    return {
        "name": name,
        "image": f"registry.example.com/team/workload-{index}:v1",
        "env": [{"name": f"SETTING_{at}", "value": f"value-{at}" * 2} for at in range(24)],
        "resources": {"requests": amounts, "limits": amounts},
        "volumeMounts": [{"name": f"v{at}", "mountPath": f"/etc/config-{at}"} for at in range(4)],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }


def _managed(containers: int) -> Raw:
    env: Raw = {f'k:{{"name":"SETTING_{at}"}}': {".": {}, "f:name": {}, "f:value": {}} for at in range(24)}
    owned = {f'k:{{"name":"c{at}"}}': {".": {}, "f:env": env, "f:image": {}} for at in range(containers)}
    return {
        "manager": "kube-controller-manager",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:containers": owned}},
    }
