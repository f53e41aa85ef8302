"""Command-line flags and output that all benchmarks have in common."""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

import orjson


def parser(module: str, doc: str | None) -> argparse.ArgumentParser:
    """Return a parser for `python -m module` with a docstring as its description and the flag `--json`."""
    made = argparse.ArgumentParser(
        prog=f"python -m {module}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write all figures here, for a program")
    return made


def several(known: Iterable[str], what: str) -> Callable[[str], tuple[str, ...]]:
    """Return a parser of `NAME,...`: the known names that are given, in the order of `known`."""
    listed = tuple(known)

    def read(text: str) -> tuple[str, ...]:
        names = text.split(",")
        if unknown := sorted({*names} - {*listed}):
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: the {what} are {', '.join(listed)}")
        return tuple(name for name in listed if name in names)

    return read


def number(text: str) -> int:
    """Return a whole number above zero; raise `ArgumentTypeError` for anything else."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}: a whole number above zero is needed")
    return int(text)


def numbers(*, most: int | None = None) -> Callable[[str], tuple[int, ...]]:
    """Return a parser of `N,...`: whole numbers above zero, in the given order, none above `most`."""

    def read(text: str) -> tuple[int, ...]:
        found = tuple(map(number, text.split(",")))
        if most and max(found) > most:
            raise argparse.ArgumentTypeError(f"{text}: {most} is the most")
        return found

    return read


def write(document: object, file: Path | None) -> None:
    """Write figures to the file of `--json`, if it is given."""
    if file:
        file.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))
