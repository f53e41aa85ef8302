"""What people are told on standard error beside an answer."""

import io
import time

import pytest

from kubectl_numa import notices


def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Standard error, as a terminal; from a fixture, what captures output would take it back."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    return written


def test_what_takes_its_time_says_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    monkeypatch.setattr(notices, "SECONDS", 0.01)

    with notices.waiting("reading") as now:
        until = time.monotonic() + 5
        while "reading ..." not in screen.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
        now("reading the last of it")

    assert "reading ..." in screen.getvalue()


def test_what_takes_no_time_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    with notices.waiting("reading") as now:
        now("reading the last of it")

    assert "reading" not in screen.getvalue()


def test_nor_does_anything_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(notices, "SECONDS", 0.0)
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    with notices.waiting("reading"):
        time.sleep(0.05)

    assert capsys.readouterr().err == ""
