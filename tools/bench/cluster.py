"""A synthetic cluster and the pods that arrive in it, the same for the same numbers."""

import random
from collections.abc import Iterator
from itertools import cycle, islice

from numalign.model.intent import Policy
from tools.bench.fleets import GPU, Case, Raw, objects

POLICY = "numalign.io/policy"
TOO_MANY = 8

_EVERY = 8
_SEED = 20
_WORKLOADS = 20
_POLICIES = ("single-numa-node", "restricted", "single-numa-node", "best-effort")


def snapshot(nodes: int, makes: int = 36) -> Raw:
    """Return so many nodes of so many makes as kubectl prints them, most of them partly in use."""
    items = list(objects(Case.mixed(nodes, makes, Policy.NONE).members()))
    return {"apiVersion": "v1", "kind": "List", "items": items}


def many(nodes: int, makes: int = 24) -> list[Raw]:
    """Return nodes with their topologies, one in a hundred of which is cordoned."""
    made = list(objects(Case.mixed(nodes, makes, Policy.SINGLE_NUMA_NODE).members()))
    for node in made[::2]:
        node["spec"] = {"unschedulable": node["metadata"]["name"].endswith("99")}
    return made


def templates(number: int) -> Iterator[Raw]:
    """Yield so many different workloads; every eighth requests more GPUs than any zone has, in one zone."""
    dice = random.Random(_SEED)  # noqa: S311 - it makes input, not secrets
    for index in range(number):
        gpus = TOO_MANY if index % _EVERY == _EVERY - 1 else dice.choice((0, 0, 1, 1, 2, 4))
        yield pod(index, dice, gpus=gpus)


def pods(number: int, namespace: str) -> Iterator[Raw]:
    """Yield so many pods of workloads that request at most one GPU."""
    every = ((each, each["spec"]["containers"][0]["resources"]["requests"]) for each in templates(_WORKLOADS))
    small = [each for each, requests in every if requests.get(GPU, "0") in {"0", "1"}]
    for index, made in enumerate(islice(cycle(small), number)):
        yield {**made, "metadata": {**made["metadata"], "name": f"pod-{index:05}", "namespace": namespace}}


def pod(index: int, dice: random.Random, *, gpus: int) -> Raw:
    """Return a Guaranteed pod of one to three containers, as long as the pods of an API server."""
    containers = [
        _container(f"c{at}", index, dice, gpus=gpus if at == 0 else 0)
        for at in range(dice.choice((1, 1, 2, 3)))
    ]
    env: Raw = {f'k:{{"name":"SETTING_{at}"}}': {".": {}, "f:name": {}, "f:value": {}} for at in range(24)}
    owned = {f'k:{{"name":"{each["name"]}"}}': {".": {}, "f:env": env, "f:image": {}} for each in containers}
    managed = {
        "manager": "kube-controller-manager",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:containers": owned}},
    }
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "1", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"workload-{index}-",
            "namespace": "team",
            "labels": {"app": f"workload-{index}", "pod-template-hash": f"{index:010}"},
            "annotations": {POLICY: _POLICIES[0] if gpus == TOO_MANY else _POLICIES[index % len(_POLICIES)]},
            "ownerReferences": [owner],
            "managedFields": [managed],
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
    devices = {GPU: str(gpus)} if gpus else {}
    amounts = {"cpu": str(dice.choice((1, 2, 4, 8))), "memory": str(memory), **devices}
    return {
        "name": name,
        "image": f"registry.example.com/team/workload-{index}:v1",
        "env": [{"name": f"SETTING_{at}", "value": f"value-{at}" * 2} for at in range(24)],
        "resources": {"requests": amounts, "limits": amounts},
        "volumeMounts": [{"name": f"v{at}", "mountPath": f"/etc/config-{at}"} for at in range(4)],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
