"""Starts programs for tests, and ensures that none outlives them.

A test run can be interrupted, time out or be killed. A control plane that it leaves behind would take memory
from the next run.
"""

import asyncio
import os
import random
import re
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from time import monotonic
from typing import TypeVar

import aiohttp
import pytest

T = TypeVar("T")

PORTS = range(20_000, 32_000)
"""Ports below those that Linux assigns to connections (ip_local_port_range)."""

# sh runs this. It executes the command, and leaves behind a guard that kills the whole process group when
# standard input closes, which happens whenever this interpreter ends, for any reason.
GUARDED = 'exec 3<&0; (read -r _ <&3; kill -KILL 0) & exec "$@" 3<&- </dev/null'


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes in use now, and the peak since it was last forgotten."""

    now: int
    most: int


@dataclass(frozen=True, slots=True)
class Child:
    """A running program, with all processes that it started, and the log of its output."""

    name: str
    process: asyncio.subprocess.Process
    log: Path

    def running(self) -> bool:
        return self.process.returncode is None

    async def end(self) -> None:
        """Kill the program at once, with its guard: it has nothing to save."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        await self.process.wait()

    async def stop(self, *, seconds: float = 60) -> int:
        """Stop the program as Kubernetes does, and return its exit code; fail if it does not end in time."""
        self.process.terminate()
        try:
            return await asyncio.wait_for(self.process.wait(), seconds)
        except TimeoutError:
            pytest.fail(f"{self.name} did not end within {seconds:.0f} s of SIGTERM")
        finally:
            await self.end()


@dataclass(frozen=True, slots=True)
class Children:
    """The programs that were started for tests. Programs of the same name write to the same log."""

    logs: Path
    started: list[Child] = field(default_factory=list)
    _shown: dict[str, int] = field(default_factory=dict)

    async def start(self, *command: str, name: str = "", cwd: Path | None = None) -> Child:
        """Start a program in `cwd`, or else in this process's folder, and return at once; see `until`."""
        name = name or Path(command[0]).name
        with (self.logs / name).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *("sh", "-c", GUARDED, name, *command),
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                cwd=cwd,
            )
        child = Child(name, process, self.logs / name)
        self.started.append(child)
        return child

    @asynccontextmanager
    async def run(
        self, *command: str, name: str, ready: Callable[[], Awaitable[bool]], cwd: Path | None = None
    ) -> AsyncIterator[Child]:
        """Run a program during the block, which begins when it is ready."""
        child = await self.start(*command, name=name, cwd=cwd)
        try:
            await until(ready, what=f"{name} was ready", child=child)
            yield child
        finally:
            await child.end()

    async def end(self) -> None:
        """Kill all programs, the youngest first: it may need the older ones."""
        for child in reversed(self.started):
            await child.end()

    def written(self) -> dict[str, str]:
        """Return the last lines that were written to each log since the last call, by name."""
        found = {}
        for log in sorted(self.logs.iterdir()):
            content = log.read_bytes()
            news = content[self._shown.get(log.name, 0) :].decode(errors="replace").splitlines()
            self._shown[log.name] = len(content)
            found[log.name] = "\n".join(news[-30:])
        return {name: text for name, text in found.items() if text}


async def until(look: Callable[[], Awaitable[T]], *, what: str, child: Child, seconds: float = 60) -> T:
    """Return the first true result of `look`; fail after `seconds`, or if the child has ended."""
    deadline = monotonic() + seconds
    while not (seen := await look()):
        if not child.running() or monotonic() > deadline:
            code = child.process.returncode
            why = f"ended with {code} before" if code is not None else f"took over {seconds:.0f} s until"
            lines = child.log.read_text(errors="replace").splitlines()
            # klog marks errors like this.
            errors = [line for line in lines if line.startswith(("E", "F"))] or lines
            pytest.fail("\n".join([f"{child.name} {why} {what}:", *errors[-5:]]))
        await asyncio.sleep(0.05)
    return seen


async def answers(url: str, *, ca: Path | None = None) -> bool:
    """Return whether a URL answers with 200; without an authority `ca`, certificates are not checked."""
    trust, limit = ssl.create_default_context(cafile=ca) if ca else False, aiohttp.ClientTimeout(total=5)
    try:
        async with aiohttp.ClientSession(timeout=limit) as session, session.get(url, ssl=trust) as response:
            return response.status == HTTPStatus.OK
    except (aiohttp.ClientError, TimeoutError):
        return False


async def run(*command: str, **environment: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=os.environ | environment,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


def program(name: str) -> str:
    """Return the path of a program in the environment that runs the tests."""
    return str(Path(sys.executable).parent / name)


def memory(pid: int) -> Memory:
    """Return the memory of a process as the kernel counts it."""
    kib = dict(re.findall(r"(VmRSS|VmHWM):\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text()))
    return Memory(int(kib["VmRSS"]) * 1024, int(kib["VmHWM"]) * 1024)


def free_port(address: str = "127.0.0.1") -> int:
    """Return a port that is free now, that Linux assigns to no connection, and that was not given before.

    Programs bind it later, many at once; one that is restarted needs the same again.
    """
    while True:
        port = _PORTS.pop()
        with socket.socket() as probe, suppress(OSError):
            probe.bind((address, port))
            return port


_PORTS = random.SystemRandom().sample(PORTS, len(PORTS))
"""Those that this process has not given to anybody, in an order that no other process has."""
