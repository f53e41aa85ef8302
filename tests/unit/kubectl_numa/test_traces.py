"""Who wrote a topology, which pods request alignment, and clocks, out of objects of any form."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_numa.diagnosis import Skew, Traces
from kubectl_numa.traces import traces
from numalign.kube.kinds import PODS_IN_FILES, READY_KEY
from tests.worlds import objects
from tests.worlds.notation import table
from tests.worlds.objects import Json, listed

ZONES: Json = {"f:zones": {}}
NOTES: Json = {"f:metadata": {"f:annotations": {}}}
EARLY, TIME, LATER = "2026-11-28T11:58:00Z", "2026-11-28T12:00:00Z", "2026-11-28T12:03:00Z"


def topology(*fields: tuple[str, Json]) -> Json:
    """The topology of node a, with what each manager wrote."""
    managed = [{"manager": manager, "fieldsV1": written} for manager, written in fields]
    made = objects.nrt("a")
    return {**made, "metadata": {**made["metadata"], "managedFields": managed}}


def pod(policy: str = "restricted", *, node: str = "a", phase: str = "Running") -> Json:
    made = objects.pod("p", namespace="team", spec={"nodeName": node}, status={"phase": phase})
    made["metadata"]["annotations"] = {"numalign.io/policy": policy} if policy else {}
    return made


def beating(heartbeat: str, *, status: str = "True", key: str = READY_KEY, by: str = "kubelet") -> Json:
    """Node a, whose heartbeat at one time was written at another."""
    fields: Json = {"f:status": {"f:conditions": {key: {"f:lastHeartbeatTime": {}}}}}
    beat = {"manager": by, "time": TIME, "fieldsV1": fields}
    managed = [{"manager": by, "time": LATER, "fieldsV1": {"f:spec": {}}}, beat]
    condition = {"type": "Ready", "status": status, "lastHeartbeatTime": heartbeat}
    made = objects.node("a")
    return {
        **made,
        "metadata": {"name": "a", "managedFields": managed},
        "status": {"conditions": [condition]},
    }


def ran(created: str, started: str, *, bound: str | None = None, owner: str = "ReplicaSet") -> Json:
    """A pod on node a, with its times."""
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": bound}
    status = {"startTime": started, "conditions": [scheduled] if bound else []}
    made = objects.pod("p", namespace="team", spec={"nodeName": "a"}, status=status)
    reference = {"kind": owner, "apiVersion": "v1", "name": "x", "uid": "x", "controller": True}
    made["metadata"] |= {"creationTimestamp": created, "ownerReferences": [reference]}
    return made


BEHIND, AHEAD = beating(EARLY), beating(LATER)
EARLY_START = ran(TIME, EARLY)


def skews(seconds: int, *, measured: bool = True) -> Traces:
    return Traces(skews={"a": Skew(seconds, measured)})


def writers(*names: str) -> Traces:
    return Traces(writers={"a": [*names]})


ASKING = Traces(asking={"a": ["team/p"]})
CASES: list[tuple[str, list[Json], Traces]] = [
    ("two that wrote zones", [topology(("rte", ZONES), ("nfd", ZONES))], writers("nfd", "rte")),
    ("one that wrote attributes", [topology(("nfd", ZONES), ("rte", {"f:attributes": {}}))],
        writers("nfd", "rte")),
    ("one that wrote annotations", [topology(("nfd", ZONES), ("agent", NOTES))], writers("nfd")),
    ("a pod with a policy", [listed(pod())], ASKING),
    ("a pod without a policy", [listed(pod(""))], Traces()),
    ("a pod that ended", [listed(pod(phase="Failed"))], Traces()),
    ("a heartbeat before its write", [BEHIND], skews(-120)),
    ("a heartbeat after its write", [AHEAD], skews(180)),
    ("an old heartbeat", [beating(EARLY, status="Unknown")], Traces()),
    ("a write of something else", [beating(EARLY, key="k:x")], Traces()),
    ("a later write of more than a kubelet", [beating(EARLY, by="k3s")], Traces()),
    ("a heartbeat after a write of more than a kubelet", [beating(LATER, by="k3s")], skews(180)),
    ("a start before the creation", [EARLY_START], skews(-120, measured=False)),
    ("a start before the bind", [ran(EARLY, TIME, bound=LATER)], skews(-180, measured=False)),
    ("a start after the creation", [ran(EARLY, TIME)], Traces()),
    ("a later start in time", [EARLY_START, ran(LATER, LATER)], Traces()),
    ("a static pod", [ran(TIME, EARLY, owner="Node")], Traces()),
    ("both, of which one is exact", [EARLY_START, AHEAD], skews(180)),
    ("a pod of a running cluster", [PODS_IN_FILES.described(EARLY_START)], skews(-120, measured=False)),
]  # fmt: skip


@pytest.mark.parametrize(("made", "expected"), table(CASES))
def test_objects_leave_traces(made: list[Json], expected: Traces) -> None:
    assert traces(made) == expected


KEYS = ["metadata", "managedFields", "fieldsV1", "manager", "annotations", "spec", "nodeName"]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=12,
)


@given(ANYTHING, st.sampled_from([topology(), pod()]))
def test_malformed_objects_leave_no_traces(value: Any, made: Json) -> None:  # noqa: ANN401  any value
    result = traces([value, {**made, "metadata": value}, {**made, "spec": value}])

    assert {*result.asking} <= {"a"}
