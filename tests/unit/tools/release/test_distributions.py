"""The source distribution makes the same wheel, and the lock installs it."""

import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.tools.release.installed import Installed, run
from tools.release import distributions, tar_files
from tools.release.artefacts import artefact
from tools.release.commit import Commit

pytestmark = [pytest.mark.release, pytest.mark.timeout(900)]


def test_the_source_distribution_makes_the_same_wheel(made: list[Path], tree: Commit, tmp_path: Path) -> None:
    wheel, source, _ = made
    with tarfile.open(source) as files:
        tar_files.unpack(files, tmp_path)
    [unpacked] = tmp_path.iterdir()
    again = distributions.make_wheel(replace(tree, tree=unpacked), tmp_path)
    assert artefact(again).sha256 == artefact(wheel).sha256


def test_one_command_installs_wheel_and_dependencies_by_hash(installed: Installed) -> None:
    assert installed.run("kubectl-numa", "--version").startswith("kubectl-numa")


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
