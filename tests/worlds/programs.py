"""Programs of the machine that some tests call, and those that run on it.

Where one is missing, the tests that call it are skipped, and the table at the end of the run says how to
install it (tests/worlds/not_run.py).
"""

import shutil
from pathlib import Path

import pytest

MISSING = "no {} on PATH"
HOW_TO_GET = {
    "curl": "apt install curl",
    "git": "apt install git",
    "go": "https://go.dev/dl",
    "gpg": "apt install gnupg",
    "kubectl": "https://kubernetes.io/docs/tasks/tools",
}
"""By program that a small Debian lacks and tests call."""


def path_of(program: str) -> str:
    """Where a program is; skips the test that asks if it is not installed."""
    path = shutil.which(program)
    if not path:
        pytest.skip(MISSING.format(program))
    return path


def needs(program: str) -> pytest.MarkDecorator:
    assert program in HOW_TO_GET
    return pytest.mark.needs(program)


def how_to_get(reason: str) -> str:
    """How to install what is missing by the reason of a skipped test, or nothing."""
    return next((how for program, how in HOW_TO_GET.items() if MISSING.format(program) in reason), "")


def running(word: str) -> list[str]:
    """The command lines of all processes in which there is this word."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            # The process has ended.
            continue
    return [line for line in lines if word in line]
