"""
How much of the map is worked out at once: in all, and for one viewer.

A what-if question looks at every node, a thousand times where a thousand replicas are asked for. They are
worked out one after the other; the others wait, but not many of them.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeVar

from numalign.map.access import AccessRefused

T = TypeVar("T")

MOST_CALLS_EACH = 16
"""Calls of one viewer at once, streams aside: a browser makes six."""

MOST_QUESTIONS, MOST_QUESTIONS_EACH = 16, 2
"""What-if questions that are there, those that wait among them: of all viewers, and of one."""

QUESTION_SECONDS = 30.0
"""From when a question comes until its answer is there."""


class Busy(AccessRefused):
    """Raised where a viewer, or all together, ask for more than is worked out at once."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


@dataclass(slots=True)
class Turnstile:
    """Counts calls and questions by whoever the keys stand for."""

    _calls: Counter[bytes] = field(default_factory=Counter)
    _questions: Counter[bytes] = field(default_factory=Counter)

    @contextmanager
    def call(self, key: bytes) -> Iterator[None]:
        """One more call inside the `with`; raises `Busy`."""
        if self._calls[key] >= MOST_CALLS_EACH:
            raise Busy("You are loading too many pages at once: wait for some of them.")
        with _counted(self._calls, key):
            yield

    async def answer(self, key: bytes, question: Callable[[], Awaitable[T]]) -> T:
        """Return what a question comes to; raises `Busy`."""
        if self._questions.total() >= MOST_QUESTIONS or self._questions[key] >= MOST_QUESTIONS_EACH:
            raise Busy("Other requests are still being processed: try again in a moment.")
        with _counted(self._questions, key):
            try:
                async with asyncio.timeout(QUESTION_SECONDS):
                    return await question()
            except TimeoutError as error:
                raise Busy(
                    f"This took longer than {QUESTION_SECONDS:g} s: ask for fewer replicas."
                ) from error


@contextmanager
def _counted(counter: Counter[bytes], key: bytes) -> Iterator[None]:
    counter[key] += 1
    try:
        yield
    finally:
        counter[key] -= 1
        if not counter[key]:
            del counter[key]
