"""Makes the wheel take one name of site-packages: the packages next to `numalign` are installed below it.

When hatchling builds the wheel, it moves the files by `sources` in pyproject.toml, and runs this hook. The
hook rewrites imports of moved modules, and the console scripts. Only names of modules change in a file, so
all lines keep their numbers. An editable install uses the tree without changes.
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
"""Hatchling's name for a wheel that is not editable."""


class ImmovableError(Exception):
    """Raised if a name of a moved module cannot be rewritten; the message says where, and what to write."""


@dataclass(frozen=True, slots=True)
class Rename:
    """A name of a module to replace: `old` becomes `new`; line and column, in bytes, count from 0."""

    line: int
    column: int
    old: str
    new: str


class MovingBuildHook(BuildHookInterface[BuilderConfig]):
    """Rewrites the files that `sources` moves; hatchling finds the class by its base class."""

    _written: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Give hatchling the rewritten files instead of those of the tree."""
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
        # Hatchling writes entry_points.txt from this dictionary.
        scripts = self.metadata.core.scripts
        scripts.update({name: moved(target, moves) for name, target in scripts.items()})

    def finalize(self, *_: object) -> None:
        """Remove the rewritten files, as the wheel contains them now."""
        if self._written:
            self._written.cleanup()


def moved_modules(sources: Mapping[str, str]) -> dict[str, str]:
    """Return the installed names of moved packages by their names in the tree; the paths end with `/`."""
    return {dotted(source): dotted(target) for source, target in sources.items()}


def dotted(folder: str) -> str:
    """Return the package name of a folder, which may end with a slash."""
    return folder.rstrip("/").replace("/", ".")


def moved(name: str, moves: Mapping[str, str]) -> str:
    """Return the installed name of a module or an object reference."""
    top = name.partition(":")[0].partition(".")[0]
    return moves.get(top, top) + name[len(top) :]


def rewritten(source: bytes, moves: Mapping[str, str], *, where: str) -> bytes:
    """Return a file with its imports of moved packages rewritten to their installed names.

    `where` is the path of the file, for errors. Raise `ImmovableError` if a name cannot be rewritten.
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
    """Yield the names to replace in a file. Raise `ImmovableError` if one cannot be replaced."""
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
            # `import webhook` binds the name `webhook`, which the rest of the file uses.
            raise ImmovableError(
                f"{where}:{alias.lineno}: the wheel moves {alias.name}: write `import {alias.name} as ...`"
            )
        yield Rename(alias.lineno - 1, alias.col_offset, alias.name, moved(alias.name, moves))


def is_moved(name: str, moves: Mapping[str, str]) -> bool:
    """Return whether a dotted name begins with a moved package."""
    return name.partition(".")[0] in moves


def is_name(text: str) -> bool:
    """Return whether a text can be the name of a module."""
    return all(part.isidentifier() for part in text.split("."))
