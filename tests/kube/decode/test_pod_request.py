"""What a pod asks for is read once for all pods that say the same."""

import gc
from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kube.decode import pods
from numalign.kube.decode.placement_records import KAI_OBSERVED, KAI_PREDICTED
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.decode.pod_request import PodRequest
from numalign.kube.kinds import PODS
from numalign.lru import MOST_BYTES
from numalign.model.intent import PLACEMENT, PLACEMENT_OBSERVED, IntentAnnotations, Policy
from tests.notation import asks

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


OF_ONE_POD: dict[str, Json] = {
    "the node it is on": pod(POLICY, nodeName="n"),
    "its name": {**pod(POLICY), "metadata": {"name": "other", "annotations": POLICY}},
    "its state": {**pod(POLICY), "status": {"phase": "Running"}},
    "what was recorded": pod({**POLICY, PLACEMENT: "[]"}),
    "what was observed": pod({**POLICY, PLACEMENT_OBSERVED: "[]"}),
    "what somebody else observed": pod({**POLICY, KAI_OBSERVED: "[]", KAI_PREDICTED: "[]"}),
    "what nobody reads": pod(POLICY, hostname="p-1", volumes=[{"name": "token-x7"}]),
    "an annotation of others": pod({**POLICY, "volcano.sh/task-index": "7"}),
}


@pytest.mark.parametrize("other", OF_ONE_POD.values(), ids=OF_ONE_POD)
def test_what_is_of_one_pod_alone_makes_no_other_kind_of_pod(other: Json) -> None:
    reader = PodReader()
    first = reader.request(pod(POLICY))

    assert reader.request(other) is first
    assert reader.request(PODS.described(other)) is first


def test_what_is_written_differently_and_means_the_same_is_one() -> None:
    reader = PodReader()

    assert reader.request(pod(cpu="2000m")) is reader.request(pod(cpu=2))


def test_no_more_is_remembered_than_may_be_and_what_somebody_holds_stays_one() -> None:
    reader = PodReader(remembered=2)
    held = reader.request(pod(cpu="1m"))
    for number in range(2, 10):
        reader.request(pod(cpu=f"{number}m"))
    gc.collect()

    assert len(reader.caches()["askings"]) == 2
    assert reader.request(pod(cpu="1m")) is held


def large(number: int) -> Json:
    """A pod of a quarter of a megabyte with a thousand amounts."""
    names = [f"example.com/{number}-{'x' * 200}-{at}" for at in range(1000)]
    bags = [dict.fromkeys(names[at::5], "1") for at in range(5)]
    return pod(containers=[{"name": f"c{at}", "resources": {"limits": bag}} for at, bag in enumerate(bags)])


def test_what_is_large_is_read_once_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Mock(side_effect=pods.pod)
    monkeypatch.setattr(pods, "pod", read)
    reader, many = PodReader(), pod(containers=[{} for _ in range(50_000)])
    held = [reader.request(each) for each in (large(1), large(1), many, many)]

    assert held[0].demand
    assert held == [held[0], held[0], held[2], held[2]]
    assert held[2].demand is None
    assert read.call_count == 2


def test_what_nobody_holds_is_remembered_within_a_bound() -> None:
    reader = PodReader()
    for number in range(60):
        reader.request(large(number))
        reader.request(pod({"numalign.io/policy": str(number) * 10_000}))
    gc.collect()

    cache = reader.caches()["askings"]
    assert cache.bytes <= MOST_BYTES
    assert 10 < len(cache) < 120


BROKEN: dict[str, tuple[object, list[str]]] = {
    # situation: (pod, every mistake)
    "nothing": ({}, ["spec: is missing"]),
    "no object": ([1], ["must be an object, not a list", "spec: is missing"]),
    "a spec that is none": (
        {"spec": "x"},
        ['spec: must be an object, not "x"'],
    ),
    "amounts and annotations alike": (
        pod({"numalign.io/policy": "tight"}, cpu="-1"),
        [
            'spec.containers[0].resources.limits.cpu: "-1" is negative: an amount is zero or more',
            'metadata.annotations[numalign.io/policy]: "tight" is none of the known words; one of none,',
        ],
    ),
    "an annotation that is no text": (
        pod({"numalign.io/policy": 1}),
        ["metadata.annotations[numalign.io/policy]: must be a text, not a number"],
    ),
    "annotations that are a list": (
        {**pod(), "metadata": {"annotations": [1]}},
        ["metadata.annotations: must be an object, not a list"],
    ),
    "a number that only YAML can write": (
        pod(cpu=10**20),
        [
            (
                "spec.containers[0].resources.limits.cpu: "
                '"100000000000000000000" is larger than any amount (2^63-1 units)'
            )
        ],
    ),
}


@pytest.mark.parametrize(("raw", "mistakes"), BROKEN.values(), ids=BROKEN)
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


SCRAPS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "c0", "2", "restricted"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "resources", "limits", "requests", "cpu", "annotations", "containers"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), SCRAPS) | SCRAPS)
def test_whatever_is_written_is_read_or_told(raw: object) -> None:
    reader = PodReader()

    read = reader.request(raw)

    assert bool(read.unreadable) == (read.demand is None)
    assert reader.request(raw) is read


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
