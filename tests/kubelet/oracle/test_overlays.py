"""The kubelets with an option that no release has: which configurations they start with."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.worlds.notation import table
from tests.worlds.opt_in import ORACLE
from tools.clusters import builds
from tools.clusters.oracle.managers import Managers

# The first test may have to build the program.
pytestmark = [pytest.mark.oracle, pytest.mark.timeout(1800)]

PACKED, SCORED = f"{builds.OVERLAID}+prefer-most-allocated", f"{builds.OVERLAID}+numa-allocation-strategy"
PREFER, STRATEGY, WEIGHTS = (
    "prefer-most-allocated-numa-node",
    "numa-allocation-strategy",
    "numa-score-weights",
)
GATE = "TopologyManagerPolicyAlphaOptions"


@pytest.fixture
def managers(version: str) -> Iterator[Managers]:
    with ORACLE.or_skipped():
        binary = asyncio.run(builds.managers(version))
    with Managers(binary) as started:
        yield started


def refusal(managers: Managers, options: dict[str, str], *, gate: bool = True) -> str:
    """Why a kubelet with these options does not start; "" if it does."""
    config: dict[str, Any] = {
        "topologyManagerPolicy": "single-numa-node",
        "topologyManagerPolicyOptions": options,
        "featureGates": {GATE: gate},
    }
    machine = {"zones": [{"id": 0, "cores": [[0], [1]], "memory": 1 << 34}]}
    return managers.node({"name": "n", "machine": machine, "kubeletConfig": config}) or ""


STARTS = [
    ("the option of the first text", PACKED, {PREFER: "true"}),
    ("switched off", PACKED, {PREFER: "false"}),
    ("a strategy", SCORED, {STRATEGY: "most-allocated"}),
    ("weights", SCORED, {STRATEGY: "least-allocated", WEIGHTS: "cpu=3, nvidia.com/gpu=0,"}),
]


@pytest.mark.parametrize(("version", "options"), table(STARTS))
def test_option_needs_the_gate_of_alpha_options(managers: Managers, options: dict[str, str]) -> None:
    assert not refusal(managers, options)
    assert "alpha-level options not enabled" in refusal(managers, options, gate=False)


REFUSED = [
    (
        "a release knows none of them",
        builds.OVERLAID,
        {PREFER: "true"},
        "unknown Topology Manager Policy option",
    ),
    ("a word that is no switch", PACKED, {PREFER: "maybe"}, "bad value for option"),
    ("a strategy that does not exist", SCORED, {STRATEGY: "balanced"}, "bad value for option"),
    ("a weight above 100", SCORED, {WEIGHTS: "cpu=101"}, "bad value for option"),
    ("a weight that is no number", SCORED, {WEIGHTS: "cpu=x"}, "bad value for option"),
]


@pytest.mark.parametrize(("version", "options", "reason"), table(REFUSED))
def test_kubelet_does_not_start_with_an_invalid_option(
    managers: Managers, options: dict[str, str], reason: str
) -> None:
    assert reason in refusal(managers, options)
