"""What is remembered: the most recent, so many of them and so many bytes."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.lru import ENTRY_BYTES, LRU, digest, remembering

HUNDRED = 100 + ENTRY_BYTES
"""Bytes of an entry that weighs a hundred."""


def measured(limit: int = 1000, *, entries: int) -> LRU[str, int]:
    """What has room for so many entries of a hundred bytes; the values are what they weigh."""
    return LRU(limit, most_bytes=entries * HUNDRED, weigh=lambda _, value: value)


def fail() -> int:
    raise AssertionError("it was remembered")


def test_what_is_remembered_is_not_made_again() -> None:
    recent = measured(entries=3)

    assert [recent.get("a", lambda: 100), recent.get("a", fail)] == [100, 100]
    assert (len(recent), recent.bytes, "a" in recent, recent.peek("b")) == (1, HUNDRED, True, None)


def test_least_recently_used_entry_is_evicted_first() -> None:
    recent = measured(entries=3)
    for key in "abc":
        recent.put(key, 100)
    recent.get("a", fail)
    recent.put("d", 100)

    assert [key for key in "abcd" if key in recent] == ["a", "c", "d"]
    recent.put("e", 100 + HUNDRED)
    assert [key for key in "acde" if key in recent] == ["d", "e"]


def test_entry_beyond_the_limit_stays_until_the_next() -> None:
    recent = measured(entries=3)
    recent.put("a", 100)
    assert recent.get("large", lambda: 10_000) == 10_000
    assert recent.get("large", fail) == 10_000
    assert "a" not in recent

    recent.put("b", 100)
    assert (len(recent), recent.bytes) == (1, HUNDRED)


def test_what_has_grown_is_weighed_again() -> None:
    growing = {"a": [100], "b": [100]}
    recent = LRU[str, list[int]](9, most_bytes=2 * HUNDRED, weigh=lambda _, value: sum(value))
    for key, value in growing.items():
        recent.put(key, value)
    growing["b"].append(50)
    assert recent.bytes == 2 * HUNDRED

    recent.weigh_again("b")
    assert (recent.peek("a"), recent.peek("b"), recent.bytes) == (None, [100, 50], HUNDRED + 50)


def test_what_is_forgotten_takes_nothing() -> None:
    recent = measured(entries=3)
    recent.put("a", 100)
    recent.drop("a")
    recent.drop("a")

    assert (len(recent), recent.bytes, recent.peek("a")) == (0, 0, None)


def test_default_weight_is_that_of_key_and_value() -> None:
    recent = LRU[bytes, str](9, most_bytes=10**6)
    recent.put(b"k" * 1000, "v" * 1000)

    assert 2000 < recent.bytes < 2000 + 2 * ENTRY_BYTES


ACTS = st.tuples(st.sampled_from(["get", "put", "drop"]), st.sampled_from("abcde"), st.integers(0, 500))


@given(st.lists(ACTS, max_size=40), st.integers(1, 4), st.integers(1, 1000))
def test_it_never_takes_more_than_it_may(acts: list[tuple[str, str, int]], limit: int, most: int) -> None:
    recent = LRU[str, int](limit, most_bytes=most, weigh=lambda _, value: value)
    for act, key, value in acts:
        if act == "get":
            assert recent.get(key, partial(int, value)) == recent.peek(key)
        elif act == "put":
            recent.put(key, value)
        else:
            recent.drop(key)
        kept = [recent.peek(name) or 0 for name in "abcde"]
        assert recent.bytes == sum(kept) + len(recent) * ENTRY_BYTES
        assert len(recent) <= limit
        assert recent.bytes <= most or len(recent) == 1


@pytest.mark.parametrize("text", [b"", b"x", b"x" * 10**6])
def test_a_digest_is_short_and_the_same_for_the_same(text: bytes) -> None:
    assert len(digest(text)) == 32
    assert digest(text) == digest(bytes(text)) != digest(text + b"y")


def test_a_function_remembers_what_it_gave_within_its_bytes() -> None:
    asked: list[tuple[str, int]] = []

    @remembering(9, most_bytes=3000)
    def repeated(letter: str, times: int) -> str:
        """What is given."""
        asked.append((letter, times))
        return letter * times

    assert repeated.__doc__ == "What is given."
    assert [repeated("a", 1000), repeated("a", 1000)] == ["a" * 1000] * 2
    assert asked == [("a", 1000)]

    repeated("b", 1000)
    repeated("c", 1000)
    assert (len(repeated.cache), repeated.cache.bytes <= 3000) == (2, True)
    assert repeated("a", 1000) == "a" * 1000
    assert asked.count(("a", 1000)) == 2


def test_of_many_that_ask_at_once_all_are_answered() -> None:
    square = remembering(3)(lambda number: number * number)
    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(square, [*range(20)] * 50)] == [number * number for number in range(20)] * 50
    assert len(square.cache) <= 3
