"""No test that does not run is passed over in silence."""

from pathlib import Path
from typing import Literal

import pytest

from tests.worlds import asked_for, not_run
from tests.worlds.programs import HOW_TO_GET, path_of

EMPTY = "/nonexistent"


def skipped(nodeid: str, why: str, *marks: str) -> pytest.TestReport:
    keywords: dict[str, Literal[1]] = dict.fromkeys(marks, 1)
    return pytest.TestReport(
        nodeid, ("", None, ""), keywords, "skipped", (nodeid, 1, f"Skipped: {why}"), "setup"
    )


def missing(program: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Why a test is skipped that calls it where there is none."""
    monkeypatch.setenv("PATH", EMPTY)
    with pytest.raises(pytest.skip.Exception) as raised:
        path_of(program)
    return str(raised.value)


@pytest.mark.parametrize("program", HOW_TO_GET)
def test_a_missing_program_is_named_with_how_to_get_it(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = [skipped(f"tests/test_a.py::{name}", missing(program, monkeypatch)) for name in "ab"]

    assert [*not_run.skipped(reports)] == [
        ("2", "tests/test_a.py", f"no {program} on PATH", HOW_TO_GET[program])
    ]


def test_a_program_that_is_there_skips_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "git").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert path_of("git") == str(tmp_path / "git")


def test_every_reason_has_a_row() -> None:
    reports = [
        skipped("tests/test_b.py::a", "no IPv6"),
        skipped("tests/test_a.py::b", "no\n  root", "kubelets"),
    ]

    assert [*not_run.skipped(reports)] == [
        ("1", "tests/test_a.py", "no root", "needs root and Go"),
        ("1", "tests/test_b.py", "no IPv6", ""),
    ]


def test_unselected_tests_have_a_row_with_their_command() -> None:
    assert [*not_run.left_out({"browser": 14, "release": 0})] == [
        ("14", "the map in a real browser", f"needs {asked_for.BROWSER.needs}", "make browser-test")
    ]


def test_every_mark_is_declared_and_counted() -> None:
    named = {name for name, each in vars(asked_for).items() if isinstance(each, asked_for.AskedFor)}
    assert len(named) == len(asked_for.ALL) == len({each.mark for each in asked_for.ALL})


def test_columns_are_as_wide_as_their_words() -> None:
    assert [*not_run.table([("tests", "of", "because", "how"), ("10", "files", "no", "")])] == [
        "tests  of     because  how",
        "   10  files  no",
    ]
