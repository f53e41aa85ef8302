"""
Lines that are readable at eighty columns and in a pipe.

An entry is a label with words beside it, indented if they take several lines. Words are never broken, because
a class or an annotation is there to be copied, and lines that start with a space (a caret under a position)
are unchanged. Text from manifests is never interpreted as markup. What was skipped, and progress, goes to
standard error.
"""

import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import Any

from rich.console import Console
from rich.text import Text

from numalign.kube.command_line import for_terminal
from numalign.model.errors import one_line
from numalign.model.resources import readable_zone

NARROWEST = 40
USUAL = 80
"""Columns of a pipe."""

_LEAST_WORDS = 10
_PROBLEMS_SHOWN = 10
PROGRESS_AFTER_SECONDS = 1.0
"""Work that takes no longer shows no progress."""


class TextWriter:
    """A terminal or a pipe, written line by line."""

    def __init__(self, console: Console) -> None:
        # COLUMNS may have any value, and without columns nothing would be shown.
        console.width = max(console.width, NARROWEST)
        self.console = console

    @property
    def width(self) -> int:
        """Return the number of columns; 80 without a terminal."""
        return self.console.width

    @property
    def plain(self) -> bool:
        """Return whether only ASCII can be shown."""
        return self.console.options.ascii_only

    def write(self, *lines: Text | str) -> None:
        """Write lines, each as one, without control characters: manifests may contain anything."""
        for line in lines:
            text = line.copy() if isinstance(line, Text) else Text(line)
            text.plain = for_terminal(one_line(text.plain))
            if self.console.color_system is None:
                # Rendering takes most of the time of long answers, and is unnecessary without styles.
                self.console.file.write(f"{text.plain}\n")
            else:
                self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def line(self, label: str, words: str, *, indent: int, style: str = "", label_style: str = "") -> None:
        """Write an entry, but on one line unless on a terminal: programs search line by line."""
        if self.console.is_terminal or self.width < USUAL:
            self.entry(label, words, indent=indent, style=style, label_style=label_style)
        else:
            first, *others = _parts(words)
            self.write(Text.assemble((f"{label:<{indent}}", label_style), (first, style)))
            self.write(*(Text(other, style) for other in others))

    def entry(self, label: str, words: str, *, indent: int, style: str = "", label_style: str = "") -> None:
        """Write a label, and words from column `indent` on, in as many lines as they need."""
        head = f"{label:<{indent}}"
        for line in [*_wrapped(words, max(self.width - indent, _LEAST_WORDS))] or [""]:
            both = Text.assemble((head, label_style), (line, style))
            self.write(both if line else Text(head.rstrip(), label_style))
            head = " " * indent


def notify(words: str) -> None:
    """Print one notice."""
    console = Console(stderr=True)
    # A terminal wraps at words; a log keeps each notice on one line, so that it can be searched.
    console.print(for_terminal(words), markup=False, highlight=False, soft_wrap=not console.is_terminal)


def notify_skipped(problems: Sequence[object]) -> None:
    """Print the first few problems, and how many more there are."""
    for problem in problems[:_PROBLEMS_SHOWN]:
        notify(f"skipped: {problem}")
    if len(problems) > _PROBLEMS_SHOWN:
        notify(f"skipped: {len(problems) - _PROBLEMS_SHOWN} more objects")


@contextmanager
def waiting(doing: str) -> Iterator[Callable[[str], None]]:
    """Show on a terminal work that takes over a second; yield a function to call with the progress."""
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield lambda _now: None
        return
    status = console.status(f"{doing} ...")
    timer = Timer(PROGRESS_AFTER_SECONDS, status.start)
    timer.start()
    try:
        yield lambda now: status.update(f"{now} ...")
    finally:
        timer.cancel()
        # The timer may be starting the status at this moment.
        timer.join()
        status.stop()


def some(names: Iterable[str], *, most: int = 4) -> str:
    """Return names as a readable list; only the first ones, if there are many."""
    every = list(names)
    if len(every) > most:
        return f"{', '.join(every[: most - 1])} and {len(every) - most + 1:,} more"
    return ", ".join(every)


def full_name(namespace: str, name: str) -> str:
    """Return NAMESPACE/NAME, or the name alone of what belongs to no namespace."""
    return f"{namespace}/{name}" if namespace else name


def counted(count: int, what: str = "node") -> str:
    """Return a number of things: `1 node`, `1,523 nodes`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def amounts(quantities: Mapping[str, Any]) -> str:
    """Return quantities with their resources: `8 cpu, 48Gi memory`."""
    return ", ".join(f"{quantity} {resource}" for resource, quantity in quantities.items())


def zones(placement: Iterable[Mapping[str, Any]]) -> str:
    """Return a placement in words: `zone 0: 8 cpu; zone 0 and zone 1 together: 64Gi memory`."""
    parts = [
        f"{', '.join(more)} and {last} together: {amounts(entry['amount'])}"
        if more
        else f"{last}: {amounts(entry['amount'])}"
        for entry in placement
        for *more, last in [[*map(readable_zone, entry["zones"])]]
    ]
    return "; ".join(parts) or "nothing exclusive, so any zone will do"


def _wrapped(words: str, width: int) -> Iterator[str]:
    for part in _parts(words):
        if part.startswith(" "):
            yield part
            continue
        # A line break never separates a zone from its number.
        joined = _ZONE.sub(f"zone{_STAYS}", part)
        for line in textwrap.wrap(joined, width, break_long_words=False, break_on_hyphens=False):
            yield line.replace(_STAYS, " ")


def _parts(words: str) -> list[str]:
    # What is indented below a text is a command, or a caret under a place; no other line break is ours.
    return [one_line(part) for part in _INDENTED.split(words)]


_STAYS = "\N{NO-BREAK SPACE}"
_INDENTED = re.compile(r"\n(?=  )")
_ZONE = re.compile(r"\bzone (?=[0-9])")
