"""Counts lines by package: `python -m tools.clusters.lines [REV [REV]]`, of one or two revisions.

Lines of code exclude blank lines, comments and docstrings; raw lines are all lines. Without a revision, it
counts the tracked files of the working tree.
"""

import ast
import io
import subprocess
import sys
import tarfile
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
IN_FOLDERS = ("numalign", "tests")
"""Folders whose subfolders are counted separately."""

Lines = dict[str, tuple[int, int]]
"""Code and raw lines by package."""


def main(revisions: list[str]) -> int:
    """Print code and raw lines of each package, side by side for each revision; return the exit code."""
    counts = [count(revision) for revision in revisions] or [count(None)]
    for package in sorted({package for lines in counts for package in lines}):
        columns = [lines.get(package, (0, 0)) for lines in counts]
        code, raw = zip(*columns, strict=True)
        sys.stdout.write(f"{package:22} code {_row(code)}   raw {_row(raw)}\n")
    return 0


def _row(amounts: tuple[int, ...]) -> str:
    cells = " -> ".join(f"{amount:6}" for amount in amounts)
    first, last = amounts[0], amounts[-1]
    return cells if len(amounts) == 1 or not first else f"{cells} {100 * (last - first) / first:+6.1f}%"


def count(revision: str | None) -> Lines:
    """Return the lines by package, and of all packages, at a revision; None is the working tree."""
    code, raw = Counter[str](), Counter[str]()
    for path, source in _archived(revision) if revision else _tracked():
        for package in (_package(path), "(all)"):
            code[package] += code_lines(source)
            raw[package] += source.count("\n")
    return {package: (code[package], raw[package]) for package in raw}


def code_lines(source: str) -> int:
    """Return the number of lines with code."""
    statements = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr))
    texts = (node for node in statements if isinstance(node.value, ast.Constant))
    docstrings = {
        line
        for node in texts
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {
        line
        for token in tokens
        if token.type not in NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(lines - docstrings)


def _package(path: str) -> str:
    folder, *parts = path.split("/")
    return f"{folder}/{parts[0]}" if folder in IN_FOLDERS and len(parts) > 1 else folder


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], check=True, capture_output=True).stdout  # noqa: S603, S607  fixed words


def _tracked() -> Iterator[tuple[str, str]]:
    files = (Path(name) for name in _git("ls-files", "*.py").decode().split())
    return ((str(file), file.read_text()) for file in files if file.exists())


def _archived(revision: str) -> Iterator[tuple[str, str]]:
    with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", revision))) as archive:
        for member in archive:
            if member.name.endswith(".py") and (content := archive.extractfile(member)):
                yield member.name, content.read().decode()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
