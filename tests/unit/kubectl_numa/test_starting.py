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

IMPORTED = """
import sys
from kubectl_numa.__main__ import main
try:
    main()
finally:
    sys.stderr.write("\\n" + " ".join({name.partition(".")[0] for name in sys.modules}))
"""


def imported(*arguments: object, program: str = IMPORTED) -> tuple[str, set[str]]:
    """What the program prints, and the packages that it has imported."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)  # noqa: S603  the text is ours
    return done.stdout, set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("command", ["--version", "--help", "-h", "completion bash"])
def test_help_and_version_import_nothing_heavy(command: str) -> None:
    output, packages = imported(*command.split())

    assert output
    assert not packages & HEAVY


ANSWERING = """
import contextlib, sys
from kubectl_numa.cli import program
for line in sys.stdin:
    with contextlib.suppress(SystemExit):
        program.main(line.split(), standalone_mode=False)
    sys.stdout.flush()
    print("\\f", *{name.partition(".")[0] for name in sys.modules}, "\\f", sep=" ")
"""

OFFLINE = [
    # the command, and what it does not import
    (f"replay -f {DATA / 'events.jsonl'}", CLIENT | {"numpy"}),
    ("version --client",                   CLIENT),
    (f"check -f {PODS} --snapshot",        CLIENT),
    (f"explain -f {PODS} --snapshot",      CLIENT),
    ("nodes --snapshot",                   CLIENT),
    ("shapes --snapshot",                  CLIENT),
]  # fmt: skip


def test_commands_on_files_import_no_client(cluster_file: Path) -> None:
    lines = [line + f" {cluster_file}" * line.endswith("--snapshot") for line, _ in OFFLINE]
    done = subprocess.run(  # noqa: S603  the text is ours
        [sys.executable, "-c", ANSWERING],
        input="\n".join(lines),
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )

    answers = done.stdout.split("\f")
    for (line, heavy), output, packages in zip(OFFLINE, answers[::2], answers[1::2], strict=False):
        assert output.strip(), line
        assert "kubectl_numa" in packages.split(), line
        assert not set(packages.split()) & heavy, line
    assert len(answers) == 2 * len(OFFLINE) + 1


COMPLETING = IMPORTED.replace("__main__", "completing")


@pytest.mark.parametrize(("typed", "heavy"), [("n", HEAVY), ("nodes --ou", CLIENT), ("version --cl", CLIENT)])
def test_completion_imports_little(typed: str, heavy: set[str]) -> None:
    output, packages = imported(*typed.split(), program=COMPLETING)

    assert output
    assert not packages & heavy


@pytest.mark.parametrize("listed", COMMANDS, ids=lambda command: command.name)
def test_short_help_is_the_beginning_of_the_help(listed: LazyCommand) -> None:
    command = listed.load()

    assert command.name == listed.name
    assert (command.help or "").startswith(listed.get_short_help_str())
