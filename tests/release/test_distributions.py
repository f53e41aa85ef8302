"""The source distribution makes the same wheel, and the lock installs it."""

import sys
import tarfile
from pathlib import Path

import pytest

from release import distributions, tar_files
from release.artefacts import artefact
from release.commit import Commit, exported
from tests.release.installed import Installed, run

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.release, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def commit(tmp_path_factory: pytest.TempPathFactory) -> Commit:
    return exported(ROOT, tmp_path_factory.mktemp("commit") / "tree")


@pytest.fixture(scope="module")
def made(commit: Commit, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("made")
    (folder / "wheel").mkdir()
    return distributions.make(commit, distributions.make_wheel(commit, folder / "wheel"), folder)


def test_the_source_distribution_makes_the_same_wheel(
    made: list[Path], commit: Commit, tmp_path: Path
) -> None:
    wheel, source, _ = made
    with tarfile.open(source) as files:
        tar_files.unpack(files, tmp_path)
    [tree] = tmp_path.iterdir()
    again = distributions.make_wheel(Commit(commit.revision, tree, commit.version, commit.epoch), tmp_path)
    assert artefact(again).sha256 == artefact(wheel).sha256


def test_one_command_installs_wheel_and_dependencies_by_hash(made: list[Path], tmp_path: Path) -> None:
    wheel, _, lock = made
    environment = Installed(tmp_path / "environment")
    environment.create()
    pip = (environment.program("python"), "-m", "pip", "install", "--quiet", "--require-hashes", "-r", lock)
    run(*pip, folder=wheel.parent)
    assert environment.run("kubectl-numa", "--version").startswith("kubectl-numa")


def test_a_wheel_of_other_bytes_is_not_installed(made: list[Path], tmp_path: Path) -> None:
    wheel, _, lock = made
    (tmp_path / wheel.name).write_bytes(wheel.read_bytes() + b"\0")
    pinned = "./" + lock.read_text().partition("\n./")[2]
    (tmp_path / "lock.txt").write_text(pinned)
    # Into a folder of its own: pip would take a file that lies where it downloads to for one of its own.
    download = (sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(tmp_path / "downloaded"))
    command = (*download, "--require-hashes", "-r", "lock.txt")
    with pytest.raises(AssertionError, match="DO NOT MATCH THE HASHES"):
        run(*command, folder=tmp_path)
