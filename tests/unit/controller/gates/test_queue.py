"""Who waits behind the gate stands in its order, and who was looked at in vain waits ever longer."""

import math
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from controller.gates.queue import LONGEST_RETRY, LONGEST_WAIT, GatedPod, GateQueue, waits
from numalign.kube.pod_informer import Phase, PodInfo
from numalign.model.intent import PLACEMENT_GATE
from tests.unit.controller.gates.conftest import gated
from tests.worlds.scorer import FOUR, NOW, Scorer, uid


def info(name: str = "web", **told: Any) -> PodInfo:  # noqa: ANN401  fields of a pod
    """A pod behind the gate, as the informer tells of it."""
    scorer = Scorer()
    scorer.see(gated(FOUR, name=name))
    return replace(scorer.state.pods[uid(name)], **told)


def queued(*pods: PodInfo, now: float = 0.0) -> tuple[GateQueue, GatedPod]:
    """A queue of these pods, and the last of them in it."""
    queue = GateQueue()
    for pod in pods:
        queue.update(pod, now=now)
    gated = queue.get(pods[-1].uid)
    assert gated
    return queue, gated


def names(queue: GateQueue) -> list[str]:
    return [gated.pod.name for gated in queue.in_order()]


def test_the_more_important_come_first_then_the_older_then_by_name() -> None:
    pods = [
        info("urgent", priority=1000, created=50),
        info("old", created=10),
        info("a", created=20),
        info("b", created=20),
        info("cheap", priority=-5, created=1),
    ]
    for order in range(10):
        queue, _ = queued(*Random(order).sample(pods, len(pods)))  # noqa: S311  nothing secret
        assert names(queue) == ["urgent", "old", "a", "b", "cheap"]


def test_who_is_changed_moves_and_who_is_gone_leaves_no_trace() -> None:
    queue = GateQueue()
    for name in ("a", "b"):
        queue.update(info(name), now=0.0)
    queue.update(info("b", priority=7), now=1.0)
    assert names(queue) == ["b", "a"]
    queue.drop(uid("b"))
    queue.drop(uid("b"))
    queue.update(info("a", node="somewhere"), now=2.0)
    assert (names(queue), len(queue), queue.get(uid("a"))) == ([], 0, None)


ENDS: list[dict[str, Any]] = [
    {"gates": ()},
    {"gates": ("other",)},
    {"node": "a"},
    {"phase": Phase.FAILED},
    {"leaving": True},
]


@pytest.mark.parametrize("told", ENDS)
def test_who_does_not_wait(told: dict[str, Any]) -> None:
    assert waits(info())
    assert not waits(info(**told))


@pytest.mark.parametrize("created", [0, NOW - 600, NOW + 600])
def test_patience_counts_from_when_a_pod_is_first_seen_whatever_the_clock_of_the_api_server(
    created: int,
) -> None:
    assert queued(info(created=created), now=100.0)[1].since == 100.0


def test_of_a_pod_that_others_keep_too_it_counts_from_when_they_let_go() -> None:
    queue, both = queued(info(gates=("kueue", PLACEMENT_GATE)), now=100.0)
    assert (both.alone, both.since) == (False, math.inf)
    queue.update(info(), now=130.0)
    assert (both.alone, both.since) == (True, 130.0)
    queue.update(info(priority=1), now=140.0)
    assert both.since == 130.0


def test_waits_grow_up_to_a_limit() -> None:
    gated, waited = GatedPod(info(), 0.0), []
    for _ in range(8):
        gated.unschedulable("why", now=0.0)
        waited.append(gated.due)
    assert waited == sorted(waited)
    assert (waited[0], waited[-1]) == (0.25, LONGEST_WAIT)

    retries = []
    for _ in range(8):
        gated.failed(now=0.0)
        retries.append(gated.retry)
    assert (retries[0], retries[-1]) == (1.0, LONGEST_RETRY)


def test_a_pod_that_was_changed_is_looked_at_at_once() -> None:
    queue, gated = queued(info())
    gated.unschedulable("full", now=0.0)
    queue.update(info(priority=3), now=0.1)
    assert gated.due < 0.1
