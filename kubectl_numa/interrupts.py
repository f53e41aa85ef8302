"""Handle Ctrl-C while no command runs: during imports, argument parsing and shutdown."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


def end_at_once() -> None:
    """Make Ctrl-C end the process silently from now on, with the exit code that shells use.

    An interrupted import need not fail: imported modules run callbacks in which an exception is lost.
    """
    signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(128 + signal.SIGINT))


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Do the same inside a `with` block."""
    heeded = signal.getsignal(signal.SIGINT)
    end_at_once()
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, heeded)
