"""A release is made of a commit, and of nothing that stands beside it."""

import subprocess
from pathlib import Path

import pytest

from tests.worlds.programs import needs
from tools.release.commands import FailedError
from tools.release.commit import exported, uncommitted

pytestmark = needs("git")

PROJECT = '[project]\nname = "some"\nversion = "1.2.3"\n'


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    environ = {"GIT_COMMITTER_DATE": "1000000000 +0000", "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, env=environ)  # noqa: S603, S607  ours


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "pyproject.toml").write_text(PROJECT)
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "First")
    return folder


def test_version_and_time_are_the_commits(repository: Path, tmp_path: Path) -> None:
    commit = exported(repository, tmp_path / "tree", environ={})
    assert (commit.version, commit.epoch, len(commit.revision)) == ("1.2.3", 1_000_000_000, 40)
    assert (commit.tree / "pyproject.toml").read_text() == PROJECT


def test_who_builds_again_may_say_the_time(repository: Path, tmp_path: Path) -> None:
    assert exported(repository, tmp_path / "tree", environ={"SOURCE_DATE_EPOCH": "7"}).epoch == 7


def test_what_is_not_committed_is_told_and_left_out(repository: Path, tmp_path: Path) -> None:
    assert uncommitted(repository) == []
    (repository / "new").touch()
    (repository / "pyproject.toml").write_text("changed")

    assert uncommitted(repository) == [" M pyproject.toml", "?? new"]
    commit = exported(repository, tmp_path / "tree")
    assert [path.name for path in commit.tree.iterdir()] == ["pyproject.toml"]
    assert commit.version == "1.2.3"


def test_a_folder_without_a_repository_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FailedError, match="not a git repository"):
        exported(tmp_path, tmp_path / "tree")
