"""Builds real programs that are written in Go, such as Kubernetes, from the Go modules beside this one.

The programs are cached outside the tree. Progress goes to standard error. Exit code 69 means that the
programs are not available on this machine, 1 that the build failed.
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
    """Raised if programs are not available on this machine; the message says what would help."""


class BrokenError(Exception):
    """Raised if the programs that a variable names are unusable, or if a build fails."""


def no_variables(_: "Workshop") -> Mapping[str, str]:
    """Return no variables: the program shows no version."""
    return {}


@dataclass(frozen=True, slots=True)
class Version:
    """Sets a string variable of a Go package to the version of a module."""

    module: str
    variable: str

    def __call__(self, workshop: "Workshop") -> Mapping[str, str]:
        """Return the variable, and the version that the workshop requires."""
        return {self.variable: workshop.required(self.module)}


# Otherwise the API server reports v0.0.0-master, and clients warn of version skew.
KUBERNETES_VERSION = Version(KUBERNETES, "k8s.io/component-base/version.gitVersion")


@dataclass(frozen=True, slots=True)
class Workshop:
    """
    A Go module, and the name of its programs in the cache and in progress messages.

    `variables` returns the string variables that the linker sets in these programs.
    """

    name: str
    folder: Path
    module_file: str = "go.mod"
    variables: Callable[["Workshop"], Mapping[str, str]] = no_variables

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment for Go: a module that names a toolchain is built with that one, not a newer one."""
        named = re.search(r"^toolchain (\S+)$", self._requirements, re.MULTILINE)
        return os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": named[1] if named else "auto"}

    @property
    def _requirements(self) -> str:
        return (self.folder / self.module_file).read_text()

    async def environment_of(self, go: str) -> Mapping[str, str]:
        """Return the environment for Go, of a newer one if needed: Go looks for that in go.mod only."""
        asking = await asyncio.create_subprocess_exec(go, "env", "GOVERSION", stdout=asyncio.subprocess.PIPE)
        installed = (await asking.communicate())[0].decode().strip().removeprefix("go")
        needed = re.search(r"^go (\S+)$", (self.folder / self.module_file).read_text(), re.MULTILINE)
        if needed and _numbers(needed[1]) > _numbers(installed):
            return {**self.environment, "GOTOOLCHAIN": f"go{needed[1]}"}
        return self.environment

    def required(self, module: str) -> str:
        """Return the version of another module that this one requires. Raise `BrokenError` if it does not."""
        wanted = rf"^\s*(?:require )?{re.escape(module)} (v\S+)"
        found = re.search(wanted, self._requirements, re.MULTILINE)
        if not found:
            raise BrokenError(f"{self.folder / self.module_file} does not require {module}")
        return found[1]

    def cache(self, *parts: str) -> Path:
        """Return a folder for finished programs, outside the tree; it may not exist."""
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return home.joinpath("numalign", self.name, *parts)

    def place(self, release: str, program: str, sources: Iterable[Path]) -> Path:
        """Return the path of a program of a release; it changes with the content of its sources."""
        stem = self.folder / self.module_file.removesuffix(".mod")
        made_from = hashlib.sha256()
        for source in (*sources, stem.with_name(f"{stem.name}.mod"), stem.with_name(f"{stem.name}.sum")):
            made_from.update(f"{source.name} {source.stat().st_size}\n".encode())
            made_from.update(source.read_bytes())
        return self.cache(release, made_from.hexdigest()[:12], program)

    async def build(
        self, package: str, *, into: Path, begins: str, otherwise: str, flags: Iterable[str] = ()
    ) -> None:
        """Build a program into its place; print `begins` first.

        Two builds can run at the same time: each moves a complete program to its place. Raise
        `UnavailableError` with the text of `otherwise` without Go, and `BrokenError` if the build fails.
        """
        go = self.compiler(otherwise=otherwise)
        self.say(begins)
        into.parent.mkdir(parents=True, exist_ok=True)
        # Next to the folder of programs, because callers may list that folder.
        with tempfile.TemporaryDirectory(dir=into.parent.parent) as unfinished:
            program = Path(unfinished) / into.name
            await self.compile(go, package, into=program, flags=flags)
            program.rename(into)

    def compiler(self, *, otherwise: str) -> str:
        """Return the path of Go. Raise `UnavailableError` with the text of `otherwise` if there is none."""
        go = shutil.which("go")
        if not go:
            raise UnavailableError(otherwise)
        return go

    async def compile(self, go: str, package: str, *, into: Path, flags: Iterable[str] = ()) -> None:
        """Build a program, however long it takes. Raise `BrokenError` if that fails."""
        began = monotonic()
        process = await asyncio.create_subprocess_exec(
            *(go, "build", f"-modfile={self.module_file}", "-mod=readonly", "-trimpath"),
            *("-ldflags", self._linker_flags(), *flags, "-o", str(into), package),
            cwd=self.folder,
            env=await self.environment_of(go),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sys.stderr,
        )
        if await self._patiently(process.wait(), what=f"building {into.name}"):
            raise BrokenError(f"go could not build {package}; what it said stands above")
        self.say(f"built {into.name} in {monotonic() - began:.0f} s")

    def _linker_flags(self) -> str:
        return " ".join(["-s -w", *(f"-X {name}={value}" for name, value in self.variables(self).items())])

    async def _patiently(self, result: Awaitable[int], *, what: str) -> int:
        """Wait for a result, however long it takes, and print regularly how long it has taken so far."""
        began = monotonic()
        waiting = asyncio.ensure_future(result)
        while not (await asyncio.wait([waiting], timeout=BREATH_SECONDS))[0]:
            self.say(f"{what}: {monotonic() - began:.0f} s so far")
        return waiting.result()

    def say(self, line: str) -> None:
        """Print a line of progress."""
        sys.stderr.write(f"{self.name}: {line}\n")
        sys.stderr.flush()


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def by_version(name: str, folder: Path) -> dict[str, Workshop]:
    """Return the workshop of each version of Kubernetes for which a folder has a go.<minor>.mod."""
    shops = (
        Workshop(name, folder, file.name, KUBERNETES_VERSION) for file in sorted(folder.glob("go.*.mod"))
    )
    return {shop.required(KUBERNETES): shop for shop in shops}


def run(workshop: Workshop, finding: Coroutine[Any, Any, Iterable[Path]]) -> int:
    """Print the found paths, one a line, and return the exit code."""
    try:
        sys.stdout.writelines(f"{path}\n" for path in asyncio.run(finding))
    except UnavailableError as error:
        workshop.say(str(error))
        return os.EX_UNAVAILABLE
    except BrokenError as error:
        workshop.say(str(error))
        return 1
    return 0
