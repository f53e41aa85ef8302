"""Waits for conditions, and measures how long that takes."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeVar

import pytest

T = TypeVar("T")

OFTEN = 0.005
SELDOM = 0.2


async def seconds_until(
    look: Callable[[], Awaitable[T]],
    right: Callable[[T], bool],
    *,
    what: str,
    within: float,
    every: float = OFTEN,
) -> float:
    """Wait until the result of `look` is right, and return the seconds; fail after `within` seconds."""
    began = monotonic()
    while not right(seen := await look()):
        if monotonic() - began > within:
            pytest.fail(f"{within:.0f} s were not enough until {what}; seen last: {seen}")
        await asyncio.sleep(every)
    return monotonic() - began


async def until(happened: Callable[[], object]) -> None:
    """Poll until `happened` returns true; fail after half a minute."""
    for _ in range(6_000):
        if happened():
            return
        await asyncio.sleep(OFTEN)
    pytest.fail("it never happened")
