"""Pods from manifests, from the API server, and out of workloads."""

from typing import Any

import pytest

from numalign.kube.decode import pods
from numalign.model.errors import BadPod
from numalign.model.pod import Container, Pod, Role
from tests.worlds.notation import bag, table
from tests.worlds.objects import mistakes


def container(name: str = "main", **fields: object) -> dict[str, Any]:
    return {"name": name, **fields}


def raw(*containers: object, metadata: object = None, **spec: object) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {"containers": list(containers), **spec}}  # fmt: skip


def with_resources(**bags: dict[str, Any]) -> dict[str, Any]:
    return container(resources=bags)


def test_a_pod_is_read_in_the_order_of_the_kubelet() -> None:
    limits = {"cpu": "4", "memory": "1Gi", "nvidia.com/gpu": 1}
    inits = [container("setup", resources={"requests": {"cpu": "500m"}}),
        container("proxy", restartPolicy="Always"), container("late", restartPolicy="OnFailure")]  # fmt: skip
    metadata = {"name": "web", "namespace": "team", "annotations": {"numalign.io/policy": "restricted"}}
    main = container(resources={"requests": {"cpu": 4}, "limits": limits})
    written = raw(main, container("helper"), initContainers=inits, resources={"limits": {"cpu": "8"}},
        overhead={"memory": "120Mi"}, metadata=metadata)  # fmt: skip
    assert pods.pod(written) == Pod(**metadata, pod_limits=bag("cpu=8"), overhead=bag("mem=120Mi"),
        containers=(Container("setup", Role.INIT, bag("cpu=500m")), Container("proxy", Role.SIDECAR),
            Container("late", Role.INIT), Container("main", Role.APP, bag("cpu=4"),
                bag("cpu=4 mem=1Gi gpu=1")), Container("helper")))  # fmt: skip


def amounts(count: int, *, value: object = 1) -> dict[str, object]:
    return {f"example.com/r{number}": value for number in range(count)}


@pytest.mark.parametrize(("written", "expected"), table([
    # situation: (pod, every mistake in order)
    ("an empty list", raw(), ["spec.containers: is empty: a pod has at least one container"]),
    ("too many resources", raw(with_resources(limits=amounts(257))),
     ["spec.containers[0].resources.limits: has 257 entries: at most 256 are allowed"]),
    ("too many containers", raw(*[container()] * 101),
     ["spec.containers: has 101 containers: numalign supports at most 100"]),
    ("a name twice", raw(container("a"), container("a"), initContainers=[container("a")]),
     ['spec.containers[0].name: "a" is also the name of spec.initContainers[0]',
      'spec.containers[1].name: "a" is also the name of spec.initContainers[0]']),
    ("a quantity that is none", raw(with_resources(limits={"memory": "4GB"})),
     [('spec.containers[0].resources.limits.memory: "4GB" is not a quantity; did you mean G or Gi?'
       "\n  4GB\n   ^")]),
    ("a request above its limit",
     raw(with_resources(requests={"cpu": "2500m", "memory": "2Gi"}, limits={"cpu": 2, "memory": "1Gi"})),
     ["spec.containers[0].resources.requests.cpu: 2500m is above the limit of 2",
      "spec.containers[0].resources.requests.memory: 2Gi is above the limit of 1Gi"]),
    ("the pod's request above its limit",
     raw(container(), resources={"requests": {"cpu": 3}, "limits": {"cpu": 2}}),
     ["spec.resources.requests.cpu: 3 is above the limit of 2"]),
]))  # fmt: skip
def test_mistakes_have_their_places(written: dict[str, Any], expected: list[str]) -> None:
    assert mistakes(BadPod, pods.pod, written) == expected


MANY = [container(f"c{number}", resources={"limits": amounts(200)}) for number in range(20)]
"""Containers with 4,000 amounts together."""


def test_amounts_of_a_pod_are_limited() -> None:
    others = {"resources": {"requests": amounts(40), "limits": amounts(40)}, "overhead": amounts(16)}
    assert len(pods.pod(raw(*MANY, **others)).containers) == 20
    with pytest.raises(BadPod) as raised:
        pods.pod(raw(*MANY, initContainers=[with_resources(requests=amounts(1, value="wrong"))], **others))
    assert str(raised.value) == "spec: has 4097 resource quantities: numalign supports at most 4096"


def test_a_too_long_name_is_no_resource() -> None:
    longest = "x" * 253 + "/" + "y" * 63
    assert dict(pods.pod(raw(with_resources(limits={longest: 1}))).containers[0].limits) == {longest: 1}
    with pytest.raises(
        BadPod, match=r"limits\[x+\.\.\.\]: is not a resource name: at most 317 .* allowed, not 318$"
    ):
        pods.pod(raw(with_resources(limits={f"{longest}y": 1})))
