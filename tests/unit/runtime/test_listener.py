"""Who is let in, and what becomes of those who dawdle at the door."""

import asyncio
import contextlib
import gc
import json
import socket
import ssl
from collections.abc import Callable, Iterator

import aiohttp
import pytest

from numalign.runtime import listener, server
from numalign.runtime.in_flight import Timeouts
from numalign.runtime.server_state import SERVER_STATE
from numalign.runtime.tls import PairFiles
from tests.worlds.http_sites import Caller, HttpSite, Mint, Trust, calling, client, until, with_pair
from tests.worlds.notation import table
from tools.clusters.http_calls import LOOPBACK

ELSEWHERE = "127.0.0.2"
THING = b"GET /things/a HTTP/1.1\r\nHost: x\r\n\r\n"


async def closed(caller: Caller) -> bool:
    with contextlib.suppress(ConnectionError):
        return await caller.reader.read() == b""
    return True


async def answered(caller: Caller, call: bytes = THING) -> int:
    await caller.send(call)
    return (await caller.received())[0]


async def called(port: int, *, tls: ssl.SSLContext | None = None) -> int:
    async with client(port, tls=tls) as session, session.get("/things/a") as answer:
        return answer.status


# Those who dawdle.


async def test_headers_that_do_not_come_close_the_connection(site: HttpSite) -> None:
    async with site.place(timeouts=Timeouts(headers=0.05)) as place:
        async with calling(place.port) as slow:
            await slow.send(b"POST /echo HTTP/1.1\r\nHost")
            assert await closed(slow)
        async with calling(place.port) as slow:
            assert await answered(slow) == 200
            await slow.send(THING[:20])
            assert await closed(slow)
    assert site.count("numalign_http_slow_total", part="headers") == 2
    assert [line["part"] for line in site.journal.of("request.slow")] == ["headers"]


async def test_connection_without_bytes_is_idle(site: HttpSite) -> None:
    """An API server dials ahead, and does not repeat a call whose connection was closed meanwhile."""
    patience = Timeouts(headers=0.02, idle=60)
    async with site.port(timeouts=patience) as port, calling(port) as early:
        for _ in range(2):
            await asyncio.sleep(0.06)
            assert await answered(early) == 200


async def test_a_connection_that_stays_idle_is_closed_at_last(site: HttpSite) -> None:
    async with site.port(timeouts=Timeouts(idle=0.03)) as port, calling(port) as idle:
        assert await closed(idle)


async def test_a_handshake_that_does_not_come_is_given_up(
    site: HttpSite, mint: Mint, trusting: Trust
) -> None:
    pair = mint.pair()
    app = site.app(timeouts=Timeouts(handshake=0.05))
    async with server.listening(app, with_pair(pair)) as place:
        async with calling(place.port) as silent:
            assert await closed(silent)
        assert await called(place.port, tls=trusting(pair.cert)) == 200
        await until(lambda: site.count("numalign_http_connections") == 0)
    assert site.count("numalign_http_slow_total", part="handshake") == 1


# Invalid calls.


