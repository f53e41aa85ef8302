"""Notices on standard error, in addition to the answer: what was skipped, and progress."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Timer

from rich.console import Console

from numalign.kube.command_line import for_terminal

PROBLEMS_SHOWN = 10
SECONDS = 1.0
"""Work that takes no longer shows no progress."""


def notify(words: str) -> None:
    """Print one notice."""
    console = Console(stderr=True)
    # A terminal wraps at words; a log keeps each notice on one line, so that it can be searched.
    console.print(for_terminal(words), markup=False, highlight=False, soft_wrap=not console.is_terminal)


def notify_skipped(problems: Sequence[object]) -> None:
    """Print the first few problems, and how many more there are."""
    for problem in problems[:PROBLEMS_SHOWN]:
        notify(f"skipped: {problem}")
    if len(problems) > PROBLEMS_SHOWN:
        notify(f"skipped: {len(problems) - PROBLEMS_SHOWN} more objects")


@contextmanager
def waiting(doing: str) -> Iterator[Callable[[str], None]]:
    """Show on a terminal work that takes over a second; yield a function to call with the progress."""
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield lambda _now: None
        return
    status = console.status(f"{doing} ...")
    timer = Timer(SECONDS, status.start)
    timer.start()
    try:
        yield lambda now: status.update(f"{now} ...")
    finally:
        timer.cancel()
        # The timer may be starting the status at this moment.
        timer.join()
        status.stop()
