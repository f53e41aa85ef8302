"""The rate of evictions, for each owner, node and the cluster."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.healing.eviction_limits import MOST_REMEMBERED, EvictionLimits, Rates

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
