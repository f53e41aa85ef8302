"""Two releases are compared byte by byte."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from tools.release import twice


def test_files_differ_that_are_changed_or_in_one_only(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "same").write_text("same")
        (folder / "changed").write_text(folder.name)
    (second / "more").touch()
    assert twice.differing(first, second) == ["changed", "more"]


@pytest.mark.release
@pytest.mark.timeout(600)
def test_a_release_is_the_same_wherever_it_is_made() -> None:
    """The parts that take seconds; `make release-check` compares all."""
    arguments = [f"--only={part}" for part in ("python", "manifests", "chart")]
    done = CliRunner().invoke(twice.program, arguments)
    assert done.output.endswith("files are identical\n")
