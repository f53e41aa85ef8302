"""demo: a process that ends in order."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.full
def test_interrupted_demo_ends_with_all_its_processes(tmp_path: Path) -> None:
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

    assert (process.returncode, errors) == (0, "")
    assert list(tmp_path.iterdir()) == []
