"""The program as a whole: its help, its version, and how it ends in bad weather."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from kubectl_numa import notices, options
from kubectl_numa.cli import program
from numalign.runtime import about
from tests.unit.kubectl_numa.objects import manifest

BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
"""The environment of a user, whose output is buffered."""

Run = Callable[..., Result]
Write = Callable[..., Path]


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
import atexit, os, signal, sys

when = sys.argv[1]

def interrupt(*arguments, **named):
    os.kill(os.getpid(), signal.SIGINT)

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == when:
            interrupt()

sys.meta_path.insert(0, Interrupting())
sys.argv = ["kubectl-numa", "nodes", "--snapshot", "examples/data/cluster.yaml", "-o", "name"]
from kubectl_numa.__main__ import main
if when == "arguments":
    import click
    click.Group.parse_args = interrupt
if when == "the end":
    atexit.register(interrupt)
main()
"""

MOMENTS = [
    "click",
    "kubectl_numa.cli",
    "kubectl_numa.commands.nodes",
    "kubectl_numa.options",
    "arguments",
    "the end",
]


@pytest.mark.parametrize("when", MOMENTS)
def test_ctrl_c_ends_the_program_quietly_whenever_it_comes(when: str) -> None:
    done = subprocess.run(  # noqa: S603 the text is ours
        [sys.executable, "-c", INTERRUPTING, when],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
        cwd=Path(__file__).parents[3],
        env=BUFFERED,
    )
    assert (done.returncode, done.stderr) == (130, b"")
    assert bool(done.stdout) is (when == "the end")


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m kubectl_numa nodes --snapshot examples/data/cluster.yaml -o name | true"
    done = subprocess.run(  # noqa: S603  the text is ours
        ["bash", "-o", "pipefail", "-c", command],  # noqa: S607  the developer's own
        capture_output=True,
        timeout=20,
        check=False,
        cwd=Path(__file__).parents[3],
        env=BUFFERED,
    )
    assert done.stderr == b""


def test_ctrl_c_ends_a_command_quietly(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_path: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("numalign.kube.files.documents.load", interrupted)
    result = run("nodes", "--snapshot", "any")
    assert (result.exit_code, result.output) == (130, "")


def too_wide(text: str) -> list[str]:
    """Lines of more than forty columns, but for what is there to be copied: long words, and commands."""
    return [
        line
        for line in text.splitlines()
        if len(line) > 40 and max(map(len, line.split())) <= 20 and not re.match(r" +(kubectl|helm) ", line)
    ]


NARROW = [
    "nodes",
    "nodes --all",
    "explain -f POD",
    "explain -f POD --node big",
    "check -f POD",
    "doctor",
    "shapes",
    "pods -A",
]


@pytest.mark.parametrize("command", NARROW)
def test_forty_columns_are_enough(run: Run, cluster_file: Path, write: Write, command: str) -> None:
    pod = write("p.yaml", manifest("a", "20", policy="single-numa-node"))
    said = run(*command.replace("POD", str(pod)).split(), "--snapshot", cluster_file, COLUMNS="40").stdout

    assert said
    assert too_wide(said) == []


@pytest.mark.parametrize("command", ["", *program.commands])
def test_so_they_are_for_help(run: Run, command: str) -> None:
    said = run(*command.split(), "--help", COLUMNS="40").stdout
    # Examples, and the events of replay, are there to be copied.
    said = re.split(r"\n  (?:Examples|Events, one)", said)[0]

    assert said
    assert too_wide(said) == []


def test_on_a_terminal_remarks_keep_whole_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("FORCE_COLOR", "1")
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)

    notices.notify("skipped: something that was broken")

    assert written.getvalue() == "skipped: something \nthat was broken\n"


STEERING = "a\x1b[2J\x9b1m\r\u202eb"
"""Would clear a screen, change colours, write over a line and turn the direction of reading."""

SHOWN = "a\ufffd[2J\ufffd1m\ufffd\ufffdb"


def test_nothing_that_steers_a_terminal_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    notices.notify(f"told: {STEERING}")
    options.note([f"noted:\n  {STEERING}"])

    assert capsys.readouterr().err == f"told: {SHOWN}\nnoted:\n  {SHOWN}\n"


@pytest.mark.parametrize("command", ["check", "explain"])
def test_mistakes_of_manifests_steer_no_terminal(
    run: Run, write: Write, cluster_file: Path, command: str
) -> None:
    wrong = manifest("wrong", "4", policy=STEERING)

    said = run(command, "-f", write("pod.yaml", wrong), "--snapshot", cluster_file).stderr

    assert SHOWN in said
    assert not {"\x1b", "\x9b", "\r", "\u202e"} & {*said}
