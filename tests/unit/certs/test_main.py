"""The program's entry."""

import sys

import pytest

from certs.__main__ import main


def test_the_program_is_called_by_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["python -m certs", "--version"])
    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("numalign-certs, version ")
