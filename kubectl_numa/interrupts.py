"""Ctrl-C where no command runs: while the program is imported, reads its arguments, or is taken down."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


def end_at_once() -> None:
    """From now on Ctrl-C ends the process without a word, with the exit code that shells give it.

    An import that is interrupted need not fail: what imports runs callbacks in which an exception is lost.
    """
    signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(128 + signal.SIGINT))


@contextmanager
def ending_at_once() -> Iterator[None]:
    """The same for a while."""
    heeded = signal.getsignal(signal.SIGINT)
    end_at_once()
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, heeded)
