"""Waits until something is so."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tools.clusters.waiting import SELDOM, seconds_until

T = TypeVar("T")


async def eventually(
    look: Callable[[], Awaitable[T]], right: Callable[[T], bool], what: str, *, within: float = 60
) -> T:
    """The first result of `look` that is right; fails with `what` was expected after so many seconds."""
    found: list[T] = []

    async def seen() -> T:
        found[:] = [await look()]
        return found[0]

    await seconds_until(seen, right, what=what, within=within, every=SELDOM)
    return found[0]
