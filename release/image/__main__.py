"""Writes NAME-VERSION.oci.tar for each image, and prints digests and sizes.

    python -m release.image [--wheel FILE] [--out DIR] [--platforms linux/amd64,linux/arm64]

Without a wheel it builds one from this tree. SOURCE_DATE_EPOCH is the time of everything in the images; the
default is the time at which the base's packages were locked. Exit code 1: an image could not be built.
"""

import argparse
import calendar
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from release.image import debian, oci, python
from release.image.commands import run
from release.image.errors import BuildError
from release.image.recipes import LOCK, ROOT, Recipe, build, version

_MIB = 1024**2


def main() -> int:
    """The program."""
    given = _parser().parse_args()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            wheel = given.wheel or _wheel(Path(scratch))
            epoch = _epoch()
            images = build(wheel, given.platforms.split(","), epoch=epoch)
            _write(images, version(wheel), given.out, epoch=epoch)
    except BuildError as problem:
        sys.stderr.write(f"release.image: {problem}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    described = "Build the container images as OCI archives."
    parser = argparse.ArgumentParser(prog="python -m release.image", description=described)
    parser.add_argument("--wheel", type=Path, help="the wheel of numalign; built from this tree if not given")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the output folder (%(default)s)")
    platforms = ",".join(python.MACHINES)
    parser.add_argument("--platforms", default=platforms, help="separated by commas (%(default)s)")
    return parser


def _epoch() -> int:
    given = os.environ.get("SOURCE_DATE_EPOCH")
    locked = time.strptime(debian.read_lock(LOCK).snapshot, "%Y%m%dT%H%M%SZ")
    return int(given) if given else calendar.timegm(locked)


def _wheel(folder: Path) -> Path:
    options = ("--quiet", "--no-deps", "--wheel-dir", str(folder))
    command = (sys.executable, "-m", "pip", "wheel", *options, str(ROOT))
    run(command, otherwise=f"pip cannot build a wheel of {ROOT}", SOURCE_DATE_EPOCH=str(_epoch()))
    [wheel] = folder.glob("*.whl")
    return wheel


def _write(images: Mapping[Recipe, Sequence[oci.Image]], version: str, folder: Path, *, epoch: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for recipe, each in images.items():
        file = folder / f"{recipe.name}-{version}.oci.tar"
        file.write_bytes(oci.layout(recipe.name, version, each, epoch=epoch))
        sys.stdout.write(f"{file}  {oci.index(each).digest}\n")
        sys.stdout.writelines(_line(image) for image in each)


def _line(image: oci.Image) -> str:
    compressed, unpacked = image.compressed / _MIB, image.size / _MIB
    return f"  {image.platform}  {compressed:.1f} MiB compressed, {unpacked:.1f} MiB unpacked\n"


if __name__ == "__main__":
    sys.exit(main())
