"""Pods are counted by what they ask for; pods of one template are one kind."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cluster.census import Census, Tenants
from numalign.rules.intent import Policy

Json = dict[str, Any]


def pod(*, cpu: object = "2", policy: str | None = None, phase: str = "Running", **annotations: str) -> Json:
    written = {"numalign.io/policy": policy} if policy else {}
    resources = {"limits": {"cpu": cpu, "memory": "1Gi"}}
    return {
        "metadata": {"annotations": {**written, **annotations}},
        "spec": {"nodeName": "n", "containers": [{"name": "main", "resources": resources}]},
        "status": {"phase": phase},
    }


def counted(census: Census) -> list[tuple[str, Policy | None, int]]:
    def line(each: Tenants) -> tuple[str, Policy | None, int]:
        return each.namespace, each.asking.written.policy, each.count

    return sorted(map(line, census.tenants()), key=lambda each: (each[0], each[1] or "", each[2]))


def test_pods_are_counted_by_namespace_and_by_what_they_ask_for() -> None:
    census = Census()
    for name in "abc":
        census.put(("team", name), pod(policy="restricted"))
    census.put(("team", "d"), pod())
    census.put(("other", "a"), pod(policy="restricted"))

    assert counted(census) == [
        ("other", Policy.RESTRICTED, 1),
        ("team", None, 1),
        ("team", Policy.RESTRICTED, 3),
    ]


def test_pods_of_one_template_share_what_they_ask_for_wherever_they_run() -> None:
    census = Census()
    census.put(("team", "a"), pod())
    census.put(("team", "b"), {**pod(), "spec": {**pod()["spec"], "nodeName": "other"}})
    census.put(("other", "c"), pod(**{"numalign.io/placement": "[]"}))

    assert len({id(each.asking) for each in census.tenants()}) == 1


def test_a_pod_that_is_gone_or_has_ended_is_not_counted() -> None:
    census = Census()
    for name in "abcd":
        census.put(("team", name), pod())
    census.drop(("team", "a"))
    census.drop(("team", "a"))
    census.put(("team", "b"), pod(phase="Succeeded"))
    census.put(("team", "c"), pod(phase="Failed"))

    assert counted(census) == [("team", None, 1)]


def test_a_pod_counts_as_what_it_was_last() -> None:
    census = Census()
    census.put(("team", "a"), pod())
    census.put(("team", "a"), pod(policy="restricted"))

    assert counted(census) == [("team", Policy.RESTRICTED, 1)]


def test_after_a_whole_list_no_other_pods_are_there() -> None:
    census = Census()
    for name in "abc":
        census.put(("team", name), pod(cpu={"c": "3"}.get(name, "2")))
    census.keep({("team", "a"), ("team", "never heard of")})

    assert (len(census), counted(census)) == (1, [("team", None, 1)])


BROKEN: dict[str, Json] = {
    "nothing": {},
    "no containers": {"spec": {}},
    "an amount that is none": pod(cpu="many"),
    "an amount that only YAML can write": pod(cpu=10**20),
    "annotations that are no object": {**pod(), "metadata": {"annotations": [1]}},
    "a spec that is no object": {"spec": "x"},
    "a phase that is no text": {"status": {"phase": 1}},
}


@pytest.mark.parametrize("raw", BROKEN.values(), ids=BROKEN)
def test_a_pod_that_cannot_be_read_is_not_counted_and_harms_nobody(raw: Json) -> None:
    census = Census()
    census.put(("team", "good"), pod())
    census.put(("team", "bad"), raw)

    assert counted(census)[0] == ("team", None, 1)
    census.drop(("team", "bad"))
    assert len(census) == 1


names = st.sampled_from("abcd")
steps = st.one_of(
    st.tuples(st.just("put"), names, st.sampled_from(["1", "2"])),
    st.tuples(st.just("drop"), names, st.none()),
    st.tuples(st.just("keep"), st.sets(names), st.none()),
)


@given(st.lists(steps))
def test_the_count_is_the_number_of_pods_that_are_there(story: list[tuple[str, Any, Any]]) -> None:
    census, there = Census(), dict[str, str]()
    for what, which, cpu in story:
        if what == "put":
            census.put(("team", which), pod(cpu=cpu))
            there[which] = cpu
        elif what == "drop":
            census.drop(("team", which))
            there.pop(which, None)
        else:
            census.keep({("team", name) for name in which})
            there = {name: cpu for name, cpu in there.items() if name in which}

    counts = sorted(each.count for each in census.tenants())
    assert counts == sorted(list(there.values()).count(cpu) for cpu in set(there.values()))
