"""Pods from manifests, from the API server, and out of workloads."""

from typing import Any

import pytest

from numalign.kube.decode import pods
from numalign.model.errors import AND_MORE, MOST_MISTAKES, BadPod
from numalign.model.pod import Container, Pod, Role
from numalign.model.resources import Resources
from tests.worlds.notation import table
from tests.worlds.objects import mistakes

GIB = 2**30


def container(name: str = "main", **fields: object) -> dict[str, Any]:
    return {"name": name, **fields}


def raw(*containers: object, metadata: object = None, **spec: object) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": list(containers), **spec},
    }


def asks(**bags: dict[str, Any]) -> dict[str, Any]:
    return container(resources=bags)


def test_a_pod_is_read_in_the_order_of_the_kubelet() -> None:
    written = raw(
        container(
            resources={"requests": {"cpu": 4}, "limits": {"cpu": "4", "memory": "1Gi", "nvidia.com/gpu": 1}}
        ),
        container("helper"),
        initContainers=[
            container("setup", resources={"requests": {"cpu": "500m"}}),
            container("proxy", restartPolicy="Always"),
            container("late", restartPolicy="OnFailure"),
        ],
        resources={"limits": {"cpu": "8"}},
        overhead={"memory": "120Mi"},
        metadata={"name": "web", "namespace": "team", "annotations": {"numalign.io/policy": "restricted"}},
    )

    assert pods.pod(written) == Pod(
        name="web",
        namespace="team",
        annotations={"numalign.io/policy": "restricted"},
        containers=(
            Container("setup", Role.INIT, requests=Resources({"cpu": 500})),
            Container("proxy", Role.SIDECAR),
            Container("late", Role.INIT),
            Container(
                "main",
                Role.APP,
                requests=Resources({"cpu": 4000}),
                limits=Resources({"cpu": 4000, "memory": GIB, "nvidia.com/gpu": 1}),
            ),
            Container("helper"),
        ),
        pod_requests=None,
        pod_limits=Resources({"cpu": 8000}),
        overhead=Resources({"memory": 120 * 2**20}),
    )


@pytest.mark.parametrize(
    ("metadata", "name", "namespace"),
    [
        ({"name": "a", "namespace": "b"}, "a", "b"),
        ({"generateName": "web-"}, "web-", "default"),
        ({}, "", "default"),
        (None, "", "default"),
    ],
    ids=["both", "still to be named", "empty", "null"],
)
def test_a_pod_may_lack_a_name_and_a_namespace(metadata: object, name: str, namespace: str) -> None:
    read = pods.pod(raw(container(), metadata=metadata))

    assert (read.name, read.namespace) == (name, namespace)


def test_null_counts_as_absent_everywhere() -> None:
    nulls: dict[str, Any] = dict.fromkeys(("initContainers", "resources", "overhead"))
    limits = container(resources={"requests": None, "limits": {"cpu": None}})

    assert pods.pod(raw(limits, container("b", resources=None), **nulls)).containers == (
        Container("main"),
        Container("b"),
    )


