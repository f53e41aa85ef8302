"""The images are what other tools take for images, the same in every build, and cannot be written to."""

import asyncio
import gzip
import io
import json
import re
import shutil
import ssl
import tarfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from certs import authority
from tests.system.images.bundles import Bundle, inspected, unpacked
from tests.system.images.conftest import Images
from tools.clusters import imagespec
from tools.clusters.processes import Children, answers, free_port, until
from tools.generate.manifests import Installation, everything
from tools.release.commands import FailedError, run
from tools.release.image import oci, python
from tools.release.image.__main__ import epoch
from tools.release.image.recipes import ROOT, build

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = PROJECT["version"]
BIN = "/opt/numalign/bin"
PROGRAMS = ("numalign-webhook", "numalign-scorer", "numalign-controller", "numalign-certs", "kubectl-numa")
_LIBRARY = re.compile(r"\.cpython-311-(\w+)-linux-gnu\.so$")
HEADER = "application/vnd.oci.layout.header.v1+json"
QEMU = "qemu-aarch64-static"
SNAPSHOT = ROOT / "examples" / "data" / "cluster.yaml"

Run = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def context() -> dict[str, Any]:
    """How the chart has the webhook's container confined."""
    found: dict[str, Any] = Installation(everything()).container("numalign-webhook")["securityContext"]
    return found


