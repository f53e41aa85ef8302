"""Starts programs for tests, and sees to it that none outlives them.

A test run may be interrupted, time out or be killed. A control plane left behind by one would eat the
memory of the next.
"""

import asyncio
import os
import signal
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from time import monotonic
from typing import BinaryIO

import aiohttp
import pytest

MOST_LINES = 30

# Run by sh: becomes the command, and leaves behind a guard that ends the whole process group when
# standard input closes. It does when this interpreter is gone, however it went.
GUARDED = 'exec 3<&0; (read -r _ <&3; kill -KILL 0) & exec "$@" 3<&- </dev/null'


@dataclass(frozen=True, slots=True)
class Child:
    """A running program, with all it started."""

    name: str
    process: asyncio.subprocess.Process

    def running(self) -> bool:
        """Whether it has not ended by itself."""
        return self.process.returncode is None

    def send(self, number: signal.Signals) -> None:
        """To the program alone, not to what it started."""
        os.kill(self.process.pid, number)

    async def end(self) -> None:
        """Ends it at once: it has nothing to save, and its guard must go too."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        await self.process.wait()

    async def stop(self, *, seconds: float = 60) -> int:
        """Asks it to end, as Kubernetes does, and gives its exit code."""
        self.send(signal.SIGTERM)
        try:
            code = await asyncio.wait_for(self.process.wait(), seconds)
        except TimeoutError:
            pytest.fail(f"{self.name} did not end within {seconds:.0f} s of SIGTERM")
        finally:
            await self.end()
        return code


@dataclass(frozen=True, slots=True)
class Children:
    """What was started for the tests. Whatever is started under the same name writes to the same log."""

    logs: Path
    started: list[Child] = field(default_factory=list)
    heard: dict[str, int] = field(default_factory=dict)

    async def start(self, *command: str, name: str = "", cwd: Path | None = None) -> Child:
        """Returns at once; `until` tells when it does what it is for. It runs in `cwd`, else where we do."""
        name = name or Path(command[0]).name
        with open_log(self.logs / name) as log:
            process = await asyncio.create_subprocess_exec(
                *("sh", "-c", GUARDED, name, *command),
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                cwd=cwd,
            )
        self.started.append(Child(name=name, process=process))
        return self.started[-1]

    async def end(self) -> None:
        """Ends the youngest first: it may need the older ones."""
        for child in reversed(self.started):
            await child.end()

    def said(self) -> dict[str, str]:
        """By name, the last lines of what was written to each log since this was asked before."""
        return {log.name: text for log in sorted(self.logs.iterdir()) if (text := self._news(log))}

    def _news(self, log: Path) -> str:
        content = log.read_bytes()
        news = content[self.heard.get(log.name, 0) :]
        self.heard[log.name] = len(content)
        return "\n".join(news.decode(errors="replace").splitlines()[-MOST_LINES:])


def open_log(path: Path) -> BinaryIO:
    return path.open("ab")


async def until(true: Callable[[], Awaitable[bool]], *, what: str, child: Child, seconds: float = 60) -> None:
    """Asks ten times a second; fails when the time is over or the child has ended."""
    deadline = monotonic() + seconds
    while not await true():
        if not child.running():
            pytest.fail(f"{child.name} ended with {child.process.returncode} before {what}")
        if monotonic() > deadline:
            pytest.fail(f"{seconds:.0f} s were not enough until {what}")
        await asyncio.sleep(0.1)


async def answers(url: str, *, ca: Path | None = None) -> bool:
    trust = ssl.create_default_context(cafile=ca)
    try:
        async with aiohttp.ClientSession() as session, session.get(url, ssl=trust) as response:
            return response.status == HTTPStatus.OK
    except aiohttp.ClientConnectionError:
        return False


async def run(*command: str, **environment: str) -> tuple[int, str]:
    """Exit code and all that was said."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=os.environ | environment,
    )
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()


def program(name: str) -> str:
    """One of ours, as installed in the environment that runs the tests."""
    return str(Path(sys.executable).parent / name)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
