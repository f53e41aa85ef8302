"""
Work that can be done a step at a time.

The rules never wait, but whoever asks them may have others to answer. What can take long is a generator: it
does nothing by itself, stops between its steps, and gives its answer in the end.
"""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
"""A generator that yields None between its steps and returns the answer."""


def finished(steps: Steps[T]) -> T:
    """Return the value that the generator returns, after all its steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            answer: T = done.value
            return answer
