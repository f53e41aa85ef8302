"""
What a command lists, and the output formats: `-o text|wide|name|json|yaml`.

Every command that lists creates a `Listing`, so that a format looks the same everywhere. `text` is drawn by
the command itself, or else it is a table of the columns; `wide` is the table with more columns, one line each
however long, as in kubectl; `name` is TYPE/NAME, one per line; `json` and `yaml` contain the same documents,
for programs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kubectl_numa.lines import TextWriter

NO_VALUE = "<none>"
"""An empty cell of a table, as in kubectl."""

_GAP = 3


class Output(StrEnum):
    """The output formats."""

    TEXT = "text"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"


@dataclass(frozen=True, slots=True)
class ListedRow:
    """One listed object: its TYPE/NAME, such as `pod/web`, and its cells, those of wide columns last."""

    name: str
    cells: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """What a command lists.

    `rows` are used for `name`, `wide` and tables, and may be an iterator; `documents` returns the contents of
    JSON and YAML, a list with a document for each object; `text`, if given, draws the text for people.
    """

    columns: tuple[str, ...]
    rows: Iterable[ListedRow]
    documents: Callable[[], Sequence[object]]
    wide_columns: tuple[str, ...] = ()
    text: Callable[[TextWriter], object] | None = None


def table(columns: Sequence[str], rows: Iterable[ListedRow]) -> Iterator[str]:
    """Yield the header, then a line for each row; cells beyond the columns are left out."""
    lines = [[column.upper() for column in columns]]
    for row in rows:
        cells = (NO_VALUE if cell in {None, ""} else str(cell) for cell in row.cells[: len(columns)])
        lines.append([on_one_line(cell) for cell in cells])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (f"{cell:<{width + _GAP}}" for cell, width in zip(line, widths, strict=True))
        yield "".join(padded).rstrip()


def on_one_line(text: str) -> str:
    """Return a cell or a name as it is shown, whatever it contains."""
    return " ".join(text.split())
