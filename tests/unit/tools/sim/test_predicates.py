"""Figures of the kind that `kubectl describe node` adds up, and the words of the kubelet's refusals."""

from typing import Any

import pytest

from tests.worlds.notation import table
from tools.clusters.sim.predicates import Refusal, refusal, requests

Json = dict[str, Any]

GPU, NIC = "nvidia.com/gpu", "example.com/nic"
NODE = {"cpu": 8000, "memory": 2**34, "pods": 3, "ephemeral-storage": 2**40, GPU: 2}


def container(requested: Json, **more: object) -> Json:
    return {"name": "c", "resources": {"requests": requested}, **more}


def cpus(number: str, **more: object) -> Json:
    return container({"cpu": number}, **more)


def pod(*containers: Json, **spec: object) -> Json:
    return {"spec": {"containers": list(containers), **spec}}


def short(of: str, requested: int, used: int, capacity: int) -> Refusal:
    figures = f"{of}, requested: {requested}, used: {used}, capacity: {capacity}"
    return Refusal(f"OutOf{of}", f"Node didn't have enough resource: {figures}")


FULL = [pod(cpus("3")), pod(container({"cpu": "3500m", GPU: "2"}))]
SHORT = [
    # what is requested                              of a node with these pods
    ("exactly what is left", {"cpu": "1500m"}, FULL, None),
    ("a thousandth more", {"cpu": "1501m"}, FULL, short("cpu", 1501, 6500, 8000)),
    ("a device that is taken", {GPU: "1"}, FULL, short(GPU, 1, 2, 2)),
    ("a resource that the node does not know", {NIC: "5"}, [], None),
    ("nothing, of a node that has too little", {}, [pod(cpus("9"))], None),
    ("the first of two", {"cpu": "9", "memory": "17Gi"}, [], short("cpu", 9000, 0, 8000)),
    ("one pod too many", {}, [pod(container({}))] * 3, short("pods", 1, 3, 3)),
]


@pytest.mark.parametrize(("requested", "others", "expected"), table(SHORT))
def test_first_short_resource_is_named(requested: Json, others: list[Json], expected: Refusal | None) -> None:
    assert refusal(pod(container(requested)), others, NODE) == expected


SIDECAR = cpus("1", restartPolicy="Always")
NEEDED = [
    # the containers of a pod, and its CPUs in thousandths
    ("containers add up", pod(cpus("1"), cpus("2")), 3000),
    ("a larger init container", pod(cpus("2"), initContainers=[cpus("5"), cpus("1")]), 5000),
    ("an init container beside a sidecar", pod(cpus("2"), initContainers=[SIDECAR, cpus("4")]), 5000),
    ("a sidecar goes on", pod(cpus("2"), initContainers=[SIDECAR]), 3000),
    ("overhead comes on top", pod(cpus("2"), overhead={"cpu": "250m"}), 2250),
    ("the pod as a whole", pod(cpus("2"), resources={"requests": {"cpu": "6"}}), 6000),
    ("a limit without a request", pod({"name": "c", "resources": {"limits": {"cpu": "3"}}}), 3000),
]


@pytest.mark.parametrize(("asking", "expected"), table(NEEDED))
def test_pod_requests_are_those_needed_at_once(asking: Json, expected: int) -> None:
    assert requests(asking)["cpu"] == expected
