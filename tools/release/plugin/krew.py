"""The plugin's krew manifest: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/."""

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from tools.release.artefacts import Artefact
from tools.release.plugin.archives import PROGRAM
from tools.release.plugin.targets import PLATFORMS, Platform

_DESCRIPTION = """\
Shows the NUMA zones of nodes and the resources that pods hold in them, explains on which nodes the
kubelet would align a pod and why not on the others, and checks manifests before you apply them.
"""
_CAVEATS = """\
Requires CPython 3.11 to 3.14 as `python3` on PATH. To use another interpreter, set PEX_PYTHON.
"""


def manifest(archives: Mapping[Platform, Artefact], *, version: str, url: str) -> str:
    """Return the manifest of a version whose archives are published under `url`."""
    return yaml.safe_dump(
        {
            "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
            "kind": "Plugin",
            "metadata": {"name": "numa"},
            "spec": {
                "version": f"v{version}",
                "homepage": url,
                "shortDescription": "Show and explain NUMA alignment of pods",
                "description": _DESCRIPTION,
                "caveats": _CAVEATS,
                "platforms": list(_platforms(archives, url)),
            },
        },
        sort_keys=False,
    )


def _platforms(archives: Mapping[Platform, Artefact], url: str) -> Iterable[dict[str, Any]]:
    for platform in PLATFORMS:
        if archive := archives.get(platform):
            yield {
                "selector": {"matchLabels": {"os": platform.os, "arch": platform.arch}},
                "uri": f"{url.rstrip('/')}/{archive.name}",
                "sha256": archive.sha256,
                "files": [{"from": name, "to": "."} for name in (PROGRAM, "LICENSE")],
                "bin": PROGRAM,
            }
