"""Those who announce, open or begin what they never finish keep nobody else waiting."""

import asyncio
import itertools
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.system.attack import objects
from tests.system.attack.arena import Arena
from tests.system.attack.attackers import announced, held, send
from tests.worlds.notation import table
from tools.clusters import http_calls
from tools.clusters.certificates import certificate, key_pem
from tools.clusters.http_calls import JSON, LOOPBACK, Door
from tools.clusters.programs import MIB

SECONDS = 2.5
MOST_MIB = 64
CONNECTIONS_MIB = 128
"""As many connections as are open at once, 1,024, over TLS. 109 are typical; the chart's limit is 512Mi."""

BEGUN = [
    # what is begun                           how                                       then        sockets
    ("eight bodies of 8 MiB",                 announced("/validate", 8 * MIB, b"{"),    b"",              8),
    ("eighty bodies of 4 MiB",                announced("/validate", 4 * MIB, b"{"),    b"",             80),
    ("more bodies than calls are let in",     announced("/validate", 10),               b"",            400),
    ("more bodies than that, begun",          announced("/validate", 4096, b"{"),       b"",            400),
    ("headers that come drop by drop",        b"POST /validate HTTP/1.1\r\n",           b"x: 1\r\n",    400),
    ("bodies that come drop by drop",         announced("/validate", 4096, b"{"),       b" ",           400),
]  # fmt: skip


@pytest.mark.parametrize(("begun", "drop", "sockets"), table(BEGUN))
async def test_calls_that_never_end_keep_no_review_waiting(
    arena: Arena, begun: bytes, drop: bytes, sockets: int
) -> None:
    webhook = await arena.webhook()
    async with arena.honest(webhook, most=MOST_MIB), held(webhook.door, begun, sockets=sockets) as opened:
        for _ in range(round(SECONDS * 2)):
            for each in opened if drop else ():
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


async def test_endless_and_packed_calls_keep_no_review_waiting(arena: Arena) -> None:
    webhook = await arena.webhook()
    body = objects.review(objects.pod("ever-again"))
    packed = http_calls.request(
        "POST", "/mutate", bytes(2**20), {"Content-Type": JSON, "Content-Encoding": "gzip"}
    )
    async with arena.honest(webhook, most=MOST_MIB), http_calls.connection(webhook.door) as made:
        await send(webhook.door, "/validate", itertools.repeat(body, 2000), at_once=100)
        made.send(packed)
        assert (await made.answer()).status == 415


async def test_proven_callers_precede_others_at_their_address(arena: Arena) -> None:
    key, now, day = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC), timedelta(days=1)
    cert, secret = (arena.here.folder / f"caller.{kind}" for kind in ("crt", "key"))
    cert.write_bytes(certificate(key, since=now - day, until=now + day))
    secret.write_bytes(key_pem(key))
    webhook = await arena.webhook("--client-ca", str(cert))
    trust = ssl.create_default_context(cafile=str(arena.here.pair.ca))
    trust.load_cert_chain(cert, secret)
    proven = replace(webhook, door=replace(webhook.door, tls=trust))
    whole = objects.review({"filling": "x" * 2 * MIB})
    begun = announced("/validate", len(whole), whole[:MIB])
    async with (
        arena.honest(proven, most=2 * MOST_MIB),
        held(webhook.door, begun, sockets=40, source=LOOPBACK),
    ):
        statuses = await send(webhook.door, "/validate", [whole] * 40, at_once=10, source=LOOPBACK)
    assert 503 in statuses
