"""The program as a whole: its help, narrow terminals, what it imports, and how it ends."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kubectl_numa import lines, options
from kubectl_numa.cli import COMMANDS, LazyCommand, program
from numalign.runtime import about
from tests.unit.kubectl_numa.conftest import Cli
from tests.unit.kubectl_numa.objects import manifest

BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
"""The environment of a user, whose output is buffered."""

ROOT = Path(__file__).parents[3]
HELPED = ["", *program.commands]


def finished(*command: str) -> "subprocess.CompletedProcess[str]":
    quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "env": BUFFERED}
    return subprocess.run(command, check=False, text=True, timeout=20, cwd=ROOT, **quiet)  # noqa: S603  ours


def too_wide(text: str) -> list[str]:
    """Lines of more than forty columns, except what users copy: long words, and commands."""
    return [
        line
        for line in text.splitlines()
        if len(line) > 40 and max(map(len, line.split())) <= 20 and not re.match(r" +(kubectl|helm) ", line)
    ]


@pytest.mark.parametrize("command", HELPED)
def test_help_has_examples_and_fits_forty_columns(cli: Cli, command: str) -> None:
    narrow = cli(*command.split(), "--help", width=40).stdout
    # Examples, and the events of replay, are copied.
    narrow = re.split(r"\n  (?:Examples|Events, one)", narrow)[0]

    assert f"Examples:\n    kubectl numa {command}".rstrip() in cli(*command.split(), "--help").stdout
    assert narrow
    assert too_wide(narrow) == []


NARROW = ["nodes", "nodes --all", "explain -f POD", "explain -f POD --node big", "check -f POD", "doctor"]


@pytest.mark.parametrize("command", [*NARROW, "shapes", "pods -A"])
def test_output_fits_forty_columns(cli: Cli, cluster_file: Path, command: str) -> None:
    pod = cli.write("p.yaml", manifest("a", "20", policy="single-numa-node"))
    text = cli(*command.replace("POD", str(pod)).split(), "--snapshot", cluster_file, width=40).stdout

    assert text
    assert too_wide(text) == []


def test_version_is_that_of_the_package(cli: Cli) -> None:
    assert cli.text("--version") == f"kubectl-numa, version {about.version()}\n"


@pytest.mark.full
@pytest.mark.parametrize(
    ("reader", "output"), [("head -n 1", "2x32cpu-single-numa-node-container-a6160387\n"), ("true", "")]
)
def test_a_reader_that_leaves_early_is_no_error(cluster_file: Path, reader: str, output: str) -> None:
    command = f"{sys.executable} -m kubectl_numa nodes --snapshot {cluster_file} | {reader}"
    done = finished("bash", "-c", command)

    assert (done.stdout, done.stderr) == (output, "")


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

MOMENTS = ["click", "kubectl_numa.cli", "kubectl_numa.commands.nodes", "kubectl_numa.options"]


@pytest.mark.full
@pytest.mark.parametrize("when", [*MOMENTS, "arguments", "the end"])
def test_ctrl_c_ends_the_program_quietly(when: str) -> None:
    done = finished(sys.executable, "-c", INTERRUPTING, when)

    assert (done.returncode, done.stderr) == (130, "")
    assert bool(done.stdout) is (when == "the end")


def test_ctrl_c_ends_a_command_quietly(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_path: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("numalign.kube.files.documents.load", interrupted)
    result = cli("nodes", "--snapshot", "any")

    assert (result.exit_code, result.output) == (130, "")


STEERING = "a\x1b[2J\x9b1m\r\u202eb"
"""Would clear a screen, change colours, write over a line and turn the direction of reading."""

SHOWN = "a\ufffd[2J\ufffd1m\ufffd\ufffdb"


def test_notices_steer_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    lines.notify(f"skipped: {STEERING}")
    options.note([f"note:\n  {STEERING}"])

    assert capsys.readouterr().err == f"skipped: {SHOWN}\nnote:\n  {SHOWN}\n"


@pytest.mark.parametrize("command", ["check", "explain"])
def test_mistakes_of_manifests_steer_no_terminal(cli: Cli, cluster_file: Path, command: str) -> None:
    wrong = cli.write("pod.yaml", manifest("wrong", "4", policy=STEERING))
    errors = cli(command, "-f", wrong, "--snapshot", cluster_file).stderr

    assert SHOWN in errors
    assert not {"\x1b", "\x9b", "\r", "\u202e"} & {*errors}


@pytest.mark.full
def test_interrupted_demo_ends_with_all_its_processes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kubectl_numa", "demo", "--serve", "--port", "0"]
    env = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=env, **pipes) as process:  # noqa: S603  the text is ours
        assert process.stdout
        while "curl" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)

    assert (process.returncode, errors) == (0, "")
    assert list(tmp_path.iterdir()) == []


CLIENT = {"aiohttp", "cryptography", "kubernetes_asyncio"}
"""Packages that talk to the API server."""

HEAVY = CLIENT | {"numpy", "orjson", "prometheus_client", "pydantic", "rich", "yaml"}

DATA = Path(__file__).parents[3] / "examples" / "data"
PODS = DATA / "pods.yaml"

ANSWERING = """
import contextlib, sys
from kubectl_numa.cli import program
for line in sys.stdin:
    with contextlib.suppress(SystemExit):
        program.main(line.split(), standalone_mode=False)
    sys.stdout.flush()
    print("\\f", *{name.partition(".")[0] for name in sys.modules}, "\\f", sep=" ")
"""
LINES = [
    # the command, and what it does not import, and those before it
    *((line, HEAVY) for line in ("--version", "--help", "-h", "completion bash")),
    (f"replay -f {DATA / 'events.jsonl'}", CLIENT | {"numpy"}),
    ("version --client",                   CLIENT),
    (f"check -f {PODS} --snapshot",        CLIENT),
    (f"explain -f {PODS} --snapshot",      CLIENT),
    ("nodes --snapshot",                   CLIENT),
    ("shapes --snapshot",                  CLIENT),
]  # fmt: skip


def printed(program: str, *arguments: str, stdin: str = "") -> str:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=True).stdout  # noqa: S603  ours


@pytest.mark.full
def test_commands_import_only_what_they_need(cluster_file: Path) -> None:
    lines = [line + f" {cluster_file}" * line.endswith("--snapshot") for line, _ in LINES]
    answers = printed(ANSWERING, stdin="\n".join(lines)).split("\f")

    for (line, heavy), output, packages in zip(LINES, answers[::2], answers[1::2], strict=False):
        assert output.strip(), line
        assert "kubectl_numa" in packages.split(), line
        assert not set(packages.split()) & heavy, line
    assert len(answers) == 2 * len(LINES) + 1


COMPLETING = """
import sys
from kubectl_numa.commands.completion import main
main()
print("\\f", *{name.partition(".")[0] for name in sys.modules})
"""


@pytest.mark.full
@pytest.mark.parametrize(("typed", "heavy"), [("n", HEAVY), ("nodes --ou", CLIENT), ("version --cl", CLIENT)])
def test_completion_imports_little(typed: str, heavy: set[str]) -> None:
    output, packages = printed(COMPLETING, *typed.split()).split("\f")

    assert output
    assert not {*packages.split()} & heavy


@pytest.mark.parametrize("listed", COMMANDS, ids=lambda command: command.name)
def test_short_help_is_the_beginning_of_the_help(listed: LazyCommand) -> None:
    command = listed.load()

    assert command.name == listed.name
    assert (command.help or "").startswith(listed.get_short_help_str())
