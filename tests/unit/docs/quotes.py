"""
What docs/troubleshooting.md quotes of programs.

An HTML comment in the line before a block or a table says where its text is from:

    <!-- message: never -->                 our own code prints it, by this name in `tests.unit.docs.printed`
    <!-- table: doctor-findings -->         the same for rows: a first cell is a name, the next ones are texts
    <!-- template: controller/held.py -->   each line is one of the texts in that file, its gaps filled in
    <!-- templates: a.py, b.py -->          the same for the cells of a table below `message`
    <!-- from: kubelet -->                  another program prints it
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.unit.docs.blocks import ROOT
from tests.worlds.syntax import parsed, walked

PAGE = ROOT / "docs" / "troubleshooting.md"

_BLOCK = re.compile(
    r"^<!-- (message|template|from): ([^\n]+?) -->\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
_TABLE = re.compile(r"^<!-- (table|templates): ([^\n]+?) -->\n((?:\|[^\n]*\n)+)", re.MULTILINE)
_CODE = re.compile(r"(`+) ?(.+?) ?\1(?!`)")
_CELL = re.compile(r"(?<!\\)\|")
_FEWEST_LITERAL = 9


class Quote(NamedTuple):
    """A block of text on the page, and where it is from."""

    source: str
    name: str
    text: str


def quotes(page: str) -> list[Quote]:
    """All blocks that say where they are from."""
    return [Quote(source, name, text.rstrip("\n")) for source, name, text in _BLOCK.findall(page)]


def tables(page: str) -> dict[str, dict[str, list[str]]]:
    """The other cells of each row, by the name of the table and the name in the first cell."""
    return {
        name: {first.strip("`"): rest for first, *rest in _rows(rows)[2:]}
        for source, name, rows in _TABLE.findall(page)
        if source == "table"
    }


def templated(page: str) -> Iterator[tuple[str, list[Path]]]:
    """Each text that says in which files it is, of blocks and of tables."""
    for quote in quotes(page):
        if quote.source == "template":
            yield from ((line, [ROOT / quote.name]) for line in quote.text.splitlines())
    for source, files, rows in _TABLE.findall(page):
        if source == "templates":
            head, _, *body = _rows(rows)
            texts = (text for row in body for _, text in _CODE.findall(row[head.index("message")]))
            yield from ((text, [ROOT / file for file in files.split(", ")]) for text in texts)


def rewritten(page: str, messages: Mapping[str, str], rows: Mapping[str, Mapping[str, Sequence[str]]]) -> str:
    """The page with every quote of our own code as it is printed; raises `KeyError` for an unknown name."""

    def block(found: re.Match[str]) -> str:
        source, name, _ = found.groups()
        return (
            f"<!-- message: {name} -->\n```text\n{messages[name]}\n```" if source == "message" else found[0]
        )

    def table(found: re.Match[str]) -> str:
        source, name, old = found.groups()
        if source != "table":
            return found[0]
        written = old.splitlines()
        for at, (first, *rest) in [*enumerate(_rows(old))][2:]:
            texts = ["`" + text.replace("|", "\\|") + "`" for text in rows[name][first.strip("`")]]
            written[at] = f"| {' | '.join([first, *texts, *rest[len(texts) :]])} |"
        return "\n".join([f"<!-- table: {name} -->", *written, ""])

    return _TABLE.sub(table, _BLOCK.sub(block, page))


def _rows(lines: str) -> list[list[str]]:
    return [[cell.strip() for cell in _CELL.split(line.strip()[1:-1])] for line in lines.splitlines()]


@cache
def templates(path: Path) -> tuple[str, ...]:
    """The texts for people in a source file as patterns: whatever is filled in is any text."""
    if path.suffix != ".py":
        texts = re.findall(r'"((?:[^"\\\n]|\\.)+)"', path.read_text())
        lines = (line.strip() for text in texts for line in text.split("\\n"))
        return tuple(filter(None, (_of_parts(re.split("%[sqd]", line)) for line in lines)))
    tree = walked(parsed(path.read_text()))
    documentation = {id(node.value) for node in tree if isinstance(node, ast.Expr)}
    parts = {id(part) for node in tree if isinstance(node, ast.JoinedStr) for part in node.values}
    return tuple(
        dict.fromkeys(
            filter(None, (_pattern(node) for node in tree if id(node) not in documentation | parts))
        )
    )


def _pattern(node: ast.AST) -> str:
    """A pattern for what a text can become; empty for what is none."""
    match node:
        case ast.Constant(value=str(text)):
            return _of_parts(re.split(r"\{\w*\}", text))
        case ast.JoinedStr(values=pieces):
            texts = (str(each.value) if isinstance(each, ast.Constant) else "\0" for each in pieces)
            return _of_parts("".join(texts).split("\0"))
    return ""


def _of_parts(parts: Sequence[str]) -> str:
    """A pattern of these parts with anything between them; empty for what is too short to be recognised."""
    literal = "".join(parts)
    return ".*".join(map(re.escape, parts)) if " " in literal and len(literal) >= _FEWEST_LITERAL else ""


def from_template(line: str, path: Path) -> bool:
    """Whether a file has the text of a line, with "numalign: " before it or not, or of each of its parts."""

    def is_text(part: str) -> bool:
        return any(re.fullmatch(pattern, part) for pattern in templates(path))

    bare = line.strip().removeprefix("numalign: ")
    return is_text(line.strip()) or is_text(bare) or all(map(is_text, bare.split("; ")))
