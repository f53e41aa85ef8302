"""Gets the kubelet's own resource managers as a program, because a model cannot say where it is wrong.

`python -m harness.oracle.build [--version v1.34.4 | --all]` prints where the program is, and builds it first
if no build of the same sources is in the cache: minutes at the first time, seconds after an edit. Each
version of Kubernetes has a go.<minor>.mod here. Exit code 69 says that there is no Go, 1 that building
went wrong.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from harness.gotools import UnavailableError, Workshop, by_version, run

HERE = Path(__file__).resolve().parent
PROGRAM = "kubelet-oracle"
# The version with which the recordings were made.
USUAL = "v1.34.4"


def versions() -> dict[str, Workshop]:
    """Every version of Kubernetes that can be built here, and from what."""
    return by_version("oracle", HERE)


async def find(version: str = USUAL) -> Path:
    """The program of that version, built first if it must be. UnavailableError says why it cannot be had."""
    known = versions()
    if version not in known:
        raise UnavailableError(f"no kubelet {version} here, only {', '.join(known)}")
    program = place(known[version], version)
    if not program.exists():
        await build(known[version], version, into=program)
    return program


async def find_all(wanted: Iterable[str]) -> list[Path]:
    """The programs of these versions, one after the other: each build uses every processor."""
    return [await find(version) for version in wanted]


def place(shop: Workshop, version: str) -> Path:
    """Where the program is kept: an edit of what it is made from is another place."""
    return shop.place(version, PROGRAM, sorted(HERE.glob("*.go")))


async def build(shop: Workshop, version: str, *, into: Path) -> None:
    """Builds it to its place."""
    await shop.build(
        ".",
        into=into,
        begins=f"building {PROGRAM} {version}: it takes minutes, unless its packages were built before",
        otherwise=f"no {PROGRAM} {version} here: install Go to build it; looked for {into}",
        flags=("-tags", tag(shop)),
    )


def tag(shop: Workshop) -> str:
    """The build tag of the files that speak to the managers of that version: v1_34 for go.1.34.mod."""
    return "v" + shop.module_file.removeprefix("go.").removesuffix(".mod").replace(".", "_")


def main() -> int:
    """The script: paths on standard output."""
    known = versions()
    parser = argparse.ArgumentParser(prog="python -m harness.oracle.build")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--version", choices=known, default=USUAL, help=f"of Kubernetes; {USUAL} if not given")
    which.add_argument("--all", action="store_true", help="every version, a path a line")
    options = parser.parse_args()
    return run(known[USUAL], find_all(known if options.all else [options.version]))


if __name__ == "__main__":
    sys.exit(main())
