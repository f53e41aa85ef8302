"""Commands import only what they need: starting takes most of the time of a short answer."""

import subprocess
import sys
from pathlib import Path

import pytest

from kubectl_numa.cli import COMMANDS
from kubectl_numa.lazy import LazyCommand

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
from kubectl_numa.completing import main
main()
print("\\f", *{name.partition(".")[0] for name in sys.modules})
"""


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