@pytest.fixture(scope="module")
def webhook(images: Images, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return unpacked(images.webhook.file, VERSION, tmp_path_factory.mktemp("webhook"))


@pytest.fixture(scope="module")
def agent(images: Images, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return unpacked(images.agent.file, VERSION, tmp_path_factory.mktemp("agent"))


@pytest.fixture(scope="module")
def emulated(images: Images, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of the webhook's image for arm64, with an emulator of that processor in it."""
    if python.own_platform() == "linux/arm64":
        pytest.skip("the other tests run on arm64 itself")
    if not (qemu := shutil.which(QEMU)):
        pytest.skip(f"nothing was run on arm64: no {QEMU} on PATH, which qemu-user-static installs")
    folder = tmp_path_factory.mktemp("arm64")
    root = unpacked(images.webhook.file, VERSION, folder, architecture="arm64").root
    shutil.copy(qemu, root)
    return root


@pytest.fixture
def confined(webhook: Bundle, context: dict[str, Any], tmp_path: Path) -> Run:
    """Runs a command in the webhook's image as its pod would."""
    return lambda *arguments: webhook.run(uuid4().hex, arguments, context=context, folder=tmp_path)


def test_another_build_gives_the_same_digests(images: Images) -> None:
    own = python.own_platform()
    for archive, again in zip(
        (images.webhook, images.agent), build(images.wheel, [own], epoch=epoch()).values(), strict=True
    ):
        digests = {image.platform: image.manifest.digest for image in archive.images}
        assert [image.manifest.digest for image in again] == [digests[own]]


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_skopeo_reads_the_images_of_every_platform(images: Images, architecture: str) -> None:
    for archive in (images.webhook, images.agent):
        read = inspected(archive.file, VERSION, architecture)
        assert (read["Os"], read["Architecture"]) == ("linux", architecture)
        assert read["Digest"] == oci.index(archive.images).digest
        assert read["Labels"]["org.opencontainers.image.version"] == VERSION


@pytest.mark.asyncio(loop_scope="session")
async def test_every_document_is_valid_by_the_image_specification(images: Images) -> None:
    program = await imagespec.find()
    for archive in (images.webhook, images.agent):
        found = list(documents(archive.file))
        assert Counter(kind for kind, _ in found) == {HEADER: 1, oci.INDEX: 2, oci.MANIFEST: 2, oci.CONFIG: 2}
        for kind, content in found:
            run(program, kind, stdin=content)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_configuration_without_layers_would_not_be(images: Images) -> None:
    config = json.loads(images.agent.images[0].config.content)
    del config["rootfs"]
    with pytest.raises(FailedError, match="missing properties: 'rootfs'"):
        run(await imagespec.find(), oci.CONFIG, stdin=json.dumps(config).encode())


@pytest.mark.parametrize(
    ("program", "said"),
    [("kubectl-numa version --client", f"client {VERSION}"), ("numalign-webhook --help", "usage:")],
)
def test_programs_run_on_arm64(emulated: Path, program: str, said: str) -> None:
    name, *arguments = program.split()
    python = (f"/{QEMU}", f"{BIN}/python", "-I")
    output = run("chroot", emulated, *python, f"{BIN}/{name}", *arguments)
    assert " ".join(output.decode().split()).startswith(said)


def test_libraries_of_an_image_are_of_its_platform(images: Images) -> None:
    machines = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
    for archive in (images.webhook, images.agent):
        assert {image.platform: libraries(image) for image in archive.images} == {
            platform: {machine} for platform, machine in machines.items()
        }


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_starts(confined: Run, program: str) -> None:
    code, output = confined(f"{BIN}/{program}", "--version")
    assert (code, output.split()[-1]) == (0, VERSION), output


def test_the_agents_image_starts_the_agent(agent: Bundle, context: dict[str, Any], tmp_path: Path) -> None:
    code, output = agent.run(
        "agent", [f"{BIN}/numalign-agent", "--version"], context=context, folder=tmp_path
    )
    assert (code, output) == (0, f"numalign-agent {VERSION}\n")


def test_agent_image_lacks_libraries_of_other_programs(webhook: Bundle, agent: Bundle) -> None:
    packages = "opt/numalign/lib/python3.11/site-packages"
    assert (webhook.root / packages / "numpy").is_dir()
    assert not (agent.root / packages / "numpy").exists()


def test_help_is_printed(confined: Run) -> None:
    code, output = confined(f"{BIN}/numalign-webhook", "--help")
    assert code == 0
    assert "usage: numalign-webhook" in output


@pytest.mark.parametrize("path", ["/written", "/opt/numalign/written", "/etc/passwd", "/run/written"])
def test_nothing_of_the_image_can_be_written(confined: Run, path: str) -> None:
    code, output = confined(f"{BIN}/python", "-c", f"open({path!r}, 'a')")
    assert code == 1
    assert "Read-only file system" in output or "Permission denied" in output


def test_shared_folder_is_writable_by_any_user(confined: Run) -> None:
    script = "import os; open('/tmp/written', 'a'); print(os.getuid(), os.getgid(), os.getgroups())"
    assert confined(f"{BIN}/python", "-c", script) == (0, "65532 65532 []\n")


def test_there_is_no_shell_and_no_installer(webhook: Bundle, agent: Bundle) -> None:
    for bundle in (webhook, agent):
        programs = {
            file.name
            for folder in ("bin", "sbin", "usr/bin", "usr/sbin", "opt/numalign/bin")
            for file in (bundle.root / folder).iterdir()
        }
        assert programs.isdisjoint({"sh", "bash", "dash", "pip", "pip3", "apt", "dpkg", "perl"})


def test_modules_are_compiled(confined: Run) -> None:
    """A root that cannot be written keeps nothing that a start compiles."""
    script = (
        "import importlib.util, numalign.webhook.__main__ as m, asyncio, numpy, pathlib;"
        "made = [pathlib.Path(importlib.util.cache_from_source(x.__file__)) for x in (m, asyncio, numpy)];"
        "print(all(each.is_file() for each in made))"
    )
    assert confined(f"{BIN}/python", "-c", script) == (0, "True\n")


def test_the_base_knows_authorities(confined: Run) -> None:
    script = "import ssl; print(len(ssl.create_default_context().get_ca_certs()) > 100)"
    assert confined(f"{BIN}/python", "-c", script) == (0, "True\n")


@pytest.mark.asyncio(loop_scope="session")
async def test_webhook_runs_on_a_read_only_root(
    webhook: Bundle, context: dict[str, Any], tmp_path: Path, children: Children
) -> None:
    shutil.copy(SNAPSHOT, tmp_path)
    pair = authority.write(authority.issue(names=["127.0.0.1"], days=1, now=datetime.now(UTC)), tmp_path)
    # For user 65532.
    tmp_path.chmod(0o755)  # noqa: ASYNC240  a folder of this test
    pair.key.chmod(0o644)
    port, metrics_port = free_port(), free_port()
    arguments = (
        *(f"{BIN}/numalign-webhook", "--snapshot=/host/cluster.yaml", "--bind=127.0.0.1"),
        *(f"--port={port}", f"--metrics-port={metrics_port}"),
        *("--tls-cert=/host/tls.crt", "--tls-key=/host/tls.key"),
    )
    command = webhook.command(uuid4().hex, arguments, context=context, folder=tmp_path)
    child = await children.start(*command, name="webhook-in-runc")
    ready = partial(answers, f"http://127.0.0.1:{metrics_port}/readyz")
    await until(ready, what="the webhook was ready", child=child)

    shown = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port), ca_certs=str(pair.ca))
    assert shown.strip() in pair.cert.read_text()
    assert await child.stop() == 0


def documents(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Media type and content of every JSON document of an archive, from the header to the configurations."""
    with tarfile.open(archive) as tar:
        files = {each.name: opened.read() for each in tar if (opened := tar.extractfile(each))}
    yield HEADER, files["oci-layout"]
    found = [(oci.INDEX, files["index.json"])]
    while found:
        kind, content = found.pop()
        yield kind, content
        document = json.loads(content)
        named = document.get("manifests", []) + ([document["config"]] if kind == oci.MANIFEST else [])
        found += [(each["mediaType"], files[f"blobs/{each['digest'].replace(':', '/')}"]) for each in named]


def libraries(image: oci.Image) -> set[str]:
    """The processors for which the image has libraries that Python loads."""
    names: list[str] = []
    for layer in image.layers:
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(layer.blob.content))) as tar:
            names += tar.getnames()
    return {machine for name in names for machine in _LIBRARY.findall(name)}
