"""The images run as the pods of the chart do, and their containers can write nothing but /tmp."""

import asyncio
import json
import shutil
import ssl
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.system.images.conftest import ROOT, VERSION
from tools.clusters import certificates
from tools.clusters.processes import Children, answers, free_port, until
from tools.generate.manifests import Installation, everything

Json = dict[str, Any]

CAPABILITIES = ("bounding", "effective", "inheritable", "permitted", "ambient")
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
        # A context that leaves any capability is not one of ours.
        assert context["capabilities"] == {"drop": ["ALL"]}
        config["process"] |= {
            "args": list(arguments),
            "terminal": False,
            "noNewPrivileges": not context["allowPrivilegeEscalation"],
            "capabilities": {name: [] for name in CAPABILITIES},
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


BIN = "/opt/numalign/bin"
PROGRAMS = ("numalign-webhook", "numalign-scorer", "numalign-controller", "numalign-certs", "kubectl-numa")
SNAPSHOT = ROOT / "examples" / "data" / "cluster.yaml"
READ_ONLY = ("/written", "/opt/numalign/written", "/etc/passwd", "/run/written")


@pytest.fixture(scope="module")
def context() -> dict[str, Any]:
    """Return the security context of the webhook's container in the chart."""
    found: dict[str, Any] = Installation(everything()).container("numalign-webhook")["securityContext"]
    return found


@pytest.fixture(scope="module")
def bundles(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bundle]:
    return {
        name: unpacked(images / name, VERSION, tmp_path_factory.mktemp(name))
        for name in ("numalign-webhook", "numalign-agent")
    }


@pytest.fixture
def confined(bundles: dict[str, Bundle], context: dict[str, Any], tmp_path: Path) -> Callable[..., str]:
    """The output of a command in an image, run as its pod would; fails if the command does."""

    def run(*arguments: str, name: str = "numalign-webhook") -> str:
        code, output = bundles[name].run(uuid4().hex, arguments, context=context, folder=tmp_path)
        assert code == 0, output
        return output

    return run


def test_every_program_starts(confined: Callable[..., str]) -> None:
    for program in PROGRAMS:
        assert confined(f"{BIN}/{program}", "--version").split()[-1] == VERSION
    agent = confined(f"{BIN}/numalign-agent", "--version", name="numalign-agent")
    assert agent == f"numalign-agent {VERSION}\n"


def test_images_have_what_they_need_and_no_more(
    bundles: dict[str, Bundle], confined: Callable[..., str]
) -> None:
    packages = "opt/numalign/lib/python3.11/site-packages"
    webhook, agent = bundles.values()
    assert (webhook.root / packages / "numpy").is_dir()
    assert not (agent.root / packages / "numpy").exists()
    for bundle in (webhook, agent):
        assert not list((bundle.root / "opt/numalign").rglob("pip"))
    script = (
        "import importlib.util, numalign.webhook.__main__ as m, asyncio, numpy, pathlib, ssl;"
        "made = [pathlib.Path(importlib.util.cache_from_source(x.__file__)) for x in (m, asyncio, numpy)];"
        "print(all(each.is_file() for each in made),"
        " len(ssl.create_default_context().get_ca_certs()) > 100)"
    )
    # Modules are compiled, and certificate authorities are there.
    assert confined(f"{BIN}/python", "-c", script) == "True True\n"


def test_user_65532_can_write_only_tmp(confined: Callable[..., str]) -> None:
    script = f"""
import os
open("/tmp/written", "a")
for path in {READ_ONLY!r}:
    try:
        open(path, "a")
    except OSError as error:
        assert error.strerror in ("Read-only file system", "Permission denied"), (path, error)
    else:
        raise SystemExit(path)
print(os.getuid(), os.getgid(), os.getgroups())
"""
    assert confined(f"{BIN}/python", "-c", script) == "65532 65532 []\n"


@pytest.mark.asyncio(loop_scope="session")
async def test_webhook_serves_from_a_read_only_root(
    bundles: dict[str, Bundle], context: dict[str, Any], tmp_path: Path, children: Children
) -> None:
    shutil.copy(SNAPSHOT, tmp_path)
    pair = certificates.pair(tmp_path)
    # For user 65532.
    tmp_path.chmod(0o755)  # noqa: ASYNC240  a folder of this test
    pair.key.chmod(0o644)
    port, metrics_port = free_port(), free_port()
    arguments = (
        *(f"{BIN}/numalign-webhook", "--snapshot=/host/cluster.yaml", "--bind=127.0.0.1"),
        *(f"--port={port}", f"--metrics-port={metrics_port}"),
        *("--tls-cert=/host/tls.crt", "--tls-key=/host/tls.key"),
    )
    command = bundles["numalign-webhook"].command(uuid4().hex, arguments, context=context, folder=tmp_path)
    child = await children.start(*command, name="webhook-in-runc")
    ready = partial(answers, f"http://127.0.0.1:{metrics_port}/readyz")
    await until(ready, what="the webhook was ready", child=child)

    shown = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port), ca_certs=str(pair.ca))
    assert shown.strip() in pair.cert.read_text()
    assert await child.stop() == 0
