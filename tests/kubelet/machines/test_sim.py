"""`make sim KUBELETS=v1.34.4`, as a person uses it."""

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
COMMAND = (sys.executable, "-m", "tools.clusters.sim", "--kubelets", "v1.34.4", "--shape", "small=2")


async def test_interrupted_simulation_leaves_nothing_behind() -> None:
    program, output = await started()
    assert "2 nodes are there" in output
    assert running(folder(output))
    program.send_signal(signal.SIGINT)
    assert await program.wait() == 0
    assert not running(folder(output))
    assert not exists(folder(output))


async def test_no_process_outlives_a_killed_simulation() -> None:
    program, output = await started()
    program.kill()
    await program.wait()
    await until(lambda: not running(folder(output)))
    remove_leftovers(Path(folder(output)).parent)
    assert not exists(folder(output))


async def started() -> tuple[asyncio.subprocess.Process, str]:
    program = await asyncio.create_subprocess_exec(
        *COMMAND, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert program.stdout
    assert program.stderr
    output = ""
    while "  log" not in output and (line := await program.stdout.readline()):
        output += line.decode()
    if "  log" not in output and await program.wait() == os.EX_UNAVAILABLE:
        pytest.skip(f"REAL KUBELETS WERE NOT TESTED: {(await program.stderr.read()).decode()}")

    return program, output


def folder(output: str) -> str:
    return output.partition("KUBECONFIG=")[2].split()[0].removesuffix("/kubeconfig")


def exists(path: str) -> bool:
    return Path(path).exists()
