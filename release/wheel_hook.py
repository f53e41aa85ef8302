"""Has the wheel claim one name of site-packages: packages beside `numalign` are installed below it.

Hatchling moves the files, as `sources` in pyproject.toml says, and runs this hook from its path when it
builds the wheel. The hook rewrites the import statements of what is moved, and the console scripts. Nothing
but the names of modules changes in a file, so every line keeps its number. An editable install is the tree
as it is.
"""

import ast
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

STANDARD = "standard"
"""What hatchling calls a wheel that is not editable."""


class ImmovableError(Exception):
    """Raised where a file names a moved module and cannot be rewritten; says where, and what to write."""


@dataclass(frozen=True, slots=True)
class Rename:
    """A module's name in a file: `old`, at a byte of a line (from 0), becomes `new`."""

    line: int
    column: int
    old: str
    new: str


class MovingBuildHook(BuildHookInterface[BuilderConfig]):
    """Rewrites what `sources` moves; hatchling finds the class by what it extends."""

    _written: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Give hatchling rewritten files in place of those of the tree."""
        if version != STANDARD:
            return
        moves = moved_modules(self.build_config.sources)
        self._written = tempfile.TemporaryDirectory()
        for file in self.build_config.builder.recurse_selected_project_files():
            if file.path.endswith(".py"):
                target = Path(self._written.name, file.distribution_path)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(rewritten(Path(file.path).read_bytes(), moves, where=file.relative_path))
                build_data["force_include"][str(target)] = file.distribution_path
        # The table is the one that entry_points.txt is written from.
        scripts = self.metadata.core.scripts
        scripts.update({name: moved(target, moves) for name, target in scripts.items()})

    def finalize(self, *_: object) -> None:
        """Remove the rewritten files, which are in the wheel now."""
        if self._written:
            self._written.cleanup()


def moved_modules(sources: Mapping[str, str]) -> dict[str, str]:
    """Packages of the tree and where they are installed, as dotted names; the paths end with `/`."""
    return {dotted(source): dotted(target) for source, target in sources.items()}


def dotted(folder: str) -> str:
    """A folder with its last slash, as the name of a package."""
    return folder.rstrip("/").replace("/", ".")


def moved(name: str, moves: Mapping[str, str]) -> str:
    """The name of a module, or an object reference, as it is when installed."""
    top = name.partition(":")[0].partition(".")[0]
    return moves.get(top, top) + name[len(top) :]


def rewritten(source: bytes, moves: Mapping[str, str], *, where: str) -> bytes:
    """A file whose imports name moved packages by where they are installed.

    `where` is the file's path, for errors. Raises `ImmovableError`.
    """
    lines = source.splitlines(keepends=True)
    for rename in sorted(renames(source, moves, where=where), key=lambda at: (at.line, -at.column)):
        line = lines[rename.line]
        before, rest = line[: rename.column], line[rename.column :]
        if not rest.startswith(rename.old.encode()):
            raise ImmovableError(f"{where}:{rename.line + 1}: write the import of {rename.old} on one line")
        lines[rename.line] = before + rename.new.encode() + rest[len(rename.old.encode()) :]
    return b"".join(lines)


def renames(source: bytes, moves: Mapping[str, str], *, where: str) -> Iterator[Rename]:
    """Every name that changes in a file. Raises `ImmovableError`."""
    for node in ast.walk(ast.parse(source, where)):
        match node:
            case ast.ImportFrom(level=0, module=str(name)) if is_moved(name, moves):
                yield Rename(node.lineno - 1, node.col_offset + len("from "), name, moved(name, moves))
            case ast.Import(names=imported):
                yield from _imports(imported, moves, where=where)
            case ast.Constant(value=str(text)) if "." in text and is_moved(text, moves) and is_name(text):
                raise ImmovableError(
                    f"{where}:{node.lineno}: the text {text!r} names a module that the wheel moves: "
                    "make it from the module's __name__ or __package__"
                )


def _imports(imported: list[ast.alias], moves: Mapping[str, str], *, where: str) -> Iterator[Rename]:
    for alias in imported:
        if not is_moved(alias.name, moves):
            continue
        if alias.asname is None:
            # `import webhook` binds the name itself, by which the rest of the file goes.
            raise ImmovableError(
                f"{where}:{alias.lineno}: the wheel moves {alias.name}: write `import {alias.name} as ...`"
            )
        yield Rename(alias.lineno - 1, alias.col_offset, alias.name, moved(alias.name, moves))


def is_moved(name: str, moves: Mapping[str, str]) -> bool:
    """Whether a dotted name begins with a package that is moved."""
    return name.partition(".")[0] in moves


def is_name(text: str) -> bool:
    """Whether a text can be the name of a module."""
    return all(part.isidentifier() for part in text.split("."))
