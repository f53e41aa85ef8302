"""What is printed of a release."""

from pathlib import Path

import pytest

from tools.release.artefacts import Artefact
from tools.release.report import size, table


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536 * 1024, "1.5 MiB"), (3 * 1024**3, "3.0 GiB")],
)
def test_sizes_are_read_by_people(count: int, shown: str) -> None:
    assert size(count) == shown


def test_a_file_is_a_line() -> None:
    files = [Artefact(Path("a"), 10, "00"), Artefact(Path("longer"), 2048, "ff")]
    assert table(files).splitlines() == ["a            10 B  sha256:00", "longer    2.0 KiB  sha256:ff"]


def test_no_file_is_no_line() -> None:
    assert table([]) == ""
