"""
Computations that run a step at a time.

The rules never wait, but their callers may have other requests to serve. A long computation is a generator:
it does nothing by itself, pauses between its steps, and returns its result at the end.
"""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
"""A generator that yields None between its steps and returns the result."""


def finished(steps: Steps[T]) -> T:
    """Return the result of the generator, after running all its steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            answer: T = done.value
            return answer
