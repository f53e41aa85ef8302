"""What a command does not need it does not import: starting is most of what a short answer takes."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from kubectl_numa.cli import COMMANDS
from kubectl_numa.lazy import LazyCommand
from tests.notation import table

Run = Callable[..., Result]

CLIENT = {"aiohttp", "cryptography", "kubernetes_asyncio"}
"""What the API server is asked with."""

HEAVY = CLIENT | {"numpy", "orjson", "prometheus_client", "pydantic", "rich", "yaml"}

DATA = Path(__file__).parents[2] / "examples" / "data"
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
    """What the program says, and the packages that it has imported by then."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)  # noqa: S603 the text is ours
    return done.stdout, set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("asked", ["--version", "--help", "-h", "completion bash"])
def test_who_asks_about_the_program_waits_for_nothing_heavy(asked: str) -> None:
    said, packages = imported(*asked.split())

    assert said
    assert not packages & HEAVY


OFFLINE = [
    # what it shows                 command      of what
    ("whether pods could run",      "check",     ["-f", PODS]),
    ("what nodes say to a pod",     "explain",   ["-f", PODS]),
    ("what the nodes are",          "nodes",     []),
    ("what shapes there are",       "shapes",    []),
]  # fmt: skip


@pytest.mark.parametrize(("command", "of"), table(OFFLINE))
def test_who_reads_a_file_waits_for_no_client(cluster_file: Path, command: str, of: list[object]) -> None:
    said, packages = imported(command, *of, "--snapshot", cluster_file)

    assert said
    assert not packages & CLIENT


COMPLETING = """
import sys
from kubectl_numa.completing import main
try:
    main()
finally:
    sys.stderr.write("\\n" + " ".join({name.partition(".")[0] for name in sys.modules}))
"""


@pytest.mark.parametrize(("typed", "heavy"), [("n", HEAVY), ("nodes --ou", CLIENT), ("version --cl", CLIENT)])
def test_who_presses_tab_waits_for_little(typed: str, heavy: set[str]) -> None:
    said, packages = imported(*typed.split(), program=COMPLETING)

    assert said
    assert not packages & heavy


def test_who_asks_for_the_clients_version_waits_for_no_client_of_the_api() -> None:
    said, packages = imported("version", "--client")

    assert said
    assert not packages & CLIENT


def test_who_replays_waits_for_no_columns() -> None:
    said, packages = imported("replay", "-f", DATA / "events.jsonl")

    assert said
    assert not packages & (CLIENT | {"numpy"})


@pytest.mark.parametrize("listed", COMMANDS, ids=lambda command: command.name)
def test_the_list_says_of_a_command_what_its_own_help_begins_with(listed: LazyCommand) -> None:
    command = listed.load()

    assert command.name == listed.name
    assert (command.help or "").startswith(listed.get_short_help_str())


def test_a_command_that_is_misspelt_is_told_its_name(run: Run) -> None:
    result = run("explian")

    assert result.exit_code == click.UsageError.exit_code
    assert 'there is no command "explian"; did you mean explain?' in result.stderr
