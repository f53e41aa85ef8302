"""A release is made of a commit, into a folder of its own."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.unit.tools.release.installed import run
from tools.release import __main__ as release


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of the committed tree, from which the release is made."""
    folder = tmp_path / "clone"
    run("git", "clone", "--quiet", "--shared", release.ROOT, folder)
    monkeypatch.setattr(release, "ROOT", folder)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    return folder


def released(out: Path) -> Result:
    return CliRunner().invoke(release.program, ["--out", str(out), "--only", "manifests"])


@pytest.mark.release
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("repository")
def test_release_replaces_the_previous_one(tmp_path: Path) -> None:
    out = tmp_path / "dist"
    assert released(out).exit_code == 0
    (out / "old").touch()
    done = released(out)
    assert re.search(r"^[0-9a-f]{64}  numalign\.yaml$", done.stdout, re.MULTILINE)
    assert not (out / "old").exists()
    checked = run("sha256sum", "--check", "--strict", "SHA256SUMS", folder=out)
    assert len(checked.splitlines()) == len([*out.iterdir()]) - 1


def test_uncommitted_changes_are_refused(repository: Path, tmp_path: Path) -> None:
    (repository / "new").touch()
    done = released(tmp_path / "dist")
    assert done.exit_code == 1
    assert "Error: commit these files or remove them, then make the release:\n?? new" in done.output


@pytest.mark.usefixtures("repository")
def test_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letters").touch()
    done = released(tmp_path)
    assert f"Error: {tmp_path} is not empty and contains no release: choose another folder" in done.output
    assert (tmp_path / "letters").exists()
