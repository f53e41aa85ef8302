"""Programs of the machine that some tests call, and those that run on it.

Where one is missing, the tests that call it are skipped, and say so.
"""

import shutil
from pathlib import Path

import pytest


def path_of(program: str) -> str:
    """Where a program is; skips the test that asks if it is not installed."""
    path = shutil.which(program)
    if not path:
        pytest.skip(_reason(program))
    return path


def needs(program: str) -> pytest.MarkDecorator:
    """Marks tests that call a program in passing."""
    return pytest.mark.skipif(not shutil.which(program), reason=_reason(program))


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


def _reason(program: str) -> str:
    return f"no {program} on PATH"
