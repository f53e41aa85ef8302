"""What would let an empty node admit a pod."""

from dataclasses import replace

import pytest

from numalign.decision.evaluate import evaluate
from numalign.decision.remedies import remedies, why_not_when_empty
from numalign.decision.wording import NOT_WHEN_EMPTY
from numalign.model import demand
from numalign.model.node import Node
from tests.worlds.notation import asks, means, node, pod, table
from webhook.review import LONGEST_WARNING, warning

RESERVING = node("cpu=16/13", "cpu=16", policy="single-numa-node")

SHARED = 'init container "c0" requested no whole number of CPUs'
FIRST = 'container "c1" was listed first'
SCOPE = 'the Topology Manager scope was "pod"'

SCARCE = node("cpu=6 gpu=2", "cpu=8 gpu=0", policy="single-numa-node")

HELPFUL = [
    ("an init container", RESERVING, ["init cpu=1 mem=1Gi", "cpu=14 mem=1Gi"], (SHARED, SCOPE)),
    ("the order of containers", SCARCE, ["cpu=4 mem=1Gi", "cpu=4 mem=1Gi gpu=2"], (FIRST,)),
]


@pytest.mark.parametrize(("empty", "containers", "helps"), table(HELPFUL))
def test_remedy_names_what_would_help(empty: Node, containers: list[str], helps: tuple[str, ...]) -> None:
    request, intent = asks(*containers), means("single-numa-node")
    assert evaluate(empty, request, intent).not_when_empty
    assert remedies(empty, request, intent) == helps


def test_shared_cpus_do_not_meet_an_intent_for_cpus() -> None:
    request = asks("init cpu=1 mem=1Gi", "cpu=14 mem=1Gi")
    assert remedies(RESERVING, request, means("single-numa-node cpu")) == (SCOPE,)


def test_remedy_fits_into_a_warning_for_long_names() -> None:
    made = pod("init cpu=1 mem=1Gi", "cpu=14 mem=1Gi")
    preparing, main = made.containers
    named = replace(made, containers=(replace(preparing, name="n" * 63), main))
    _, *helps = why_not_when_empty(RESERVING, demand.of(named), means("single-numa-node"))
    assert max(len(warning(text)) for text in helps) == LONGEST_WARNING
    assert all(warning(text).endswith(text) for text in helps)


def test_no_remedy_is_tried_beyond_the_work_limit() -> None:
    many = asks("init cpu=1 mem=1Gi", *["cpu=1 mem=1Gi"] * 500)
    assert why_not_when_empty(RESERVING, many, means("single-numa-node")) == (NOT_WHEN_EMPTY,)
