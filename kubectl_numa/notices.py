"""What people are told on standard error beside an answer: what was left out, and what takes its time."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Timer

from rich.console import Console

from numalign.kube.command_line import for_terminal

PROBLEMS_SHOWN = 10
SECONDS = 1.0
"""What takes no longer goes without a word."""


def tell(words: str) -> None:
    """One remark."""
    console = Console(stderr=True)
    # A screen shows whole words; whoever searches a log looks for whole lines.
    console.print(for_terminal(words), markup=False, highlight=False, soft_wrap=not console.is_terminal)


def tell_left_out(problems: Sequence[object]) -> None:
    """The first few, and how many more there are."""
    for problem in problems[:PROBLEMS_SHOWN]:
        tell(f"left out: {problem}")
    if len(problems) > PROBLEMS_SHOWN:
        tell(f"left out: {len(problems) - PROBLEMS_SHOWN} more objects")


@contextmanager
def waiting(doing: str) -> Iterator[Callable[[str], None]]:
    """Show on a terminal what takes over a second; what is given says what is done by now."""
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
        # It may be starting at this very moment.
        timer.join()
        status.stop()
