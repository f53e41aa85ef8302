"""Finds or builds the kubelet's own resource managers, because a model cannot show its own errors.

`python -m tools.clusters.oracle.build [--version v1.34.4 | --all]` prints the path of the program. It builds
the program first if the cache has no build of the same sources: this takes minutes the first time, and
seconds after an edit. Each version of Kubernetes has a go.<minor>.mod here. A version such as
v1.38.0-beta.0+numa-allocation-strategy is built with a folder of overlay/: an option that no kubelet has yet.
Exit code 69 means that there is no Go, 1 that the build failed.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tools.clusters.gotools import KUBERNETES, BrokenError, UnavailableError, Workshop, by_version, run

HERE = Path(__file__).resolve().parent
PROGRAM = "kubelet-oracle"
OVERLAYS = HERE / "overlay"
# The version that the patches of the overlays apply to.
OVERLAID = "v1.38.0-beta.0"
_PATCHED = Path("pkg/kubelet/cm/topologymanager")
# The version that made the recordings.
USUAL = "v1.34.4"


def versions() -> dict[str, Workshop]:
    """Return the workshop of each version of Kubernetes that can be built here."""
    known = by_version("oracle", HERE)
    folders = sorted(folder.name for folder in OVERLAYS.iterdir())
    return known | {f"{OVERLAID}+{name}": known[OVERLAID] for name in folders}


async def find(version: str = USUAL) -> Path:
    """Return the program of a version, built first if necessary. Raise `UnavailableError` if it cannot be."""
    known = versions()
    if version not in known:
        raise UnavailableError(f"no kubelet {version} here, only {', '.join(known)}")
    program = place(known[version], version)
    if not program.exists():
        await build(known[version], version, into=program)
    return program


async def find_all(wanted: Iterable[str]) -> list[Path]:
    """Return the programs of these versions, built one after the other: each build uses all processors."""
    return [await find(version) for version in wanted]


def place(shop: Workshop, version: str) -> Path:
    """Return the path of the program; it changes with the content of its sources."""
    overlay = _overlay(version)
    return shop.place(
        version, PROGRAM, [*sorted(HERE.glob("*.go")), *(sorted(overlay.iterdir()) if overlay else ())]
    )


async def build(shop: Workshop, version: str, *, into: Path) -> None:
    """Build the program into its place."""
    with tempfile.TemporaryDirectory() as folder:
        overlay = _overlay(version)
        await (await _overlaid(shop, overlay, Path(folder)) if overlay else shop).build(
            ".",
            into=into,
            begins=f"building {PROGRAM} {version}: it takes minutes, unless its packages were built before",
            otherwise=f"no {PROGRAM} {version} here: install Go to build it; looked for {into}",
            flags=("-tags", tag(shop)),
        )


def _overlay(version: str) -> Path | None:
    name = version.partition("+")[2]
    return OVERLAYS / name if name else None


async def _overlaid(shop: Workshop, overlay: Path, folder: Path) -> Workshop:
    """Return the workshop with the kubelet patched: Go's own -overlay replaces no file of a module."""
    go = shop.compiler(otherwise=f"no {PROGRAM} with {overlay.name} here: install Go and git to build it")
    listing = (go, "list", f"-modfile={shop.module_file}", "-m", "-f", "{{.Dir}}", KUBERNETES)
    listed = await _said(*listing, folder=shop.folder, environment=await shop.environment_of(go))
    patched = folder / "kubernetes"
    _linked(Path(listed.strip()), patched, _PATCHED.parts)
    _copied(overlay, patched / _PATCHED)
    await _said("git", "apply", str(overlay / "topologymanager.patch"), folder=patched)
    module = folder / shop.module_file
    module.write_text(f"{(shop.folder / shop.module_file).read_text()}\nreplace {KUBERNETES} => {patched}\n")
    shutil.copy((shop.folder / shop.module_file).with_suffix(".sum"), folder)
    return replace(shop, module_file=str(module))


def _linked(source: Path, target: Path, into: Sequence[str]) -> None:
    """Make a folder like another one, with copies of its files and links to its folders, but `into` alike."""
    target.mkdir()
    _copied(source, target)
    for entry in source.iterdir():
        if entry.is_dir() and entry.name not in into[:1]:
            (target / entry.name).symlink_to(entry)
    if into:
        _linked(source / into[0], target / into[0], into[1:])


def _copied(source: Path, target: Path) -> None:
    for entry in source.iterdir():
        if entry.is_file():
            shutil.copyfile(entry, target / entry.name)


async def _said(*command: str, folder: Path, environment: Mapping[str, str] | None = None) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=environment, stdout=asyncio.subprocess.PIPE
    )
    said = (await process.communicate())[0].decode()
    if process.returncode:
        raise BrokenError(f"{' '.join(command)} failed; what it said stands above")
    return said


def tag(shop: Workshop) -> str:
    """Return the build tag of the files that call the managers of a version: v1_34 for go.1.34.mod."""
    return "v" + shop.module_file.removeprefix("go.").removesuffix(".mod").replace(".", "_")


def main() -> int:
    """Print the paths, and return the exit code."""
    known = versions()
    parser = argparse.ArgumentParser(prog="python -m tools.clusters.oracle.build")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--version", choices=known, default=USUAL, help=f"of Kubernetes; {USUAL} if not given")
    which.add_argument("--all", action="store_true", help="every version, a path a line")
    options = parser.parse_args()
    return run(known[USUAL], find_all(known if options.all else [options.version]))


if __name__ == "__main__":
    sys.exit(main())
