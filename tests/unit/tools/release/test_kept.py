"""A folder that takes long to make is made once, and is complete."""

from pathlib import Path

import pytest

from tools.release.kept import once


def write(folder: Path) -> None:
    folder.mkdir()
    (folder / "file").write_text("first")


def fail(folder: Path) -> None:
    write(folder)
    raise ValueError("half-way")


def test_it_is_made_once(tmp_path: Path) -> None:
    place = tmp_path / "cache" / "place"
    assert (once(place, write) / "file").read_text() == "first"
    assert once(place, fail) == place


def test_one_that_could_not_be_finished_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="half-way"):
        once(tmp_path / "place", fail)
    assert list(tmp_path.iterdir()) == []


def test_of_two_that_are_made_at_once_the_first_stays(tmp_path: Path) -> None:
    def overtaken(folder: Path) -> None:
        folder.mkdir()
        (folder / "file").write_text("second")
        once(tmp_path / "place", write)

    assert (once(tmp_path / "place", overtaken) / "file").read_text() == "first"


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        once(tmp_path / "place", lambda folder: folder)
