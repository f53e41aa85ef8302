"""Those who announce, open or begin what they never finish keep nobody else waiting."""

import asyncio
import itertools

import pytest

from tests.system.attack import objects
from tests.system.attack.arena import Arena
from tests.system.attack.attackers import announced, held, send
from tests.worlds.notation import table
from tools.clusters import http_calls
from tools.clusters.http_calls import JSON, LOOPBACK, Door
from tools.clusters.programs import MIB

SECONDS = 2.5
MOST_MIB = 64
CONNECTIONS_MIB = 128
"""As many connections as are open at once, 1,024, over TLS. 109 are typical; the chart's limit is 512Mi."""


ANNOUNCED = [
    # what is announced                       bytes      begun  sockets
    ("eight bodies of 8 MiB",                 8 * 2**20, b"{",  8),
    ("eighty bodies of 4 MiB",                4 * 2**20, b"{",  80),
    ("more bodies than calls are let in",     10,        b"",   400),
    ("more bodies than that, begun",          4096,      b"{",  400),
]  # fmt: skip


@pytest.mark.parametrize(("size", "begun", "sockets"), table(ANNOUNCED))
async def test_bodies_that_never_come_keep_no_review_waiting(
    arena: Arena, size: int, begun: bytes, sockets: int
) -> None:
    webhook = await arena.webhook()
    written = announced("/validate", size, begun)
    async with arena.honest(webhook, most=MOST_MIB), held(webhook.door, written, sockets=sockets):
        await asyncio.sleep(SECONDS)


DRIPS = [
    # what comes drop by drop   how it begins                       a drop
    ("headers",                 b"POST /validate HTTP/1.1\r\n",     b"x-drop: 1\r\n"),
    ("bodies",                  announced("/validate", 4096, b"{"), b" "),
]  # fmt: skip


@pytest.mark.parametrize(("begun", "drop"), table(DRIPS))
async def test_what_comes_drop_by_drop_keeps_no_review_waiting(
    arena: Arena, begun: bytes, drop: bytes
) -> None:
    webhook = await arena.webhook()
    async with arena.honest(webhook, most=MOST_MIB), held(webhook.door, begun, sockets=400) as opened:
        for _ in range(round(SECONDS * 2)):
            for each in opened:
                each.send(drop)
            await asyncio.sleep(0.5)


HANDSHAKES = [
    # what is sent in place of a handshake   bytes
    ("nothing",                              b""),
    ("the beginning of one",                 b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    ("plain HTTP",                           b"GET / HTTP/1.1\r\n"),
]  # fmt: skip


@pytest.mark.parametrize("written", table(HANDSHAKES))
async def test_handshakes_that_stall_keep_no_review_waiting(arena: Arena, written: bytes) -> None:
    webhook = await arena.webhook()
    plain = Door(webhook.door.port)
    async with arena.honest(webhook, most=CONNECTIONS_MIB), held(plain, written, sockets=1500):
        await asyncio.sleep(SECONDS)


async def test_idle_connections_delay_no_scheduler(arena: Arena) -> None:
    scorer = await arena.scorer()
    async with arena.honest(scorer, most=MOST_MIB), held(scorer.door, b"", sockets=3000):
        await asyncio.sleep(SECONDS)


async def test_endless_calls_keep_no_review_waiting(arena: Arena) -> None:
    webhook = await arena.webhook()
    body = objects.review(objects.pod("ever-again"))
    async with arena.honest(webhook, most=MOST_MIB):
        await send(webhook.door, "/validate", itertools.repeat(body, 2000), at_once=100)


async def test_proven_callers_precede_others_at_their_address(arena: Arena) -> None:
    webhook = await arena.webhook("--client-ca", str(arena.here.caller.cert))
    whole = objects.review({"filling": "x" * 2 * MIB})
    begun = announced("/validate", len(whole), whole[:MIB])
    async with (
        arena.honest(arena.here.proven(webhook), most=2 * MOST_MIB),
        held(webhook.door, begun, sockets=40, source=LOOPBACK),
    ):
        statuses = await send(webhook.door, "/validate", [whole] * 40, at_once=10, source=LOOPBACK)
    assert 503 in statuses


async def test_a_packed_body_is_refused_unread(arena: Arena) -> None:
    webhook = await arena.webhook()
    packed = http_calls.request(
        "POST", "/mutate", bytes(2**20), {"Content-Type": JSON, "Content-Encoding": "gzip"}
    )
    async with arena.honest(webhook, most=MOST_MIB), http_calls.connection(webhook.door) as made:
        made.send(packed)
        answer = await made.answer()
    assert answer.status == 415
