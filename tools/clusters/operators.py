"""Operators of other projects, built from their Go modules: `tools.clusters.ecosystem` names them.

The cache outside the tree has a folder for each release: the program, and the files that a cluster needs for
it.
"""

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.clusters.gotools import Workshop


@dataclass(frozen=True, slots=True)
class Operator:
    """A program that Go builds from a `package` of the shop's module.

    `files` has the path in the module of each file or folder next to the program, by its name there.
    """

    shop: Workshop
    package: str
    files: Mapping[str, str]

    @property
    def release(self) -> str:
        """The version of the module."""
        return self.shop.release

    @property
    def cache(self) -> Path:
        """The folder with the program and the files of this release; it may not exist."""
        return self.shop.cache(self.release)

    async def find(self) -> list[Path]:
        """Return the folder with the program and the files, built first if necessary.

        Raise `UnavailableError` without Go, and `BrokenError` if the build fails. Of two parallel builds, the
        later is discarded.
        """
        cache, shop = self.cache, self.shop
        if not cache.exists():
            go = shop.compiler(cache / shop.name)
            shop.say(f"building {shop.name} {self.release}: minutes, unless its packages were built before")
            cache.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache.parent) as unfinished:
                ready = Path(unfinished) / "ready"
                await shop.compile(go, self.package, into=ready / shop.name)
                self._copy(await shop.source(go), ready)
                if not cache.exists():
                    ready.rename(cache)
        return [cache]

    def _copy(self, module: Path, folder: Path) -> None:
        # Files and folders in Go's cache are read-only, so their modes are not copied.
        for name, shipped_at in self.files.items():
            source = module / shipped_at
            for file in [source] if source.is_file() else filter(Path.is_file, source.rglob("*")):
                copy = folder / name / file.relative_to(source)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)
