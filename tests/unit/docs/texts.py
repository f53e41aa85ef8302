"""
Every text that people read, from the files below a root or from a program, and where it is written.

Docstrings and comments of Python are for developers, so they are left out. The docstring of a click command
is its help, and is read from there.
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import click

from numalign.runtime import settings
from numalign.runtime.settings import Settings
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


def examples(root: Path) -> Iterator[Text]:
    """The manifests of the examples, whose comments the demo prints."""
    return _files(root, "examples/**/*.yaml")


def map_pages(root: Path) -> Iterator[Text]:
    """The templates of the map's pages."""
    return _files(root, "numalign/map/templates/**/*.html")


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


def command_help(command: click.Command, name: str, above: click.Context | None = None) -> Iterator[Text]:
    """What --help prints of a click command, and of every command below it."""
    # A command keeps the help option of the first context that asks for it.
    context = click.Context(command, parent=above, info_name=name, **command.context_settings)
    yield Text(f"{context.command_path} --help", command.get_help(context))
    if isinstance(command, click.Group):
        for sub in command.list_commands(context):
            subcommand = command.get_command(context, sub)
            assert subcommand
            yield from command_help(subcommand, sub, context)


def settings_help(model: type[Settings], name: str) -> Iterator[Text]:
    """What --help prints of a program with these settings."""
    yield Text(f"{name} --help", settings.usage(model, prog=name))


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
