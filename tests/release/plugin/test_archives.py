"""An archive of the plugin, unpacked as krew unpacks it, runs on a Python that has nothing."""

import os
import platform
import stat
import sys
from pathlib import Path

import pytest

from release import distributions, tar_files
from release.commit import Commit, exported
from release.plugin import archives
from release.plugin.targets import PLATFORMS, PYTHONS
from tests.release.installed import run

ROOT = Path(__file__).parents[3]
THIS_PLATFORM = next(
    (each for each in PLATFORMS if (each.system, each.machine) == (platform.system(), platform.machine())),
    None,
)
THIS_PYTHON = (sys.version_info.major, sys.version_info.minor)

pytestmark = [
    pytest.mark.release,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        THIS_PLATFORM is None or THIS_PYTHON not in PYTHONS, reason="the plugin is not made for this machine"
    ),
]


@pytest.fixture(scope="module")
def commit(tmp_path_factory: pytest.TempPathFactory) -> Commit:
    return exported(ROOT, tmp_path_factory.mktemp("commit") / "tree")


@pytest.fixture(scope="module")
def archive(commit: Commit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That of this machine, for this Python alone: a release holds all of them, and takes minutes."""
    assert THIS_PLATFORM
    folder = tmp_path_factory.mktemp("archive")
    wheel = distributions.make_wheel(commit, folder)
    return archives.make(commit, wheel, THIS_PLATFORM, folder, pythons=[THIS_PYTHON])


@pytest.fixture(scope="module")
def unpacked(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    run("tar", "-xzf", archive, "-C", folder)
    return folder


@pytest.fixture(scope="module")
def bare(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with a home, the plugin and `python3` on PATH, and nothing else."""
    home = tmp_path_factory.mktemp("home")
    (home / "bin").mkdir()
    (home / "bin" / "python3").symlink_to(Path(sys.executable).resolve())
    return {
        "HOME": str(home),
        "PATH": os.pathsep.join([str(home / "bin"), str(unpacked), "/usr/bin", "/bin"]),
    }


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
