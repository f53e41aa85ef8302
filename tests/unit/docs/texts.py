"""
Every text that people read, from the files below a root, and where it is written.

Docstrings and comments of Python are for developers, so they are left out.
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.worlds.syntax import parsed, walked

PACKAGES = ("agent", "certs", "controller", "examples", "kubectl_numa", "numalign", "scorer", "webhook")


class Text(NamedTuple):
    """A text, the file or the command that has it, and the line on which it begins there."""

    where: str
    words: str
    line: int = 1


def pages(root: Path) -> Iterator[Text]:
    """Every page of the documents, and those beside the examples and the programs."""
    return _files(root, "*.md", "docs/**/*.md", *(f"{package}/**/*.md" for package in PACKAGES))


def chart(root: Path) -> Iterator[Text]:
    """All of the chart's text: comments of values, notes, templates and alerts."""
    return _files(root, "deploy/chart/*.yaml", "deploy/chart/templates/**/*.*", "deploy/chart/files/*.yaml")


def messages(root: Path) -> Iterator[Text]:
    """The strings of the programs that may be sentences: all but docstrings and single words."""
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            yield from strings(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))


def strings(where: str, source: str) -> Iterator[Text]:
    """The strings of one Python source, f-strings as a whole with `{}` for their values."""
    tree = walked(parsed(source))
    skipped = _docstrings(tree) | _parts(tree)
    for node in tree:
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in skipped:
            words = " ".join(_written(node).split())
            if " " in words:
                yield Text(where, words, node.lineno)


def _files(root: Path, *patterns: str) -> Iterator[Text]:
    for pattern in patterns:
        for path in sorted(root.glob(pattern)):
            yield Text(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))


def _written(node: ast.expr) -> str:
    """A string as it is written; a value that is put into it is `{}`, and what is no string is empty."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_written(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return "{}"
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _docstrings(tree: Iterable[ast.AST]) -> set[int]:
    """The docstrings of modules, classes and functions, and those below attributes."""
    bodies = [body for node in tree if isinstance(body := getattr(node, "body", None), list)]
    return {
        id(statement.value)
        for body in bodies
        for statement in body
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    }


def _parts(tree: Iterable[ast.AST]) -> set[int]:
    """The strings that are parts of an f-string."""
    return {id(part) for node in tree if isinstance(node, ast.JoinedStr) for part in node.values}
