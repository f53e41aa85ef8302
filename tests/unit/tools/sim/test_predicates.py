"""Figures of the kind that `kubectl describe node` adds up, and the words of the kubelet's refusals."""

from typing import Any

import pytest

from tools.clusters.sim.predicates import Refusal, refusal, requests

Json = dict[str, Any]

NODE = {"cpu": 8000, "memory": 2**34, "pods": 3, "ephemeral-storage": 2**40, "nvidia.com/gpu": 2}


def container(**amounts: str) -> Json:
    named = {_NAMES.get(name, name): amount for name, amount in amounts.items()}
    return {"name": "c", "resources": {"requests": named}}


_NAMES = {"gpu": "nvidia.com/gpu", "nic": "example.com/nic"}


def pod(*containers: Json, **spec: object) -> Json:
    return {"spec": {"containers": list(containers), **spec}}


FULL = [pod(container(cpu="3")), pod(container(cpu="3500m", gpu="2"))]


@pytest.mark.parametrize(
    ("asked", "others", "expected"),
    [
        pytest.param({"cpu": "1500m"}, FULL, None, id="exactly what is left"),
        pytest.param(
            {"cpu": "1501m"},
            FULL,
            Refusal(
                "OutOfcpu",
                "Node didn't have enough resource: cpu, requested: 1501, used: 6500, capacity: 8000",
            ),
            id="a thousandth more",
        ),
        pytest.param(
            {"gpu": "1"},
            FULL,
            Refusal(
                "OutOfnvidia.com/gpu",
                "Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 2, capacity: 2",
            ),
            id="a device that is taken",
        ),
        pytest.param({"nic": "5"}, [], None, id="a resource that the node does not know"),
        pytest.param({}, [pod(container(cpu="9"))], None, id="nothing, of a node that has too little"),
        pytest.param(
            {"cpu": "9", "memory": "17Gi"},
            [],
            Refusal(
                "OutOfcpu", "Node didn't have enough resource: cpu, requested: 9000, used: 0, capacity: 8000"
            ),
            id="two resources too many, of which the first is told",
        ),
        pytest.param(
            {},
            [pod(container())] * 3,
            Refusal(
                "OutOfpods", "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"
            ),
            id="one pod too many",
        ),
    ],
)
def test_first_short_resource_is_named(
    asked: dict[str, str], others: list[Json], expected: Refusal | None
) -> None:
    assert refusal(pod(container(**asked)), others, NODE) == expected


@pytest.mark.parametrize(
    ("asking", "expected"),
    [
        pytest.param(pod(container(cpu="1"), container(cpu="2")), 3000, id="containers add up"),
        pytest.param(
            pod(container(cpu="2"), initContainers=[container(cpu="5"), container(cpu="1")]),
            5000,
            id="an init container that asks for more",
        ),
        pytest.param(
            pod(
                container(cpu="2"),
                initContainers=[{**container(cpu="1"), "restartPolicy": "Always"}, container(cpu="4")],
            ),
            5000,
            id="an init container beside a sidecar",
        ),
        pytest.param(
            pod(container(cpu="2"), initContainers=[{**container(cpu="1"), "restartPolicy": "Always"}]),
            3000,
            id="a sidecar goes on",
        ),
        pytest.param(pod(container(cpu="2"), overhead={"cpu": "250m"}), 2250, id="overhead comes on top"),
        pytest.param(
            pod(container(cpu="2"), resources={"requests": {"cpu": "6"}}),
            6000,
            id="the pod speaks for itself",
        ),
        pytest.param(
            pod({"name": "c", "resources": {"limits": {"cpu": "3"}}}), 3000, id="a limit without a request"
        ),
    ],
)
def test_pod_requests_are_those_needed_at_once(asking: Json, expected: int) -> None:
    assert requests(asking)["cpu"] == expected
