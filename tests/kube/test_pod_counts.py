"""Pods are counted by what they ask for; pods of one template are one kind."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.pod_counts import PodCount, PodCounts
from numalign.model.intent import Policy
from tests.notation import table

Json = dict[str, Any]


def pod(*, cpu: object = "2", policy: str | None = None, phase: str = "Running", **annotations: str) -> Json:
    written = {"numalign.io/policy": policy} if policy else {}
    resources = {"limits": {"cpu": cpu, "memory": "1Gi"}}
    return {
        "metadata": {"annotations": {**written, **annotations}},
        "spec": {"nodeName": "n", "containers": [{"name": "main", "resources": resources}]},
        "status": {"phase": phase},
    }


def counted(pod_counts: PodCounts) -> list[tuple[str, Policy | None, int]]:
    def line(each: PodCount) -> tuple[str, Policy | None, int]:
        return each.namespace, each.request.written.policy, each.count

    return sorted(map(line, pod_counts.counts()), key=lambda each: (each[0], each[1] or "", each[2]))


def test_pods_are_counted_by_namespace_and_by_what_they_ask_for() -> None:
    pod_counts = PodCounts(PodReader())
    for name in "abc":
        pod_counts.put(("team", name), pod(policy="restricted"))
    pod_counts.put(("team", "d"), pod())
    pod_counts.put(("other", "a"), pod(policy="restricted"))

    assert counted(pod_counts) == [
        ("other", Policy.RESTRICTED, 1),
        ("team", None, 1),
        ("team", Policy.RESTRICTED, 3),
    ]


def test_pods_of_one_template_share_what_they_ask_for_wherever_they_run() -> None:
    pod_counts = PodCounts(PodReader())
    pod_counts.put(("team", "a"), pod())
    pod_counts.put(("team", "b"), {**pod(), "spec": {**pod()["spec"], "nodeName": "other"}})
    pod_counts.put(("other", "c"), pod(**{"numalign.io/placement": "[]"}))

    assert len({id(each.request) for each in pod_counts.counts()}) == 1


def test_a_pod_that_is_gone_or_has_ended_is_not_counted() -> None:
    pod_counts = PodCounts(PodReader())
    for name in "abcd":
        pod_counts.put(("team", name), pod())
    pod_counts.drop(("team", "a"))
    pod_counts.drop(("team", "a"))
    pod_counts.put(("team", "b"), pod(phase="Succeeded"))
    pod_counts.put(("team", "c"), pod(phase="Failed"))

    assert counted(pod_counts) == [("team", None, 1)]


def test_a_pod_counts_as_what_it_was_last() -> None:
    pod_counts = PodCounts(PodReader())
    pod_counts.put(("team", "a"), pod())
    pod_counts.put(("team", "a"), pod(policy="restricted"))

    assert counted(pod_counts) == [("team", Policy.RESTRICTED, 1)]


def test_after_a_whole_list_no_other_pods_are_there() -> None:
    pod_counts = PodCounts(PodReader())
    for name in "abc":
        pod_counts.put(("team", name), pod(cpu={"c": "3"}.get(name, "2")))
    pod_counts.keep({("team", "a"), ("team", "never heard of")})

    assert (len(pod_counts), counted(pod_counts)) == (1, [("team", None, 1)])


BROKEN: list[tuple[str, Json]] = [
    ("nothing", {}),
    ("no containers", {"spec": {}}),
    ("an amount that is none", pod(cpu="many")),
    ("an amount that only YAML can write", pod(cpu=10**20)),
    ("annotations that are no object", {**pod(), "metadata": {"annotations": [1]}}),
    ("a spec that is no object", {"spec": "x"}),
    ("a phase that is no text", {"status": {"phase": 1}}),
]  # fmt: skip


@pytest.mark.parametrize("raw", table(BROKEN))
def test_a_pod_that_cannot_be_read_is_not_counted_and_harms_nobody(raw: Json) -> None:
    pod_counts = PodCounts(PodReader())
    pod_counts.put(("team", "good"), pod())
    pod_counts.put(("team", "bad"), raw)

    assert counted(pod_counts)[0] == ("team", None, 1)
    pod_counts.drop(("team", "bad"))
    assert len(pod_counts) == 1


names = st.sampled_from("abcd")
steps = st.one_of(
    st.tuples(st.just("put"), names, st.sampled_from(["1", "2"])),
    st.tuples(st.just("drop"), names, st.none()),
    st.tuples(st.just("keep"), st.sets(names), st.none()),
)


@given(st.lists(steps))
def test_the_count_is_the_number_of_pods_that_are_there(story: list[tuple[str, Any, Any]]) -> None:
    pod_counts, there = PodCounts(PodReader()), dict[str, str]()
    for what, which, cpu in story:
        if what == "put":
            pod_counts.put(("team", which), pod(cpu=cpu))
            there[which] = cpu
        elif what == "drop":
            pod_counts.drop(("team", which))
            there.pop(which, None)
        else:
            pod_counts.keep({("team", name) for name in which})
            there = {name: cpu for name, cpu in there.items() if name in which}

    counts = sorted(each.count for each in pod_counts.counts())
    assert counts == sorted(list(there.values()).count(cpu) for cpu in set(there.values()))
