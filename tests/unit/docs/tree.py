"""The files of the repository, in a clone or in a download of it: all but what .gitignore names."""

from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from tests.unit.docs.blocks import ROOT


def files(pattern: str = "*") -> list[Path]:
    """Every file whose name matches a pattern, in the order of their paths."""
    return sorted(path for path in _below(ROOT) if fnmatch(path.name, pattern))


def _below(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_file():
            yield path
        elif path.is_dir() and not _ignored(path):
            yield from _below(path)


def _ignored(folder: Path) -> bool:
    """Whether .gitignore names a folder, by its name or, after a slash, by its path."""
    path = folder.relative_to(ROOT).as_posix()
    return path == ".git" or any(
        fnmatch(f"/{path}" if line.startswith("/") else folder.name, line.removesuffix("/"))
        for line in (ROOT / ".gitignore").read_text().splitlines()
    )
