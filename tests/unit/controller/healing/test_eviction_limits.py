"""How often pods are asked to go, with a clock that the test turns."""

from hypothesis import given
from hypothesis import strategies as st

from controller.healing.eviction_limits import MOST_REMEMBERED, EvictionLimits, Rates

A, B = ("team", "a"), ("team", "b")


def test_all_buckets_are_empty_at_first() -> None:
    limits = EvictionLimits(Rates(owner=600, node=300, cluster=6), 0)

    assert not limits.take(A, "n", 599)
    assert limits.take(A, "n", 600)


def test_each_bucket_counts_by_itself() -> None:
    limits = EvictionLimits(Rates(owner=600, node=300, cluster=6), 0)
    assert limits.take(A, "n", 1000)

    assert limits.due(B, "m") == 1006
    assert limits.due(B, "n") == 1300
    assert limits.due(A, "m") == 1600


def test_what_is_refused_takes_no_token() -> None:
    limits = EvictionLimits(Rates(owner=600, node=300, cluster=6), 0)
    assert limits.take(A, "n", 1000)

    assert not limits.take(B, "n", 1010)
    assert limits.take(B, "m", 1010)


def test_who_begins_to_lead_begins_with_nothing() -> None:
    limits = EvictionLimits(Rates(owner=600, node=300, cluster=6), 0)
    assert limits.take(A, "n", 1000)

    limits.begin(2000)

    assert limits.due(A, "n") == limits.due(B, "m") == 2600


def test_a_thousand_pods_go_at_exactly_the_rate() -> None:
    limits = EvictionLimits(Rates(owner=0, node=0, cluster=6), 0)
    taken = [now for now in range(1, 6001) if limits.take(("team", str(now)), str(now), float(now))]

    assert taken == list(range(6, 6001, 6))


def test_a_rate_that_is_no_whole_number_loses_nothing_to_the_turns() -> None:
    limits = EvictionLimits(Rates(owner=0, node=0, cluster=2.5), 0)
    taken = [now for now in range(1, 2501) if limits.take(A, "n", float(now))]

    assert len(taken) == 1000


@given(st.lists(st.floats(0.1, 50), max_size=60), st.floats(0.5, 20))
def test_in_no_time_more_go_than_the_rate_lets(pauses: list[float], every: float) -> None:
    limits, now, taken = EvictionLimits(Rates(owner=0, node=0, cluster=every), 0), 0.0, list[float]()
    for pause in pauses:
        now += pause
        if limits.take(A, "n", now):
            taken.append(now)

    for first, begin in enumerate(taken):
        for last, end in enumerate(taken[first:]):
            # A bucket of one token: one at once, and one more for each full period.
            assert last <= (end - begin) / every + 1


def test_what_is_remembered_does_not_grow() -> None:
    limits = EvictionLimits(Rates(owner=10, node=10, cluster=0), 0)
    for at in range(3 * MOST_REMEMBERED):
        assert limits.take(("team", str(at)), str(at), 100.0 + at)

    assert len(limits._owners) + len(limits._nodes) <= MOST_REMEMBERED + 2  # noqa: SLF001  its size
