"""So many at once, then so many in a second; never more, whatever the clock does."""

from hypothesis import given
from hypothesis import strategies as st

from numalign.runtime.token_bucket import TokenBucket
from tests.worlds.clock import Clock


def test_bucket_allows_its_burst_then_its_rate() -> None:
    clock = Clock()
    bucket = TokenBucket(2.0, burst=3, clock=clock)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    clock.seconds += 0.5
    assert [bucket.take() for _ in range(2)] == [True, False]
    clock.seconds += 1000
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]


def test_a_clock_that_is_set_back_gives_nothing() -> None:
    clock = Clock(100.0)
    bucket = TokenBucket(1.0, burst=1, clock=clock)
    assert bucket.take()
    clock.seconds = 0.0
    assert not bucket.take()
    clock.seconds = 1.0
    assert bucket.take()


@given(st.lists(st.floats(0, 10), max_size=50), st.floats(0.1, 10), st.integers(1, 10))
def test_bucket_never_exceeds_burst_plus_rate(pauses: list[float], per_second: float, burst: int) -> None:
    clock = Clock()
    bucket = TokenBucket(per_second, burst=burst, clock=clock)
    taken = 0
    for pause in pauses:
        clock.seconds += pause
        while bucket.take():
            taken += 1
    assert taken <= burst + per_second * clock.seconds + 1e-6
