"""The order of the pods behind the gate, and the growing pauses of those without a node."""

import math
from dataclasses import replace
from random import Random
from typing import Any

from controller.gates.queue import LONGEST_RETRY, LONGEST_WAIT, GatedPod, GateQueue, waits
from numalign.kube.pod_informer import Phase, PodInfo
from numalign.model.intent import PLACEMENT_GATE
from tests.unit.controller.gates.conftest import gated
from tests.worlds.scorer import FOUR, NOW, Scorer, uid


def info(name: str = "web", **fields: Any) -> PodInfo:  # noqa: ANN401  fields of a pod
    """A pod behind the gate, as the informer has it."""
    scorer = Scorer()
    scorer.see(gated(FOUR, name=name))
    return replace(scorer.state.pods[uid(name)], **fields)


def queued(*pods: PodInfo, now: float = 0.0) -> tuple[GateQueue, GatedPod]:
    """A queue of these pods, and the last of them in it."""
    queue = GateQueue()
    for pod in pods:
        queue.update(pod, now=now)
    last = queue.get(pods[-1].uid)
    assert last
    return queue, last


def names(queue: GateQueue) -> list[str]:
    return [gated.pod.name for gated in queue.in_order()]


def test_order_is_priority_then_age_then_name() -> None:
    pods = [info("urgent", priority=1000, created=50), info("old", created=10)]
    pods += [info("a", created=20), info("b", created=20), info("cheap", priority=-5, created=1)]
    for order in range(10):
        queue, _ = queued(*Random(order).sample(pods, len(pods)))  # noqa: S311  nothing secret
        assert names(queue) == ["urgent", "old", "a", "b", "cheap"]


def test_only_a_gated_live_pod_waits() -> None:
    queue, _ = queued(info("a"), info("b"))
    queue.update(info("b", priority=7), now=1.0)
    assert names(queue) == ["b", "a"]
    queue.drop(uid("b"))
    queue.update(info("a", node="n"), now=2.0)
    assert (names(queue), len(queue), queue.get(uid("a"))) == ([], 0, None)

    no_gate, others = info(gates=()), info(gates=("other",))
    ended = [no_gate, others, info(node="a"), info(phase=Phase.FAILED), info(leaving=True)]
    assert [waits(pod) for pod in (info(), *ended)] == [True, *[False] * 5]


def test_patience_begins_when_other_gates_are_gone() -> None:
    assert queued(info(created=NOW + 600), now=100.0)[1].since == 100.0
    queue, both = queued(info(gates=("kueue", PLACEMENT_GATE)), now=100.0)
    assert (both.alone, both.since) == (False, math.inf)
    queue.update(info(), now=130.0)
    queue.update(info(priority=1), now=140.0)
    assert (both.alone, both.since) == (True, 130.0)


def test_pauses_grow_up_to_a_limit_until_the_pod_changes() -> None:
    queue, gated = queued(info())
    pauses, retries = list[float](), list[float]()
    for _ in range(8):
        gated.unschedulable("why", now=0.0)
        pauses.append(gated.due)
        gated.failed(now=0.0)
        retries.append(gated.retry)

    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.25, LONGEST_WAIT)
    assert (retries[0], retries[-1]) == (1.0, LONGEST_RETRY)
    queue.update(info(priority=3), now=0.1)
    assert gated.due < 0.2
