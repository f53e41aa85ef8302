"""
What a command lists, and the forms in which it is printed: `-o text|wide|name|json|yaml`.

Every command that lists makes one `Listing`, so that a form looks alike everywhere. `text` is drawn for
people by the command itself, or else it is the table of the columns; `wide` is the table with more of them,
one line each however long, as kubectl prints it; `name` is TYPE/NAME, one a line; `json` and `yaml` are the
same documents, for programs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kubectl_numa.lines import Paper

NO_VALUE = "<none>"
"""What stands in a table where there is nothing to say, as kubectl writes it."""

_GAP = 3


class Output(StrEnum):
    """The forms of an answer."""

    TEXT = "text"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"


@dataclass(frozen=True, slots=True)
class ListedRow:
    """One thing that is listed: its TYPE/NAME, as `pod/web`, and its cells, those of wide columns last."""

    name: str
    cells: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """What a command lists.

    `rows` are looked at for `name`, `wide` and tables, and may be made as they are; `documents` makes what
    JSON and YAML hold, a list with a document for each thing; `text`, if given, draws for people.
    """

    columns: tuple[str, ...]
    rows: Iterable[ListedRow]
    documents: Callable[[], Sequence[object]]
    wide_columns: tuple[str, ...] = ()
    text: Callable[[Paper], object] | None = None

    def draw(self, paper: Paper) -> None:
        """The text for people."""
        if self.text:
            self.text(paper)
        else:
            paper.write(*table(self.columns, self.rows))

    def draw_wide(self, paper: Paper) -> None:
        """The table with all columns."""
        paper.write(*table((*self.columns, *self.wide_columns), self.rows))

    def names(self) -> Iterator[str]:
        """TYPE/NAME of each that has one."""
        return (_on_one_line(row.name) for row in self.rows if row.name)


def table(columns: Sequence[str], rows: Iterable[ListedRow]) -> Iterator[str]:
    """A line for each row below one with the names of the columns; cells beyond those are left out."""
    lines = [[column.upper() for column in columns], *(_cells(row, len(columns)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (f"{cell:<{width + _GAP}}" for cell, width in zip(line, widths, strict=True))
        yield "".join(padded).rstrip()


def _cells(row: ListedRow, count: int) -> list[str]:
    return [NO_VALUE if cell in {None, ""} else _on_one_line(str(cell)) for cell in row.cells[:count]]


def _on_one_line(text: str) -> str:
    # A cell or a name stays in its line, whatever somebody wrote into it.
    return " ".join(text.split())
