"""A release of the commit that is checked out."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tools.release.__main__ import INCOMPLETE, program


def released(*arguments: str) -> Result:
    return CliRunner().invoke(program, arguments)


def test_a_folder_with_anything_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters").touch()
    done = released("--out", str(tmp_path))
    assert done.exit_code == 1
    assert f"Error: {tmp_path} is not empty and contains no release: choose another folder" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["letters"]


def test_a_part_that_is_none_is_refused_with_the_list() -> None:
    done = released("--only", "windows")
    assert done.exit_code == 2
    assert "'python', 'plugin', 'krew', 'manifests', 'chart', 'images', 'sbom'" in done.output


@pytest.mark.release
@pytest.mark.timeout(600)
def test_what_is_skipped_is_said_and_can_be_an_error(tmp_path: Path) -> None:
    arguments = ("--out", str(tmp_path / "dist"), "--only", "manifests", "--only", "krew")
    done = released(*arguments)
    assert done.exit_code == 0
    assert "SKIPPED: krew: set RELEASE_URL to" in done.stderr
    assert re.search(r"^numalign\.yaml +[\d.]+ KiB  sha256:[0-9a-f]{64}$", done.stdout, re.MULTILINE)

    # A folder that holds a release is emptied for the next one.
    assert released(*arguments, "--complete").exit_code == INCOMPLETE
