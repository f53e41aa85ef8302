"""
What a page quotes of programs, and how the quotes are kept true.

An HTML comment in the line before a block or a table says where its text is from:

    <!-- message: never -->                 our own code prints it, by this name in `tests.unit.docs.printed`
    <!-- table: doctor-findings -->         the same for rows: a first cell is a name, the next ones are texts
    <!-- template: controller/held.py -->   each line is one of the texts in that file, its gaps filled in
    <!-- templates: a.py, b.py -->          the same for the cells of a table below `message`
    <!-- from: kubelet -->                  another program prints it

`python -m tests.unit.docs.printed` writes what the code prints now into the page.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.worlds.syntax import parsed, walked

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "troubleshooting.md"

_BLOCK = re.compile(
    r"^<!-- (?P<source>message|template|from): (?P<name>[^\n]+?) -->\n```text\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_TABLE = re.compile(r"^<!-- table: (?P<name>[\w-]+) -->\n(?P<rows>(?:\|[^\n]*\n)+)", re.MULTILINE)
_TEMPLATES = re.compile(r"^<!-- templates: (?P<files>[^\n]+?) -->\n(?P<rows>(?:\|[^\n]*\n)+)", re.MULTILINE)
_CODE = re.compile(r"(`+) ?(.+?) ?\1(?!`)")
_FENCE = re.compile(r"^```text$", re.MULTILINE)
_CELL = re.compile(r"(?<!\\)\|")
_BRACES = re.compile(r"\{\w*\}")
_QUOTED = re.compile(r'"((?:[^"\\\n]|\\.)+)"')
_VERBS = re.compile(r"%[sqd]")
_GAP = "\0"
_FEWEST_LITERAL = 9


@dataclass(frozen=True, slots=True)
class Quote:
    """A block of text on the page, under the heading of its entry."""

    source: str
    name: str
    text: str

    @property
    def lines(self) -> list[str]:
        """Its lines, as a program prints each."""
        return self.text.splitlines()


def quotes(page: str) -> list[Quote]:
    """All blocks that say where they are from."""
    return [
        Quote(found["source"], found["name"], found["text"].rstrip("\n")) for found in _BLOCK.finditer(page)
    ]


def blocks(page: str) -> int:
    """How many blocks of text there are, whether they say where they are from or not."""
    return len(_FENCE.findall(page))


def tables(page: str) -> dict[str, dict[str, list[str]]]:
    """The other cells of each row, by the name of the table and the name in the first cell."""
    return {
        found["name"]: {_bare(first): rest for first, *rest in _rows(found["rows"])[2:]}
        for found in _TABLE.finditer(page)
    }


@dataclass(frozen=True, slots=True)
class Cell:
    """A message in a table: the name that its row begins with, and the files of which one has its text."""

    name: str
    text: str
    files: tuple[str, ...]


def cells(page: str) -> Iterator[Cell]:
    """The messages of all tables that say in which files their texts are."""
    for found in _TEMPLATES.finditer(page):
        head, _, *body = _rows(found["rows"])
        at = head.index("message")
        for row in body:
            for _, text in _CODE.findall(row[at]):
                yield Cell(_bare(row[0]), text, tuple(found["files"].split(", ")))


def code(cell: str) -> str:
    """The text in the code of a cell, as it is printed."""
    return _bare(cell).replace("\\|", "|")


def rewritten(page: str, messages: Mapping[str, str], rows: Mapping[str, Mapping[str, Sequence[str]]]) -> str:
    """The page with every quote of our own code as it is printed; raises `KeyError` for an unknown name."""

    def block(found: re.Match[str]) -> str:
        if found["source"] != "message":
            return found[0]
        return f"<!-- message: {found['name']} -->\n```text\n{messages[found['name']]}\n```"

    def table(found: re.Match[str]) -> str:
        head, line, *body = found["rows"].splitlines()
        written = [_written(each, rows[found["name"]]) for each in body]
        return "\n".join([f"<!-- table: {found['name']} -->", head, line, *written, ""])

    return _TABLE.sub(table, _BLOCK.sub(block, page))


def _written(row: str, texts: Mapping[str, Sequence[str]]) -> str:
    first, *rest = _rows(f"{row}\n")[0]
    printed = texts[_bare(first)]
    cells = [first, *map(_as_code, printed), *rest[len(printed) :]]
    return f"| {' | '.join(cells)} |"


def _as_code(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"


def _rows(lines: str) -> list[list[str]]:
    return [[cell.strip() for cell in _CELL.split(line.strip()[1:-1])] for line in lines.splitlines()]


def _bare(cell: str) -> str:
    return cell.strip("`")


@cache
def templates(path: Path) -> tuple[str, ...]:
    """The texts for people in a source file as patterns: whatever is filled in is any text."""
    if path.suffix != ".py":
        lines = (line for text in _QUOTED.findall(path.read_text()) for line in text.split("\\n"))
        return tuple(filter(None, (_of_parts(_VERBS.split(line.strip())) for line in lines)))
    tree = walked(parsed(path.read_text()))
    documentation = {id(node.value) for node in tree if isinstance(node, ast.Expr)}
    parts = {id(part) for node in tree if isinstance(node, ast.JoinedStr) for part in node.values}
    texts = (node for node in tree if id(node) not in documentation | parts)
    return tuple(dict.fromkeys(filter(None, map(_pattern, texts))))


def _pattern(node: ast.AST) -> str:
    """A pattern for what a text can become; empty for what is none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _of_parts(_BRACES.split(node.value))
    if isinstance(node, ast.JoinedStr):
        pieces = (str(each.value) if isinstance(each, ast.Constant) else _GAP for each in node.values)
        return _of_parts("".join(pieces).split(_GAP))
    return ""


def _of_parts(parts: Sequence[str]) -> str:
    """A pattern of these parts with anything between them; empty for what is too short to be recognised."""
    literal = "".join(parts)
    return ".*".join(map(re.escape, parts)) if " " in literal and len(literal) >= _FEWEST_LITERAL else ""


def from_template(line: str, path: Path) -> bool:
    """Whether a file has the text of a line, or of each of its parts between semicolons.

    Whoever prints a text may put "numalign: " before it.
    """
    patterns = [re.compile(pattern) for pattern in templates(path)]

    def is_text(part: str) -> bool:
        return any(pattern.fullmatch(part) for pattern in patterns)

    line = line.strip()
    whole = (line, line.removeprefix("numalign: "))
    return any(map(is_text, whole)) or all(map(is_text, whole[1].split("; ")))


def event_reasons(packages: Sequence[str]) -> Iterator[str]:
    """Each reason of an Event that is named in the sources of these packages."""
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in walked(parsed(path.read_text())):
                text = node.value if isinstance(node, ast.Constant) else None
                if isinstance(text, str) and re.fullmatch(r"NUMA[A-Z][a-z]\w+", text):
                    yield text
