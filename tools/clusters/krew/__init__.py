"""Builds krew, kubectl's plugin manager, and the check of manifests for its index, with Go."""

from dataclasses import dataclass
from pathlib import Path

from tools.clusters.gotools import Workshop

MODULE = "sigs.k8s.io/krew"
# Without a version, krew is a development build, which never looks for a newer version on the network.
WORKSHOP = Workshop("krew", Path(__file__).resolve().parent, module=MODULE)


@dataclass(frozen=True, slots=True)
class Krew:
    """The paths of both programs."""

    krew: Path
    validate_manifest: Path


async def find() -> Krew:
    """Return the paths of the programs, built first if necessary."""
    krew, check = [
        await WORKSHOP.program(f"{MODULE}/cmd/{name}") for name in ("krew", "validate-krew-manifest")
    ]
    return Krew(krew, check)
