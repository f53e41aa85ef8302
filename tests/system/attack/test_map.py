"""Those who look at the map by the hundred, read nothing, or know nothing keep no other viewer waiting."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from numalign.map import events, http
from tests.system.attack import honest
from tests.system.attack.arena import Arena
from tests.system.attack.attackers import STRANGER
from tests.worlds.notation import table
from tools.clusters import http_calls
from tools.clusters.fake_api import VIEWERS
from tools.clusters.http_calls import Answer, Door
from tools.clusters.programs import MIB, Running

SECONDS = 3.0
MOST_MIB = 160
"""What 5,000 nodes and all that is bounded may take together is more; these are twenty nodes."""

HONEST, *OTHERS = VIEWERS
"""The tokens of a user who looks now and then, and attacks nobody, and of the other ones."""

QUESTION = b"""\
apiVersion: v1
kind: Pod
metadata: {name: asked, annotations: {numalign.io/policy: single-numa-node}}
spec: {containers: [{name: main, resources: {limits: {cpu: "1", memory: 1Mi}}}]}
"""
BOMB = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    f"{name}: &{name} [{','.join(['*' + before] * 9)}]\n".encode()
    for before, name in itertools.pairwise("abcdefghi")
)


def asking(path: str, token: str, body: bytes = b"") -> bytes:
    method = "POST" if body else "GET"
    return http_calls.request(method, path, body, {"Authorization": f"Bearer {token}"})


async def answered(door: Door, written: bytes, source: str | None = None) -> Answer:
    async with http_calls.connection(door, source=source) as made:
        made.send(written)
        return await made.answer()


@asynccontextmanager
async def looked_at(program: Running, bound: float) -> AsyncIterator[None]:
    """Somebody who has signed in before looks again and again during the block, and sees it in time."""
    seen: list[tuple[int, float]] = []

    async def look(query: str = "") -> None:
        began = time.monotonic()
        answer = await answered(program.door, asking(f"/api/fleet{query}", HONEST))
        seen.append((answer.status, time.monotonic() - began))

    async def look_again() -> None:
        for query in itertools.cycle(["", "?only=misaligned"]):
            await look(query)
            await asyncio.sleep(0.2)

    await look()
    async with honest.meanwhile(look_again()):
        yield
    assert len(seen) > 3
    assert {status for status, _ in seen} == {200}
    assert max(seconds for _, seconds in seen) <= bound


READERS = [
    # what is never read              path       calls of each viewer
    ("streams",                       "/events", events.MOST_STREAMS_EACH),
    ("pages for programs",            "/api/fleet", 6),
]  # fmt: skip


@pytest.mark.parametrize(("path", "each"), table(READERS))
async def test_unread_answers_keep_no_viewer_waiting(arena: Arena, path: str, each: int) -> None:
    program = await arena.served_map(await arena.api_server())
    async with (
        arena.honest(program, most=MOST_MIB),
        looked_at(program, arena.bound),
        AsyncExitStack() as stack,
    ):
        # Every viewer but the honest one makes so many calls.
        for token in OTHERS * each:
            made = await stack.enter_async_context(http_calls.connection(program.door, source=STRANGER))
            made.send(asking(path, token))
        await asyncio.sleep(SECONDS)
        assert await program.metric("numalign_map_streams") <= events.MOST_STREAMS
        assert await program.metric("numalign_http_connections") <= http.LIMITS.connections


async def repeated(door: Door, calls: Iterator[bytes], *, at_once: int) -> list[int]:
    statuses: list[int] = []

    async def go_on() -> None:
        for written in calls:
            try:
                statuses.append((await answered(door, written, STRANGER)).status)
            except OSError:
                statuses.append(0)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(go_on())
    return statuses


async def test_tokens_that_are_made_up_keep_no_viewer_waiting(arena: Arena) -> None:
    program = await arena.served_map(await arena.api_server())
    calls = (asking("/api/fleet", f"made-up-{number}") for number in range(3000))
    async with arena.honest(program, most=MOST_MIB), looked_at(program, arena.bound):
        statuses = await repeated(program.door, calls, at_once=20)
    assert set(statuses) == {401, 503}
    assert await program.metric("numalign_map_sign_ins_total") >= len(statuses)


QUESTIONS = [
    # what is asked                 body                      calls
    ("a thousand replicas",         QUESTION,                 6),
    ("a text of nothing but more",  BOMB,                     200),
    ("the longest body",            b" " * MIB,               60),
]  # fmt: skip


@pytest.mark.parametrize(("body", "count"), table(QUESTIONS))
async def test_questions_that_take_long_keep_no_viewer_waiting(arena: Arena, body: bytes, count: int) -> None:
    program = await arena.served_map(await arena.api_server())
    path = "/api/what-if?replicas=1000"
    calls = (asking(path, OTHERS[number % len(OTHERS)], body) for number in range(count))
    async with arena.honest(program, most=MOST_MIB), looked_at(program, arena.bound):
        statuses = await repeated(program.door, calls, at_once=10)
        await asyncio.sleep(1)
    assert set(statuses) <= {200, 400, 503}
    assert not program.events("request.failed")
