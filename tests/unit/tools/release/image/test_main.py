"""The command refuses what it cannot use, and says what to do."""

import pytest

from tools.release.image import __main__ as command


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What the command writes when it ends with 1."""
    assert command.main(arguments) == 1
    return capsys.readouterr().err


def test_a_file_that_is_no_wheel_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "nothing.whl is not a numalign wheel: pass a file" in refused(capsys, "--wheel", "nothing.whl")


def test_a_time_that_is_no_number_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    assert "SOURCE_DATE_EPOCH is 'yesterday': set it to seconds since 1970" in refused(capsys, "--wheel=x")


def test_the_time_is_that_of_the_environment_else_that_of_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert command.epoch() == 1_700_000_000
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert command.epoch() > 1_700_000_000
