"""The program as a whole: its help, its version, and how it ends in bad weather."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from kubectl_numa.cli import program
from numalign.runtime import about

Run = Callable[..., Result]


@pytest.mark.parametrize("command", ["", *program.commands])
def test_every_help_has_examples(run: Run, command: str) -> None:
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert f"Examples:\n    kubectl numa {command}".rstrip() in result.stdout


def test_the_version_is_the_packages(run: Run) -> None:
    assert run("--version").stdout == f"kubectl-numa, version {about.version()}\n"


def test_a_place_that_cannot_be_written_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text("nonsense")
    result = run("snapshot", "-o", tmp_path, "--kubeconfig", tmp_path / "kubeconfig")
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_a_reader_that_leaves_early_gets_no_traceback(cluster_file: Path) -> None:
    command = f"{sys.executable} -m kubectl_numa nodes --snapshot {cluster_file} | head -n 1"
    done = subprocess.run(  # noqa: S602 a pipe is what this is about, and the text is ours
        command, shell=True, capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout == "2x32cpu-single-numa-node-container-a6160387\n"
    assert done.stderr == ""


INTERRUPTING = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "kubectl_numa.options":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["kubectl-numa", "nodes", "--snapshot", "-"]
from kubectl_numa.__main__ import main
main()
"""


def test_ctrl_c_while_the_program_starts_ends_it_quietly() -> None:
    done = subprocess.run(  # noqa: S603 the text is ours
        [sys.executable, "-c", INTERRUPTING],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_ctrl_c_ends_a_command_quietly(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_path: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("numalign.kube.files.documents.load", interrupted)
    result = run("nodes", "--snapshot", "any")
    assert (result.exit_code, result.output) == (130, "")
