"""
Limits on concurrent requests to the map: in total, and for one viewer.

A what-if question evaluates every node, a thousand times for a thousand replicas. Questions are answered one
after the other; a limited number of others wait.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from numalign.map.access import Unavailable

T = TypeVar("T")

MOST_CALLS_EACH = 16
"""Most concurrent calls of one viewer without streams: a browser makes six."""

MOST_QUESTIONS, MOST_QUESTIONS_EACH = 16, 2
"""Most what-if questions of all viewers, and of one, including those that wait."""

QUESTION_SECONDS = 30.0
"""The timeout of a question in seconds, including its wait."""


@dataclass(slots=True)
class Turnstile:
    """Counts calls and questions by the keys of viewers."""

    _calls: Counter[bytes] = field(default_factory=Counter)
    _questions: Counter[bytes] = field(default_factory=Counter)

    @contextmanager
    def call(self, key: bytes) -> Iterator[None]:
        """Count one more call inside the `with`; raise `Unavailable` if there are too many."""
        if self._calls[key] >= MOST_CALLS_EACH:
            raise Unavailable("You are loading too many pages at once: wait for some of them.")
        with counted(self._calls, key):
            yield

    async def answer(self, key: bytes, question: Callable[[], Awaitable[T]]) -> T:
        """Return the answer to a question; raise `Unavailable` for too many, or if it takes too long."""
        if self._questions.total() >= MOST_QUESTIONS or self._questions[key] >= MOST_QUESTIONS_EACH:
            raise Unavailable("Other requests are still being processed: try again in a moment.")
        with counted(self._questions, key):
            try:
                async with asyncio.timeout(QUESTION_SECONDS):
                    return await question()
            except TimeoutError as error:
                raise Unavailable(
                    f"This took longer than {QUESTION_SECONDS:g} s: ask for fewer replicas."
                ) from error


@contextmanager
def counted(counter: Counter[bytes], key: bytes) -> Iterator[None]:
    """Count one more of a key inside the `with`."""
    counter[key] += 1
    try:
        yield
    finally:
        counter[key] -= 1
        if not counter[key]:
            del counter[key]
