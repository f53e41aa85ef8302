"""
A measurement as a value, from which printed tables, the figures as JSON and the pages are made.

Cells are numbers and words; a number has three significant digits in a table, and all of them in JSON.
"""

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from tools.clusters.gotools import UnavailableError

CellValue = float | str | None
Row = Sequence[CellValue]

MET, MISSED = "met", "MISSED"
HEAD = ("", "measured", "unit", "compared with", "", "ratio", "target", "")

MILLI = 1000
SHARES: Mapping[str, float] = {"p50": 0.50, "p99": 0.99, "max": 1.0}


@dataclass(frozen=True, slots=True)
class Measurement:
    """A table: its name, its head and cells, and a text that explains it; `part` is what measured it."""

    name: str
    cells: Sequence[Row]
    text: str = ""
    head: Sequence[str] = HEAD
    part: str = ""

    def markdown(self) -> Iterator[str]:
        yield f"| {' | '.join(self.head)} |"
        yield f"|---|{'---:|' * (len(self.head) - 1)}"
        yield from (f"| {' | '.join(map(shown, row))} |" for row in self.cells)

    def section(self) -> str:
        return "\n".join((f"## {self.name}", "", *([self.text, ""] if self.text else []), *self.markdown()))


def row(  # noqa: PLR0913  the columns of HEAD
    what: str,
    found: float | None,
    unit: str = "ms",
    beside: tuple[float | None, str] = (None, ""),
    *,
    most: float | None = None,
    least: float | None = None,
) -> Row:
    """Return a row under `HEAD`: a figure, what it is compared with, and its target, `most` or `least`.

    A figure that would take too long to measure is None.
    """
    other, what_other = beside
    target, verdict = "", ""
    if most is not None or least is not None:
        met = found is not None and (least or -math.inf) <= found <= (math.inf if most is None else most)
        target = f"≤ {shown(most)}" if least is None else f"≥ {shown(least)}"
        verdict = MET if met else MISSED
    ratio = found / other if found is not None and other else None
    measured = "too long" if found is None else found
    return what, measured, unit, "" if other is None else other, what_other, ratio, target, verdict


def shown(cell: CellValue) -> str:
    if cell is None or isinstance(cell, str):
        return cell or ""
    if isinstance(cell, int) or abs(cell) >= 100:
        return f"{cell:,.0f}"
    return f"{cell:.3g}" if abs(cell) >= 1 else f"{float(f'{cell:.3g}'):.10g}"


def millis(seconds: Iterable[float]) -> dict[str, float]:
    """Return the quantiles `SHARES` of durations in milliseconds, each the smallest that is large enough."""
    ordered = sorted(seconds) or [0.0]
    return {key: ordered[math.ceil(share * len(ordered)) - 1] * MILLI for key, share in SHARES.items()}


def dumped(document: object) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_INDENT_2)


def write_page(page: str, figures: object, file: Path | None) -> None:
    """Write a page, if its file is given, and next to it the figures that it is made from."""
    if file:
        file.write_text(page, encoding="utf-8")
        file.with_suffix(".json").write_bytes(dumped(figures))


Flag = tuple[Any, Any, str]
"""The default of a flag, its value in a quick run, and its description. The default decides its type: a path
for None, several values with commas between them for a tuple."""

MARKDOWN: Flag = None, None, "write the page here, and its figures next to it"


def program(
    name: str, doc: str | None, measure: Callable[[argparse.Namespace], Iterable[Measurement]], **flags: Flag
) -> Callable[[Sequence[str] | None], int]:
    """Return a program that measures as its flags say, and prints tables.

    Its exit code is 0 however slow it was, or 69 if what it needs is not available here.
    """

    def main(arguments: Sequence[str] | None = None) -> int:
        parser = argparse.ArgumentParser(
            prog=f"python -m tools.bench{name and '.'}{name}",
            description=doc,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        words = sys.argv[1:] if arguments is None else arguments
        parser.add_argument("--quick", action="store_true", help="use tiny inputs, to check that it works")
        parser.add_argument("--json", type=Path, help="write all figures to this file")
        for flag, (usual, quick, text) in flags.items():
            default = quick if "--quick" in words else usual
            default = ",".join(map(str, default)) if isinstance(default, tuple) else default
            option, about = f"--{flag.replace('_', '-')}", f"{text} (default %(default)s)"
            parser.add_argument(option, type=_reader(usual), default=default, help=about)
        chosen = parser.parse_args(words)
        found = []
        try:
            for each in measure(chosen):
                print(each.section(), end="\n\n", flush=True)
                found.append(asdict(each))
                if chosen.json:
                    chosen.json.write_bytes(dumped(found))
        except UnavailableError as error:
            sys.stderr.write(f"{error}\n")
            return os.EX_UNAVAILABLE
        return 0

    return main


def _reader(default: object) -> Callable[[str], object]:
    if isinstance(default, tuple):
        return lambda text: tuple(map(_reader(default[0]), text.split(",")))
    return Path if default is None else type(default)


def one_of(word: str, names: Iterable[str]) -> None:
    if word not in (known := list(names)):
        sys.exit(f"{word}: use one of {', '.join(known)}")
