"""Which pods count as rejected by their kubelet, read from an API server's object or from a watch alike."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.pod_informer import PodInfo, PodInformer
from numalign.kubelet.admission_errors import RejectionReason
from numalign.scheduling import rejected_pods
from numalign.scheduling.rejected_pods import RejectedPod
from tests.worlds.log import RecordedLog
from tests.worlds.notation import table

MESSAGE = "Pod was rejected: Resources cannot be allocated with Topology locality"
NOW = 1_800_000_000
STARTED = "2027-01-15T08:00:00Z"
REASONS = [*map(str, RejectionReason), "OutOfcpu", "NodeAffinity", "Error", ""]


def pod(*, node: str = "a", started: str | None = STARTED, **status: str) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u1", "controller": True}
    metadata = {"name": "web-x", "namespace": "team", "uid": "u2", "ownerReferences": [owner]}
    return {
        "metadata": {**metadata, "creationTimestamp": "2027-01-15T07:59:00Z"},
        "spec": {"nodeName": node, "runtimeClassName": "kata", "containers": []},
        "status": {"phase": "Failed", **({"startTime": started} if started else {}), **status},
    }


def a_pod(**changes: Any) -> RejectedPod:  # noqa: ANN401  those of `pod`
    found = rejected_pods.read(pod(**changes))
    assert found
    return found


@pytest.mark.parametrize(("status", "is_one"), table([
    ("no zone has enough",       {"reason": "TopologyAffinityError"},             True),
    ("the node is full",         {"reason": "OutOfnvidia.com/gpu"},               True),
    ("another reason",           {"reason": "NodeAffinity", "message": MESSAGE},     True),
    ("its container failed",     {"reason": "Error"},                             False),
    ("it was evicted later",     {"reason": "Evicted", "message": "The node was low on memory"}, False),
    ("it has no node",           {"node": "", "reason": "TopologyAffinityError"}, False),
    ("it gives no reason",       {"message": MESSAGE},                               False),
]))  # fmt: skip
def test_a_pod_counts_as_rejected_if(status: dict[str, str], *, is_one: bool) -> None:
    assert (rejected_pods.read(pod(**status)) is not None) is is_one


@pytest.mark.parametrize(("changes", "now", "text"), table([
    ("its message follows", {"message": MESSAGE}, NOW + 250,
     "rejected by a 4 min ago: TopologyAffinityError: Resources cannot be allocated with Topology locality"),
    ("it writes no line of its own", {"message": "no\nok"}, NOW,
     "rejected by a less than a minute ago: TopologyAffinityError: no\ufffdok"),
    ("its clock is ahead", {}, NOW - 90, "rejected by a less than a minute ago: TopologyAffinityError"),
    ("it did not start", {"started": None}, NOW, "rejected by a 1 min ago: TopologyAffinityError"),
]))  # fmt: skip
def test_rejection_has_node_age_and_reason(changes: dict[str, str | None], now: float, text: str) -> None:
    assert a_pod(reason="TopologyAffinityError", **changes).sentence(now) == text


def test_some_reasons_are_about_zones() -> None:
    about = [reason for reason in REASONS[:-2] if a_pod(reason=reason, message=MESSAGE).about_zones]
    assert about == [*RejectionReason]


class Last:
    seen: PodInfo

    def update_pod(self, pod: PodInfo) -> None:
        self.seen = pod

    def remove_pod(self, uid: str) -> None:
        raise AssertionError(uid)


@given(
    st.sampled_from(["Failed", "Running", "Pending"]),
    st.sampled_from(REASONS),
    st.sampled_from(["", "said", MESSAGE, "x" * 5000]),
    st.sampled_from([STARTED, None]),
    st.sampled_from(["", "a"]),
)
def test_a_watched_pod_and_a_stored_one_say_the_same(
    phase: str, reason: str, message: str, started: str | None, node: str
) -> None:
    raw = pod(phase=phase, reason=reason, message=message, started=started, node=node)
    last = Last()
    PodInformer(last, PodReader(), log=RecordedLog().log, registry=CollectorRegistry()).put(raw)
    assert rejected_pods.of_pod(last.seen) == rejected_pods.read(raw)
