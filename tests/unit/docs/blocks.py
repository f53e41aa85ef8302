"""
Reads the shell blocks of a page: which commands a reader types, and what the page says they print.

A block is fenced as ```sh. A ```text or ```console block after it shows what it prints; every paragraph of
that must be printed, `...` stands for anything in a line, a line of `...` alone for any lines, and a new line
for any white space. Comments in the lines directly before the fence say how the block is run:

    <!-- needs: cluster -->          on a cluster without numalign (`make e2e`), and not in `make test`
    <!-- needs: release -->          likewise, where the chart is installed; no program runs in its pods
    <!-- needs: numalign -->         likewise, where numalign runs, though not as a Helm release
    <!-- needs: go -->               likewise, but the page starts its cluster itself, for which Go is needed
    <!-- exits: 1 -->                its last command ends with this code; 0 without the comment
    <!-- background: until TEXT -->  it goes on running, and the page goes on once TEXT is printed
    <!-- not run: REASON -->         not at all, for a reason that a reader understands
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from numalign.model.errors import BadInput, Mistake

ROOT = Path(__file__).resolve().parents[3]
SHELL = "sh"
OUTPUT = frozenset({"text", "console"})
OTHER_SHELLS = frozenset({"bash", "shell", "zsh", "shell-session"})
"""Nothing that is to be typed is fenced as one of these: it would not be run."""

OMITTED = "..."

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w-]*) *$")
_COMMENT = re.compile(r"^ *<!-- (?P<key>[a-z -]+): (?P<value>.+?) -->$")


class Needs(StrEnum):
    """What a block needs to be run."""

    NOTHING = "nothing"
    CLUSTER = "cluster"
    RELEASE = "release"
    NUMALIGN = "numalign"
    GO = "go"


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced block of any language. `line` counts from 1; `comments` are those directly before it."""

    line: int
    language: str
    text: str
    comments: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Block:
    """The commands of one shell block, and what the page says of them.

    `reason` says why it is not run, and is empty if it is. With `until` it goes on running once that text is
    printed.
    """

    line: int
    commands: str
    needs: Needs = Needs.NOTHING
    exit_code: int = 0
    until: str = ""
    reason: str = ""
    shown: tuple[str, ...] = field(default=())


def pages() -> list[Path]:
    """The pages whose blocks readers type: the README, the tutorial and the how-tos."""
    documents = ROOT / "docs"
    candidates = [ROOT / "README.md", documents / "tutorial.md", *sorted((documents / "how-to").glob("*.md"))]
    return [page for page in candidates if page.exists()]


def name(page: Path) -> str:
    """The path of a page from the root of the repository."""
    return str(page.relative_to(ROOT))


def fences(page: str) -> Iterator[Fence]:
    """Every fenced block of a page, in order; the indentation of its fence is taken away."""
    lines = enumerate(page.splitlines(), 1)
    comments: dict[str, str] = {}
    for number, line in lines:
        if comment := _COMMENT.match(line):
            comments[comment["key"]] = comment["value"]
            continue
        if opened := _FENCE.match(line):
            body = _body(lines, closing=opened["indent"] + opened["ticks"])
            text = "".join(f"{row.removeprefix(opened['indent'])}\n" for row in body)
            yield Fence(number, opened["language"], text, comments)
        comments = {}


def _body(lines: Iterator[tuple[int, str]], *, closing: str) -> Iterator[str]:
    for _, line in lines:
        if line.rstrip() == closing:
            return
        yield line


def read(page: str) -> tuple[Block, ...]:
    """The shell blocks of a page in order. Raises `BadInput` with every mistake of the page."""
    blocks: list[Block] = []
    mistakes: list[Mistake] = []
    for fence in fences(page):
        if fence.language in OTHER_SHELLS:
            mistakes.append(Mistake(f"line {fence.line}", f"fence shell blocks as ```{SHELL}"))
        elif fence.language == SHELL:
            blocks.append(_block(fence, mistakes))
        elif fence.language in OUTPUT and blocks:
            blocks[-1] = _showing(blocks[-1], fence.text)
    if mistakes:
        raise BadInput(mistakes)
    return tuple(blocks)


def _block(fence: Fence, mistakes: list[Mistake]) -> Block:
    where = f"line {fence.line}"
    comments = dict(fence.comments)
    needs = comments.pop("needs", Needs.NOTHING)
    exits = comments.pop("exits", "0")
    background = comments.pop("background", "")
    reason = comments.pop("not run", "")
    if needs not in set(Needs):
        mistakes.append(Mistake(where, f"needs: {needs!r}: want one of {', '.join(Needs)}"))
        needs = Needs.NOTHING
    if not exits.isdecimal():
        mistakes.append(Mistake(where, f"exits: {exits!r}: want an exit code"))
        exits = "0"
    if background and not background.startswith("until "):
        mistakes.append(Mistake(where, f"background: {background!r}: want until TEXT"))
    mistakes += [Mistake(where, f"unknown comment {key!r} before a shell block") for key in comments]
    return Block(
        line=fence.line,
        commands=fence.text,
        needs=Needs(needs),
        exit_code=int(exits),
        until=background.removeprefix("until "),
        reason=reason,
    )


def _showing(block: Block, output: str) -> Block:
    return Block(
        line=block.line,
        commands=block.commands,
        needs=block.needs,
        exit_code=block.exit_code,
        until=block.until,
        reason=block.reason,
        shown=(*block.shown, *paragraphs(output)),
    )


def paragraphs(output: str) -> list[str]:
    """What an output shows: its parts between empty lines and lines of `...` alone, without `$` lines."""
    shown: list[list[str]] = [[]]
    for line in output.splitlines():
        if line.strip() in {"", OMITTED}:
            shown.append([])
        elif not line.startswith("$ "):
            shown[-1].append(line.rstrip())
    return ["\n".join(lines) for lines in shown if lines]


def missing(shown: Sequence[str], printed: str) -> list[str]:
    """The paragraphs that are shown and were not printed."""
    text = "\n".join(line.rstrip() for line in printed.splitlines())
    return [paragraph for paragraph in shown if not _pattern(paragraph).search(text)]


def _pattern(paragraph: str) -> re.Pattern[str]:
    lines = (line.strip() for line in paragraph.splitlines())
    return re.compile(r"\s+".join(".*".join(map(re.escape, line.split(OMITTED))) for line in lines))
