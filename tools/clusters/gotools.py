"""Finds or builds real programs that are written in Go, such as Kubernetes, from the modules beside this one.

The programs are cached outside the tree. Progress goes to standard error. Exit code 69 means that the
programs are not available on this machine, 1 that the build failed.
"""

import argparse
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


# Otherwise the API server reports v0.0.0-master, and clients warn of version skew.
KUBERNETES_VERSION = Version(KUBERNETES, "k8s.io/component-base/version.gitVersion")


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
        needed = re.search(r"^go (\S+)$", self._requirements, re.MULTILINE)
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
            remedy = remedy or (f"or set {variable} to the path of one" if variable else "")
            go = self.compiler(program, remedy)
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
        go = shutil.which("go")
        if not go:
            what = f"no {wanted.name} here: install Go to build it"
            raise UnavailableError(f"{', '.join(filter(None, (what, remedy)))}; looked for {wanted}")
        return go

    async def source(self, go: str) -> Path:
        """Return the folder of the module's source. Raise `BrokenError` if Go does not report it."""
        asked = ("list", f"-modfile={self.module_file}", "-mod=readonly", "-m", "-f", "{{.Dir}}", self.module)
        found = await output_of(go, *asked, folder=self.folder, environment=await self.environment_of(go))
        if not found.strip():
            raise BrokenError(f"go does not say where {self.module} is")
        return Path(found.strip())

    async def compile(self, go: str, package: str, *, into: Path, flags: Iterable[str] = ()) -> None:
        """Build a program, however long it takes. Raise `BrokenError` if that fails."""
        began, variables = monotonic(), self.variables(self).items()
        linked = " ".join(["-s -w", *(f"-X {name}={value}" for name, value in variables)])
        process = await asyncio.create_subprocess_exec(
            *(go, "build", f"-modfile={self.module_file}", "-mod=readonly", "-trimpath"),
            *("-ldflags", linked, *flags, "-o", str(into), package),
            cwd=self.folder,
            env=await self.environment_of(go),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sys.stderr,
        )
        waiting = asyncio.ensure_future(process.wait())
        while not (await asyncio.wait([waiting], timeout=15))[0]:
            self.say(f"building {into.name}: {monotonic() - began:.0f} s so far")
        if waiting.result():
            raise BrokenError(f"go could not build {package}; what it said stands above")
        self.say(f"built {into.name} in {monotonic() - began:.0f} s")

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
    output = (await process.communicate())[0].decode()
    if process.returncode:
        raise BrokenError(f"{' '.join(command)} failed; what it said stands above")
    return output


def by_version(name: str, folder: Path) -> dict[str, Workshop]:
    """Return the workshop of each version of Kubernetes for which a folder has a go.<minor>.mod."""
    shops = (
        Workshop(name, folder, file.name, variables=KUBERNETES_VERSION)
        for file in sorted(folder.glob("go.*.mod"))
    )
    return {shop.release: shop for shop in shops}


def of_version(known: Mapping[str, Workshop], version: str, what: str) -> Workshop:
    """Return the workshop of a version. Raise `UnavailableError` if there is none."""
    if version not in known:
        raise UnavailableError(f"no {what} {version} here, only {', '.join(known)}")
    return known[version]


def main(
    module: str,
    known: Mapping[str, Workshop],
    usual: str,
    find: Callable[[str], Coroutine[Any, Any, Iterable[Path]]],
) -> int:
    """Print the paths of the programs of a version, or of all; return the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--version", choices=known, default=usual, help=f"of Kubernetes; {usual} if not given")
    which.add_argument("--all", action="store_true", help="every version")
    options = parser.parse_args()

    async def one_after_the_other() -> list[Path]:
        # Each build uses all processors.
        return [path for each in (known if options.all else [options.version]) for path in await find(each)]

    return run(known[usual], one_after_the_other())


def run(workshop: Workshop, finding: Coroutine[Any, Any, Iterable[Path]]) -> int:
    try:
        sys.stdout.writelines(f"{path}\n" for path in asyncio.run(finding))
    except UnavailableError as error:
        workshop.say(str(error))
        return os.EX_UNAVAILABLE
    except BrokenError as error:
        workshop.say(str(error))
        return 1
    return 0
