"""
Tables of a trace: CSV with a header, of which a few columns are read.

Lines before the header that begin with `#` are comments. All mistakes in a table are reported at once.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from numalign.model.errors import BadInput, Mistake, cut

MOST_BYTES = 2**26
"""Most bytes of one table; the pods of openb take half a MiB."""

MOST_ROWS = 200_000
"""Most rows of one table."""

HIGHEST_FIGURE = 10**12
"""A node with as many millicores or MiB is a mistake."""

_DIGITS = len(str(HIGHEST_FIGURE))
_SHOWN = 64


class TableRow(NamedTuple):
    """One row: whole numbers and words by column; `where` is the file and the line."""

    where: str
    figures: Mapping[str, int]
    words: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TableLayout:
    """Columns with whole numbers and columns with words, with their defaults; None for a required column.

    The default applies in a table without the column. Other columns are not read.
    """

    figures: Mapping[str, int | None]
    words: Mapping[str, str | None] = field(default_factory=dict)


def read_table(path: Path, layout: TableLayout) -> list[TableRow]:
    """Return all rows of a table; raises `BadInput` with every mistake, `OSError` if it cannot be opened."""
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise BadInput([Mistake(str(path), f"larger than {MOST_BYTES // 2**20} MiB")])
    try:
        lines = content.decode("utf-8-sig").splitlines(keepends=True)
    except UnicodeDecodeError as error:
        raise BadInput([Mistake(str(path), f"not a CSV file in UTF-8: {error}")]) from error
    remarks = next((at for at, line in enumerate(lines) if not line.startswith("#")), len(lines))
    try:
        reader = csv.DictReader(lines[remarks:], strict=True)
        header = reader.fieldnames or ()
        rows = [(remarks + reader.line_num, row) for row in islice(reader, MOST_ROWS + 1)]
    except csv.Error as error:
        raise BadInput([Mistake(str(path), f"not a CSV file: {error}")]) from error
    mistakes = [*_mistakes_of_table(path, layout, header, len(rows))]
    mistakes = mistakes or [
        mistake for line, row in rows for mistake in _mistakes_of_row(f"{path}:{line}", layout, row)
    ]
    if mistakes:
        raise BadInput(mistakes)
    return [
        TableRow(
            f"{path}:{line}",
            {name: int(row.get(name, default or 0)) for name, default in layout.figures.items()},
            {name: row.get(name, default or "") for name, default in layout.words.items()},
        )
        for line, row in rows
    ]


def _mistakes_of_table(
    path: Path, layout: TableLayout, header: Sequence[str], rows: int
) -> Iterator[Mistake]:
    columns = {**layout.figures, **layout.words}
    missing = [name for name, default in columns.items() if default is None and name not in header]
    for name in missing:
        yield Mistake(str(path), f'there is no column "{name}"')
    for name in columns:
        if header.count(name) > 1:
            yield Mistake(str(path), f'there are {header.count(name)} columns "{name}": keep one')
    if not (rows or missing):
        yield Mistake(str(path), "there is no row under the header")
    if rows > MOST_ROWS:
        yield Mistake(str(path), f"more than {MOST_ROWS:,} rows")


def _mistakes_of_row(
    where: str, layout: TableLayout, row: Mapping[str | None, str | None]
) -> Iterator[Mistake]:
    # The reader puts fields beyond the header there: an extra comma has shifted the columns.
    if None in row:
        yield Mistake(where, "the row has more fields than the header")
    for name in (*layout.figures, *layout.words):
        if name in row and row[name] is None:
            yield Mistake(where, f"{name} is missing: the row is cut off")
    for name in layout.figures:
        text = row.get(name)
        if text is not None and not (text.isascii() and text.isdecimal() and len(text) < _DIGITS):
            yield Mistake(where, f"{name} is {cut(text, _SHOWN)!r}: a whole number is needed")
