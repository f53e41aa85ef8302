"""Files of a release are named by their digests, as sha256sum has it."""

from pathlib import Path

import pytest

from tools.release.artefacts import artefact, checksums
from tools.release.commands import FailedError, run

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_a_file_is_measured(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    measured = artefact(tmp_path / "empty")
    assert (measured.name, measured.size, measured.sha256) == ("empty", 0, EMPTY)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        artefact(tmp_path / "none")


def test_sha256sum_checks_the_list_and_sees_a_change(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("b", "a")]
    for file in files:
        file.write_text(file.name)
    (tmp_path / "SHA256SUMS").write_text(checksums(map(artefact, files)))
    assert [line.split()[1] for line in (tmp_path / "SHA256SUMS").read_text().splitlines()] == ["a", "b"]

    command = ("sha256sum", "--check", "--strict", "SHA256SUMS")
    assert run(*command, folder=tmp_path) == b"a: OK\nb: OK\n"
    files[0].write_text("c")
    with pytest.raises(FailedError, match="b: FAILED"):
        run(*command, folder=tmp_path)
