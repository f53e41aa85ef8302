"""A pod whose spec was resized is what its kubelet admitted."""

from typing import Any

import pytest
from hypothesis import given

from numalign.kube.decode.pods import admitted
from tests.worlds.notation import table
from tests.worlds.objects import Json
from tests.worlds.scraps import documents


def pod(spec: Json, status: Json) -> Json:
    return {"metadata": {"name": "a"}, "spec": spec, "status": {"qosClass": "Guaranteed", **status}}


def container(name: str, **amounts: str) -> Json:
    return {"name": name, "resources": {"requests": dict(amounts), "limits": dict(amounts)}}


def allocated(name: str, **amounts: str) -> Json:
    return {"name": name, "allocatedResources": dict(amounts)}


def test_a_refused_resize_leaves_the_allocated_amounts() -> None:
    side, statuses = container("side", cpu="1", memory="1Gi"), [allocated("side", cpu="1", memory="1Gi")]
    resized = pod(
        {"containers": [container("main", cpu="3", memory="1Gi"), side]},
        {"containerStatuses": [*statuses, allocated("main", cpu="2", memory="1Gi")]},
    )
    found: Any = admitted(resized)
    assert found["spec"]["containers"] == [container("main", cpu="2", memory="1Gi"), side]
    assert found["metadata"] == resized["metadata"]
    assert resized["spec"]["containers"][0] == container("main", cpu="3", memory="1Gi")


@pytest.mark.parametrize("status", table([
    ("nothing is allocated",           {}),
    ("it was not resized",             {"containerStatuses": [allocated("a", cpu="2")]}),
    ("another container is allocated", {"containerStatuses": [allocated("b", cpu="1")]}),
    ("it has nothing of its own",
        {"qosClass": "Burstable", "containerStatuses": [allocated("a", cpu="1")]}),
]))  # fmt: skip
def test_any_other_pod_is_the_same(status: Json) -> None:
    same = pod({"containers": [container("a", cpu="2")]}, status)
    assert admitted(same) is same


GOOD = pod({"containers": [container("a", cpu="3"), container("b")], "initContainers": [container("c")]},
    {"containerStatuses": [allocated("a", cpu="2")]})  # fmt: skip


@given(documents(GOOD).filter(lambda pod: isinstance(pod, dict)))
def test_any_pod_is_read(pod: Json) -> None:
    admitted(pod)
