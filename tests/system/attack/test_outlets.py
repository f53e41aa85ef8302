"""What leaves the webhook beside its answers: lines of refusals and traces, where nobody takes them."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path

from tests.system.attack import objects
from tests.system.attack.arena import Arena
from tests.system.attack.attackers import send
from tools.clusters.http_calls import LOOPBACK
from tools.clusters.programs import WEBHOOK

MOST_MIB = 96
REFUSALS = 2000
"""Nearly twice what a full pipe and the queue take."""

UGLY = "\n\u202e\x1b[31m😀" * 2000


def refusals(count: int) -> Iterator[bytes]:
    """Reviews of pods that are refused, with names that are long and full of what steers a terminal."""
    made = objects.pod("denied", {"cpu": "500", "memory": "1Gi"})
    owner = {"kind": UGLY, "name": UGLY, "controller": True}
    named = {**made, "metadata": {**made["metadata"], "name": UGLY, "ownerReferences": [owner]}}
    body = objects.review(named)
    return (body for _ in range(count))


async def test_unread_pipe_delays_no_review(arena: Arena, tmp_path: Path) -> None:
    pipe = tmp_path / "audit"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    webhook = await arena.webhook("--audit-log", str(pipe))
    async with arena.honest(webhook, most=MOST_MIB):
        statuses = await send(webhook.door, "/validate", refusals(REFUSALS), at_once=4)

    assert statuses
    assert set(statuses) == {200}
    assert await webhook.metric("numalign_audit_lines_total") > 0
    assert len(webhook.events("audit.failed")) <= 1
    # What did come through are whole lines.
    lines = os.read(reader, 2**20).decode("ascii").splitlines()
    os.close(reader)
    assert "\n" in {json.loads(line)["name"][:1] for line in lines}


async def test_unread_standard_error_delays_no_review(arena: Arena) -> None:
    pipe = arena.here.children.logs / WEBHOOK
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    webhook = await arena.webhook()
    pipe.unlink()
    async with arena.honest(webhook, most=MOST_MIB):
        statuses = await send(webhook.door, "/validate", refusals(REFUSALS), at_once=4)

    assert set(statuses) == {200}
    # It was full.
    assert len(os.read(reader, 2**20)) > 2**15
    os.close(reader)


async def test_silent_trace_receiver_delays_no_review(arena: Arena) -> None:
    """It takes connections and never answers."""

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(wait, LOOPBACK, 0)
    endpoint = f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
    webhook = await arena.webhook("--otlp-endpoint", endpoint, "--trace-ratio", "1")
    async with arena.honest(webhook, most=MOST_MIB):
        statuses = await send(webhook.door, "/validate", refusals(REFUSALS), at_once=4)
    server.close()

    assert set(statuses) == {200}
    assert await webhook.metric("numalign_spans_total") >= len(statuses)
