"""Who wrote a topology, and which pods ask for alignment, out of objects that may be anything."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_numa.diagnosis import Traces
from kubectl_numa.traces import traces
from tests.kubectl_numa.objects import known
from tests.notation import table

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
