"""Makes the wheel take one name of site-packages: the packages next to `numalign` are installed below it.

When hatchling builds the wheel, it moves the files by `sources` in pyproject.toml, and runs this hook. The
hook rewrites imports of moved modules, and the console scripts. Only names of modules change in a file, so
all lines keep their numbers. An editable install uses the tree without changes.
"""

import ast
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ImmovableError(Exception):
    """Raised if a name of a moved module cannot be rewritten; the message says where, and what to write."""


class MovingBuildHook(BuildHookInterface[BuilderConfig]):
    """Rewrites the files that `sources` moves; hatchling finds the class by its base class."""

    _written: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # Hatchling's name for a wheel that is not editable.
        if version != "standard":
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
        if self._written:
            self._written.cleanup()


def moved_modules(sources: Mapping[str, str]) -> dict[str, str]:
    """Return the installed names of moved packages by their names in the tree; the paths may end with `/`."""
    return {
        old.strip("/").replace("/", "."): new.strip("/").replace("/", ".") for old, new in sources.items()
    }


def moved(name: str, moves: Mapping[str, str]) -> str:
    """Return the installed name of a module, with what follows after a colon."""
    top = re.split(r"[.:]", name)[0]
    return moves.get(top, top) + name[len(top) :]


def rewritten(source: bytes, moves: Mapping[str, str], *, where: str) -> bytes:
    """Return a file with its imports of moved packages rewritten to their installed names.

    `where` is the path of the file, for errors. Raise `ImmovableError` if a name cannot be rewritten.
    """
    lines = source.splitlines(keepends=True)
    # The last name of a line first: the others keep their columns.
    for number, column, name in sorted(_names(source, moves, where=where), reverse=True):
        line, old = lines[number - 1], name.encode()
        if not line.startswith(old, column):
            raise ImmovableError(f"{where}:{number}: write the import of {name} on one line")
        lines[number - 1] = line[:column] + moved(name, moves).encode() + line[column + len(old) :]
    return b"".join(lines)


def _names(source: bytes, moves: Mapping[str, str], *, where: str) -> Iterator[tuple[int, int, str]]:
    for node in ast.walk(ast.parse(source, where)):
        match node:
            case ast.ImportFrom(level=0, module=str(name)) if moved(name, moves) != name:
                yield node.lineno, node.col_offset + len("from "), name
            case ast.Import(names=imported):
                for alias in (each for each in imported if moved(each.name, moves) != each.name):
                    if alias.asname is None:
                        # `import webhook` binds the name `webhook`, which the rest of the file uses.
                        says = f"the wheel moves {alias.name}: write `import {alias.name} as ...`"
                        raise ImmovableError(f"{where}:{alias.lineno}: {says}")
                    yield alias.lineno, alias.col_offset, alias.name
            case ast.Constant(value=str(text)) if re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)+", text):
                if moved(text, moves) != text:
                    says = f"the text {text!r} names a module that the wheel moves"
                    raise ImmovableError(
                        f"{where}:{node.lineno}: {says}: make it from __name__ or __package__"
                    )
