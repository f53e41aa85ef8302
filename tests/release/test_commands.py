"""Programs that are called say all that they have to say when they fail."""

import pytest

from release.commands import FailedError, run


def test_what_is_printed_is_the_answer() -> None:
    assert (
        run("sh", "-c", "cat; echo $WORD; umask", environ={"WORD": "b"}, stdin=b"a\n", umask=0o77)
        == b"a\nb\n0077\n"
    )


def test_a_failure_has_the_command_and_both_streams() -> None:
    with pytest.raises(FailedError, match=r"exit code 3 from: sh -c .*\n(?s:.*)out\nerror"):
        run("sh", "-c", "echo out; echo error >&2; exit 3")
