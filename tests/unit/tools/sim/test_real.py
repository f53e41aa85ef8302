"""Simulated nodes and real ones are of the same make, and what kubelets did is told alike."""

from typing import Any

import pytest

from numalign.kube.decode.machines import machine
from tools.clusters.sim.real import as_real, outcome
from tools.clusters.sim.shapes import SHAPES, SimNode

Json = dict[str, Any]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_a_machine_for_a_real_kubelet(shape: str) -> None:
    node = as_real(SimNode("a", shape, "restricted"))

    assert node.name == "a"
    assert node.configuration["topologyManagerPolicy"] == "restricted"
    assert len(machine(node.machine).banks) == SHAPES[shape].zones


def pod(phase: str, **status: str) -> Json:
    return {
        "metadata": {"namespace": "team", "name": "web"},
        "spec": {"nodeName": "a"},
        "status": {"phase": phase, **status},
    }


@pytest.mark.parametrize(
    ("seen", "line"),
    [
        pytest.param(pod("Running"), "a: team/web admitted\n", id="runs"),
        pytest.param(pod("Succeeded"), "a: team/web admitted\n", id="ran"),
        pytest.param(
            pod("Failed", reason="TopologyAffinityError", message="Pod was rejected: no"),
            "a: team/web REJECTED TopologyAffinityError: Pod was rejected: no\n",
            id="refused",
        ),
    ],
)
def test_what_became_of_a_pod_is_a_line(seen: Json, line: str) -> None:
    assert outcome(seen) == line
