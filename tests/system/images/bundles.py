"""Containers of an image under runc, run as the pods of the chart say."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]

_TMP = {
    "destination": "/tmp",  # noqa: S108  in the container
    "type": "tmpfs",
    "source": "tmpfs",
    "options": ["nosuid", "nodev", "mode=1777", "size=16m"],
}


@dataclass(frozen=True, slots=True)
class Bundle:
    """An image that was unpacked, and the configuration that umoci made of the image's own."""

    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "rootfs"

    def command(self, name: str, arguments: Sequence[str], *, context: Json, folder: Path) -> list[str]:
        """
        The command that runs a container of that name on the host's network.

        `context` is the `securityContext` of a container; `folder` is mounted at /host, read-only.
        """
        config = json.loads((self.folder / "config.json").read_text())
        mounted = {"destination": "/host", "type": "bind", "source": str(folder), "options": ["bind", "ro"]}
        config["mounts"] += [_TMP, mounted]
        config["process"] |= {
            "args": list(arguments),
            "terminal": False,
            "noNewPrivileges": not context["allowPrivilegeEscalation"],
            "capabilities": _capabilities(context),
        }
        config["root"]["readonly"] = context["readOnlyRootFilesystem"]
        config["linux"]["namespaces"] = [
            each for each in config["linux"]["namespaces"] if each["type"] != "network"
        ]
        bundle = self.folder.with_name(name)
        bundle.mkdir()
        (bundle / "rootfs").symlink_to(self.root)
        config["root"]["path"] = str(self.root)
        (bundle / "config.json").write_text(json.dumps(config))
        return ["runc", f"--root={self.folder.parent / 'runc'}", "run", f"--bundle={bundle}", name]

    def run(self, name: str, arguments: Sequence[str], *, context: Json, folder: Path) -> tuple[int, str]:
        command = self.command(name, arguments, context=context, folder=folder)
        ended = subprocess.run(  # noqa: S603  what stands above
            command, capture_output=True, text=True, check=False, timeout=60
        )
        return ended.returncode, ended.stdout + ended.stderr


def unpacked(layout: Path, tag: str, folder: Path) -> Bundle:
    command = ("umoci", "unpack", "--image", f"{layout}:{tag}", str(folder / "bundle"))
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  constants
    assert ended.returncode == 0, ended.stderr
    return Bundle(folder / "bundle")


def _capabilities(context: Json) -> Json:
    """None, as the chart says; a context that leaves any is not one of ours."""
    assert context["capabilities"] == {"drop": ["ALL"]}
    return {name: [] for name in ("bounding", "effective", "inheritable", "permitted", "ambient")}
