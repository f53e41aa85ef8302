"""Finds what builds images and runs them: buildah, containerd, runc, network plugins, and the kubelet."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tools.clusters.gotools import UnavailableError
from tools.clusters.kubelets import build as kubelets

PROGRAMS = {
    "buildah": "buildah",
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "mmdebstrap": "mmdebstrap",
    "umoci": "umoci",
}
"""The Debian package of each program."""

PLUGINS = (Path("/opt/cni/bin"), Path("/usr/lib/cni"))
"""Folders of network plugins: that of their release archives, and Debian's (containernetworking-plugins)."""

_TRIAL = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "true")


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a node: the kubelet's program, and the folder of network plugins."""

    kubelet: Path
    plugins: Path


async def find() -> Parts:
    """
    Find the parts of a node; build the kubelet first if necessary.

    Raise `UnavailableError` with all that is missing on this machine, and `BrokenError` if the build fails.
    """
    if lacking := missing():
        raise UnavailableError(f"no container can run here: {'; '.join(lacking)}")
    programs = await kubelets.find()
    return Parts(programs.kubelet, next(filter(_has_bridge, PLUGINS)))


def missing() -> list[str]:
    """Return what this machine lacks to run containers, each with a remedy; empty if nothing."""
    if os.geteuid():
        return ["want user 0: a kubelet runs as root, and so does a container runtime"]
    packages = {package for program, package in PROGRAMS.items() if not shutil.which(program)}
    if not any(map(_has_bridge, PLUGINS)):
        packages.add("containernetworking-plugins")
    if packages:
        return [f"install {' '.join(sorted(packages))}"]
    tried = subprocess.run(_TRIAL, capture_output=True, check=False)  # noqa: S603  the constant above
    return [f"no namespaces: {tried.stderr.decode(errors='replace').strip()}"] if tried.returncode else []


def _has_bridge(folder: Path) -> bool:
    return (folder / "bridge").is_file()
