"""Operators of other projects, built from their Go modules: `tools.clusters.ecosystem` names them.

The cache outside the tree has a folder for each release: the program, and the files that a cluster needs for
it.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.clusters.gotools import BrokenError, Workshop


@dataclass(frozen=True, slots=True)
class Operator:
    """A program that Go builds from the `package` of a `module`.

    `files` has the path in the module of each file or folder next to the program, by its name there.
    """

    shop: Workshop
    module: str
    package: str
    files: Mapping[str, str]

    @property
    def release(self) -> str:
        """The version of the module."""
        return self.shop.required(self.module)

    @property
    def cache(self) -> Path:
        """The folder with the program and the files of this release; it may not exist."""
        return self.shop.cache(self.release)

    async def find(self) -> list[Path]:
        """Return the folder with the program and the files, built first if necessary.

        Raise `UnavailableError` without Go, and `BrokenError` if the build fails.
        """
        if not self.cache.exists():
            await self._build(self.cache)
        return [self.cache]

    async def _build(self, cache: Path) -> None:
        """Build the program and its files into the cache; of two parallel builds, the later is discarded."""
        name = self.shop.name
        go = self.shop.compiler(otherwise=f"no {name} {self.release}: install Go to build it; not at {cache}")
        self.shop.say(f"building {name} {self.release}: minutes, unless its packages were built before")
        cache.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache.parent) as unfinished:
            ready = Path(unfinished) / "ready"
            await self.shop.compile(go, self.package, into=ready / name)
            self._copy(self.source(go), ready)
            _settle(ready, cache)

    def source(self, go: str) -> Path:
        """Return the folder of the module's source. Raise `BrokenError` if Go does not report it."""
        asked = (go, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", self.module)
        listed = subprocess.run(  # noqa: S603  a fixed command
            asked,
            cwd=self.shop.folder,
            env=self.shop.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if listed.returncode or not listed.stdout.strip():
            raise BrokenError(f"go does not say where {self.module} is: {listed.stderr.strip()}")
        return Path(listed.stdout.strip())

    def _copy(self, module: Path, folder: Path) -> None:
        # Files and folders in Go's cache are read-only, so their modes are not copied.
        for name, shipped_at in self.files.items():
            source = module / shipped_at
            for file in [source] if source.is_file() else filter(Path.is_file, source.rglob("*")):
                copy = folder / name / file.relative_to(source)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)


def _settle(ready: Path, cache: Path) -> None:
    if not cache.exists():
        ready.rename(cache)
