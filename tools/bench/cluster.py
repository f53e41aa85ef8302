"""A synthetic cluster and the pods that arrive in it, the same for the same numbers."""

import random
from collections.abc import Iterator

from numalign.model.intent import Policy
from tools.bench.fleets import Case, Raw, objects

GPU = "nvidia.com/gpu"
POLICY = "numalign.io/policy"

EVERY = 8
TOO_MANY = 8

_SEED = 20
_ASKED = ("single-numa-node", "restricted", "single-numa-node", "best-effort")


def snapshot(nodes: int) -> Raw:
    """Return so many nodes of 36 makes as kubectl prints them, most of them partly in use."""
    items = list(objects(Case.mixed(nodes, 36, Policy.NONE).members()))
    return {"apiVersion": "v1", "kind": "List", "items": items}


def templates(number: int) -> Iterator[Raw]:
    """Yield so many different workloads; every eighth requests more GPUs than any zone has, in one zone."""
    dice = random.Random(_SEED)  # noqa: S311 - it makes input, not secrets
    for index in range(number):
        gpus = TOO_MANY if index % EVERY == EVERY - 1 else dice.choice((0, 0, 1, 1, 2, 4))
        yield pod(index, dice, gpus=gpus)


def pod(index: int, dice: random.Random, *, gpus: int) -> Raw:
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
    # Each of a million templates has another number of KiB, so that no two request the same.
    memory = dice.choice((2, 4, 8, 16)) * 2**30 + index % 2**20 * 1024
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
