"""Namespaces take turns: zones of pods that no scheduler binds soon become free for others."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.gates import turns as accounts
from controller.gates.turns import ABANDONED_SECONDS, PROVEN, NamespaceTurns
from tests.unit.controller.gates.conftest import GATED, GatedCluster, gated
from tests.worlds.clock import Clock
from tests.worlds.notation import node
from tests.worlds.scorer import ALL, BORN, EMPTY, SINGLE, TEAM, Raw
from tests.worlds.write_faults import UNREACHABLE

SOON, LATER = "2027-01-15T08:00:06Z", "2027-01-15T08:00:07Z"
OTHER = "other"
BOTH = {TEAM: GATED, OTHER: GATED}

ONE = node("cpu=8 mem=16Gi gpu=2", policy=SINGLE)
"""A single zone."""


def of(namespace: str, *names: str, at: str = SOON, **spec: Any) -> list[Raw]:  # noqa: ANN401
    """Gated pods of a namespace, each of which takes a zone."""
    return [gated(ALL, name=name, namespace=namespace, creationTimestamp=at, spec=spec) for name in names]


async def test_unbound_pods_yield_and_then_come_one_by_one() -> None:
    cluster = GatedCluster(patience=0)
    await cluster.know(dict.fromkeys("ab", ONE), **BOTH)

    async with cluster.running(*of(OTHER, *(f"o{at}" for at in range(9)), schedulerName="none")):
        await cluster.pass_by(1)
        assert cluster.reserved().keys() == {"o0", "o1"}
        cluster.make(*of(TEAM, "web", "more", at=LATER))
        await cluster.pass_by(16)
        assert cluster.reserved().keys() == {"web", "more"}
        cluster.bind("web")
        cluster.delete("web", "more")
        await cluster.pass_by(10)

    message, *_ = [event.message for event in cluster.events if event.reason == "NUMAPinnedNotPlaced"]
    assert "not bound within 15 s of being pinned to node" in message
    assert "other namespaces wait for room" in message
    assert len(cluster.reserved()) == 1


async def test_slow_scheduler_or_server_costs_no_pod_its_zones(cluster: GatedCluster) -> None:
    """It binds one pod after the other, while another namespace wants the room."""
    await cluster.know(dict.fromkeys("abcd", ONE), **BOTH)
    names = [f"t{at}" for at in range(4)]

    async with cluster.running(*of(TEAM, *names)):
        await cluster.pass_by(1)
        # Unreadable pods want no room of others.
        cluster.unreadable = UNREACHABLE
        cluster.make(*of(OTHER, "late", at=LATER))
        await cluster.pass_by(25)
        assert cluster.reserved().keys() == {*names}
        cluster.unreadable = None
        for name in names:
            await cluster.pass_by(8)
            cluster.bind(name)

    assert "NUMAPinnedNotPlaced" not in {reason for _, reason in cluster.reasons()}


async def test_freed_room_goes_to_the_namespace_with_least(cluster: GatedCluster) -> None:
    """However often the other one recreates its pods."""
    await cluster.know({"a": EMPTY}, **BOTH)
    reserved = set[str]()

    async with cluster.running(*of(OTHER, "o0", "o1")):
        await cluster.pass_by(1)
        cluster.make(*of(TEAM, "web", at=LATER))
        await cluster.pass_by(1)
        cluster.make(*of(OTHER, *(f"n{at}" for at in range(9)), at=BORN))
        cluster.delete("o0")
        # A pod that waits too long for the one before it on its node gives its zones back for a moment.
        for _ in range(5):
            await cluster.pass_by(1)
            reserved |= cluster.reserved().keys()

    assert reserved == {"o1", "web"}


SQUATS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=8)


@given(SQUATS)
@settings(max_examples=min(15, settings().max_examples))
async def test_unbound_pods_delay_others_within_their_patience(squats: list[tuple[int, int, int]]) -> None:
    """They are created and deleted at will, before and after the others come."""
    cluster, made = GatedCluster(), list[str]()
    await cluster.know(dict.fromkeys("ab", ONE), **BOTH)

    async with cluster.running():
        for at, (created, deleted, seconds) in enumerate(squats):
            if at == len(squats) // 2:
                cluster.make(*of(TEAM, "web", at=LATER))
            new = [f"o{at}-{number}" for number in range(created)]
            cluster.make(*of(OTHER, *new, at=BORN))
            made += new
            cluster.delete(*made[:deleted])
            made = made[deleted:]
            await cluster.pass_by(seconds)
        await cluster.pass_by(20)

    assert cluster.pin("web")


# What is counted.


def test_unbound_pin_limits_its_namespace_for_a_time() -> None:
    turns = NamespaceTurns(clock := Clock())
    turns.hold("first", TEAM)
    turns.lapsed("first")
    assert "other namespaces go first" in turns.why_not(TEAM, contested=True)
    # Each bound pin allows one more.
    for bound in range(PROVEN):
        assert not turns.why_not(TEAM, contested=False)
        turns.hold(f"p{bound}", TEAM)
        if bound == 0:
            assert "placed one by one" in turns.why_not(TEAM, contested=False)
        turns.bound(f"p{bound}")
    for pin in range(2 * PROVEN):
        turns.hold(f"q{pin}", TEAM)
    assert not turns.why_not(TEAM, contested=False)
    clock.advance(accounts.PAUSE_SECONDS)
    assert not turns.why_not(TEAM, contested=True)


@pytest.mark.parametrize(("seconds", "limited"), [(ABANDONED_SECONDS - 1, False), (ABANDONED_SECONDS, True)])
def test_pod_that_leaves_unbound_counts_for_a_time(seconds: float, *, limited: bool) -> None:
    turns = NamespaceTurns(clock := Clock())
    turns.hold("p", TEAM)
    clock.advance(seconds)
    turns.left("p")
    assert turns.unused(TEAM) == 1
    turns.hold("q", TEAM)
    assert bool(turns.why_not(TEAM, contested=False)) is limited
    clock.advance(accounts.REMEMBERED_SECONDS + 1)
    assert turns.unused(TEAM) == 1


def test_account_of_a_busy_namespace_does_not_grow() -> None:
    turns = NamespaceTurns(clock := Clock())
    turns.hold("slow", TEAM)
    turns.hold("p-1", TEAM)
    for at in range(1000):
        turns.hold(f"p{at}", TEAM)
        turns.bound(f"p{at - 1}")
        clock.advance(1)
        turns.forget()

    assert len(turns._accounts[TEAM].progress) <= 2  # noqa: SLF001  its size


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["hold", "bound", "left", "lapsed", "cancel", "wait", "forget"]),
        st.integers(0, 5),
        st.sampled_from([TEAM, OTHER]),
    ),
    max_size=60,
)


@given(ACTS)
@settings(max_examples=min(40, 4 * settings().max_examples))
def test_stall_is_never_longer_than_the_pin_is_old(acts: list[tuple[str, int, str]]) -> None:
    """And no account leaks."""
    clock = Clock()
    turns, pins = NamespaceTurns(clock), dict[str, tuple[str, float]]()
    progress = list[tuple[str, float, float]]()
    for act, number, namespace in acts:
        uid = f"p{number}"
        if act == "hold":
            turns.hold(uid, namespace)
            pins.setdefault(uid, (namespace, clock()))
        elif act == "wait":
            clock.advance(1 + number)
        elif act == "forget":
            turns.forget()
        else:
            getattr(turns, act)(uid)
            if (pin := pins.pop(uid, None)) and act == "bound":
                progress.append((*pin, clock()))
        for pinned, (of_pin, since) in pins.items():
            before = [at for name, of_bound, at in progress if name == of_pin and of_bound < since]
            assert turns.stalled(pinned) <= clock() - max([since, *before])
    clock.advance(10_000)
    for uid in pins:
        turns.cancel(uid)
    turns.forget()
    assert (len(turns), turns._accounts) == (0, {})  # noqa: SLF001  its size
