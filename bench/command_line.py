"""What the commands of measurements have in common."""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

import orjson


def parser(module: str, doc: str | None) -> argparse.ArgumentParser:
    """A parser for `python -m module` that explains itself with its docstring and knows `--json`."""
    made = argparse.ArgumentParser(
        prog=f"python -m {module}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write all figures here, for a program")
    return made


def several(known: Iterable[str], what: str) -> Callable[[str], tuple[str, ...]]:
    """A reader of `NAME,...`: the known names that are given, in their order."""
    listed = tuple(known)

    def read(text: str) -> tuple[str, ...]:
        names = text.split(",")
        if unknown := sorted({*names} - {*listed}):
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: the {what} are {', '.join(listed)}")
        return tuple(name for name in listed if name in names)

    return read


def number(text: str) -> int:
    """Reads a whole number above zero."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}: a whole number above zero is needed")
    return int(text)


def numbers(*, most: int | None = None) -> Callable[[str], tuple[int, ...]]:
    """A reader of `N,...`: whole numbers above zero, in the order given, none above `most`."""

    def read(text: str) -> tuple[int, ...]:
        found = tuple(map(number, text.split(",")))
        if most and max(found) > most:
            raise argparse.ArgumentTypeError(f"{text}: {most} is the most")
        return found

    return read


def write(document: object, file: Path | None) -> None:
    """Write figures to the file of `--json`, if it was given."""
    if file:
        file.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))
