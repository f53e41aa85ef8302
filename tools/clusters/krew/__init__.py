"""Builds krew, kubectl's plugin manager, and the check of manifests for its index, with Go."""

from dataclasses import dataclass
from pathlib import Path

from tools.clusters.gotools import Workshop

MODULE = "sigs.k8s.io/krew"


# Without a version, krew is a development build, which never looks for a newer version on the network.
WORKSHOP = Workshop("krew", Path(__file__).resolve().parent)


@dataclass(frozen=True, slots=True)
class Krew:
    """The paths of both programs."""

    krew: Path
    validate_manifest: Path


async def find() -> Krew:
    """Return the paths of the programs; build them first if necessary."""
    return Krew(await _program("krew"), await _program("validate-krew-manifest"))


async def _program(name: str) -> Path:
    version = WORKSHOP.required(MODULE)
    cached = WORKSHOP.cache(version, name)
    if not cached.exists():
        await WORKSHOP.build(
            f"{MODULE}/cmd/{name}",
            into=cached,
            begins=f"building {name} {version}: once",
            otherwise=f"no {name}: install Go to build it",
        )
    return cached
