"""Writes NAME-VERSION.oci.tar for each image, and prints digests and sizes.

    python -m tools.release.image [--wheel FILE] [--out DIR] [--platforms linux/amd64,linux/arm64]

Without a wheel it builds one from this tree. SOURCE_DATE_EPOCH is the timestamp of everything in the images;
the default is the time at which the packages of the base were locked. Exit code 1: an image could not be
built.
"""

import argparse
import calendar
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tools.release.image import debian, python
from tools.release.image.archives import write
from tools.release.image.commands import run
from tools.release.image.errors import BuildError
from tools.release.image.recipes import LOCK, ROOT


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program, and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            wheel = options.wheel or build_wheel(Path(scratch))
            archives = write(wheel, options.out, epoch=epoch(), platforms=options.platforms.split(","))
    except BuildError as problem:
        sys.stderr.write(f"tools.release.image: {problem}\n")
        return 1
    sys.stdout.writelines(f"{line}\n" for archive in archives for line in archive.lines)
    return 0


def epoch() -> int:
    """Return the timestamp of everything in the images, in seconds since 1970.

    Raise `BuildError` if SOURCE_DATE_EPOCH is not a number.
    """
    if set_time := os.environ.get("SOURCE_DATE_EPOCH"):
        if not set_time.isdecimal():
            raise BuildError(f"SOURCE_DATE_EPOCH is {set_time!r}: set it to seconds since 1970, or unset it")
        return int(set_time)
    return calendar.timegm(time.strptime(debian.read_lock(LOCK).snapshot, "%Y%m%dT%H%M%SZ"))


def build_wheel(folder: Path) -> Path:
    """Build a wheel of this tree, and return its path. Raise `BuildError` if pip fails."""
    options = ("--quiet", "--no-deps", "--wheel-dir", str(folder))
    command = (sys.executable, "-m", "pip", "wheel", *options, str(ROOT))
    run(command, otherwise=f"pip cannot build a wheel of {ROOT}", SOURCE_DATE_EPOCH=str(epoch()))
    [wheel] = folder.glob("*.whl")
    return wheel


def _parser() -> argparse.ArgumentParser:
    described = "Build the container images as OCI archives."
    parser = argparse.ArgumentParser(prog="python -m tools.release.image", description=described)
    parser.add_argument("--wheel", type=Path, help="the numalign wheel (default: build one from this tree)")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "dist", help="output folder (default: %(default)s)"
    )
    platforms = ",".join(python.MACHINES)
    parser.add_argument(
        "--platforms", default=platforms, help="platforms, separated by commas (default: %(default)s)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
