"""The rate of evictions, for each owner, node and the cluster, and the pauses of an owner after failures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.healing.eviction_limits import MOST_REMEMBERED, EvictionLimits, Rates
from controller.healing.owners import (
    FIRST_BACKOFF,
    LONGEST_BACKOFF,
    MOST_FAILED_MOVES,
    STOPPED_SECONDS,
    Owners,
)
from controller.healing.owners import MOST_REMEMBERED as MOST_OWNERS

A, B = ("team", "a"), ("team", "b")


@pytest.fixture
def limits() -> EvictionLimits:
    return EvictionLimits(Rates(owner=600, node=300, cluster=6), 0)


def test_first_eviction_waits_for_a_full_period(limits: EvictionLimits) -> None:
    assert not limits.take(A, "n", 599)
    assert limits.take(A, "n", 600)


def test_each_bucket_counts_by_itself(limits: EvictionLimits) -> None:
    assert limits.take(A, "n", 1000)
    assert [limits.due(B, "m"), limits.due(B, "n"), limits.due(A, "m")] == [1006, 1300, 1600]

    # What is denied takes no token.
    assert not limits.take(B, "n", 1010)
    assert limits.take(B, "m", 1010)


def test_new_leader_begins_with_empty_buckets(limits: EvictionLimits) -> None:
    assert limits.take(A, "n", 1000)
    limits.begin(2000)

    assert limits.due(A, "n") == limits.due(B, "m") == 2600


@pytest.mark.parametrize(("every", "count"), [(6, 400), (2.5, 960)])
def test_rate_loses_nothing_to_the_turns(every: float, count: int) -> None:
    limits = EvictionLimits(Rates(owner=0, node=0, cluster=every), 0)

    assert sum(limits.take(("team", str(now)), str(now), float(now)) for now in range(1, 2401)) == count


@given(st.lists(st.floats(0.1, 50), max_size=60), st.floats(0.5, 20))
def test_evictions_never_exceed_the_rate(pauses: list[float], every: float) -> None:
    limits, now, taken = EvictionLimits(Rates(owner=0, node=0, cluster=every), 0), 0.0, list[float]()
    for pause in pauses:
        now += pause
        if limits.take(A, "n", now):
            taken.append(now)

    for first, begin in enumerate(taken):
        for last, end in enumerate(taken[first:]):
            # A bucket of one token: one at once, and one more for each full period.
            assert last <= (end - begin) / every + 1


def test_memory_of_owners_and_nodes_is_bounded() -> None:
    limits = EvictionLimits(Rates(owner=10, node=10, cluster=0), 0)
    for at in range(3 * MOST_REMEMBERED):
        assert limits.take(("team", str(at)), str(at), 100.0 + at)

    assert len(limits._owners) + len(limits._nodes) <= MOST_REMEMBERED + 2  # noqa: SLF001  its size


def test_failed_moves_pause_and_stop_their_owner() -> None:
    owners = Owners()
    assert owners.backoff_until(A) < 0
    assert [owners.move_failed(A, at) for at in (0, 100)] == [False, False]
    assert owners.backoff_until(A) == 100 + 2 * FIRST_BACKOFF
    owners.move_succeeded(A)
    assert (owners.backoff_until(A) < 0, owners.backoff_until(B) < 0) == (True, True)

    assert [owners.move_failed(A, 0) for _ in range(MOST_FAILED_MOVES)] == [False, False, True]
    assert [owners.is_stopped(A, STOPPED_SECONDS + at) for at in (-1, 0)] == [True, False]
    assert not owners.move_failed(A, STOPPED_SECONDS)
    assert owners.backoff_until(A) == STOPPED_SECONDS + FIRST_BACKOFF


def test_failed_evictions_displace_no_stopped_owner() -> None:
    owners = Owners()
    owners.stop(B, 0)
    for at in range(MOST_OWNERS + 10):
        owners.eviction_failed(("team", f"owner-{at}"), 0)
    for _ in range(20):
        owners.eviction_failed(A, 0)

    assert owners.backoff_until(A) == LONGEST_BACKOFF
    assert owners.is_stopped(B, 1)
    assert len(owners._records) == MOST_OWNERS  # noqa: SLF001  its size
    # They are no failed moves.
    assert [owners.move_failed(A, 0) for _ in range(MOST_FAILED_MOVES)] == [False, False, True]
    owners.forget()
    assert not owners.is_stopped(B, 1)
