"""Namespaces take turns: zones that one holds for pods that nobody binds are there for the others soon."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.gates.keeper import SETTLE_SECONDS
from controller.gates.turns import (
    ABANDONED_SECONDS,
    PAUSE_SECONDS,
    PROVEN,
    REMEMBERED_SECONDS,
    NamespaceTurns,
)
from numalign.kube.errors import Unreachable
from tests.unit.controller.gates.conftest import GatedCluster, gated
from tests.worlds.clock import Clock
from tests.worlds.notation import node
from tests.worlds.scorer import ALL, BORN, EMPTY, SINGLE, TEAM, Raw

NEW, LATER = "2027-01-15T08:00:06Z", "2027-01-15T08:00:07Z"
OTHER = "other"
GATES = {TEAM: {"gate": "enabled"}, OTHER: {"gate": "enabled"}}
NOBODY = {"schedulerName": "nobody"}

ONE = node("cpu=8 mem=16Gi gpu=2", policy=SINGLE)
"""A single zone."""


def of(namespace: str, *names: str, asks: str = ALL, at: str = NEW, **spec: Any) -> list[Raw]:  # noqa: ANN401
    """Gated pods of a namespace, each of which takes a zone."""
    return [gated(asks, name=name, namespace=namespace, creationTimestamp=at, spec=spec) for name in names]


async def test_a_pod_that_carries_the_gate_where_there_are_no_gates_holds_nothing_and_is_let_go(
    cluster: GatedCluster,
) -> None:
    await cluster.know({"a": EMPTY}, **{TEAM: {}})
    cluster.make(*of(TEAM, "web"))

    async with cluster.running():
        await cluster.pass_by(SETTLE_SECONDS - 2)
        assert (cluster.gates(), cluster.scorer.kept()) == (["numalign.io/placement"], {})
        await cluster.pass_by(4)

    assert (cluster.gates(), cluster.pin(), cluster.scorer.kept()) == ([], None, {})
    [event] = cluster.events
    assert event.reason == "NUMAGateLifted"
    assert "namespace team does not use gates (label numalign.io/gate)" in event.message


async def test_pods_that_nobody_binds_give_way_to_other_namespaces_and_then_come_one_by_one() -> None:
    cluster = GatedCluster(patience=0)
    await cluster.know(dict.fromkeys("ab", ONE), **GATES)
    cluster.make(*of(OTHER, *(f"o{at}" for at in range(9)), **NOBODY))

    async with cluster.running():
        await cluster.pass_by(1)
        assert cluster.scorer.kept().keys() == {"o0", "o1"}
        cluster.make(*of(TEAM, "web", "more", at=LATER))
        await cluster.pass_by(16)
        assert cluster.scorer.kept().keys() == {"web", "more"}
        cluster.bind("web", str(cluster.pin("web")))
        cluster.delete("web")
        cluster.delete("more")
        await cluster.pass_by(10)

    assert ("o0", "NUMAPinnedNotPlaced") in cluster.reasons()
    message, *_ = [event.message for event in cluster.events if event.reason == "NUMAPinnedNotPlaced"]
    assert "not bound within 15 s of being pinned to node" in message
    assert "other namespaces wait for room" in message
    assert len(cluster.scorer.kept()) == 1


async def test_pods_that_wait_behind_many_of_their_own_namespace_keep_their_zones(
    cluster: GatedCluster,
) -> None:
    """Their scheduler is slow, and binds one after the other, while another namespace wants the room."""
    await cluster.know(dict.fromkeys("abcd", ONE), **GATES)
    names = [f"t{at}" for at in range(4)]
    cluster.make(*of(TEAM, *names))

    async with cluster.running():
        await cluster.pass_by(1)
        cluster.make(*of(OTHER, "late", at=LATER))
        for name in names:
            await cluster.pass_by(10)
            cluster.bind(name, str(cluster.pin(name)))

    assert [name for name, reason in cluster.reasons() if reason == "NUMAPinnedNotPlaced"] == []


async def test_pods_that_cannot_be_read_want_no_room_of_others(cluster: GatedCluster) -> None:
    """The API server is slow, so the scheduler is too."""
    await cluster.know({"a": EMPTY}, **GATES)
    cluster.make(*of(TEAM, "web"))

    async with cluster.running():
        await cluster.pass_by(1)
        cluster.store.unreadable = Unreachable("it does not answer")
        cluster.make(*of(OTHER, "o"))
        await cluster.pass_by(25)

        assert cluster.scorer.kept() == {"web": "a"}


async def test_room_that_comes_free_goes_to_the_namespace_that_holds_least_however_often_pods_are_made_anew(
    cluster: GatedCluster,
) -> None:
    await cluster.know({"a": EMPTY}, **GATES)
    cluster.make(*of(OTHER, "o0", "o1"))
    kept = set[str]()

    async with cluster.running():
        await cluster.pass_by(1)
        cluster.make(*of(TEAM, "web", at=LATER))
        await cluster.pass_by(1)
        cluster.make(*of(OTHER, *(f"n{at}" for at in range(9)), at=BORN))
        cluster.delete("o0")
        # A pod that waits too long for the one before it on its node gives its zones back for a moment.
        for _ in range(5):
            await cluster.pass_by(1)
            kept |= cluster.scorer.kept().keys()

    assert kept == {"o1", "web"}


async def test_a_namespace_alone_fills_all_room_at_once(cluster: GatedCluster) -> None:
    await cluster.know(dict.fromkeys("abcd", EMPTY), **GATES)
    cluster.make(*of(TEAM, *(f"t{at}" for at in range(8))))

    async with cluster.running():
        await cluster.pass_by(1)

    assert len(cluster.scorer.kept()) == 8


SQUATS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 9)),
    min_size=1,
    max_size=8,
)


@given(SQUATS)
@settings(max_examples=15)
async def test_whatever_those_do_who_are_never_bound_others_get_zones_within_their_patience(
    squats: list[tuple[int, int, int]],
) -> None:
    """They create and delete pods as they like, before and after the others come."""
    cluster, made = GatedCluster(), list[str]()
    await cluster.know(dict.fromkeys("ab", ONE), **GATES)

    async with cluster.running():
        for at, (created, deleted, seconds) in enumerate(squats):
            if at == len(squats) // 2:
                cluster.make(*of(TEAM, "web", at=LATER))
            new = [f"o{at}-{number}" for number in range(created)]
            cluster.make(*of(OTHER, *new, at=BORN))
            made += new
            for name in made[:deleted]:
                cluster.delete(name)
            made = made[deleted:]
            await cluster.pass_by(seconds)
        await cluster.pass_by(20)

    assert cluster.pin("web")


# What is counted.


@pytest.fixture
def time() -> Clock:
    """A clock."""
    return Clock()


@pytest.fixture
def turns(time: Clock) -> NamespaceTurns:
    """No pins yet."""
    return NamespaceTurns(time)


def lapse(turns: NamespaceTurns) -> None:
    """A pin is not bound in time."""
    turns.hold("first", TEAM)
    turns.lapsed("first")


def test_each_pin_that_is_bound_allows_one_more_until_there_is_no_limit(turns: NamespaceTurns) -> None:
    lapse(turns)
    for bound in range(PROVEN):
        assert not turns.why_not(TEAM, contested=False)
        turns.hold(f"p{bound}", TEAM)
        if bound == 0:
            assert "placed one by one" in turns.why_not(TEAM, contested=False)
        turns.bound(f"p{bound}")
    for pin in range(2 * PROVEN):
        turns.hold(f"q{pin}", TEAM)
    assert not turns.why_not(TEAM, contested=False)


def test_for_a_time_others_that_want_room_go_first(time: Clock, turns: NamespaceTurns) -> None:
    lapse(turns)
    assert "other namespaces go first" in turns.why_not(TEAM, contested=True)
    assert not turns.why_not(TEAM, contested=False)
    time.seconds += PAUSE_SECONDS
    assert not turns.why_not(TEAM, contested=True)


LEFT = [
    # seconds                  limited
    (ABANDONED_SECONDS - 1,    False),
    (ABANDONED_SECONDS,        True),
]  # fmt: skip


@pytest.mark.parametrize(("seconds", "limited"), LEFT)
def test_a_pod_that_leaves_unbound_counts_for_a_time(
    time: Clock, turns: NamespaceTurns, seconds: float, *, limited: bool
) -> None:
    turns.hold("p", TEAM)
    time.seconds += seconds
    turns.left("p")
    assert turns.unused(TEAM) == 1
    turns.hold("q", TEAM)
    assert bool(turns.why_not(TEAM, contested=False)) is limited
    time.seconds += REMEMBERED_SECONDS + 1
    assert turns.unused(TEAM) == 1


def test_what_is_kept_of_a_busy_namespace_does_not_grow(time: Clock, turns: NamespaceTurns) -> None:
    turns.hold("slow", TEAM)
    turns.hold("p-1", TEAM)
    for at in range(1000):
        turns.hold(f"p{at}", TEAM)
        turns.bound(f"p{at - 1}")
        time.seconds += 1
        turns.forget()

    assert len(turns._accounts[TEAM].progress) <= 2  # noqa: SLF001  what it would leak


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["hold", "bound", "left", "lapsed", "cancel", "wait", "forget"]),
        st.integers(0, 5),
        st.sampled_from([TEAM, OTHER]),
    ),
    max_size=60,
)


@given(ACTS)
@settings(max_examples=40)
def test_whatever_happens_pins_are_counted_and_a_stall_is_never_longer_than_the_pin_is_old(
    acts: list[tuple[str, int, str]],
) -> None:
    time = Clock()
    turns, held = NamespaceTurns(time), dict[str, tuple[str, float]]()
    progress = list[tuple[str, float, float]]()
    for act, number, namespace in acts:
        uid = f"p{number}"
        if act == "hold":
            turns.hold(uid, namespace)
            held.setdefault(uid, (namespace, time()))
        elif act == "wait":
            time.seconds += 1 + number
        elif act == "forget":
            turns.forget()
        else:
            getattr(turns, act)(uid)
            if (pin := held.pop(uid, None)) and act == "bound":
                progress.append((*pin, time()))
        for pinned, (of_pin, since) in held.items():
            before = [at for name, of_bound, at in progress if name == of_pin and of_bound < since]
            assert turns.stalled(pinned) <= time() - since
            assert turns.stalled(pinned) <= time() - max([since, *before])
    time.seconds += 10_000
    for uid in held:
        turns.cancel(uid)
    turns.forget()
    assert (len(turns), turns._accounts) == (0, {})  # noqa: SLF001  what it would leak
