"""
Lines that stay readable at eighty columns and in a pipe.

A label, and words that hang beside it when they do not fit in one line. Words are never broken, since a
class or an annotation is there to be copied, and lines that begin with a space (a caret under its place)
stay as they are. Text from manifests is never read as markup.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

NARROWEST = 40

_UNSEEN = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


class Paper:
    """A terminal or a pipe, written on line by line."""

    def __init__(self, console: Console) -> None:
        # COLUMNS may say anything, and on no columns nothing would be shown.
        console.width = max(console.width, NARROWEST)
        self.console = console

    @property
    def width(self) -> int:
        """Columns; 80 where there is no terminal."""
        return self.console.width

    @property
    def plain(self) -> bool:
        """Whether nothing but ASCII can be shown."""
        return self.console.options.ascii_only

    def write(self, *lines: Text | str) -> None:
        """Write lines as they are."""
        for line in lines:
            self.console.print(_harmless(line), markup=False, highlight=False, soft_wrap=True)

    def entry(self, label: str, words: str, *, indent: int, style: str = "", label_style: str = "") -> None:
        """A label of a fixed place, and words beside it."""
        self.write(
            *hanging(label, words, width=self.width, indent=indent, style=style, label_style=label_style)
        )


def hanging(  # noqa: PLR0913 - one keyword for each property of the layout
    label: str, words: str, *, width: int, indent: int, style: str = "", label_style: str = ""
) -> Iterator[Text]:
    """The label, and the words from column `indent` on, in as many lines as they need."""
    head = f"{label:<{indent}}"
    for line in _wrapped(words, width - indent) or [""]:
        yield Text.assemble((head, label_style), (line, style)) if line else Text(head.rstrip(), label_style)
        head = " " * indent


def _harmless(line: Text | str) -> Text:
    """What manifests hold may not steer the terminal."""
    text = line.copy() if isinstance(line, Text) else Text(line)
    text.plain = _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text.plain)
    return text


def some(names: Iterable[str], *, most: int = 4) -> str:
    """Names as a person lists them; only the first ones, where there are many."""
    listed = list(names)
    if len(listed) > most:
        return f"{', '.join(listed[: most - 1])} and {len(listed) - most + 1:,} more"
    return ", ".join(listed)


def counted(count: int, what: str = "node") -> str:
    """A number of things: `1 node`, `1,523 nodes`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def amounts(quantities: Mapping[str, Any]) -> str:
    """Quantities with their resources: `8 cpu, 48Gi memory`."""
    return ", ".join(f"{quantity} {resource}" for resource, quantity in quantities.items())


def zones(placement: Iterable[Mapping[str, Any]]) -> str:
    """A placement in words: `node-0: 8 cpu; node-0 and node-1 together: 64Gi memory`."""
    parts = [f"{_together(entry['zones'])}: {amounts(entry['amount'])}" for entry in placement]
    return "; ".join(parts) or "nothing of its own, so any zone will do"


def _together(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} together"


def _wrapped(words: str, width: int) -> list[str]:
    return [
        part
        for line in words.splitlines()
        for part in (
            [line]
            if line.startswith(" ")
            else textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
        )
    ]
