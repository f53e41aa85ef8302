"""Gets the programs of a real control plane, because a fake one knows only what its author knew.

Prints the folder that holds `etcd` and `kube-apiserver`. It is the one named by KUBEBUILDER_ASSETS if
that is set (the convention of Kubernetes' own test tools), else a cache outside the tree, else one
that is built now with Go from the module beside this file: minutes, once. Progress goes to standard
error. Exit code 69 says that none can be had on this machine, 1 that getting it went wrong.
"""

import asyncio
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Awaitable
from pathlib import Path
from time import monotonic

MODULE = Path(__file__).resolve().parent
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
}
NEEDED = ("etcd", "kube-apiserver")
BREATH_SECONDS = 15


class UnavailableError(Exception):
    """No control plane can be had here; the text says what would change that."""


class BrokenError(Exception):
    """A control plane was named or begun, and something is wrong with it."""


async def find() -> Path:
    """The folder with the programs, built first if it must be."""
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        return complete(Path(assets))
    cache = cache_folder(version())
    return complete(cache) if cache.exists() else await build(cache)


def version() -> str:
    """The version of Kubernetes that the module requires."""
    return required("k8s.io/kubernetes")


def required(module: str) -> str:
    found = re.search(rf"^\s*{re.escape(module)} (v\S+)", module_file(), re.MULTILINE)
    if not found:
        raise BrokenError(f"{MODULE / 'go.mod'} does not require {module}")
    return found[1]


def module_file() -> str:
    return (MODULE / "go.mod").read_text()


def cache_folder(release: str) -> Path:
    """Where the programs of a release of Kubernetes are kept, outside the tree."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "numalign" / "controlplane" / release


def complete(folder: Path) -> Path:
    if missing := [name for name in NEEDED if not (folder / name).is_file()]:
        raise BrokenError(f"{folder} lacks {' and '.join(missing)}")
    return folder


async def build(cache: Path) -> Path:
    """Builds every program into the cache, all of them or none.

    Two builds at the same time do each other no harm: the second to finish is thrown away.
    """
    go = shutil.which("go")
    if not go:
        raise UnavailableError(
            "no kube-apiserver here: install Go to build one, or set KUBEBUILDER_ASSETS to a folder"
            f" with {' and '.join(NEEDED)} (as setup-envtest prints); looked in {cache}"
        )
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.parent) as unfinished:
        for name, package in PACKAGES.items():
            await compile_program(go, package, into=Path(unfinished) / name)
        settle(Path(unfinished), cache)
    return complete(cache)


def settle(unfinished: Path, cache: Path) -> None:
    ready = unfinished / "ready"
    ready.mkdir()
    for name in PACKAGES:
        (unfinished / name).rename(ready / name)
    if not cache.exists():
        ready.rename(cache)


async def compile_program(go: str, package: str, *, into: Path) -> None:
    # The version is told to the linker: without it the API server calls itself v0.0.0-master, and
    # clients complain of the skew.
    flags = f"-s -w -X k8s.io/component-base/version.gitVersion={version()}"
    release = required(package.partition("/cmd/")[0])
    say(f"building {into.name} {release} for the end-to-end tests: once, and it takes minutes")
    began = monotonic()
    process = await asyncio.create_subprocess_exec(
        *(go, "build", "-mod=readonly", "-trimpath", "-ldflags", flags, "-o", str(into), package),
        cwd=MODULE,
        env=os.environ | {"CGO_ENABLED": "0"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=sys.stderr,
    )
    if await patiently(process.wait(), what=f"building {into.name}"):
        raise BrokenError(f"go could not build {package}; what it said stands above")
    say(f"built {into.name} in {monotonic() - began:.0f} s")


async def patiently(result: Awaitable[int], *, what: str) -> int:
    """Waits however long it takes, and says now and then that it still does."""
    began = monotonic()
    waiting = asyncio.ensure_future(result)
    while not (await asyncio.wait([waiting], timeout=BREATH_SECONDS))[0]:
        say(f"{what}: {monotonic() - began:.0f} s so far")
    return waiting.result()


def say(line: str) -> None:
    sys.stderr.write(f"controlplane: {line}\n")
    sys.stderr.flush()


def main() -> int:
    try:
        sys.stdout.write(f"{asyncio.run(find())}\n")
    except UnavailableError as error:
        say(str(error))
        return os.EX_UNAVAILABLE
    except BrokenError as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
