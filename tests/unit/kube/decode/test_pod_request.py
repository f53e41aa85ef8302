"""What a pod asks for is read once for all pods that say the same."""

import gc
from collections.abc import Mapping
from typing import Any

import pytest

from numalign.kube.decode.pod_reader import PodReader

Json = dict[str, Any]


def pod(annotations: Mapping[str, object] | None = None, *, cpu: object = "2", **spec: object) -> Json:
    resources = {"limits": {"cpu": cpu, "memory": "1Gi"}}
    return {
        "metadata": {"name": "p", "annotations": dict(annotations or {})},
        "spec": {"containers": [{"name": "c0", "resources": resources}], **spec},
    }


def test_equal_requests_share_one_value() -> None:
    reader = PodReader()
    assert reader.request(pod(cpu="2000m")) is reader.request(pod(cpu=2))


@pytest.mark.full
def test_requests_are_remembered_up_to_a_limit() -> None:
    reader = PodReader(remembered=2)
    first = reader.request(pod(cpu="1m"))
    for number in range(2, 10):
        reader.request(pod(cpu=f"{number}m"))
    gc.collect()
    assert len(reader.caches()["askings"]) == 2
    assert reader.request(pod(cpu="1m")) is first


def test_mistakes_of_a_request_are_limited() -> None:
    wrong = pod(
        {f"numalign.io/{number}": "x" for number in range(9)}, resources={"a b": []}, overhead={"b": []}
    )
    requests = [PodReader().request(wrong, most_mistakes=most) for most in (1, 100)]
    assert [len(each.written.mistakes) for each in requests] == [1, 9]


def test_a_runtime_class_that_is_no_text_is_none() -> None:
    read = [PodReader().request(pod(runtimeClassName=name)) for name in ("kata", 7, None)]
    assert [each.runtime_class for each in read] == ["kata", "", ""]
    assert not any(each.mistakes for each in read)
