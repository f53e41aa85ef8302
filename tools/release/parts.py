"""The parts of a release; each writes files into a folder."""

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools.clusters import gotools
from tools.clusters.helm import build
from tools.release import chart, distributions, manifests, sbom
from tools.release.artefacts import UnavailableError, artefact
from tools.release.commit import Commit
from tools.release.image import archives as images
from tools.release.plugin import archives, krew
from tools.release.plugin.targets import PLATFORMS


@dataclass(frozen=True, slots=True)
class Order:
    """What to release, and where: a commit with its wheel, and the output folder.

    `url` is the base URL of the published files; the krew manifest needs it.
    """

    commit: Commit
    wheel: Path
    into: Path
    url: str | None


def make_distributions(order: Order) -> list[Path]:
    """Make the wheel, the source distribution, and the lock."""
    return distributions.make(order.commit, order.wheel, order.into)


def make_plugin(order: Order) -> list[Path]:
    """Make an archive of the plugin for each platform."""
    return [archives.make(order.commit, order.wheel, platform, order.into) for platform in PLATFORMS]


def make_krew_manifest(order: Order) -> list[Path]:
    """Make the krew manifest of the archives in the output folder.

    Raise `UnavailableError` without a URL or archives.
    """
    if order.url is None:
        raise UnavailableError("set RELEASE_URL to the URL at which the files will be published")
    name = f"{archives.PROGRAM}_{order.commit.version}"
    made = {each: order.into / f"{name}_{each.name}.tar.gz" for each in PLATFORMS}
    measured = {platform: artefact(path) for platform, path in made.items() if path.exists()}
    if not measured:
        raise UnavailableError("it contains the digests of the plugin's archives: add --only plugin")
    manifest = order.into / "numa.yaml"
    manifest.write_text(krew.manifest(measured, version=order.commit.version, url=order.url))
    return [manifest]


def make_manifests(order: Order) -> list[Path]:
    """Make the plain manifests."""
    return manifests.make(order.commit, order.into)


def make_chart(order: Order) -> list[Path]:
    """Make the chart."""
    return [chart.make(order.commit, _helm(), order.into)]


def make_images(order: Order) -> list[Path]:
    """Make the OCI archives of the images."""
    return [each.file for each in images.write(order.wheel, order.into, epoch=order.commit.epoch)]


def make_bills(order: Order) -> list[Path]:
    """Make the SBOMs."""
    return sbom.make(order.commit, order.wheel, order.into)


PARTS: dict[str, Callable[[Order], list[Path]]] = {
    "python": make_distributions,
    "plugin": make_plugin,
    "krew": make_krew_manifest,
    "manifests": make_manifests,
    "chart": make_chart,
    "images": make_images,
    "sbom": make_bills,
}


def _helm() -> Path:
    if on_path := shutil.which("helm"):
        return Path(on_path)
    try:
        [helm] = asyncio.run(build.find())
    except gotools.UnavailableError as error:
        raise UnavailableError(str(error)) from error
    return helm
