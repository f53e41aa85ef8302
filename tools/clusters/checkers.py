"""Programs that check what this project ships, found or built with Go, which takes minutes the first time."""

from dataclasses import dataclass
from pathlib import Path

from tools.clusters.gotools import Version, Workshop

_HERE = Path(__file__).resolve().parent
_ACTIONLINT, _PROMETHEUS, _KREW = (
    "github.com/rhysd/actionlint",
    "github.com/prometheus/prometheus",
    "sigs.k8s.io/krew",
)


@dataclass(frozen=True, slots=True)
class Krew:
    """The paths of kubectl's plugin manager, and of the check of manifests for its index."""

    krew: Path
    validate_manifest: Path


async def actionlint() -> Path:
    """Return the path of actionlint, which checks workflows: the one that ACTIONLINT names, or one built."""
    version = Version(_ACTIONLINT, f"{_ACTIONLINT}.version")
    shop = Workshop("actionlint", _HERE / "actionlint", module=_ACTIONLINT, variables=version)
    return await shop.program(f"{_ACTIONLINT}/cmd/actionlint", variable="ACTIONLINT")


async def promtool() -> Path:
    """Return the path of promtool, which evaluates alerts: the one that PROMTOOL names, or one built."""
    version = Version(_PROMETHEUS, "github.com/prometheus/common/version.Version")
    shop = Workshop("promtool", _HERE / "promtool", module=_PROMETHEUS, variables=version)
    # Service discovery makes up half of its modules, and no rule needs it (plugins/ of Prometheus).
    flags = ("-tags", "remove_all_sd")
    return await shop.program(f"{_PROMETHEUS}/cmd/promtool", variable="PROMTOOL", flags=flags)


async def krew() -> Krew:
    # Without a version, krew is a development build, which never looks for a newer version on the network.
    shop = Workshop("krew", _HERE / "krew", module=_KREW)
    return Krew(
        await shop.program(f"{_KREW}/cmd/krew"), await shop.program(f"{_KREW}/cmd/validate-krew-manifest")
    )
