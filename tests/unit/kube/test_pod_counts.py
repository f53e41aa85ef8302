"""Pods are counted as they come and go, by the judgement on their summary."""

from collections import Counter
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.decode.pod_request import MOST_CHARACTERS, MOST_NAMES, PodRequest
from numalign.kube.pod_counts import Judge, PodCounts
from tests.worlds.notation import table
from tests.worlds.objects import Json


def pod(*, cpu: object = "2", policy: str | None = None, phase: str = "Running", **more: str) -> Json:
    written = {"numalign.io/policy": policy} if policy else {}
    resources = {"limits": {"cpu": cpu, "memory": "1Gi", **{k: v for k, v in more.items() if k[0] == "x"}}}
    return {
        "metadata": {"annotations": {**written, **{k: v for k, v in more.items() if k[0] == "n"}}},
        "spec": {"nodeName": "n", "containers": [{"name": "main", "resources": resources}]},
        "status": {"phase": phase},
    }


def by_policy(_namespace: str, request: PodRequest) -> tuple[str, ...]:
    return (request.written.policy or "silent",)


def counting(judge: Judge = by_policy, *pods: Json) -> PodCounts:
    """The counts of pods with the names a, b, c and so on, in one namespace."""
    pod_counts = PodCounts(PodReader())
    assert [*pod_counts.judge_by(judge)] == []
    for name, each in zip("abcd", pods, strict=False):
        pod_counts.put(("team", name), each)
    return pod_counts


def test_pods_of_one_summary_share_it() -> None:
    judge = Mock(return_value=())
    counting(judge, pod(), pod(cpu="4"), pod(**{"numalign.io/placement": "[]"}))
    assert len({id(call.args[1]) for call in judge.call_args_list}) == 1


def test_another_judge_counts_pods_step_by_step() -> None:
    pod_counts = counting(by_policy, *[pod()] * 3)
    steps = pod_counts.judge_by(lambda *_: ("new",))
    next(steps)
    pod_counts.drop(("team", "b"))
    between = dict(pod_counts.sums)
    finished = [*steps]
    assert (between, len(finished)) == ({("team", "new"): 1, ("team", "silent"): 1}, 2)
    assert pod_counts.sums == {("team", "new"): 2}


def test_a_too_large_pod_is_not_judged() -> None:
    pod_counts = counting()
    pod_counts.put(("team", "a"), pod(**{f"x.io/{at}": "1" for at in range(MOST_NAMES)}))
    long = f"x{'n' * 250}.io/"
    pod_counts.put(("team", "b"), pod(**{f"{long}{at}": "1" for at in range(MOST_CHARACTERS // len(long))}))
    assert (len(pod_counts), pod_counts.too_large, pod_counts.sums) == (2, {("team", "a"), ("team", "b")}, {})
    pod_counts.put(("team", "a"), pod())
    pod_counts.keep({("team", "a")})
    assert (len(pod_counts), pod_counts.too_large, pod_counts.sums) == (1, set(), {("team", "silent"): 1})


def test_removed_and_ended_pods_are_not_counted() -> None:
    pod_counts = counting(by_policy, *[pod()] * 4)
    pod_counts.drop(("team", "a"))
    pod_counts.drop(("team", "a"))
    pod_counts.put(("team", "b"), pod(phase="Succeeded"))
    pod_counts.put(("team", "c"), pod(phase="Failed"))
    assert pod_counts.sums == {("team", "silent"): 1}


@pytest.mark.parametrize("raw", table([
    ("nothing", {}),
    ("an amount that is none", pod(cpu="many")),
    ("an amount that only YAML can write", pod(cpu=10**20)),
    ("annotations that are no object", {**pod(), "metadata": {"annotations": [1]}}),
]))  # fmt: skip
def test_an_unreadable_pod_is_not_counted(raw: Json) -> None:
    pod_counts = counting(by_policy, pod(), raw)
    pod_counts.drop(("team", "b"))
    assert pod_counts.sums == {("team", "silent"): 1}


names = st.sampled_from("abcd")
steps = st.one_of(
    st.tuples(st.just("put"), names, st.sampled_from(["restricted", "best-effort"])),
    st.tuples(st.just("drop"), names, st.none()),
    st.tuples(st.just("keep"), st.sets(names), st.none()),
)


@given(st.lists(steps))
def test_the_counts_are_those_of_the_pods(story: list[tuple[str, Any, Any]]) -> None:
    pod_counts, policies = counting(), dict[str, str]()
    for what, which, policy in story:
        if what == "put":
            pod_counts.put(("team", which), pod(policy=policy))
            policies[which] = policy
        elif what == "drop":
            pod_counts.drop(("team", which))
            policies.pop(which, None)
        else:
            pod_counts.keep({("team", name) for name in which})
            policies = {name: policy for name, policy in policies.items() if name in which}
    assert pod_counts.sums == Counter(("team", policy) for policy in policies.values())


def on_node(node: str, cpu: object) -> Json:
    made = pod(cpu=cpu, phase="Running" if node else "Pending")
    return {**made, "spec": {**made["spec"], "nodeName": node}}


def cpus(pod_counts: PodCounts, namespace: str = "team", *, without: str = "") -> tuple[int, int]:
    """The exclusive CPUs on nodes, of which `shared` pins none, and those of pods without one."""
    return pod_counts.exclusive_cpus(namespace, unpinned=frozenset({"shared"}), without=(namespace, without))


def test_exclusive_cpus_with_and_without_a_node() -> None:
    on_nodes = on_node("n", "4"), on_node("", "2"), on_node("n", "1500m"), on_node("shared", "16")
    pod_counts = counting(by_policy, *on_nodes)
    pod_counts.put(("other", "a"), on_node("n", "8"))
    pod_counts.put(("team", "done"), pod(cpu="4", phase="Succeeded"))
    assert (cpus(pod_counts), cpus(pod_counts, "other"), cpus(pod_counts, "none")) == ((4, 2), (8, 0), (0, 0))
    assert [cpus(pod_counts, without=name) for name in "abcd"] == [(0, 2), (4, 0), (4, 2), (4, 2)]


def test_exclusive_cpus_follow_the_pods() -> None:
    pod_counts = counting(by_policy, on_node("", "4"), on_node("n", "2"))
    pod_counts.put(("team", "a"), on_node("n", "4"))
    assert [*pod_counts.judge_by(by_policy)]
    assert cpus(pod_counts) == (6, 0)
    pod_counts.put(("team", "b"), pod(cpu="2", phase="Failed"))
    assert cpus(pod_counts) == (4, 0)
    pod_counts.keep(set())
    assert cpus(pod_counts) == (0, 0)
