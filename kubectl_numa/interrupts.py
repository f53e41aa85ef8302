"""Ctrl-C while the program is imported."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process without a word, with the exit code that shells give it.

    An import that is interrupted need not fail: what imports runs callbacks in which an exception is lost.
    """
    heeded = signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(128 + signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, heeded)
