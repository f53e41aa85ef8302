"""Finds what such a node is made of: containerd, runc and network plugins as installed, and the kubelet."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness.gotools import UnavailableError
from harness.kubelets import build as kubelets

PROGRAMS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "skopeo": "skopeo",
    "umoci": "umoci",
}
"""By program, the package of Debian that has it."""

PLUGINS = (Path("/opt/cni/bin"), Path("/usr/lib/cni"))
"""Where network plugins are: their own archives', and Debian's (containernetworking-plugins)."""

_TRIAL = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "true")


@dataclass(frozen=True, slots=True)
class Parts:
    """What a node is made of: the kubelet's program, and the folder of network plugins."""

    kubelet: Path
    plugins: Path


async def find() -> Parts:
    """
    All of them, the kubelet built first if it must be.

    Raises `UnavailableError` with all that is missing here, and `BrokenError`.
    """
    if lacking := missing():
        raise UnavailableError(f"no container can run here: {'; '.join(lacking)}")
    programs = await kubelets.find()
    return Parts(programs.kubelet, next(filter(_has_bridge, PLUGINS)))


def missing() -> list[str]:
    """What this machine lacks to run containers, each with what would help; nothing, if it can."""
    if os.geteuid():
        return ["want user 0: a kubelet runs as root, and so does a container runtime"]
    packages = {package for program, package in PROGRAMS.items() if not shutil.which(program)}
    if not any(map(_has_bridge, PLUGINS)):
        packages.add("containernetworking-plugins")
    if packages:
        return [f"install {' '.join(sorted(packages))}"]
    tried = subprocess.run(_TRIAL, capture_output=True, check=False)  # noqa: S603  what stands above
    return [f"no namespaces: {tried.stderr.decode(errors='replace').strip()}"] if tried.returncode else []


def _has_bridge(folder: Path) -> bool:
    return (folder / "bridge").is_file()
