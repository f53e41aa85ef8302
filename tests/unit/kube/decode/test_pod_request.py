"""What a pod asks for is read once for all pods that say the same."""

import gc
from collections.abc import Mapping
from typing import Any

import pytest

from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.decode.pod_request import PodRequest
from numalign.model.intent import IntentAnnotations, Policy
from tests.worlds.notation import asks, table

Json = dict[str, Any]


def pod(annotations: Mapping[str, object] | None = None, *, cpu: object = "2", **spec: object) -> Json:
    resources = {"limits": {"cpu": cpu, "memory": "1Gi"}}
    return {
        "metadata": {"name": "p", "annotations": dict(annotations or {})},
        "spec": {"containers": [{"name": "c0", "resources": resources}], **spec},
    }


POLICY = {"numalign.io/policy": "restricted"}


def test_a_pod_asks_for_what_its_containers_and_its_annotations_say() -> None:
    assert PodReader().request(pod(POLICY)) == PodRequest(
        asks("cpu=2 mem=1Gi"), IntentAnnotations(Policy.RESTRICTED)
    )


def test_a_pod_whose_annotations_say_nothing_has_no_intent() -> None:
    assert PodReader().request(pod()) == PodRequest(asks("cpu=2 mem=1Gi"), IntentAnnotations())


def test_what_is_written_differently_and_means_the_same_is_one() -> None:
    reader = PodReader()

    assert reader.request(pod(cpu="2000m")) is reader.request(pod(cpu=2))


@pytest.mark.full
def test_no_more_is_remembered_than_may_be_and_what_somebody_holds_stays_one() -> None:
    reader = PodReader(remembered=2)
    held = reader.request(pod(cpu="1m"))
    for number in range(2, 10):
        reader.request(pod(cpu=f"{number}m"))
    gc.collect()

    assert len(reader.caches()["askings"]) == 2
    assert reader.request(pod(cpu="1m")) is held


BROKEN: list[tuple[str, object, list[str]]] = [
    # situation: (pod, every mistake)
    ("nothing", {}, ["spec: is missing"]),
    ("no object", [1], ["must be an object, not a list", "spec: is missing"]),
    ("a spec that is none", {"spec": "x"}, ['spec: must be an object, not "x"']),
    ("amounts and annotations alike", pod({"numalign.io/policy": "tight"}, cpu="-1"),
     ['spec.containers[0].resources.limits.cpu: "-1" is negative: an amount is zero or more',
      'metadata.annotations[numalign.io/policy]: "tight" is not a known value; expected one of none,']),
    ("an annotation that is no text", pod({"numalign.io/policy": 1}),
     ["metadata.annotations[numalign.io/policy]: must be a string, not a number"]),
    ("annotations that are a list", {**pod(), "metadata": {"annotations": [1]}},
     ["metadata.annotations: must be an object, not a list"]),
    ("beside a number that only YAML can write", pod({"numalign.io/policy": "tight"}, cpu=10**20),
     ['metadata.annotations[numalign.io/policy]: "tight" is not a known value; expected one of none,']),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "mistakes"), table(BROKEN))
def test_who_has_to_answer_is_told_every_mistake_again_and_again(raw: object, mistakes: list[str]) -> None:
    reader = PodReader()
    for _ in range(2):
        told = [str(mistake) for mistake in reader.request(raw).mistakes]
        assert [each[: len(expected)] for each, expected in zip(told, mistakes, strict=True)] == mistakes


def test_a_nesting_that_no_json_has_is_read_all_the_same() -> None:
    deep: object = "x"
    for _ in range(500):
        deep = [deep]
    reader = PodReader()

    assert reader.request(pod(overhead=deep)).demand is None
    assert reader.request(pod(containers=deep)).demand is None
    assert reader.request(pod(volumes=deep)) == reader.request(pod())


def test_no_more_mistakes_are_kept_than_may_be() -> None:
    wrong = pod(
        {f"numalign.io/{number}": "x" for number in range(9)}, resources={"a b": []}, overhead={"b": []}
    )

    kept = [PodReader().request(wrong, most_mistakes=most) for most in (1, 100)]

    assert [len(each.written.mistakes) for each in kept] == [1, 9]


def test_a_runtime_class_is_read_and_one_that_is_none_is_nobodys() -> None:
    read = [PodReader().request(pod(runtimeClassName=name)) for name in ("kata", 7, None)]

    assert [each.runtime_class for each in read] == ["kata", "", ""]
    assert not any(each.mistakes for each in read)
