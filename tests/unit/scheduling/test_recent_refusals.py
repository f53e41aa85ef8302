"""Which nodes are avoided by whom, for how long, and that nobody fills what is kept of others."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kube.decode.pod_request import PodRequest
from numalign.kube.pod_informer import Phase, PodInfo
from numalign.model.demand import Demand
from numalign.model.intent import IntentAnnotations
from numalign.runtime.clock import SKEW_SECONDS
from numalign.scheduling.recent_refusals import (
    AVOID_SECONDS,
    MOST_DEMANDS,
    MOST_NAMESPACES,
    MOST_NODES,
    RecentRefusals,
)
from tests.worlds.clock import Clock
from tests.worlds.notation import asks, table

NOW = 1_000_000.0
SMALL, LARGE = asks("cpu=2 mem=1Gi"), asks("cpu=4 mem=1Gi")
RUNNING = PodInfo(
    uid="p1", namespace="team", name="web-1-x", node="a", scheduler="default-scheduler", created=int(NOW) - 5,
    started=int(NOW), phase=Phase.RUNNING, acknowledged=True, leaving=False, reason="", message="",
    request=PodRequest(SMALL, IntentAnnotations()), record=None,
)  # fmt: skip
UNREADABLE = PodRequest(None, IntentAnnotations())
REFUSED = replace(RUNNING, phase=Phase.FAILED, reason="TopologyAffinityError")
OLD = replace(REFUSED, created=int(NOW) - 605)


class Memory:
    """What is remembered, by clocks that only move when they are told to."""

    def __init__(self) -> None:
        self.clock, self.wall = Clock(50.0), Clock(NOW)
        self.refusals = RecentRefusals(clock=self.clock, wall=self.wall)

    def see(self, pod: PodInfo, before: PodInfo | None = RUNNING) -> None:
        self.refusals.update_pod(pod, before)

    def avoided(self, *, namespace: str = "team", demand: Demand = SMALL) -> tuple[str, ...]:
        return self.refusals.nodes(namespace, demand)

    def later(self, seconds: float) -> None:
        self.clock.seconds += seconds
        self.wall.seconds += seconds


@pytest.fixture
def memory() -> Memory:
    return Memory()


def test_other_namespaces_and_requests_do_not_avoid(memory: Memory) -> None:
    memory.see(REFUSED)
    assert memory.avoided(namespace="other") == ()
    assert memory.avoided(demand=LARGE) == ()


def test_later_rejection_extends_avoidance(memory: Memory) -> None:
    memory.see(REFUSED)
    memory.later(200)
    memory.see(replace(REFUSED, uid="p2", started=int(NOW) + 200))
    memory.see(replace(REFUSED, uid="p3", started=int(NOW) + 100), None)
    memory.later(200)
    assert memory.avoided() == ("a",)


@pytest.mark.parametrize(("pod", "before"), table([
    ("it fails by itself",                replace(REFUSED, reason="Error"),              RUNNING),
    ("it cannot be read",                 replace(REFUSED, request=UNREADABLE),          RUNNING),
    ("it was refused long ago",           replace(OLD, started=int(NOW) - 600),          None),
    ("it was made long ago, nobody says when it was refused", replace(OLD, started=0),   None),
    ("nobody says when it was made",      replace(REFUSED, started=0, created=0),        None),
]))  # fmt: skip
def test_nothing_is_avoided_for_a_pod_when(memory: Memory, pod: PodInfo, before: PodInfo | None) -> None:
    memory.see(pod, before)
    assert memory.avoided() == ()
    assert len(memory.refusals.caches()["avoided"]) == 0


def test_rejection_from_before_a_restart_expires_on_time(memory: Memory) -> None:
    """Less what clocks may differ by."""
    memory.see(replace(OLD, started=int(NOW - SKEW_SECONDS) - 250), None)
    assert memory.avoided() == ("a",)
    memory.later(50)
    assert memory.avoided() == ()


@given(created=st.integers(-(10**6), 10**6), started=st.integers(-(10**6), 10**6))
def test_observed_rejection_ignores_all_other_clocks(created: int, started: int) -> None:
    memory = Memory()
    memory.see(replace(REFUSED, created=int(NOW) + created, started=int(NOW) + started))
    memory.later(AVOID_SECONDS - 0.5)
    assert memory.avoided() == ("a",)
    memory.later(1)
    assert memory.avoided() == ()


def test_only_a_new_rejection_counts(memory: Memory) -> None:
    memory.see(REFUSED)
    memory.later(AVOID_SECONDS)
    memory.see(replace(REFUSED, leaving=True, started=int(NOW) + 300), REFUSED)
    assert memory.avoided() == ()


def test_so_many_nodes_are_avoided_those_that_refused_last(memory: Memory) -> None:
    """Where all refuse, one has to be tried again."""
    for number in range(MOST_NODES + 2):
        memory.see(replace(REFUSED, node=f"n{number}", started=int(NOW) + number))
        memory.later(1)
    assert memory.avoided() == tuple(f"n{number}" for number in reversed(range(2, MOST_NODES + 2)))


def test_namespaces_have_limits_of_their_own(memory: Memory) -> None:
    memory.see(REFUSED)
    demands = [asks(f"cpu={number + 1} mem=1Gi") for number in range(10 * MOST_DEMANDS)]
    for demand in demands:
        memory.see(replace(REFUSED, namespace="crowd", request=PodRequest(demand, IntentAnnotations())))
    assert memory.avoided() == ("a",)
    assert [memory.avoided(namespace="crowd", demand=demand) for demand in demands] == (
        [()] * (9 * MOST_DEMANDS) + [("a",)] * MOST_DEMANDS
    )
    for number in range(MOST_NAMESPACES + 10):
        memory.see(replace(REFUSED, namespace=f"n{number}"))
    assert len(memory.refusals.caches()["avoided"]) == MOST_NAMESPACES
