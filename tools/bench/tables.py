"""
A measurement as a value, from which the printed table, the figures as JSON and the page are made.

Cells are numbers and words; a number has three significant digits in a table, and all of them in JSON.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from numalign.curves import Chart, svg
from tools.clusters.gotools import UnavailableError

Json = dict[str, Any]
CellValue = float | str | None

MET, MISSED = "met", "MISSED"
HEAD = ("", "measured", "unit", "compared with", "", "ratio", "target", "")


@dataclass(frozen=True, slots=True)
class Measurement:
    """A table: its name, its head and cells, and a text that explains it; `part` is what measured it."""

    name: str
    cells: Sequence[Sequence[CellValue]]
    text: str = ""
    head: Sequence[str] = HEAD
    part: str = ""

    def printed(self) -> str:
        """Return the table with columns as wide as needed; all but the first are aligned to the right."""
        lines = [list(self.head), *self._rows()]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        rows = (
            "  ".join(
                cell.rjust(width) if at else cell.ljust(width)
                for at, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )
        return "\n".join((self.name, *rows))

    def markdown(self) -> Iterator[str]:
        """Yield the lines of the same table in Markdown."""
        yield f"| {' | '.join(self.head)} |"
        yield f"|---|{'---:|' * (len(self.head) - 1)}"
        yield from (f"| {' | '.join(row)} |" for row in self._rows())

    def _rows(self) -> Iterator[list[str]]:
        return ([shown(cell) for cell in row] for row in self.cells)


def row(  # noqa: PLR0913  the columns of HEAD
    what: str,
    found: float | None,
    unit: str = "ms",
    beside: tuple[float | None, str] = (None, ""),
    *,
    most: float | None = None,
    least: float | None = None,
) -> Sequence[CellValue]:
    """Return a row under `HEAD`: a figure, what it is compared with, and its target, `most` or `least`.

    A figure that would take too long to measure is None.
    """
    other, what_other = beside
    ratio = found / other if found is not None and other else None
    target, verdict = "", ""
    if most is not None or least is not None:
        met = found is not None and found <= (most or found) and found >= (least or found)
        target = f"≤ {shown(most)}" if least is None else f"≥ {shown(least)}"
        verdict = MET if met else MISSED
    measured: CellValue = "too long" if found is None else found
    return what, measured, unit, "" if other is None else other, what_other, ratio, target, verdict


def shown(cell: CellValue) -> str:
    """Return a cell of a table."""
    if cell is None or isinstance(cell, str):
        return cell or ""
    if isinstance(cell, int) or abs(cell) >= 100:  # noqa: PLR2004  three digits
        return f"{cell:,.0f}"
    return f"{cell:.3g}" if abs(cell) >= 1 else f"{float(f'{cell:.3g}'):.10g}"


def dumped(document: object) -> bytes:
    """Return a document as it is stored."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2)


def write_json(found: Iterable[Measurement], file: Path | None) -> None:
    """Write measurements to a file, if it is given."""
    if file:
        file.write_bytes(dumped([asdict(each) for each in found]))


def write_page(page: str, figures: object, charts: Mapping[str, Chart], file: Path | None) -> None:
    """Write a page, if its file is given, next to it the figures that it is made from, and its charts."""
    if file:
        file.write_text(page, encoding="utf-8")
        file.with_suffix(".json").write_bytes(dumped(figures))
        for name, chart in charts.items():
            file.with_name(f"{file.stem}-{name}.svg").write_text(svg(chart), encoding="utf-8")


# ---- the programs that measure

Main = Callable[[Sequence[str] | None], int]
Flag = tuple[Any, Any, str]
"""The default of a flag, its value in a quick run, and its description; the default decides its type."""


JSON: Flag = None, None, "write all figures to this file"


def parsed(name: str, doc: str | None, arguments: Sequence[str] | None, **flags: Flag) -> argparse.Namespace:
    """Return the values of these flags; `--quick` sets those that are not given."""
    parser = argparse.ArgumentParser(
        prog=f"python -m tools.bench{'.' * bool(name)}{name}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--quick", action="store_true", help="use tiny inputs, to check that everything works"
    )
    for flag, (default, _, said) in flags.items():
        word = f"--{flag.replace('_', '-')}"
        if isinstance(default, bool):
            parser.add_argument(word, action="store_true", help=said)
        else:
            told = ",".join(map(str, default)) if isinstance(default, tuple) else default
            end = "" if default is None else f" (default {told})"
            parser.add_argument(word, type=_reader(default), help=said + end)
    chosen = parser.parse_args(arguments)
    for flag, (default, quick, _) in flags.items():
        if getattr(chosen, flag) is None:
            setattr(chosen, flag, quick if chosen.quick else default)
    return chosen


def _reader(default: object) -> Callable[[str], object]:
    """Return how the value of a flag is read: a path if its default is None, several values for a tuple."""
    if default is None:
        return Path
    if isinstance(default, tuple):
        of_one = _reader(default[0])
        return lambda text: tuple(map(of_one, text.split(",")))
    kind = type(default)
    return positive(kind) if kind in {int, float} else kind


def positive(kind: Callable[[str], float]) -> Callable[[str], float]:
    """Return a reader of numbers that are not below zero."""

    def read(text: str) -> float:
        found = kind(text)
        if found < 0:
            raise argparse.ArgumentTypeError(f"{text} is below zero")
        return found

    return read


def one_of(word: str, names: Iterable[str]) -> None:
    """Exit with a message if a word is none of some names."""
    known = list(names)
    if word not in known:
        sys.exit(f"{word}: use one of {', '.join(known)}")


def program(
    name: str,
    doc: str | None,
    measure: Callable[[argparse.Namespace], Iterable[Measurement]],
    **flags: Flag,
) -> Main:
    """Return a program that measures as its flags say, and prints tables.

    Its exit code is 0 however slow it was, or 69 if what it needs is not available here.
    """

    def main(arguments: Sequence[str] | None = None) -> int:
        chosen = parsed(name, doc, arguments, json=JSON, **flags)
        try:
            found = list(measure(chosen))
        except UnavailableError as error:
            sys.stderr.write(f"{error}\n")
            return os.EX_UNAVAILABLE
        print("\n\n".join(each.printed() for each in found))
        write_json(found, chosen.json)
        return 0

    return main
