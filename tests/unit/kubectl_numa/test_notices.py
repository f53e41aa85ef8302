"""Notices on standard error beside an answer."""

import io
import time

import pytest

from kubectl_numa import notices


def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Standard error as a terminal; from a fixture, capturing output would replace it."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    return written


def test_a_long_wait_has_a_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    monkeypatch.setattr(notices, "SECONDS", 0.01)
    with notices.waiting("reading") as now:
        until = time.monotonic() + 5
        while "reading ..." not in screen.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
        now("reading the last of it")

    assert "reading ..." in screen.getvalue()


@pytest.mark.parametrize("tty", [True, False], ids=["soon done", "in a pipe"])
def test_other_waits_have_no_notice(monkeypatch: pytest.MonkeyPatch, *, tty: bool) -> None:
    screen = terminal(monkeypatch)
    if not tty:
        monkeypatch.setattr(notices, "SECONDS", 0.0)
        monkeypatch.delenv("FORCE_COLOR")
    with notices.waiting("reading") as now:
        time.sleep(0.05)
        now("reading the last of it")

    assert "reading" not in screen.getvalue()
