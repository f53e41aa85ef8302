"""A cache drops the least recently used values beyond its limits, large ones first."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.lru import LARGE, LRU, MOST_LARGE, digest, is_large


def cached(*keys: str) -> LRU[str, str]:
    """A cache for ten entries; keys in capitals have large values."""
    cache = LRU[str, str](10, large=lambda key, _: key.isupper())
    for key in keys:
        cache.put(key, key)
    return cache


def kept(cache: LRU[str, str]) -> str:
    return "".join(cache.values())


def test_least_recently_used_is_dropped_beyond_the_limit() -> None:
    cache = cached(*"abcdefghij")
    assert cache.get("a", lambda: "other") == "a"
    assert (cache.find("b"), cache.peek("c")) == ("b", "c")
    cache.put("k", "k")
    cache.put("l", "l")
    assert kept(cache) == "efghijabkl"


def test_large_values_beyond_their_limit_are_dropped() -> None:
    cache = LRU[int, str](100, large=lambda key, _: key > 0)
    for key in (0, *range(1, MOST_LARGE + 1)):
        cache.put(key, str(key))
    assert cache.find(1) == "1"
    cache.put(99, "99")
    assert (0 in cache, 1 in cache, 2 in cache, len(cache)) == (True, True, False, MOST_LARGE + 1)


def test_smaller_limit_counts_from_the_next_value_on() -> None:
    cache = cached(*"abcd")
    cache.limit = 2
    cache.put("e", "e")
    assert kept(cache) == "de"


CALLS = st.tuples(st.sampled_from(["get", "put", "drop"]), st.sampled_from("abcdefABCDEF"))


@given(st.lists(CALLS, max_size=60), st.integers(1, 8))
def test_cache_never_exceeds_its_limits(calls: list[tuple[str, str]], limit: int) -> None:
    cache = LRU[str, str](limit, large=lambda key, _: key.isupper())
    for call, key in calls:
        if call == "get":
            assert cache.get(key, partial(str, key)) == cache.peek(key) == key
        elif call == "put":
            cache.put(key, key)
            assert key in cache
        else:
            cache.drop(key)
            assert key not in cache
        assert len(cache) == len(cache.values()) <= limit
        assert sum(map(str.isupper, cache.values())) <= MOST_LARGE


@pytest.mark.parametrize(
    ("values", "large"),
    [(["x" * 100] * 8, False), (["x" * (LARGE - 9)], False), (["x" * LARGE], True), ([["x"]] * LARGE, True)],
)
def test_values_are_large_by_their_characters_together(values: list[object], *, large: bool) -> None:
    assert is_large(*values) == large


@pytest.mark.parametrize("text", [b"", b"x" * 10**6])
def test_digest_is_short_and_differs_by_text(text: bytes) -> None:
    assert len(digest(text)) == 32
    assert digest(text) == digest(bytes(text)) != digest(text + b"y")
