"""demo: as a process, told to stop like one."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Run = Callable[..., Result]


@pytest.mark.full
def test_a_signal_ends_it_with_all_that_it_started(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "kubectl_numa", "demo", "--serve", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        while "curl" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    # To serve until somebody stops it is what was asked for.
    assert (process.returncode, errors) == (0, "")
    assert list(tmp_path.iterdir()) == []
