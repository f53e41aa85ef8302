"""
Reads the shell blocks of a page: which commands a reader types, and what the page says they print.

A block is fenced as ```sh. A ```text or ```console block after it shows what it prints; every paragraph of
that must be printed, `...` stands for anything in a line, a line of `...` alone for any lines, and a new line
for any white space. Comments in the lines directly before the fence say how the block is run: docs/README.md
lists them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SHELL = "sh"
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
    shown: tuple[str, ...] = ()


def pages() -> list[Path]:
    """The pages whose blocks readers type: the README, the tutorial and the how-tos."""
    documents = ROOT / "docs"
    return [ROOT / "README.md", documents / "tutorial.md", *sorted((documents / "how-to").glob("*.md"))]


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
            text = ""
            while (row := next(lines)[1]).rstrip() != opened["indent"] + opened["ticks"]:
                text += f"{row.removeprefix(opened['indent'])}\n"
            yield Fence(number, opened["language"], text, comments)
        comments = {}


def read(page: str) -> tuple[Block, ...]:
    """The shell blocks of a page in order."""
    blocks: list[Block] = []
    for fence in fences(page):
        assert fence.language not in {"bash", "shell", "zsh", "shell-session"}, f"{fence}: want ```{SHELL}"
        if fence.language == SHELL:
            blocks.append(_block(fence))
        elif fence.language in {"text", "console"} and blocks:
            blocks[-1] = replace(blocks[-1], shown=(*blocks[-1].shown, *paragraphs(fence.text)))
    return tuple(blocks)


def _block(fence: Fence) -> Block:
    comments = dict(fence.comments)
    block = Block(
        fence.line,
        fence.text,
        Needs(comments.pop("needs", Needs.NOTHING)),
        int(comments.pop("exits", "0")),
        comments.pop("background", "").removeprefix("until "),
        comments.pop("not run", ""),
    )
    assert not comments, f"unknown comments before the shell block in line {fence.line}: {comments}"
    return block


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
