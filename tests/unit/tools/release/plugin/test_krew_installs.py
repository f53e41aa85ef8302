"""krew accepts the manifest of a release, and installs the plugin with it."""

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from tests.unit.tools.release.installed import run
from tests.unit.tools.release.plugin.machines import THIS_PLATFORM, needs_an_archive
from tests.worlds.asked_for import RELEASE
from tools.clusters.krew import Krew, find
from tools.release.artefacts import Artefact, artefact
from tools.release.commit import Commit
from tools.release.plugin import krew
from tools.release.plugin.targets import PLATFORMS

pytestmark = [pytest.mark.release, pytest.mark.timeout(900)]

Plugin = dict[str, Any]


@pytest.fixture(scope="module")
def programs() -> Krew:
    with RELEASE.or_skipped():
        return asyncio.run(find())


@pytest.fixture
def plugin() -> Plugin:
    """A manifest with all platforms."""
    archives = {each: Artefact(Path(f"{each.name}.tar.gz"), 1, "0" * 64) for each in PLATFORMS}
    loaded: Plugin = yaml.safe_load(krew.manifest(archives, version="1.2.3", url="https://example.com"))
    return loaded


def test_the_check_of_krews_index_accepts_it(programs: Krew, plugin: Plugin, tmp_path: Path) -> None:
    run(programs.validate_manifest, *checking(plugin, tmp_path))


def rename(plugin: Plugin) -> None:
    plugin["metadata"]["name"] = "kubectl numa"


def drop_the_v(plugin: Plugin) -> None:
    plugin["spec"]["version"] = "1.2.3"


def shorten_a_digest(plugin: Plugin) -> None:
    plugin["spec"]["platforms"][0]["sha256"] = "0" * 63


def repeat_a_platform(plugin: Plugin) -> None:
    plugin["spec"]["platforms"].append(plugin["spec"]["platforms"][0])


@pytest.mark.parametrize(
    ("mistake", "complaint"),
    [
        (rename, 'the plugin name "kubectl numa" is not allowed'),
        (drop_the_v, "failed to parse plugin version"),
        (shorten_a_digest, "`sha256` value 0+ is not valid"),
        (repeat_a_platform, "overlapping selectors that select linux/amd64"),
    ],
)
def test_the_check_finds_mistakes(
    mistake: Callable[[Plugin], None], complaint: str, programs: Krew, plugin: Plugin, tmp_path: Path
) -> None:
    mistake(plugin)
    with pytest.raises(AssertionError, match=complaint):
        run(programs.validate_manifest, *checking(plugin, tmp_path))


def checking(plugin: Plugin, folder: Path) -> tuple[str, ...]:
    """The arguments that check a manifest without installing its archives, which are not published."""
    file = folder / "numa.yaml"
    file.write_text(yaml.safe_dump(plugin))
    return "-skip-install", f"-manifest={file}"


@dataclass(frozen=True, slots=True)
class Published:
    """An archive and a manifest whose address krew can download it from."""

    archive: Path
    manifest: Path


@pytest.fixture(scope="module")
def published(archive: Path, commit: Commit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    assert THIS_PLATFORM
    handler = partial(SimpleHTTPRequestHandler, directory=str(archive.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        manifest = tmp_path_factory.mktemp("manifest") / "numa.yaml"
        url = f"http://127.0.0.1:{server.server_port}"
        manifest.write_text(
            krew.manifest({THIS_PLATFORM: artefact(archive)}, version=commit.version, url=url)
        )
        yield Published(archive, manifest)
        server.shutdown()


@pytest.fixture
def environ(programs: Krew, bare_home: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """An environment with a new KREW_ROOT, whose programs are on PATH, and an empty index."""
    root = tmp_path / "krew"
    path = os.pathsep.join([str(root / "bin"), bare_home["PATH"]])
    environ = bare_home | {"KREW_ROOT": str(root), "PATH": path}
    run("git", "init", "--quiet", tmp_path / "index")
    run(programs.krew, "index", "add", "default", tmp_path / "index", environ=environ)
    return environ


@needs_an_archive
@pytest.mark.parametrize("from_file", [False, True], ids=["downloaded", "from a file"])
def test_krew_installs_and_removes_the_plugin(
    published: Published, programs: Krew, environ: dict[str, str], commit: Commit, *, from_file: bool
) -> None:
    archive = [f"--archive={published.archive}"] if from_file else []
    run(programs.krew, "install", f"--manifest={published.manifest}", *archive, environ=environ)

    link = Path(environ["KREW_ROOT"], "bin", "kubectl-numa")
    assert link.is_symlink()
    assert run(link, "version", "--client", environ=environ).split() == ["client", commit.version]

    run(programs.krew, "uninstall", "numa", environ=environ)
    assert not link.is_symlink()


@needs_an_archive
def test_krew_refuses_an_archive_of_other_bytes(
    published: Published, programs: Krew, environ: dict[str, str], tmp_path: Path
) -> None:
    other = tmp_path / published.archive.name
    other.write_bytes(published.archive.read_bytes() + b"\0")
    with pytest.raises(AssertionError, match="checksum does not match"):
        run(
            programs.krew,
            "install",
            f"--manifest={published.manifest}",
            f"--archive={other}",
            environ=environ,
        )
