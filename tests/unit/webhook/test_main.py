"""The program itself: started as people start it, called over TLS, ended as a kubelet ends it."""

import asyncio
import contextlib
import json
import os
import signal
import ssl
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import orjson
import pytest

from certs import authority
from tests.unit.webhook.conftest import UID, Raw, Webhook, raw, request
from tests.worlds.notation import node

SINGLE = "single-numa-node"
SMALL = node("cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy=SINGLE)
LARGE = node("cpu=8 mem=8Gi gpu=4", "cpu=8 mem=8Gi gpu=4", policy=SINGLE)
FOUR_GPUS = raw("cpu=2 mem=1Gi gpu=4", policy=SINGLE)

ROOT = Path(__file__).parents[3]


@dataclass
class Program:
    """A running `python -m webhook`, and what it logged so far."""

    process: Process
    lines: list[Raw] = field(default_factory=list)

    async def line(self, event: str) -> Raw:
        """The next line of an event; fails if the program ends before."""
        assert self.process.stderr
        while raw_line := await self.process.stderr.readline():
            self.lines.append(json.loads(raw_line))
            if self.lines[-1]["event"] == event:
                return self.lines[-1]
        pytest.fail(f"no {event} before the end: {self.lines}")

    async def end(self) -> int:
        """Ask it to end, as a kubelet does, and wait."""
        self.process.send_signal(signal.SIGTERM)
        _, rest = await self.process.communicate()
        self.lines += map(json.loads, rest.splitlines())
        return self.process.returncode or 0


async def started(*argv: object) -> Process:
    words = [sys.executable, "-m", "webhook", *map(str, argv)]
    environ = {key: value for key, value in os.environ.items() if not key.startswith("NUMALIGN_")}
    return await asyncio.create_subprocess_exec(*words, cwd=ROOT, env=environ, stdout=PIPE, stderr=PIPE)


@contextlib.asynccontextmanager
async def running(*argv: object) -> AsyncIterator[Program]:
    """The program with these flags, on a free port of this machine alone."""
    ports = ("--port", 0, "--metrics-port", 0)
    process = await started("--bind", "127.0.0.1", *ports, "--drain-seconds", 0, *argv)
    try:
        yield Program(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def test_it_answers_over_tls_follows_its_snapshot_and_ends_on_sigterm(
    webhook: Webhook, tmp_path: Path
) -> None:
    webhook.put({"a": SMALL})
    pair = authority.issue(names=["localhost", "127.0.0.1"], days=1, now=datetime.now(UTC))
    files = authority.write(pair, tmp_path / "tls")
    trust = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(files.ca)))
    flags = ["--snapshot", webhook.path, "--tls-cert", files.cert, "--tls-key", files.key]

    async with running(*flags, "--snapshot-reload-seconds", 0.05) as program:
        place = await program.line("server.listening")
        base = f"https://127.0.0.1:{place['port']}"
        async with aiohttp.ClientSession(base, connector=trust) as session:
            never = await validated(session)
            webhook.put({"a": SMALL, "b": LARGE})
            await program.line("snapshot.loaded")
            fits = await validated(session)
        code = await program.end()

    assert [never["allowed"], fits["allowed"]] == [False, True]
    assert never["status"]["code"] == 403
    [denied] = [line for line in program.lines if line["event"] == "review.decided"]
    assert (denied["uid"], denied["decision"]) == (UID, "denied")
    assert code == 0
    assert program.lines[-1]["event"] == "server.stopped"


async def validated(session: aiohttp.ClientSession) -> Raw:
    """The response to a review of a pod with four GPUs."""
    headers = {"Content-Type": "application/json"}
    async with session.post("/validate", data=orjson.dumps(request(FOUR_GPUS)), headers=headers) as answer:
        assert answer.status == 200
        response: Raw = (await answer.json())["response"]
        return response


async def test_it_lists_every_mistake_in_its_settings_and_does_not_start() -> None:
    process = await started("--injection", "maybe", "--port", "high", "--snapshoot", "x")
    said, listed = await process.communicate()

    assert (process.returncode, said) == (2, b"")
    text = listed.decode()
    assert text.startswith("numalign-webhook: ")
    for flag in ("--injection", "--port", "--snapshoot", "--tls-cert"):
        assert flag in text
    assert text.endswith("numalign-webhook --help lists every setting\n")