MISTAKES = [
    # situation: (pod, every mistake in order)
    ("no pod", [], ["must be an object, not a list", "spec: is missing"]),
    ("nothing", {}, ["spec: is missing"]),
    ("spec null", {"spec": None}, ["spec: is missing"]),
    ("spec a text", {"spec": "x"}, ['spec: must be an object, not "x"']),
    ("metadata a list", raw(container(), metadata=[]), ["metadata: must be an object, not a list"]),
    ("a name that is a number", raw(container(), metadata={"name": 1}),
     ["metadata.name: must be a string, not a number"]),
    ("an annotation that is a number", raw(container(), metadata={"annotations": {"a/b": 1}}),
     ["metadata.annotations[a/b]: must be a string, not a number"]),
    ("no containers", {"spec": {}}, ["spec.containers: is missing"]),
    ("an empty list", raw(), ["spec.containers: is empty: a pod has at least one container"]),
    ("containers an object", {"spec": {"containers": {}}},
     ["spec.containers: must be a list, not an object"]),
    ("containers that are none", raw("a", None),
     ['spec.containers[0]: must be an object, not "a"', "spec.containers[1]: must be an object, not null"]),
    ("no name", raw({}), ["spec.containers[0].name: is missing"]),
    ("an empty name", raw(container("")), ["spec.containers[0].name: is empty"]),
    ("a name twice", raw(container("a"), container("a"), initContainers=[container("a")]),
     ['spec.containers[0].name: "a" is also the name of spec.initContainers[0]',
      'spec.containers[1].name: "a" is also the name of spec.initContainers[0]']),
    ("resources a text", raw(container(resources="4")),
     ['spec.containers[0].resources: must be an object, not "4"']),
    ("limits a list", raw(asks(limits=[])),  # type: ignore[arg-type]
     ["spec.containers[0].resources.limits: must be an object, not a list"]),
    ("a quantity that is none", raw(asks(limits={"memory": "4GB"})),
     [('spec.containers[0].resources.limits.memory: "4GB" is not a quantity; did you mean G or Gi?'
       "\n  4GB\n   ^")]),
    ("a negative quantity", raw(asks(requests={"cpu": "-1"}, limits={"cpu": -1})),
     ['spec.containers[0].resources.requests.cpu: "-1" is negative: an amount is zero or more',
      'spec.containers[0].resources.limits.cpu: "-1" is negative: an amount is zero or more']),
    ("a quantity that is a boolean", raw(asks(limits={"cpu": True})),
     [("spec.containers[0].resources.limits.cpu: True is not a quantity: "
       "write a number or a text like 4 or 500m")]),
    ("a request above its limit",
     raw(asks(requests={"cpu": "2500m", "memory": "2Gi"}, limits={"cpu": 2, "memory": "1Gi"})),
     ["spec.containers[0].resources.requests.cpu: 2500m is above the limit of 2",
      "spec.containers[0].resources.requests.memory: 2Gi is above the limit of 1Gi"]),
    ("the pod's request above its limit",
     raw(container(), resources={"requests": {"cpu": 3}, "limits": {"cpu": 2}}),
     ["spec.resources.requests.cpu: 3 is above the limit of 2"]),
    ("a wrong overhead", raw(container(), overhead={"cpu": []}),
     ["spec.overhead.cpu: must be a quantity, not a list"]),
    ("a restart policy that is none", raw(container(), initContainers=[container("a", restartPolicy=True)]),
     ["spec.initContainers[0].restartPolicy: must be a string, not true or false"]),
]  # fmt: skip


@pytest.mark.parametrize(("written", "expected"), table(MISTAKES))
def test_every_mistake_is_told_with_its_path(written: dict[str, Any], expected: list[str]) -> None:
    assert mistakes(BadPod, pods.pod, written) == expected


def test_mistakes_in_different_places_are_told_together() -> None:
    written = raw(asks(limits={"cpu": "x"}), {}, initContainers="a", metadata={"name": []})

    with pytest.raises(BadPod) as raised:
        pods.pod(written)
    assert [mistake.where for mistake in raised.value.mistakes] == [
        "metadata.name",
        "spec.initContainers",
        "spec.containers[0].resources.limits.cpu",
        "spec.containers[1].name",
    ]


def test_more_containers_than_anyone_has_are_not_reckoned() -> None:
    many = [container(f"c{number}") for number in range(pods.MOST_CONTAINERS + 1)]

    with pytest.raises(BadPod, match=r"^spec\.initContainers: has 101 containers: .* at most 100$"):
        pods.pod(raw(container(), initContainers=many))


def test_more_resources_than_any_node_has_are_not_read() -> None:
    many = {f"example.com/r{number}": 1 for number in range(257)}

    with pytest.raises(BadPod, match=r"resources\.limits: has 257 entries: at most 256 are allowed$"):
        pods.pod(raw(asks(limits=many)))


def amounts(count: int, *, value: object = 1) -> dict[str, object]:
    return {f"example.com/r{number}": value for number in range(count)}


MANY = [container(f"c{number}", resources={"limits": amounts(200)}) for number in range(20)]
"""Containers with 4,000 amounts together."""


def test_a_pod_has_so_many_amounts_together_and_no_more() -> None:
    rest = {"resources": {"requests": amounts(40), "limits": amounts(40)}, "overhead": amounts(16)}

    assert len(pods.pod(raw(*MANY, **rest)).containers) == 20
    with pytest.raises(BadPod) as raised:
        pods.pod(raw(*MANY, initContainers=[asks(requests=amounts(1, value="wrong"))], **rest))
    assert str(raised.value) == "spec: has 4097 resource quantities: numalign supports at most 4096"


def test_of_many_mistakes_the_first_are_told() -> None:
    with pytest.raises(BadPod) as raised:
        pods.pod(raw(asks(limits=amounts(256, value="x"))))

    [*told, last] = raised.value.mistakes
    assert (len(told), last) == (MOST_MISTAKES, AND_MORE)


def test_a_name_that_no_resource_has_is_not_read() -> None:
    longest = "x" * 253 + "/" + "y" * 63
    assert dict(pods.pod(raw(asks(limits={longest: 1}))).containers[0].limits) == {longest: 1}

    with pytest.raises(
        BadPod, match=r"limits\[x+\.\.\.\]: is not a resource name: at most 317 .* allowed, not 318$"
    ):
        pods.pod(raw(asks(limits={f"{longest}y": 1})))
