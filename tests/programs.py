"""Programs of the machine that some tests call. Where one is missing, these tests are skipped, and say so."""

import shutil

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


def _reason(program: str) -> str:
    return f"no {program} on PATH"
