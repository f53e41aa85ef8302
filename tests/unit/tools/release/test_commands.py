"""Programs that are called say all that they have to say when they fail."""

from pathlib import Path

import pytest

from tools.release.commands import FailedError, run


def test_what_is_printed_is_the_answer() -> None:
    assert (
        run("sh", "-c", "cat; echo $WORD; umask", environ={"WORD": "b"}, stdin=b"a\n", umask=0o77)
        == b"a\nb\n0077\n"
    )


def test_a_program_that_is_missing_is_named() -> None:
    with pytest.raises(FailedError, match=r"^nothing-of-this-name: no such program on PATH: install it$"):
        run("nothing-of-this-name", "--version")


def test_programs_are_looked_for_on_the_path_that_is_given(tmp_path: Path) -> None:
    with pytest.raises(FailedError, match="no such program"):
        run("sh", "-c", "true", environ={"PATH": str(tmp_path)})


def test_a_failure_has_the_command_and_both_streams() -> None:
    with pytest.raises(FailedError, match=r"exit code 3 from: sh -c .*\n(?s:.*)out\nerror"):
        run("sh", "-c", "echo out; echo error >&2; exit 3")
