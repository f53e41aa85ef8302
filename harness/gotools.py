"""Builds programs from Go modules that stand beside the tests, because the real thing is written in Go.

The programs go to a cache outside the tree, where the next run finds them. Progress goes to standard
error; exit code 69 says that none can be had on this machine, 1 that getting them went wrong.
"""

import asyncio
import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

BREATH_SECONDS = 15
KUBERNETES = "k8s.io/kubernetes"


class UnavailableError(Exception):
    """The programs cannot be had here; the text says what would change that."""


class BrokenError(Exception):
    """The programs were named or begun, and something is wrong with them."""


def no_variables(_: "Workshop") -> Mapping[str, str]:
    """Set nothing: the program shows no version."""
    return {}


@dataclass(frozen=True, slots=True)
class Version:
    """Sets a string variable of a Go package to the version of a module."""

    module: str
    variable: str

    def __call__(self, workshop: "Workshop") -> Mapping[str, str]:
        """The variable and the version that the workshop requires."""
        return {self.variable: workshop.required(self.module)}


# Without its version the API server calls itself v0.0.0-master, and clients complain of the skew.
KUBERNETES_VERSION = Version(KUBERNETES, "k8s.io/component-base/version.gitVersion")


@dataclass(frozen=True, slots=True)
class Workshop:
    """
    A Go module, and the name under which its programs are cached and mentioned in progress.

    `variables` gives the string variables that the linker sets in these programs.
    """

    name: str
    folder: Path
    module_file: str = "go.mod"
    variables: Callable[["Workshop"], Mapping[str, str]] = no_variables

    def required(self, module: str) -> str:
        """The version of another module that this one requires."""
        text = (self.folder / self.module_file).read_text()
        found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", text, re.MULTILINE)
        if not found:
            raise BrokenError(f"{self.folder / self.module_file} does not require {module}")
        return found[1]

    def cache(self, *parts: str) -> Path:
        """A folder for finished programs, outside the tree; it need not exist."""
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return home.joinpath("numalign", self.name, *parts)

    def place(self, release: str, program: str, sources: Iterable[Path]) -> Path:
        """Where a program of a release is kept: an edit of what it is made from is another place."""
        stem = self.folder / self.module_file.removesuffix(".mod")
        made_from = hashlib.sha256()
        for source in (*sources, stem.with_name(f"{stem.name}.mod"), stem.with_name(f"{stem.name}.sum")):
            made_from.update(f"{source.name} {source.stat().st_size}\n".encode())
            made_from.update(source.read_bytes())
        return self.cache(release, made_from.hexdigest()[:12], program)

    async def build(
        self, package: str, *, into: Path, begins: str, otherwise: str, flags: Iterable[str] = ()
    ) -> None:
        """Builds one program to its place, saying how it `begins`; `otherwise` is said where there is no Go.

        Two builds at the same time do each other no harm: each moves a whole program to its place. Raises
        `UnavailableError` and `BrokenError`.
        """
        go = self.compiler(otherwise=otherwise)
        self.say(begins)
        into.parent.mkdir(parents=True, exist_ok=True)
        # Beside the folder of programs, for some look at all that is in it.
        with tempfile.TemporaryDirectory(dir=into.parent.parent) as unfinished:
            program = Path(unfinished) / into.name
            await self.compile(go, package, into=program, flags=flags)
            program.rename(into)

    def compiler(self, *, otherwise: str) -> str:
        """The path of Go, or UnavailableError with the text of `otherwise`."""
        go = shutil.which("go")
        if not go:
            raise UnavailableError(otherwise)
        return go

    async def compile(self, go: str, package: str, *, into: Path, flags: Iterable[str] = ()) -> None:
        """Builds one program, however long it takes. BrokenError if Go refuses."""
        began = monotonic()
        process = await asyncio.create_subprocess_exec(
            *(go, "build", f"-modfile={self.module_file}", "-mod=readonly", "-trimpath"),
            *("-ldflags", self._linker_flags(), *flags, "-o", str(into), package),
            cwd=self.folder,
            env=os.environ | {"CGO_ENABLED": "0"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sys.stderr,
        )
        if await self._patiently(process.wait(), what=f"building {into.name}"):
            raise BrokenError(f"go could not build {package}; what it said stands above")
        self.say(f"built {into.name} in {monotonic() - began:.0f} s")

    def _linker_flags(self) -> str:
        return " ".join(["-s -w", *(f"-X {name}={value}" for name, value in self.variables(self).items())])

    async def _patiently(self, result: Awaitable[int], *, what: str) -> int:
        """Waits however long it takes, and says now and then that it still does."""
        began = monotonic()
        waiting = asyncio.ensure_future(result)
        while not (await asyncio.wait([waiting], timeout=BREATH_SECONDS))[0]:
            self.say(f"{what}: {monotonic() - began:.0f} s so far")
        return waiting.result()

    def say(self, line: str) -> None:
        """A line of progress."""
        sys.stderr.write(f"{self.name}: {line}\n")
        sys.stderr.flush()


def by_version(name: str, folder: Path) -> dict[str, Workshop]:
    """Every version of Kubernetes of which a folder has a go.<minor>.mod, and what builds from it."""
    shops = (
        Workshop(name, folder, file.name, KUBERNETES_VERSION) for file in sorted(folder.glob("go.*.mod"))
    )
    return {shop.required(KUBERNETES): shop for shop in shops}


def run(workshop: Workshop, finding: Coroutine[Any, Any, Iterable[Path]]) -> int:
    """Writes what is found to standard output, a path a line; the exit code of a script that does this."""
    try:
        sys.stdout.writelines(f"{path}\n" for path in asyncio.run(finding))
    except UnavailableError as error:
        workshop.say(str(error))
        return os.EX_UNAVAILABLE
    except BrokenError as error:
        workshop.say(str(error))
        return 1
    return 0
