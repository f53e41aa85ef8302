"""
The webhook, started as a process, and always ended.

It listens on a free port and logs which, so nothing is guessed and nothing waits for a fixed time. Its log is
read continuously, because a full pipe would block it; the last lines are kept in case it fails. Settings in
the caller's environment are not passed on.

    ClickException
    └── WebhookDied    the process ended, does not respond, or could not start
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL
from typing import Any, TypeVar

import click

import webhook as program
from certs.authority import Files

HOST = "127.0.0.1"

# Reading the largest bundled cluster takes two seconds; a machine may be very busy.
START_SECONDS = 60
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

T = TypeVar("T")


class WebhookDied(click.ClickException):
    """Raised if the webhook ends or stops responding; the message ends with the last lines of its log."""

    exit_code = 2


@dataclass(slots=True)
class RunningWebhook:
    """A running webhook: its process, its CA and port, and its last log lines."""

    process: Process
    ca: Path
    port: int = 0
    last_lines: deque[str] = field(default_factory=lambda: deque(maxlen=5))

    @property
    def url(self) -> str:
        """The URL to call it at."""
        return f"https://{HOST}:{self.port}"

    async def died(self, doing: str) -> WebhookDied:
        """Return the error for a webhook that failed; wait a moment for its end, to report that too."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.process.wait(), 1)
        code = self.process.returncode
        how = "stopped responding" if code is None else f"ended with exit code {code}"
        log = "".join(f"\n  {line}" for line in self.last_lines) or " nothing"
        return WebhookDied(f"the webhook {how} while {doing}; it logged:{log}")


@contextlib.asynccontextmanager
async def running(
    snapshot: Path, pair: Files, *arguments: str, port: int = 0
) -> AsyncIterator[RunningWebhook]:
    """Run a webhook on a snapshot until the context ends; raises `WebhookDied` if it does not listen."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", program.__name__),
        *("--snapshot", str(snapshot), "--snapshot-reload-seconds", "0"),
        *("--bind", HOST, "--port", str(port), "--metrics-port", "0"),
        *("--tls-cert", str(pair.cert), "--tls-key", str(pair.key), "--tls-reload-seconds", "0"),
        *("--drain-seconds", "0", *arguments),
        stdin=DEVNULL,
        stderr=PIPE,
        # Ctrl-C is handled here: it must not end the webhook before this process.
        start_new_session=True,
        env=environment(os.environ),
    )
    webhook = RunningWebhook(process, pair.ca)
    listens = asyncio.Event()
    reader = asyncio.create_task(_follow(webhook, listens))
    try:
        waiting = asyncio.create_task(listens.wait())
        await asyncio.wait({waiting, reader}, timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not listens.is_set():
            raise await webhook.died("starting")
        yield webhook
    finally:
        await _end(process)
        await reader


def environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Return the caller's environment without settings of the webhook, and with this numalign on its path."""
    folder = Path(program.__path__[0])
    imported_from = str(folder.parents[program.__name__.count(".")])
    path = os.pathsep.join(filter(None, (imported_from, ours.get("PYTHONPATH"))))
    kept = {name: value for name, value in ours.items() if not name.startswith("NUMALIGN_")}
    return {**kept, "PYTHONPATH": path}


async def _follow(webhook: RunningWebhook, listens: asyncio.Event) -> None:
    """Read the log to its end, and the port from it."""
    stream = webhook.process.stderr
    while stream and (line := await stream.readline()):
        text = line.decode(errors="replace").rstrip()
        webhook.last_lines.append(text)
        if not listens.is_set() and "server.listening" in text:
            webhook.port = json.loads(text)["port"]
            listens.set()


async def _end(process: Process) -> None:
    for ask in (process.terminate, process.kill):
        with contextlib.suppress(ProcessLookupError, TimeoutError):
            if process.returncode is None:
                ask()
            await asyncio.wait_for(process.wait(), 5)


class Stopped(Exception):
    """Raised when a signal ended the work; everything that was started has ended before."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"stopped by {signal.Signals(number).name}")

    @property
    def exit_code(self) -> int:
        """The exit code that a shell reports for a program that a signal ended."""
        return 128 + self.number


async def stoppable(work: Coroutine[Any, Any, T]) -> T:
    """
    Return the result of the work; raises `Stopped` once a signal has ended it.

    The first signal cancels the work and ends everything that was started, in order. Further signals are
    ignored: a second Ctrl-C would leave the webhook running.
    """
    task, received = asyncio.create_task(work), list[int]()

    def stop(number: int) -> None:
        if not received:
            received.append(number)
            task.cancel()

    loop = asyncio.get_running_loop()
    for number in ENDING:
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        if received:
            raise Stopped(received[0]) from None
        raise
    finally:
        for number in ENDING:
            loop.remove_signal_handler(number)
