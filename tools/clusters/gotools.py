"""Finds or builds programs that are written in Go: each once, in a cache outside the tree.

Progress goes to standard error.
"""

import asyncio
import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

KUBERNETES = "k8s.io/kubernetes"


class UnavailableError(Exception):
    """Raised if programs are not available on this machine; the message says what would help."""


class BrokenError(Exception):
    """Raised if the programs that a variable names are unusable, or if a build fails."""


@dataclass(frozen=True, slots=True)
class Version:
    """Sets a string variable of a Go package to the version of a module."""

    module: str
    variable: str

    def __call__(self, workshop: "Workshop") -> Mapping[str, str]:
        return {self.variable: workshop.required(self.module)}


@dataclass(frozen=True, slots=True)
class Workshop:
    """
    A Go module, and the name of its programs in the cache and in progress messages.

    Its programs are those of another `module`, whose version is their release. `variables` returns the string
    variables that the linker sets in them.
    """

    name: str
    folder: Path
    module_file: str = "go.mod"
    module: str = KUBERNETES
    variables: Callable[["Workshop"], Mapping[str, str]] = lambda _: {}

    @property
    def release(self) -> str:
        return self.required(self.module)

    def required(self, module: str) -> str:
        """Return the version of another module that this one requires. Raise `BrokenError` if it does not."""
        if not (found := self._line(rf"\s*(?:require )?{re.escape(module)} (v\S+)")):
            raise BrokenError(f"{self.folder / self.module_file} does not require {module}")
        return found

    def _line(self, pattern: str) -> str:
        found = re.search(f"^{pattern}", (self.folder / self.module_file).read_text(), re.MULTILINE)
        return found[1] if found else ""

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

    async def program(
        self,
        package: str,
        at: Path | None = None,
        *,
        variable: str = "",
        remedy: str = "",
        flags: Iterable[str] = (),
    ) -> Path:
        """Return the program that a variable of the environment names, or one in the cache, built if missing.

        It lies `at` a path, or next to others of its release. Raise `UnavailableError`, with a `remedy`, if
        Go is missing too, and `BrokenError` if the variable names no file or the build fails.
        """
        if variable and (named := os.environ.get(variable)):
            if not os.path.isfile(named):  # noqa: ASYNC240, PTH113  once, before all else
                raise BrokenError(f"{variable} names {named}, which is no file")
            return Path(named)
        program = at or self.cache(self.release, package.rpartition("/")[2])
        if not program.exists():
            go = self.compiler(program, remedy or (variable and f"or set {variable} to the path of one"))
            self.say(f"building {program}: minutes, unless its packages were built before")
            program.parent.mkdir(parents=True, exist_ok=True)
            # Next to the folder of programs, because callers may list that folder. Two builds can run at the
            # same time: each moves a complete program to its place.
            with tempfile.TemporaryDirectory(dir=program.parent.parent) as unfinished:
                made = Path(unfinished) / program.name
                await self.compile(go, package, into=made, flags=flags)
                made.rename(program)
        return program

    def compiler(self, wanted: Path, remedy: str = "") -> str:
        """Return the path of Go, with which a program is made. Raise `UnavailableError` if there is none."""
        if go := shutil.which("go"):
            return go
        what = ", ".join(filter(None, (f"no {wanted.name} here: install Go to build it", remedy)))
        raise UnavailableError(f"{what}; looked for {wanted}")

    async def source(self, go: str) -> Path:
        """Return the folder of the module's source. Raise `BrokenError` if Go does not report it."""
        command = (
            "list",
            f"-modfile={self.module_file}",
            "-mod=readonly",
            "-m",
            "-f",
            "{{.Dir}}",
            self.module,
        )
        found = await output_of(go, *command, folder=self.folder, environment=await self._environment(go))
        if not found:
            raise BrokenError(f"go does not say where {self.module} is")
        return Path(found)

    async def compile(self, go: str, package: str, *, into: Path, flags: Iterable[str] = ()) -> None:
        """Build a program, however long it takes. Raise `BrokenError` if that fails."""
        began, variables = monotonic(), self.variables(self).items()
        linked = " ".join(["-s -w", *(f"-X {name}={value}" for name, value in variables)])
        process = await asyncio.create_subprocess_exec(
            *(go, "build", f"-modfile={self.module_file}", "-mod=readonly", "-trimpath"),
            *("-ldflags", linked, *flags, "-o", str(into), package),
            cwd=self.folder,
            env=await self._environment(go),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sys.stderr,
        )
        waiting = asyncio.ensure_future(process.wait())
        while not (await asyncio.wait([waiting], timeout=15))[0]:
            self.say(f"building {into.name}: {monotonic() - began:.0f} s so far")
        if waiting.result():
            raise BrokenError(f"go could not build {package}: see its output above")
        self.say(f"built {into.name} in {monotonic() - began:.0f} s")

    async def _environment(self, go: str) -> Mapping[str, str]:
        """Return the environment for Go: of the toolchain that the module names, or of a newer one if needed.

        Go itself looks for that in go.mod only.
        """
        installed = (await output_of(go, "env", "GOVERSION", folder=self.folder)).removeprefix("go")
        chosen, needed = self._line(r"toolchain (\S+)$") or "auto", self._line(r"go (\S+)$")
        if needed and _numbers(needed) > _numbers(installed):
            chosen = f"go{needed}"
        return os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": chosen}

    def say(self, line: str) -> None:
        sys.stderr.write(f"{self.name}: {line}\n")
        sys.stderr.flush()


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


async def output_of(*command: str, folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """Return the output of a command. Raise `BrokenError` if it fails; its complaint is on standard error."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=environment, stdout=asyncio.subprocess.PIPE
    )
    output = (await process.communicate())[0].decode().strip()
    if process.returncode:
        raise BrokenError(f"{' '.join(command)} failed: see its output above")
    return output


def run(workshop: Workshop, finding: Coroutine[Any, Any, Iterable[Path]]) -> int:
    """Print the paths that are found; return the exit code."""
    try:
        sys.stdout.writelines(f"{path}\n" for path in asyncio.run(finding))
    except (UnavailableError, BrokenError) as error:
        workshop.say(str(error))
        return os.EX_UNAVAILABLE if isinstance(error, UnavailableError) else 1
    return 0
