"""A refusal is permanent only if no state of the node admits the pod."""

import pytest

from numalign.decision import feasible
from numalign.decision.evaluate import evaluate
from numalign.decision.feasible import MOST_REQUESTS, fit_apart
from numalign.decision.verdict import Verdict
from numalign.model.node import Node
from tests.worlds.notation import asks, means, node, table

SINGLE, RESTRICTED, LOOSE = "single-numa-node", "restricted", "best-effort"


def of(first: str, second: str, policy: str = SINGLE, scope: str = "container") -> Node:
    return node(first, second, policy=policy, scope=scope)


RESERVING, IN_USE = of("cpu=16/13", "cpu=16"), of("cpu=16/13/0", "cpu=16")
ANCHORED = ("init cpu=1 mem=1Gi", "cpu=14 mem=1Gi")
"""The init container gets a CPU of the first zone, in which the other container does not fit."""

IN_SOME_STATE = [
    ("an init container that anchors", RESERVING, ANCHORED),
    ("the same by a kubelet that refuses nothing", of("cpu=16/13", "cpu=16", LOOSE), ANCHORED),
    ("a reserved CPU, which is taken with zones of different sizes",
         of("cpu=4/3 gpu=2", "cpu=3 gpu=4", LOOSE), ("init cpu=4 mem=1Gi", "cpu=3 mem=1Gi gpu=1")),
    ("a first container that takes what only another could not do without", of("cpu=6 gpu=2", "cpu=8 gpu=0"),
         ("cpu=4 mem=1Gi", "cpu=4 mem=1Gi gpu=2")),
]  # fmt: skip
IN_NO_STATE = [
    ("too much for any zone", of("cpu=8", "cpu=8"), ("init cpu=1 mem=1Gi", "cpu=9 mem=1Gi")),
    ("no zone with both resources", of("cpu=8 gpu=1", "cpu=4 gpu=4"),
         ("init cpu=1 mem=1Gi", "cpu=6 mem=1Gi gpu=2")),
    ("no zone for the last container", of("cpu=5", "cpu=5"), ("cpu=3 mem=1Gi",) * 3),
    ("resources in a different number of zones", of("cpu=4 gpu=4", "cpu=4 gpu=4", RESTRICTED),
         ("cpu=6 mem=1Gi gpu=2",)),
    ("too much for a zone in pod scope", of("cpu=16/13", "cpu=16", scope="pod"),
         ("init cpu=17 mem=1Gi", "cpu=14 mem=1Gi")),
]  # fmt: skip


def verdict_of(empty: Node, containers: tuple[str, ...]) -> Verdict:
    return evaluate(empty, asks(*containers), means(RESTRICTED if empty.policy == RESTRICTED else SINGLE))


@pytest.mark.parametrize(("empty", "containers"), table(IN_SOME_STATE))
def test_pod_that_fits_in_some_state_is_feasible(empty: Node, containers: tuple[str, ...]) -> None:
    verdict = verdict_of(empty, containers)
    assert (verdict.admitted, verdict.permanent, verdict.not_when_empty) == (False, False, True)


@pytest.mark.parametrize(("empty", "containers"), table(IN_NO_STATE))
def test_pod_that_fits_in_no_state_is_refused_for_good(empty: Node, containers: tuple[str, ...]) -> None:
    verdict = verdict_of(empty, containers)
    assert (verdict.admitted, verdict.permanent, verdict.not_when_empty) == (False, True, False)


def test_pod_is_admitted_while_the_first_zone_is_used() -> None:
    assert verdict_of(IN_USE, ANCHORED).admitted


def test_full_node_may_refuse_a_pod_when_empty_too() -> None:
    assert verdict_of(of("cpu=16/13/2", "cpu=16//2"), ANCHORED).not_when_empty


APART = [
    # what it shows                    the zones             the requests           whether they fit
    ("one for each zone",                [{"a": 2}, {"a": 2}], [{"a": 2}, {"a": 2}],             True),
    ("two in one zone",                  [{"a": 4}],           [{"a": 2}, {"a": 2}],             True),
    ("enough in total, not in a zone",   [{"a": 3}, {"a": 3}], [{"a": 2}] * 3,                   False),
    ("large ones first",                 [{"a": 3}, {"a": 2}], [{"a": 2}, {"a": 3}],             True),
    ("two resources in different zones", [{"a": 2}, {"b": 2}], [{"a": 1, "b": 1}],               False),
    ("nothing",                          [],                   [],                               True),
    ("more requests than are tried",     [{"a": 999}],         [{"a": 1}] * (MOST_REQUESTS + 1), None),
]  # fmt: skip


@pytest.mark.parametrize(("zones", "requests", "fit"), table(APART))
def test_requests_fit_apart(zones: list[dict[str, int]], requests: list[dict[str, int]], fit: object) -> None:
    assert fit_apart(zones, requests) is fit


def test_tries_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feasible, "MOST_TRIED", 3)
    assert fit_apart([{"a": 3}, {"a": 3}], [{"a": 2}] * 3) is None
