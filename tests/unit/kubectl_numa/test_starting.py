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

Run = Callable[..., Result]

CLIENT = {"aiohttp", "cryptography", "kubernetes_asyncio"}
"""What the API server is asked with."""

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
    """What the program says, and the packages that it has imported by then."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)  # noqa: S603 the text is ours
    return done.stdout, set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("asked", ["--version", "--help", "-h", "completion bash"])
def test_who_asks_about_the_program_waits_for_nothing_heavy(asked: str) -> None:
    said, packages = imported(*asked.split())

    assert said
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
    # what it shows                 of what                          what it does not wait for
    ("what was decided",            f"replay -f {DATA / 'events.jsonl'}", CLIENT | {"numpy"}),
    ("its own version",             "version --client",              CLIENT),
    ("whether pods could run",      f"check -f {PODS} --snapshot",   CLIENT),
    ("what nodes say to a pod",     f"explain -f {PODS} --snapshot", CLIENT),
    ("what the nodes are",          "nodes --snapshot",              CLIENT),
    ("what shapes there are",       "shapes --snapshot",             CLIENT),
]  # fmt: skip


def test_who_reads_a_file_waits_for_no_client(cluster_file: Path) -> None:
    asked = [line + f" {cluster_file}" * line.endswith("--snapshot") for _, line, _ in OFFLINE]
    done = subprocess.run(  # noqa: S603 the text is ours
        [sys.executable, "-c", ANSWERING],
        input="\n".join(asked),
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )

    answers = done.stdout.split("\f")
    for (what, _, heavy), said, packages in zip(OFFLINE, answers[::2], answers[1::2], strict=False):
        assert said.strip(), what
        assert "kubectl_numa" in packages.split(), what
        assert not set(packages.split()) & heavy, what
    assert len(answers) == 2 * len(OFFLINE) + 1


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


@pytest.mark.parametrize("listed", COMMANDS, ids=lambda command: command.name)
def test_the_list_says_of_a_command_what_its_own_help_begins_with(listed: LazyCommand) -> None:
    command = listed.load()

    assert command.name == listed.name
    assert (command.help or "").startswith(listed.get_short_help_str())


def test_a_command_that_is_misspelt_is_told_its_name(run: Run) -> None:
    result = run("explian")

    assert result.exit_code == click.UsageError.exit_code
    assert 'there is no command "explian"; did you mean explain?' in result.stderr
