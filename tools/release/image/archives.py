"""The images as files: one archive for each image, with all its platforms."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.release.image import oci, python
from tools.release.image.recipes import build, version

_MIB = 1024**2


@dataclass(frozen=True, slots=True)
class Archive:
    """An image that was written to a file."""

    file: Path
    images: Sequence[oci.Image]

    @property
    def lines(self) -> list[str]:
        """The lines to print: the path and the digest, then the sizes of the layers for each platform."""
        sizes = [_sizes(image) for image in self.images]
        return [f"{self.file}  {oci.index(self.images).digest}", *sizes]


def write(
    wheel: Path, folder: Path, *, epoch: int, platforms: Sequence[str] = tuple(python.MACHINES)
) -> list[Archive]:
    """
    Build every image from a wheel of numalign, and write NAME-VERSION.oci.tar to a folder.

    `epoch` is the timestamp of everything in the images, in seconds since 1970. Raise `BuildError` if an
    image cannot be built.
    """
    tag = version(wheel)
    folder.mkdir(parents=True, exist_ok=True)
    archives = []
    for recipe, images in build(wheel, platforms, epoch=epoch).items():
        archive = Archive(folder / f"{recipe.name}-{tag}.oci.tar", images)
        archive.file.write_bytes(oci.layout(recipe.name, tag, images, epoch=epoch))
        archives.append(archive)
    return archives


def _sizes(image: oci.Image) -> str:
    compressed, unpacked = image.compressed / _MIB, image.size / _MIB
    return f"  {image.platform}  {compressed:.1f} MiB compressed, {unpacked:.1f} MiB unpacked"
