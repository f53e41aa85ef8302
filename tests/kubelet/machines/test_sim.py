"""`make sim KUBELETS=real`, as a person uses it."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.worlds.programs import running
from tools.clusters.kubelets.clusters import remove_leftovers
from tools.clusters.waiting import until

# The first test may have to build the programs.
pytestmark = [pytest.mark.kubelets, pytest.mark.timeout(1800)]

ROOT = Path(__file__).resolve().parents[3]
COMMAND = (sys.executable, "-m", "tools.clusters.sim", "--kubelets", "real", "--shape", "small=2")


async def test_it_says_how_to_use_it_and_leaves_nothing_behind() -> None:
    program, said = await started()
    assert "2 nodes are there" in said
    assert running(folder(said))

    program.send_signal(signal.SIGINT)

    assert await program.wait() == 0
    assert not running(folder(said))
    assert not is_there(folder(said))


async def test_no_process_outlives_one_that_was_killed() -> None:
    program, said = await started()

    program.kill()
    await program.wait()

    await until(lambda: not running(folder(said)))
    remove_leftovers(Path(folder(said)).parent)
    assert not is_there(folder(said))


async def started() -> tuple[asyncio.subprocess.Process, str]:
    """The program, and what it says of how to use it."""
    program = await asyncio.create_subprocess_exec(
        *COMMAND, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert program.stdout
    assert program.stderr
    said = ""
    while "  log" not in said and (line := await program.stdout.readline()):
        said += line.decode()
    if "  log" not in said and await program.wait() == os.EX_UNAVAILABLE:
        pytest.skip(f"REAL KUBELETS WERE NOT TESTED: {(await program.stderr.read()).decode()}")

    return program, said


def folder(said: str) -> str:
    """Where all of it is."""
    return said.partition("KUBECONFIG=")[2].split()[0].removesuffix("/kubeconfig")


def is_there(path: str) -> bool:
    return Path(path).exists()
