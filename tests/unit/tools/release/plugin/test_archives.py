"""An archive of the plugin, unpacked as krew unpacks it, runs on a Python that has nothing."""

import os
import stat
import sys
from pathlib import Path

import pytest

from tests.unit.tools.release.installed import run
from tests.unit.tools.release.plugin.machines import THIS_PLATFORM, needs_an_archive
from tools.release import tar_files
from tools.release.commit import Commit

pytestmark = [pytest.mark.release, pytest.mark.timeout(900), needs_an_archive]


@pytest.fixture(scope="module")
def unpacked(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    run("tar", "-xzf", archive, "-C", folder)
    return folder


@pytest.fixture(scope="module")
def bare(unpacked: Path, bare_home: dict[str, str]) -> dict[str, str]:
    """An environment with the plugin and `python3` on PATH."""
    return bare_home | {"PATH": os.pathsep.join([str(unpacked), bare_home["PATH"]])}


def test_the_archive_holds_programs_and_license(archive: Path, commit: Commit) -> None:
    assert THIS_PLATFORM
    assert archive.name == f"kubectl-numa_{commit.version}_{THIS_PLATFORM.name}.tar.gz"
    assert [(each.name, stat.filemode(each.mode)) for each in tar_files.read(archive)] == [
        ("kubectl-numa", "?rwxr-xr-x"),
        ("kubectl_complete-numa", "?rwxr-xr-x"),
        ("LICENSE", "?rw-r--r--"),
    ]


def test_the_program_says_its_version(unpacked: Path, bare: dict[str, str], commit: Commit) -> None:
    said = run(unpacked / "kubectl-numa", "version", "--client", environ=bare)
    assert said.split() == ["client", commit.version]


def test_it_runs_under_a_python_that_is_named(unpacked: Path, bare: dict[str, str], commit: Commit) -> None:
    python = Path(sys.executable).resolve()
    said = run(python, "-I", unpacked / "kubectl-numa", "--version", environ={"HOME": bare["HOME"]})
    assert said.strip().endswith(commit.version)


def test_kubectl_gets_its_completions(unpacked: Path, bare: dict[str, str]) -> None:
    assert run(unpacked / "kubectl_complete-numa", "exp", environ=bare).startswith("explain\t")


def test_the_demo_finds_its_webhook_and_its_cluster(unpacked: Path, bare: dict[str, str]) -> None:
    assert "denied" in run(unpacked / "kubectl-numa", "demo", environ=bare)
