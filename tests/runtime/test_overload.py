"""How much is taken on at once: laws of counting."""

import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.runtime.overload import Excess, Load

SIZES = st.lists(st.integers(0, 200), max_size=30)


@pytest.mark.parametrize(
    ("load", "size", "excess"),
    [
        (Load(2, 100), 5, None),
        (Load(2, 100, calls=1, bytes=60), 40, None),
        (Load(2, 100, calls=1, bytes=60), 41, Excess.BYTES),
        (Load(2, 100, calls=2, bytes=60), 41, Excess.CALLS),
        (Load(2, 100, calls=1, bytes=0), 101, None),
        (Load(2, 100, calls=1, bytes=1), 101, Excess.BYTES),
        (Load(2, 100, calls=1, bytes=101), 0, Excess.BYTES),
        (Load(0, 0, calls=9999, bytes=9999), 9999, None),
    ],
    ids=[
        "nothing is there", "just as much as fits", "one byte too many", "a call too many comes first",
        "longer than all, with no other body", "longer than all, beside another", "no room beside a long one",
        "no bounds",
    ],
)  # fmt: skip
def test_what_is_too_much(load: Load, size: int, excess: Excess | None) -> None:
    assert load.excess(size) is excess


@given(SIZES)
def test_more_than_the_bound_is_only_ever_one_body_alone(sizes: list[int]) -> None:
    load, taken = Load(0, 100), []
    with contextlib.ExitStack() as stack:
        for size in sizes:
            if not load.excess(size):
                stack.enter_context(load.carrying(size))
                taken.append(size)
            assert load.bytes == sum(taken)
            assert load.bytes <= 100 or len([size for size in taken if size]) == 1


@given(SIZES)
def test_everything_is_given_back(sizes: list[int]) -> None:
    load = Load(0, 0)
    with contextlib.ExitStack() as stack, contextlib.suppress(RuntimeError):
        for size in sizes:
            stack.enter_context(load.carrying(size))
        raise RuntimeError
    assert (load.calls, load.bytes) == (0, 0)


async def test_the_last_call_is_waited_for() -> None:
    load = Load(0, 0)
    await load.none()
    with load.carrying(1):
        waiting = asyncio.create_task(load.none())
        with load.carrying(1):
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
    async with asyncio.timeout(1):
        await waiting
