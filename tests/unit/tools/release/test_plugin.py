"""The plugin's archive runs on a Python that has nothing, and krew installs it."""

import asyncio
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml

from tests.unit.tools.release.conftest import VERSION, run
from tests.worlds.opt_in import RELEASE
from tools.clusters import builds
from tools.release.files import Order
from tools.release.plugin import PLATFORMS, PYTHONS, Platform, complete_platform, manifest

LINUX, ARM, DARWIN = PLATFORMS
Krew = tuple[Path, Path]

made = pytest.mark.release
runs_here = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64") or sys.version_info[:2] not in PYTHONS,
    reason="the archive of these tests is for another machine",
)
pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize(
    ("where", "tag", "compatible"),
    [
        (LINUX, "cp311-cp311-manylinux_2_17_x86_64", True),
        (LINUX, "py3-none-any", True),
        (ARM, "cp311-cp311-manylinux2014_aarch64", True),
        (DARWIN, "cp311-cp311-macosx_10_9_universal2", True),
        (LINUX, "cp312-cp312-manylinux_2_17_x86_64", False),
        (LINUX, "cp311-cp311-manylinux_2_34_x86_64", False),
        (DARWIN, "cp311-cp311-macosx_14_0_arm64", False),
    ],
)
def test_wheels_match_platform_and_python(where: Platform, tag: str, compatible: bool) -> None:  # noqa: FBT001
    assert (tag in complete_platform(where, (3, 11))["compatible_tags"]) is compatible


@made
@runs_here
def test_archive_runs_where_only_python_is(archive: Path, bare_home: dict[str, str], tmp_path: Path) -> None:
    run("tar", "-xzf", archive, "-C", tmp_path)
    program, completion = tmp_path / "kubectl-numa", tmp_path / "kubectl_complete-numa"
    assert {*tmp_path.iterdir()} == {program, completion, tmp_path / "LICENSE"}
    bare = bare_home | {"PATH": os.pathsep.join([str(tmp_path), bare_home["PATH"]])}
    assert run(program, "version", "--client", environ=bare).split() == ["client", VERSION]
    assert run(completion, "exp", environ=bare).startswith("explain\t")
    assert "denied" in run(program, "demo", environ=bare)
    python = Path(sys.executable).resolve()
    version = run(python, "-I", program, "--version", environ={"HOME": bare_home["HOME"]})
    assert version.strip().endswith(VERSION)


@pytest.fixture(scope="module")
def krew() -> Krew:
    with RELEASE.or_skipped():
        return asyncio.run(builds.krew())


@made
def test_manifest_passes_the_check_of_krews_index(krew: Krew, order: Order, tmp_path: Path) -> None:
    file = tmp_path / "numa.yaml"
    check = (krew[1], "-skip-install", f"-manifest={file}")
    file.write_text(manifest(order, dict.fromkeys(PLATFORMS, order.wheel)))
    listed = yaml.safe_load(file.read_text())["spec"]["platforms"]
    assert [each["uri"] for each in listed] == [f"https://example.com/v0.1.0/{order.wheel.name}"] * 3
    run(*check)
    file.write_text(manifest(replace(order, version="latest"), dict.fromkeys(PLATFORMS, order.wheel)))
    with pytest.raises(AssertionError, match="failed to parse plugin version"):
        run(*check)


@pytest.fixture(scope="module")
def published(archive: Path, order: Order, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A manifest with an address from which krew can download the archive."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(archive.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        file = tmp_path_factory.mktemp("manifest") / "numa.yaml"
        local = replace(order, url=f"http://127.0.0.1:{server.server_port}")
        file.write_text(manifest(local, {LINUX: archive}))
        yield file
        server.shutdown()


@pytest.fixture
def environ(krew: Krew, bare_home: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """An environment with a new KREW_ROOT, whose programs are on PATH, and an empty index."""
    root = tmp_path / "krew"
    environ = bare_home | {
        "KREW_ROOT": str(root),
        "PATH": os.pathsep.join([f"{root}/bin", bare_home["PATH"]]),
    }
    run("git", "init", "--quiet", tmp_path / "index")
    run(krew[0], "index", "add", "default", tmp_path / "index", environ=environ)
    return environ


@made
@runs_here
def test_krew_installs_the_published_bytes_and_no_other(
    published: Path, archive: Path, krew: Krew, environ: dict[str, str], tmp_path: Path
) -> None:
    install, link = (
        (krew[0], "install", f"--manifest={published}"),
        Path(environ["KREW_ROOT"], "bin", "kubectl-numa"),
    )
    other = tmp_path / archive.name
    other.write_bytes(archive.read_bytes() + b"\0")
    with pytest.raises(AssertionError, match="checksum does not match"):
        run(*install, f"--archive={other}", environ=environ)
    for source in ([], [f"--archive={archive}"]):
        run(*install, *source, environ=environ)
        assert run(link, "version", "--client", environ=environ).split() == ["client", VERSION]
        run(krew[0], "uninstall", "numa", environ=environ)
        assert not link.is_symlink()
