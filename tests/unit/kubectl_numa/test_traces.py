"""Who wrote a topology, and which pods ask for alignment, out of objects that may be anything."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_numa.diagnosis import Skew, Traces
from kubectl_numa.traces import traces
from numalign.kube.kinds import NODES_IN_FILES, PODS_IN_FILES, READY_KEY
from tests.unit.kubectl_numa.objects import known
from tests.worlds.notation import table

ZONES: dict[str, Any] = {"f:zones": {}}
NOTES: dict[str, Any] = {"f:metadata": {"f:annotations": {}}}


def topology(*fields: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """The topology of node a, with what each manager wrote."""
    managed = [{"manager": manager, "fieldsV1": written} for manager, written in fields]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "a", "managedFields": managed},
    }


def pod(policy: str = "restricted", *, node: str = "a", phase: str = "Running") -> dict[str, Any]:
    """A pod that asks."""
    metadata = {"namespace": "team", "annotations": {"numalign.io/policy": policy} if policy else {}}
    return known("Pod", "p", metadata=metadata, spec={"nodeName": node}, status={"phase": phase})


@pytest.mark.parametrize(
    ("made", "writers"),
    table(
        [
            ("two that wrote zones", topology(("rte", ZONES), ("nfd", ZONES)), ["nfd", "rte"]),
            (
                "one that wrote attributes",
                topology(("nfd", ZONES), ("rte", {"f:attributes": {}})),
                ["nfd", "rte"],
            ),
            ("one that wrote annotations", topology(("nfd", ZONES), ("agent", NOTES)), ["nfd"]),
            ("one that wrote in two ways", topology(("nfd", ZONES), ("nfd", ZONES)), ["nfd"]),
            ("nobody who says so", topology(), []),
        ]
    ),
)
def test_a_topology_with(made: dict[str, Any], writers: list[str]) -> None:
    assert traces([made]) == Traces(writers={"a": writers})


@pytest.mark.parametrize(
    ("made", "asking"),
    table(
        [
            ("asks", pod(), {"a": ["team/p"]}),
            ("asks for nothing", pod(""), {}),
            ("is on no node yet", pod(node=""), {}),
            ("has ended", pod(phase="Failed"), {}),
        ]
    ),
)
def test_a_pod_that(made: dict[str, Any], asking: dict[str, list[str]]) -> None:
    assert traces([{"apiVersion": "v1", "kind": "List", "items": [made]}]) == Traces(asking=asking)


def beating(
    *, heartbeat: str, written: str, status: str = "True", key: str = READY_KEY, by: str = "kubelet"
) -> dict[str, Any]:
    """Node a, with the time of its last heartbeat, and of the write that brought it."""
    fields: dict[str, Any] = {"f:status": {"f:conditions": {key: {"f:lastHeartbeatTime": {}}}}}
    beat = {"manager": by, "time": written, "fieldsV1": fields}
    managed = [{"manager": by, "time": LATER, "fieldsV1": {"f:spec": {}}}, beat]
    condition = {"type": "Ready", "status": status, "lastHeartbeatTime": heartbeat}
    return known("Node", "a", metadata={"managedFields": managed}, status={"conditions": [condition]})


def ran(*, created: str, started: str, bound: str | None = None, owner: str = "ReplicaSet") -> dict[str, Any]:
    """A pod on node a, with its times."""
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": bound}
    reference = {"kind": owner, "apiVersion": "v1", "name": "x", "uid": "x", "controller": True}
    return known(
        "Pod",
        "p",
        metadata={"namespace": "team", "creationTimestamp": created, "ownerReferences": [reference]},
        spec={"nodeName": "a"},
        status={"startTime": started, "conditions": [scheduled] if bound else []},
    )


EARLY, TIME, LATER = "2026-11-28T11:58:00Z", "2026-11-28T12:00:00Z", "2026-11-28T12:03:00Z"
BEHIND, AHEAD = beating(heartbeat=EARLY, written=TIME), beating(heartbeat=LATER, written=TIME)
LATE_START, EARLY_START = ran(created=EARLY, started=TIME), ran(created=TIME, started=EARLY)
CLOCKS: list[tuple[str, list[dict[str, Any]], dict[str, Skew]]] = [
    ("a heartbeat before its write",         [BEHIND],                          {"a": Skew(-120)}),
    ("a heartbeat after its write",          [AHEAD],                           {"a": Skew(180)}),
    ("no heartbeat for long",     [beating(heartbeat=EARLY, written=TIME, status="Unknown")], {}),
    ("a write of something else", [beating(heartbeat=EARLY, written=TIME, key="k:x")],        {}),
    ("a later write of a program that is more than a kubelet",
        [beating(heartbeat=EARLY, written=TIME, by="k3s")],                                   {}),
    ("a heartbeat of such a program after its write",
        [beating(heartbeat=LATER, written=TIME, by="k3s")],          {"a": Skew(180)}),
    ("a pod that started before it was there", [EARLY_START],    {"a": Skew(-120, measured=False)}),
    ("a pod that started before it was bound", [ran(created=EARLY, bound=LATER, started=TIME)],
                                                                 {"a": Skew(-180, measured=False)}),
    ("a pod that started later",             [LATE_START],                                    {}),
    ("a pod that started before another one, in time",
        [EARLY_START, ran(created=LATER, started=LATER)],                                     {}),
    ("a static pod",              [ran(created=TIME, started=EARLY, owner="Node")],           {}),
    ("both, of which one is exact",          [EARLY_START, AHEAD],              {"a": Skew(180)}),
]  # fmt: skip


@pytest.mark.parametrize(("made", "skews"), table(CLOCKS))
def test_a_clock_is_known_by(made: list[dict[str, Any]], skews: dict[str, Skew]) -> None:
    assert traces(made).skews == skews


def test_what_is_read_of_a_running_cluster_has_all_of_that() -> None:
    assert traces([NODES_IN_FILES.described(BEHIND)]).skews == {"a": Skew(-120)}
    assert traces([PODS_IN_FILES.described(EARLY_START)]).skews == {"a": Skew(-120, measured=False)}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "managedFields", "fieldsV1", "manager", "annotations", "spec", "nodeName"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(ANYTHING, st.sampled_from([topology(), pod()]))
def test_what_makes_no_sense_leaves_no_trace_and_breaks_nothing(value: object, made: dict[str, Any]) -> None:
    found = traces([value, {**made, "metadata": value}, {**made, "spec": value}])

    assert {*found.asking} <= {"a"}
