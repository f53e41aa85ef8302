"""A cache drops the least recently used values beyond its limits, in number and in bytes."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.lru import ENTRY_BYTES, LRU, digest, remembering

HUNDRED = 100 + ENTRY_BYTES
"""The bytes of an entry that weighs a hundred."""


def measured(*entries: str) -> LRU[str, int]:
    """A cache for three entries of a hundred bytes; the values are their own sizes."""
    cache = LRU[str, int](1000, most_bytes=3 * HUNDRED, weigh=lambda _, value: value)
    for key in entries:
        cache.put(key, 100)
    return cache


def test_least_recently_used_is_dropped_beyond_the_bytes() -> None:
    cache = measured(*"abc")
    assert cache.get("a", lambda: 7) == 100
    cache.put("d", 100)
    assert [key for key in "abcd" if key in cache] == ["a", "c", "d"]

    cache.put("e", 100 + HUNDRED)
    assert ([key for key in "acde" if key in cache], cache.peek("a")) == (["d", "e"], None)


def test_value_above_the_limit_stays_until_the_next() -> None:
    cache = measured("a")
    assert [cache.get("large", lambda: 10_000), cache.get("large", lambda: 7)] == [10_000] * 2
    assert "a" not in cache

    cache.put("b", 100)
    assert (len(cache), cache.bytes) == (1, HUNDRED)


def test_grown_value_is_weighed_again() -> None:
    cache = LRU[str, list[int]](9, most_bytes=2 * HUNDRED, weigh=lambda _, value: sum(value))
    growing = [100]
    cache.put("a", [100])
    cache.put("b", growing)
    growing.append(50)
    cache.weigh_again("b")

    assert (cache.peek("a"), cache.peek("b"), cache.bytes) == (None, growing, HUNDRED + 50)


CALLS = st.tuples(st.sampled_from(["get", "put", "drop"]), st.sampled_from("abcde"), st.integers(0, 500))


@given(st.lists(CALLS, max_size=40), st.integers(1, 4), st.integers(1, 1000))
def test_cache_never_exceeds_its_limits(calls: list[tuple[str, str, int]], limit: int, most: int) -> None:
    cache = LRU[str, int](limit, most_bytes=most, weigh=lambda _, value: value)
    for call, key, value in calls:
        if call == "get":
            assert cache.get(key, partial(int, value)) == cache.peek(key)
        elif call == "put":
            cache.put(key, value)
        else:
            cache.drop(key)
        assert cache.bytes == sum(cache.peek(name) or 0 for name in "abcde") + len(cache) * ENTRY_BYTES
        assert len(cache) <= limit
        assert cache.bytes <= most or len(cache) == 1


@pytest.mark.parametrize("text", [b"", b"x" * 10**6])
def test_digest_is_short_and_differs_by_text(text: bytes) -> None:
    assert len(digest(text)) == 32
    assert digest(text) == digest(bytes(text)) != digest(text + b"y")


def test_function_remembers_results_within_its_bytes() -> None:
    calls: list[str] = []

    @remembering(9, most_bytes=3000)
    def repeated(letter: str, times: int) -> str:
        """Repeat a letter."""
        calls.append(letter)
        return letter * times

    assert repeated.__doc__ == "Repeat a letter."
    assert [repeated(letter, 1000) for letter in "aabca"] == [letter * 1000 for letter in "aabca"]
    assert "".join(calls) == "abca"
    assert (len(repeated.cache), repeated.cache.bytes <= 3000) == (2, True)


def test_concurrent_calls_are_all_answered() -> None:
    square = remembering(3)(lambda number: number * number)
    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(square, [*range(20)] * 50)] == [number * number for number in range(20)] * 50
    assert len(square.cache) <= 3
