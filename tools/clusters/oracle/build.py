"""Finds or builds the kubelet's own resource managers, because a model cannot show its own errors.

`python -m tools.clusters.oracle.build [--version v1.34.4 | --all]` prints the path of the program. It builds
the program first if the cache has no build of the same sources: this takes minutes the first time, and
seconds after an edit. Each version of Kubernetes has a go.<minor>.mod here. A version such as
v1.38.0-beta.0+numa-allocation-strategy is built with a folder of overlay/: an option that no kubelet has yet.
Exit code 69 means that there is no Go, 1 that the build failed.
"""

import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tools.clusters.gotools import KUBERNETES, Workshop, by_version, main, of_version, output_of

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
    shop = of_version(versions(), version, "kubelet")
    program, overlay, flags = place(shop, version), _overlay(version), ("-tags", tag(shop))
    if program.exists() or not overlay:
        return await shop.program(".", program, flags=flags)
    with tempfile.TemporaryDirectory() as folder:
        patched = await _overlaid(shop, overlay, shop.compiler(program, "and git"), Path(folder))
        return await patched.program(".", program, flags=flags)


def place(shop: Workshop, version: str) -> Path:
    """Return the path of the program; it changes with the content of its sources."""
    overlay = _overlay(version)
    sources = [*sorted(HERE.glob("*.go")), *(sorted(overlay.iterdir()) if overlay else ())]
    return shop.place(version, PROGRAM, sources)


def _overlay(version: str) -> Path | None:
    name = version.partition("+")[2]
    return OVERLAYS / name if name else None


async def _overlaid(shop: Workshop, overlay: Path, go: str, folder: Path) -> Workshop:
    """Return the workshop with the kubelet patched: Go's own -overlay replaces no file of a module."""
    patched = folder / "kubernetes"
    _linked(await shop.source(go), patched, _PATCHED.parts)
    _copied(overlay, patched / _PATCHED)
    await output_of("git", "apply", str(overlay / "topologymanager.patch"), folder=patched)
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


def tag(shop: Workshop) -> str:
    """Return the build tag of the files that call the managers of a version: v1_34 for go.1.34.mod."""
    return "v" + shop.module_file.removeprefix("go.").removesuffix(".mod").replace(".", "_")


async def _paths(version: str) -> list[Path]:
    return [await find(version)]


if __name__ == "__main__":
    sys.exit(main("tools.clusters.oracle.build", versions(), USUAL, _paths))
