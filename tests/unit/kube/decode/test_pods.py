"""Pods from manifests and API servers, and what an API server would refuse (pkg/apis/core/validation)."""

from typing import Any

import pytest

from numalign.kube.decode import pods
from numalign.model.errors import BadPod
from numalign.model.pod import Container, Pod, Role
from tests.worlds.notation import GPU, bag, table
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
    annotations = {"numalign.io/policy": "restricted"}
    main = container(resources={"requests": {"cpu": 4}, "limits": limits})
    written = raw(main, container("helper"), initContainers=inits, resources={"limits": {"cpu": "8"}},
        overhead={"memory": "120Mi"},
        metadata={"name": "web", "namespace": "team", "annotations": annotations})  # fmt: skip
    app = Container("main", Role.APP, bag("cpu=4"), bag("cpu=4 mem=1Gi gpu=1"))
    assert pods.pod(written) == Pod("web", "team", annotations, pod_limits=bag("cpu=8"),
        containers=(Container("setup", Role.INIT, bag("cpu=500m")), Container("proxy", Role.SIDECAR),
            Container("late", Role.INIT), app, Container("helper")),
        overhead=bag("mem=120Mi"))  # fmt: skip


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


HUGE = "hugepages-2Mi"
ONCE = "extended resources cannot be overcommitted"
HUGE_ONCE = "huge pages cannot be overcommitted"
NO_NAME = "is not a resource name to the API server"
BASE = {"cpu": "1", "memory": "1Gi"}


def pod(requests: object, limits: object, *, key: str = "containers") -> dict[str, Any]:
    return {"spec": {key: [{"name": "a", "resources": {"requests": requests, "limits": limits}}]}}


@pytest.mark.parametrize(("requests", "limits"), table([
    # what it shows                   requests                          limits
    ("nothing",                       None,                             None),
    ("a limit alone",                 None,                             {GPU: 1}),
    ("both alike, written otherwise", {GPU: "1"},                       {GPU: 1.0}),
    ("pages",                         BASE,                             {"memory": "1Gi", HUGE: "4Mi"}),
    ("a name in capitals",            None,                             {"example.com/A_b.C-1": 1}),
    ("a resource of Kubernetes",      {"x.kubernetes.io/a": "0.5"},     None),
    ("what rounds up to a whole one", None,                             {GPU: "0.9999"}),
]))  # fmt: skip
def test_resources_are_accepted(requests: object, limits: object) -> None:
    assert pods.api_mistakes(pod(requests, limits)) == ()


@pytest.mark.parametrize("key", ["containers", "initContainers"])
@pytest.mark.parametrize(("requests", "limits", "messages"), table([
    # what it shows, requests, limits, the mistakes
    ("a request alone", {GPU: 1}, BASE, [f"limits[{GPU}]: required: {ONCE}"]),
    ("a lower request", {GPU: 1}, {GPU: 2}, [f"requests[{GPU}]: differs from the limit: {ONCE}"]),
    ("a half", None, {GPU: "0.5"},
     [f"limits[{GPU}]: 0.5 is not a whole number: extended resources have no fractions"]),
    ("requested pages alone", {**BASE, HUGE: "2Mi"}, None, [f"limits.{HUGE}: required: {HUGE_ONCE}"]),
    ("pages of no size", BASE, {"hugepages-big": "3Mi"},
     ["limits.hugepages-big: 3Mi is not a multiple of the page size"]),
    ("pages without memory", None, {HUGE: "2Mi"}, ["huge pages require cpu or memory beside them"]),
    ("a name without domain", None, {"CPU": 1}, [f'limits.CPU: {NO_NAME}; did you mean "cpu"?']),
    ("a domain in capitals", None, {"NVIDIA.com/gpu": 1},
     [f'limits[NVIDIA.com/gpu]: {NO_NAME}; did you mean "{GPU}"?']),
]))  # fmt: skip
def test_resources_are_refused(requests: object, limits: object, messages: list[str], key: str) -> None:
    mistakes = pods.api_mistakes(pod(requests, limits, key=key), {GPU})
    where = f"spec.{key}[0].resources"
    assert [str(mistake).removeprefix(where).lstrip(".: ") for mistake in mistakes] == messages
    assert all(mistake.where.startswith(where) for mistake in mistakes)


def test_unreadable_resources_are_no_mistakes_of_validation() -> None:
    for resources in (None, 7, {"limits": 7}, {"limits": {GPU: "many"}}):
        pods.api_mistakes({"spec": {"containers": [{"resources": resources}, 7]}})
    assert pods.api_mistakes(pod(None, {GPU: "many", HUGE: "x", "cpu": 1})) == ()
    assert pods.api_mistakes({"spec": {"containers": [{}] * 1000}}) == ()
