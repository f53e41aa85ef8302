"""The kubectl plugin: an archive for each platform that needs only Python, and the krew manifest.

An archive contains the program as a pex with native libraries for all supported versions of Python.
"""

import gzip
import json
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import yaml
from packaging.tags import compatible_tags, cpython_tags, mac_platforms

from tools.release.files import Order, run, sha256

PROGRAM = "kubectl-numa"
COMPLETION = "kubectl_complete-numa"
Python = tuple[int, int]
PYTHONS: tuple[Python, ...] = ((3, 11), (3, 12), (3, 13), (3, 14))

_COMPLETING = f"""#!/bin/sh
# kubectl runs this program to complete the arguments of `kubectl numa`. Both programs must be on PATH.
PEX_SCRIPT={COMPLETION} exec {PROGRAM} "$@"
"""
_DESCRIPTION = """\
Shows the NUMA zones of nodes and the resources that pods hold in them, explains on which nodes the
kubelet would align a pod and why not on the others, and checks manifests before you apply them.
"""
_CAVEATS = """\
Requires CPython 3.11 to 3.14 as `python3` on PATH. To use another interpreter, set PEX_PYTHON.
"""


@dataclass(frozen=True, slots=True)
class Platform:
    """An operating system and a processor by their names in Go and krew, and by those in Python.

    `tags` are the platform tags of wheels that run there, the best one first.
    """

    os: str
    arch: str
    system: str
    machine: str
    tags: tuple[str, ...]


# The tags for the glibc of Debian 10 and RHEL 8, and older ones.
_GLIBC = (*(f"manylinux_2_{minor}" for minor in range(28, 16, -1)), "manylinux2014")
# Not macOS on Intel processors: cryptography publishes no wheels for it since version 49.
PLATFORMS = (
    Platform("linux", "amd64", "Linux", "x86_64", tuple(f"{tag}_x86_64" for tag in _GLIBC)),
    Platform("linux", "arm64", "Linux", "aarch64", tuple(f"{tag}_aarch64" for tag in _GLIBC)),
    Platform("darwin", "arm64", "Darwin", "arm64", tuple(mac_platforms((13, 0), "arm64"))),
)


def make(order: Order) -> None:
    """Make an archive for each platform, and the krew manifest if the URL of the release is known."""
    archives = {platform: make_archive(order, platform) for platform in PLATFORMS}
    if order.url:
        (order.into / "numa.yaml").write_text(manifest(order, archives))
    else:
        sys.stderr.write("no krew manifest: set RELEASE_URL to the URL at which the files are published\n")


def make_archive(order: Order, platform: Platform, pythons: tuple[Python, ...] = PYTHONS) -> Path:
    """Make the archive for a platform, and return its path; its program runs on these versions of Python."""
    archive = order.into / f"{PROGRAM}_{order.version}_{platform.os}_{platform.arch}.tar.gz"
    anonymous = partial(tarfile.TarInfo.replace, mtime=0, uid=0, gid=0, uname="", gname="", deep=False)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        _pack(order, platform, pythons, folder)
        (folder / COMPLETION).write_text(_COMPLETING)
        (folder / COMPLETION).chmod(0o755)
        (folder / "LICENSE").write_bytes((order.tree / "LICENSE").read_bytes())
        with gzip.GzipFile(archive, "wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as files:
            for name in (PROGRAM, COMPLETION, "LICENSE"):
                files.add(folder / name, name, filter=anonymous)
    return archive


def manifest(order: Order, archives: Mapping[Platform, Path]) -> str:
    """Return the krew manifest: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/."""
    platforms = [
        {
            "selector": {"matchLabels": {"os": platform.os, "arch": platform.arch}},
            "uri": f"{order.url.rstrip('/')}/{archive.name}",
            "sha256": sha256(archive),
            "files": [{"from": name, "to": "."} for name in (PROGRAM, "LICENSE")],
            "bin": PROGRAM,
        }
        for platform, archive in archives.items()
    ]
    content = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "numa"},
        "spec": {
            "version": f"v{order.version}",
            "homepage": order.url,
            "shortDescription": "Show and explain NUMA alignment of pods",
            "description": _DESCRIPTION,
            "caveats": _CAVEATS,
            "platforms": platforms,
        },
    }
    return yaml.safe_dump(content, sort_keys=False)


def complete_platform(platform: Platform, python: Python) -> dict[str, Any]:
    """Return pex's description of another machine: its tags of wheels and its markers of requirements."""
    short = ".".join(map(str, python))
    markers = {
        "implementation_name": "cpython",
        "implementation_version": f"{short}.0",
        "os_name": "posix",
        "platform_machine": platform.machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": platform.system,
        "platform_version": "",
        "python_full_version": f"{short}.0",
        "python_version": short,
        "sys_platform": platform.system.lower(),
    }
    abi = "cp" + short.replace(".", "")
    known = cpython_tags(python, [abi], platform.tags), compatible_tags(python, abi, platform.tags)
    return {"marker_environment": markers, "compatible_tags": [*map(str, chain(*known))]}


def _pack(order: Order, platform: Platform, pythons: tuple[Python, ...], folder: Path) -> None:
    """Write the program as a pex, which at its first start unpacks itself to the user's cache."""
    # pex looks for it next to the lock, and pip in the working directory.
    shutil.copy(order.wheel, folder)
    lock = folder / "requirements.txt"
    lock.write_text((order.locks / "programs.txt").read_text() + order.pinned_wheel())
    targets = [folder / f"{major}.{minor}.json" for major, minor in pythons]
    for file, python in zip(targets, pythons, strict=True):
        file.write_text(json.dumps(complete_platform(platform, python)))
    run(
        *(sys.executable, "-m", "pex", "--requirement", lock, "--no-build", "--use-pip-config"),
        *(f"--complete-platform={file}" for file in targets),
        *("--console-script", PROGRAM, "--venv", "--python-shebang", "/usr/bin/env python3"),
        *("--output-file", folder / PROGRAM),
        folder=folder,
    )
