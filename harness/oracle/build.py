"""Finds or builds the kubelet's own resource managers, because a model cannot show its own errors.

`python -m harness.oracle.build [--version v1.34.4 | --all]` prints the path of the program. It builds the
program first if the cache has no build of the same sources: this takes minutes the first time, and seconds
after an edit. Each version of Kubernetes has a go.<minor>.mod here. Exit code 69 means that there is no Go, 1
that the build failed.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from harness.gotools import UnavailableError, Workshop, by_version, run

HERE = Path(__file__).resolve().parent
PROGRAM = "kubelet-oracle"
# The version that made the recordings.
USUAL = "v1.34.4"


def versions() -> dict[str, Workshop]:
    """Return the workshop of each version of Kubernetes that can be built here."""
    return by_version("oracle", HERE)


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
    return shop.place(version, PROGRAM, sorted(HERE.glob("*.go")))


async def build(shop: Workshop, version: str, *, into: Path) -> None:
    """Build the program into its place."""
    await shop.build(
        ".",
        into=into,
        begins=f"building {PROGRAM} {version}: it takes minutes, unless its packages were built before",
        otherwise=f"no {PROGRAM} {version} here: install Go to build it; looked for {into}",
        flags=("-tags", tag(shop)),
    )


def tag(shop: Workshop) -> str:
    """Return the build tag of the files that call the managers of a version: v1_34 for go.1.34.mod."""
    return "v" + shop.module_file.removeprefix("go.").removesuffix(".mod").replace(".", "_")


def main() -> int:
    """Print the paths, and return the exit code."""
    known = versions()
    parser = argparse.ArgumentParser(prog="python -m harness.oracle.build")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--version", choices=known, default=USUAL, help=f"of Kubernetes; {USUAL} if not given")
    which.add_argument("--all", action="store_true", help="every version, a path a line")
    options = parser.parse_args()
    return run(known[USUAL], find_all(known if options.all else [options.version]))


if __name__ == "__main__":
    sys.exit(main())
