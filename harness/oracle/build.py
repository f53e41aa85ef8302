"""Gets the kubelet's own resource managers as a program, because a model cannot say where it is wrong.

`python -m harness.oracle.build [--version v1.34.4 | --all]` prints where the program is, and builds it first
if no build of the same sources is in the cache: minutes at the first time, seconds after an edit. Each
version of Kubernetes has a go.<minor>.mod here. Exit code 69 says that there is no Go, 1 that building
went wrong.
"""

import argparse
import hashlib
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from harness.gotools import UnavailableError, Workshop, run

HERE = Path(__file__).resolve().parent
PROGRAM = "kubelet-oracle"
# The version with which the recordings were made.
USUAL = "v1.34.4"


def versions() -> dict[str, Workshop]:
    """Every version of Kubernetes that can be built here, and from what."""
    shops = (Workshop("oracle", HERE, file.name) for file in sorted(HERE.glob("go.*.mod")))
    return {shop.required("k8s.io/kubernetes"): shop for shop in shops}


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
    minor = shop.module_file.removesuffix(".mod")
    sources = (*sorted(HERE.glob("*.go")), HERE / f"{minor}.mod", HERE / f"{minor}.sum")
    made_from = hashlib.sha256()
    for source in sources:
        made_from.update(f"{source.name} {source.stat().st_size}\n".encode())
        made_from.update(source.read_bytes())
    return shop.cache(version, made_from.hexdigest()[:12], PROGRAM)


async def build(shop: Workshop, version: str, *, into: Path) -> None:
    """Two builds at the same time do each other no harm: each moves a whole program to its place."""
    go = shop.compiler(otherwise=f"no {PROGRAM} {version} here: install Go to build it; looked for {into}")
    into.parent.mkdir(parents=True, exist_ok=True)
    shop.say(f"building {PROGRAM} {version}: it takes minutes, unless its packages were built before")
    with tempfile.TemporaryDirectory(dir=into.parent) as unfinished:
        program = Path(unfinished) / PROGRAM
        await shop.compile(go, ".", into=program, flags=("-tags", tag(shop)))
        program.rename(into)


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