@pytest.mark.parametrize("call", table([
    ("no HTTP",             b"nonsense\r\n\r\n"),
    ("TLS",                 b"\x16\x03\x01\x00\xff\x01\x00\x00\xfb\x03\x03\r\n\r\n"),
    ("no URL",              b"GET http://[ HTTP/1.1\r\nHost: x\r\n\r\n"),
    ("two lengths",         b"POST /echo HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
    ("one long header",     b"GET /things/a HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n"),
    ("many headers",        b"GET /things/a HTTP/1.1\r\n" + b"X: y\r\n" * 2_000 + b"\r\n"),
    ("a header of nothing", b"GET /things/a HTTP/1.1\r\n\x00: y\r\n\r\n"),
]))  # fmt: skip
async def test_invalid_http_is_counted(site: HttpSite, call: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with site.port() as port:
        for _ in range(20):
            async with calling(port) as caller:
                await caller.send(call)
                assert (await caller.received())[0] == 400
                assert await closed(caller)
        assert await called(port) == 200
    assert site.count("numalign_http_malformed_total") == 20
    assert [line["event"] for line in site.journal.lines()] == ["server.listening", "request.malformed"]
    # Nothing of it reaches the logs of libraries.
    assert caplog.records == []


async def test_several_requests_at_once_are_cut_off(site: HttpSite) -> None:
    async with site.port() as port, calling(port) as caller:
        await caller.send(THING * 3)
        assert await closed(caller)


async def test_while_a_call_is_handled_nothing_more_is_read(site: HttpSite) -> None:
    async with site.port() as port, calling(port) as caller:
        await caller.send(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        await site.door.entered.wait()
        caller.writer.write(b"x" * 2**24)
        await asyncio.sleep(0.05)
        sent = 2**24 - caller.writer.transport.get_write_buffer_size()
        # What the sockets of this machine hold; nothing of it is here.
        assert sent < 2**23
        caller.writer.transport.abort()
        site.door.opened.set()


async def test_pipelined_call_is_handled_next(site: HttpSite) -> None:
    body = b"x" * 100_000
    async with site.port() as port, calling(port) as caller:
        await caller.send(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        await site.door.entered.wait()
        await caller.send(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n", body)
        await asyncio.sleep(0.02)
        site.door.opened.set()
        assert (await caller.received())[0] == 200
        assert json.loads((await caller.received())[2]) == {"length": len(body)}


# Those who are many.


async def test_newcomers_come_in_and_the_one_idle_longest_goes(site: HttpSite) -> None:
    async with site.port(connections=20) as port, contextlib.AsyncExitStack() as stack:
        hoard = [await stack.enter_async_context(calling(port)) for _ in range(20)]
        await until(lambda: site.count("numalign_http_connections") == 20)
        honest = await stack.enter_async_context(calling(port, come_from=ELSEWHERE))
        assert await closed(hoard[0])
        for _ in range(40):
            await stack.enter_async_context(calling(port))
            assert await answered(honest) == 200
        assert site.count("numalign_http_connections") == 20
    assert site.count("numalign_http_connections_displaced_total") == 41


@pytest.fixture
def uncollected() -> Iterator[Callable[[], int]]:
    """How many connections of this test the process holds, when only what nobody refers to is released."""

    def held() -> int:
        return sum(issubclass(type(each), listener.HttpConnection) for each in gc.get_objects())

    before = held()
    gc.disable()
    try:
        yield lambda: held() - before
    finally:
        gc.enable()


async def test_connections_closed_early_are_not_kept(site: HttpSite, uncollected: Callable[[], int]) -> None:
    app = site.app(connections=8)
    state, opened = app[SERVER_STATE], socket.create_server((LOOPBACK, 0))
    async with server.answering(app, opened), contextlib.AsyncExitStack() as stack:
        for _ in range(100):
            stack.enter_context(socket.create_connection(opened.getsockname()))
        await until(lambda: site.count("numalign_http_connections_displaced_total") == 92)
        await until(lambda: uncollected() <= len(state.connections))


async def test_a_door_without_files_waits_for_some(site: HttpSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "PAUSE_SECONDS", 0.02)
    full = [OSError(24, "Too many open files")]

    def accept(one: socket.socket) -> tuple[socket.socket, object]:
        if full:
            raise full.pop()
        return accepted(one)

    accepted = socket.socket.accept
    async with site.port() as port:
        monkeypatch.setattr(socket.socket, "accept", accept)
        async with calling(port) as caller:
            assert await answered(caller) == 200
    assert len(site.journal.of("server.full")) == 1


# Those who are proven.


def showing(context: ssl.SSLContext, pair: PairFiles | None) -> ssl.SSLContext:
    if pair:
        context.load_cert_chain(pair.cert, pair.key)
    return context


async def test_client_certificate_proves_the_caller(site: HttpSite, mint: Mint, trusting: Trust) -> None:
    ours, caller, stranger = mint.pair(), mint.pair(), mint.pair()
    settings = with_pair(ours, client_ca=caller.cert)
    async with server.listening(site.app(), settings) as place:
        for shown, proven in ((None, 0), (caller, 1)):
            tls = showing(trusting(ours.cert), shown)
            assert await called(place.port, tls=tls) == 200
            assert site.count("numalign_http_proven_total") == proven
        tls = showing(trusting(ours.cert), stranger)
        async with client(place.port, tls=tls) as session:
            with pytest.raises((OSError, aiohttp.ClientError)):
                await session.get("/things/a")
        await until(lambda: site.journal.of("tls.handshake_failed"))
    assert (site.count("numalign_tls_handshake_failures_total") or 0) >= 1


async def test_no_certificate_is_requested_without_a_ca(site: HttpSite, mint: Mint, trusting: Trust) -> None:
    ours, caller = mint.pair(), mint.pair()
    tls = showing(trusting(ours.cert), caller)
    async with server.listening(site.app(), with_pair(ours)) as place:
        assert await called(place.port, tls=tls) == 200
    assert site.count("numalign_http_proven_total") == 0


async def test_authority_is_replaced_under_connections(site: HttpSite, mint: Mint, trusting: Trust) -> None:
    ours, old, new = mint.pair(), mint.pair(), mint.pair()
    settings = with_pair(ours, client_ca=old.cert, tls_reload_seconds=0.01)
    async with site.serving(settings, stop=server.Stop()) as (port, _):
        mint.renew(old, new)
        await until(lambda: site.loaded(1))
        tls = showing(trusting(ours.cert), new)
        assert await called(port, tls=tls) == 200
        assert site.count("numalign_http_proven_total") == 1
        old.cert.write_text("garbage")
        await until(lambda: site.journal.of("tls.reload_failed"))
        assert await called(port, tls=tls) == 200
        assert site.count("numalign_http_proven_total") == 2
