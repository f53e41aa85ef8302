"""A server on a real socket: what it answers, what it survives, how it ends."""

import asyncio
import contextlib
import gzip
import io
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from types import MappingProxyType

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from numalign.runtime import server
from numalign.runtime.in_flight import Timeouts
from numalign.runtime.server_settings import ServingSettings
from numalign.runtime.tls import PairFiles
from tests.worlds.http_sites import (
    MIB,
    TELLING,
    HttpSite,
    Mint,
    Trust,
    calling,
    client,
    plain,
    takes_connections,
    until,
    with_pair,
)
from tests.worlds.notation import table


async def status_of(session: aiohttp.ClientSession, path: str, **content: bytes) -> int:
    async with session.get(path, **content) as answer:  # type: ignore[arg-type]
        return answer.status


# Health, readiness, metrics.


@pytest.mark.parametrize("waiting", [{}, {"snapshot": "not read yet"}], ids=["ready", "waiting"])
async def test_readiness_lists_what_it_waits_for(site: HttpSite, waiting: dict[str, str]) -> None:
    site.checks = {"nothing": lambda: None, **{name: lambda: waiting["snapshot"] for name in waiting}}
    async with site.watched() as (_, watching):
        async with watching.get("/healthz") as answer:
            assert (answer.status, await answer.text()) == (200, "ok\n")
        async with watching.get("/readyz") as answer:
            assert answer.status == (503 if waiting else 200)
            assert await answer.json() == {"ready": not waiting, "waiting_for": waiting}


async def test_a_check_that_breaks_is_not_ready(site: HttpSite) -> None:
    site.checks = {"snapshot": lambda: str(1 // 0)}
    async with site.watched() as (_, watching), watching.get("/readyz") as answer:
        assert answer.status == 500


async def test_metrics_count_answers_by_declared_route(site: HttpSite) -> None:
    async with site.watched() as (session, watching):
        for path in ("/things/a", "/things/b", "/nowhere/1", "/nowhere/2"):
            async with session.get(path):
                pass
        async with watching.get("/metrics") as answer:
            text = await answer.text()
    assert 'numalign_http_requests_total{code="200",route="/things/{name}"} 2.0' in text
    assert 'numalign_http_requests_total{code="404",route="unmatched"} 2.0' in text
    assert "numalign_http_in_flight 0.0" in text


@pytest.mark.parametrize("path", TELLING)
async def test_each_port_serves_its_own(site: HttpSite, path: str) -> None:
    """Who may call must not be who may watch: a rule of the network tells ports apart, not paths."""
    async with site.watched(state=dict) as (session, watching):
        assert await status_of(session, path) == 404
        assert await status_of(watching, path) == 200
        assert await status_of(watching, "/things/a") == 404


async def test_a_program_without_calls_serves_health_alone(site: HttpSite) -> None:
    app = server.application([], log=site.journal.log, registry=site.registry, checks={}, state=dict)
    settings = ServingSettings(bind="127.0.0.1", metrics_port=0)
    async with server.listening(app, settings) as place, client(place.metrics_port) as watching:
        for path in TELLING:
            assert await status_of(watching, path) == 200
    (line,) = site.journal.of("server.listening")
    assert line.keys() == {"time", "level", "event", "bind", "metrics_port"}


# Bad calls and our own faults.


@pytest.mark.parametrize(("method", "path", "status", "text"), table([
    ("an unknown path", "GET", "/nowhere", 404, "404: Not Found"),
    ("the wrong method", "PUT", "/echo", 405, "405: Method Not Allowed"),
    ("our own fault", "GET", "/fail", 500, "internal error: see the log of this server"),
]))  # fmt: skip
async def test_refusals_are_short_json(
    site: HttpSite, method: str, path: str, status: int, text: str
) -> None:
    async with site.open() as session, session.request(method, path) as answer:
        assert answer.status == status
        assert await answer.json() == {"error": text}
        # Whoever asks in the wrong way is told the right one.
        assert answer.headers.get("Allow") == ("POST" if status == 405 else None)


async def test_what_a_handler_raises_stays_in_the_log(site: HttpSite) -> None:
    async with site.open() as session:
        async with session.get("/fail") as answer:
            assert "secret" not in await answer.text()
        assert await status_of(session, "/things/after") == 200
    (line,) = site.journal.of("request.failed")
    assert (line["route"], line["error"]) == ("/fail", "RuntimeError: the secret of the site")
    assert "in fail" in line["traceback"]
    assert site.count("numalign_http_failures_total", route="/fail") == 1
    assert site.count("numalign_http_requests_total", route="/fail", code="500") == 1


@pytest.mark.parametrize(("size", "status"), [(4 * MIB, 200), (4 * MIB + 1, 413)])
async def test_bodies_up_to_4_mib(site: HttpSite, size: int, status: int) -> None:
    async with site.open() as session:
        async with session.post("/echo", data=io.BytesIO(bytes(size))) as answer:
            assert answer.status == status
        assert await status_of(session, "/things/a") == 200


@pytest.mark.parametrize(("sent", "status"), table([
    # what a body is           bytes           status
    ("long text",              b'"x"' * 2**21, 200),
    ("many values",            b"1,,," * 2**20 + b"1", 413),
]))  # fmt: skip
async def test_a_long_body_has_few_values(site: HttpSite, sent: bytes, status: int) -> None:
    async with (
        site.open(body=8 * MIB, values=2**21) as session,
        session.post("/echo", data=io.BytesIO(sent)) as answer,
    ):
        assert answer.status == status


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "identity, gzip", ""])
async def test_a_packed_body_is_not_taken(site: HttpSite, coding: str) -> None:
    """A few kilobytes would become megabytes, and nobody who has to call packs anything."""
    body = gzip.compress(bytes(4 * MIB))
    async with site.port() as port, calling(port) as caller:
        await caller.send(
            f"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Encoding: {coding}\r\n".encode(),
            f"Content-Length: {len(body)}\r\n\r\n".encode(),
            body,
        )
        status, _, said = await caller.received()
        assert status == 415
        assert json.loads(said) == {
            "error": f"content encoding {coding} is not supported: send the body without one"
        }


HALF = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf"


async def test_a_caller_who_hangs_up_is_not_our_failure(site: HttpSite) -> None:
    async with site.port() as port:
        async with calling(port) as caller:
            await caller.send(HALF)
            await until(arrived(site, 4))
        await until(lambda: site.journal.of("request.unreadable"))
        await until(arrived(site, 0))
    assert site.journal.of("request.failed") == []


# Too much at once.


async def test_call_beyond_the_limit_gets_retry_after(site: HttpSite) -> None:
    async with site.watched(calls=1, state=dict) as (session, watching):
        first = asyncio.create_task(session.get("/wait"))
        await site.door.entered.wait()
        async with session.get("/things/a") as answer:
            assert (answer.status, answer.headers["Connection"]) == (503, "close")
            assert answer.headers["Retry-After"] == "1"
            assert await answer.json() == {"error": "too many calls in flight: try again"}
        # Probes are answered.
        assert [await status_of(watching, path) for path in TELLING] == [200] * len(TELLING)
        site.door.opened.set()
        assert (await first).status == 200
        assert await status_of(session, "/things/a") == 200
    assert site.count("numalign_http_shed_total", reason="calls") == 1
    assert site.count("numalign_http_shed_total", reason="bytes") == 0
    assert site.count("numalign_http_in_flight") == 0


async def test_broken_call_returns_its_place_and_bytes(site: HttpSite) -> None:
    async with site.open(calls=1, bytes=100) as session:
        for _ in range(3):
            assert await status_of(session, "/fail", data=b"x" * 100) == 500
        assert arrived(site, 0)()


# Too many bytes at once.


def arrived(site: HttpSite, count: int) -> Callable[[], bool]:
    return lambda: site.count("numalign_http_bytes_in_flight") == count


async def test_growing_body_beyond_the_limit_gets_retry_after(site: HttpSite) -> None:
    async with site.port(bytes=100) as port, calling(port) as one, calling(port) as two:
        await one.begin(70)
        await one.send(b"x" * 60)
        await until(arrived(site, 60))
        await two.begin(60)
        await two.send(b"x" * 50)
        status, headers, body = await two.received()
        assert (status, headers["Retry-After"], headers["Connection"]) == (503, "1", "close")
        assert json.loads(body) == {"error": "too many bytes in flight: try again"}
        await one.send(b"x" * 10)
        assert (await one.received())[::2] == (200, b'{"length": 70}')
        await until(arrived(site, 0))

    assert site.count("numalign_http_shed_total", reason="bytes") == 1
    assert site.count("numalign_http_shed_total", reason="calls") == 0


async def test_a_call_without_a_body_needs_no_room(site: HttpSite) -> None:
    async with site.port(bytes=100) as port, calling(port) as one, client(port) as session:
        await one.begin(101)
        await one.send(b"x" * 100)
        await until(arrived(site, 100))
        assert await status_of(session, "/things/a") == 200


async def test_a_body_in_chunks_counts_as_it_comes_and_has_an_end(site: HttpSite) -> None:
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with site.port(body=10) as port, calling(port) as caller:
        await caller.send(head, b"5\r\nhello\r\n")
        await until(arrived(site, 5))
        await caller.send(b"0\r\n\r\n")
        assert json.loads((await caller.received())[2]) == {"length": 5}
        await caller.send(head, b"5\r\nhello\r\n", b"6\r\nhello!\r\n")
        assert (await caller.received())[0] == 413


async def test_announced_large_body_is_refused_first(site: HttpSite) -> None:
    async with site.port() as port, calling(port) as caller:
        await caller.begin(4 * MIB + 1)
        status, _, body = await caller.received()
        assert status == 413
        assert json.loads(body)["error"] == "the request body has more than 4194304 bytes"


async def test_what_no_route_takes_is_refused_unread(site: HttpSite) -> None:
    async with site.port(bytes=1) as port, calling(port) as caller:
        await caller.send(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n")
        assert (await caller.received())[0] == 404


async def test_unread_answer_is_dropped(site: HttpSite) -> None:
    async with site.port(timeouts=Timeouts(answer=0.05)) as port, calling(port) as deaf:
        await deaf.send(b"GET /much HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: site.count("numalign_http_slow_total", part="answer") == 1)
        await until(lambda: site.count("numalign_http_in_flight") == 0)


async def test_long_bodies_are_handled_one_at_a_time(site: HttpSite) -> None:
    async with site.open() as session:
        long = [asyncio.create_task(session.get("/wait", data=b"x" * MIB)) for _ in range(3)]
        await until(lambda: site.count("numalign_http_in_flight") == 3)
        for _ in range(5):
            async with session.post("/echo", data=b"x") as answer:
                assert answer.status == 200
        assert site.door.most == 1
        site.door.opened.set()
        assert [(await each).status for each in long] == [200] * 3
        assert site.door.most == 1


# Too slow.


async def test_a_body_that_does_not_come_is_given_up(site: HttpSite) -> None:
    limits = {"timeouts": Timeouts(body=0.03), "bytes": 100}
    async with site.port(**limits) as port, calling(port) as slow, client(port) as session:
        await slow.begin(100)
        await slow.send(b"some of it")
        status, headers, body = await slow.received()
        assert (status, headers["Connection"]) == (408, "close")
        assert json.loads(body) == {"error": "the request body did not arrive within 0.03 s"}
        async with session.post("/echo", data=b"x" * 100) as answer:
            assert answer.status == 200
    (line,) = site.journal.of("request.slow")
    assert (line["route"], line["part"], line["seconds"]) == ("/echo", "body", 0.03)
    assert site.count("numalign_http_slow_total", part="body") == 1
    assert site.count("numalign_http_requests_total", route="/echo", code="408") == 1


# What the process knows.


async def test_debug_state_joins_program_and_server(site: HttpSite) -> None:
    site.checks = {"snapshot": lambda: "not read yet"}
    state = {"nodes": {"a": Path("/x")}, "classes": frozenset({"c"}), 7: MappingProxyType({"since": None})}
    async with site.watched(state=lambda: state) as (session, watching):
        call = asyncio.create_task(session.get("/wait", data=b"12345"))
        await site.door.entered.wait()
        async with watching.get("/debug/state") as answer:
            assert (answer.status, answer.content_type) == (200, "application/json")
            assert await answer.json() == {
                "nodes": {"a": "/x"}, "classes": ["c"], "7": {"since": None},
                "server": {
                    "draining": False, "waiting_for": {"snapshot": "not read yet"}, "in_flight": 1,
                    "bytes_in_flight": 5, "connections": 1,
                },
            }  # fmt: skip
        site.door.opened.set()
        await call


async def test_state_needs_its_flag_and_a_form(site: HttpSite) -> None:
    async with site.watched() as (_, watching):
        assert await status_of(watching, "/debug/state") == 404
    site.registry = CollectorRegistry()
    async with site.watched(state=lambda: {"n": 2**70}) as (_, watching):
        assert await status_of(watching, "/debug/state") == 500
    assert len(site.journal.of("request.failed")) == 1


# The end.


@pytest.fixture
def stop() -> server.Stop:
    return server.Stop()


async def test_draining_answers_calls_and_closes_connections(site: HttpSite, stop: server.Stop) -> None:
    async with site.serving(plain(drain_seconds=600), stop=stop) as (port, running):
        async with client(port) as session:
            async with session.get("/things/a") as answer:
                assert "Connection" not in answer.headers
            stop.ask()
            await until(lambda: site.journal.of("server.draining"))
            async with session.get("/things/a") as answer:
                assert (answer.status, answer.headers["Connection"]) == (200, "close")
        async with client(site.metrics_port()) as watching:
            async with watching.get("/readyz") as answer:
                assert answer.status == 503
                assert (await answer.json())["waiting_for"] == {"server": "draining"}
            assert await status_of(watching, "/healthz") == 200
        stop.ask()
        assert await running == 0
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)

    assert [line["failed_tasks"] for line in site.journal.of("server.stopped")] == [[]]


async def test_draining_takes_the_time_that_was_set(site: HttpSite, stop: server.Stop) -> None:
    async with site.serving(plain(drain_seconds=0.2), stop=stop) as (_, running):
        began = asyncio.get_running_loop().time()
        stop.ask()
        assert await running == 0
        assert 0.2 <= asyncio.get_running_loop().time() - began < 2


async def test_a_call_in_flight_is_answered_before_the_end(site: HttpSite, stop: server.Stop) -> None:
    async with site.serving(plain(), stop=stop) as (port, running), client(port) as session:
        call = asyncio.create_task(session.get("/wait"))
        await site.door.entered.wait()
        stop.ask()
        await until(lambda: not takes_connections(port))
        assert not running.done()
        # The port that tells is the last to close.
        async with client(site.metrics_port()) as watching, watching.get("/readyz") as answer:
            assert answer.status == 503
        site.door.opened.set()
        async with await call as answer:
            assert (answer.status, await answer.text()) == (200, "done")
        assert await running == 0
        assert not takes_connections(site.metrics_port())


async def test_a_body_on_its_way_is_taken_before_the_end(site: HttpSite, stop: server.Stop) -> None:
    async with site.serving(plain(), stop=stop) as (port, running), calling(port) as caller:
        await caller.begin(4)
        await until(lambda: site.count("numalign_http_reading") == 1)
        stop.ask()
        await until(lambda: site.journal.of("server.draining"))
        await caller.send(b"body")
        status, headers, body = await caller.received()
        assert (status, headers["Connection"], body) == (200, "close", b'{"length": 4}')
        assert await running == 0


@pytest.mark.parametrize("head", ["GET /wait HTTP/1.1", "POST /echo HTTP/1.1\r\nContent-Length: 9"])
async def test_endless_call_does_not_block_shutdown(site: HttpSite, stop: server.Stop, head: str) -> None:
    async with site.serving(plain(), stop=stop, grace=0.05) as (port, running), calling(port) as caller:
        await caller.send(f"{head}\r\nHost: x\r\n\r\n".encode())
        await until(lambda: site.door.entered.is_set() or site.count("numalign_http_reading") == 1)
        began = asyncio.get_running_loop().time()
        stop.ask()
        assert await running == 0
        assert 0.05 <= asyncio.get_running_loop().time() - began < 2


async def test_tasks_run_beside_the_server_and_end_with_it(site: HttpSite, stop: server.Stop) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def beside() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with site.serving(plain(), stop=stop, tasks={"beside": beside}) as (_, running):
        await began.wait()
        stop.ask()
        assert await running == 0
    assert ended.is_set()


async def test_a_task_that_fails_ends_the_program_with_a_reason(site: HttpSite) -> None:
    async def broken() -> None:
        raise RuntimeError("lost the snapshot")

    async with site.serving(plain(), stop=server.Stop(), tasks={"snapshot": broken}) as (_, run):
        assert await run == 1

    (line,) = site.journal.of("task.failed")
    assert (line["task"], line["error"]) == ("snapshot", "RuntimeError: lost the snapshot")
    assert [line["failed_tasks"] for line in site.journal.of("server.stopped")] == [["snapshot"]]


async def test_a_task_that_is_done_is_no_reason_to_end(site: HttpSite) -> None:
    done = asyncio.Event()

    async def brief() -> None:
        done.set()

    async with site.serving(plain(), stop=server.Stop(), tasks={"brief": brief}) as (_, running):
        await done.wait()
        await asyncio.sleep(0.02)
        assert not running.done()


# Sockets.


IPV6 = socket.has_dualstack_ipv6()


@pytest.mark.parametrize(
    ("bind", "hosts"),
    [
        ("*", ["127.0.0.1", *(["::1"] if IPV6 else [])]),
        pytest.param("::1", ["::1"], marks=pytest.mark.skipif(not IPV6, reason="this machine has no IPv6")),
    ],
    ids=["everywhere", "IPv6 alone"],
)
async def test_one_port_serves_each_family(site: HttpSite, bind: str, hosts: list[str]) -> None:
    async with server.listening(site.app(), plain(bind=bind)) as place:
        for host in hosts:
            _, writer = await asyncio.open_connection(host, place.port)
            writer.close()
            await writer.wait_closed()


@pytest.mark.parametrize(("name", "flag"), [("port", "--port"), ("metrics_port", "--metrics-port")])
async def test_a_port_in_use_ends_the_start(site: HttpSite, name: str, flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code = await server.serve(site.app(), plain(**{name: port}), stop=server.Stop())
    assert code == 2
    assert [line["errors"] for line in site.journal.of("server.start_failed")] == [
        [f"--bind 127.0.0.1 {flag} {port}: cannot listen: Address already in use"]
    ]
    assert site.journal.of("server.listening") == []


@pytest.mark.parametrize("bind", ["192.0.2.1", "no.such.host.invalid", "a b", "1:2", ".."])
async def test_an_address_that_is_not_ours_ends_the_start(site: HttpSite, bind: str) -> None:
    with pytest.raises(server.CannotListen, match=r"--metrics-port 0: cannot listen: [a-zA-Z]"):
        async with server.listening(site.app(), plain(bind=bind)):
            pass


def test_keepalive_exceeds_that_of_the_api_server() -> None:
    assert Timeouts().idle >= 180


# TLS.


async def test_everything_over_tls(site: HttpSite, mint: Mint, trusting: Trust) -> None:
    pair = mint.pair()
    async with server.listening(site.app(), with_pair(pair)) as place:
        assert place.scheme == "https"
        async with client(place.port, tls=trusting(pair.cert)) as session:
            assert await status_of(session, "/things/a") == 200
            async with session.post("/echo", data=b"x" * MIB) as answer:
                assert await answer.json() == {"length": MIB}
        # Plain HTTP is refused, and harms nobody.
        async with client(place.port) as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get("/things/a")
        assert await asyncio.to_thread(shown, place.port, trusting(pair.cert)) == der(pair)


async def test_a_bad_pair_ends_the_start(site: HttpSite, mint: Mint) -> None:
    pair = mint.pair()
    pair.key.write_text("")
    assert await server.serve(site.app(), with_pair(pair), stop=server.Stop()) == 2
    (line,) = site.journal.of("server.start_failed")
    assert line["errors"] == [f"{pair.key}: contains no PEM private key (-----BEGIN PRIVATE KEY-----)"]


async def test_an_expired_certificate_is_not_ready(site: HttpSite, mint: Mint) -> None:
    times = [datetime.now(UTC)]
    pair = mint.pair(until=times[0] + timedelta(hours=1))
    async with (
        server.listening(site.app(), with_pair(pair), clock=lambda: times[-1]) as place,
        client(place.metrics_port) as watching,
    ):
        assert await status_of(watching, "/readyz") == 200
        times.append(times[0] + timedelta(hours=2))
        async with watching.get("/readyz") as answer:
            assert answer.status == 503
            assert "expired" in (await answer.json())["waiting_for"]["certificate"]


def shown(port: int, context: ssl.SSLContext) -> bytes:
    with (
        socket.create_connection(("127.0.0.1", port)) as raw,
        context.wrap_socket(raw, server_hostname="127.0.0.1") as connection,
    ):
        return connection.getpeercert(binary_form=True) or b""


def der(pair: PairFiles) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pair.cert.read_text())


async def test_certificate_changes_under_a_connection(site: HttpSite, mint: Mint, trusting: Trust) -> None:
    first, second, third = mint.pair("ec"), mint.pair("rsa"), mint.pair("ec")
    context = trusting(first.cert, second.cert, third.cert)
    pairs = {"rsa": (second, der(second)), "ec": (third, der(third))}
    settings = with_pair(first, tls_reload_seconds=0.01)
    async with site.serving(settings, stop=server.Stop()) as (port, _):
        assert await asyncio.to_thread(shown, port, context) == der(first)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        for number, (pair, expected) in enumerate(pairs.values(), start=1):
            mint.renew(first, pair)
            await until(partial(site.loaded, number))
            assert await asyncio.to_thread(shown, port, context) == expected
            writer.write(b"GET /things/ok HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 OK")
        writer.close()
        await writer.wait_closed()


# A whole process.

PROGRAM = """
import asyncio, gc, os, sys
from aiohttp import web
from numalign.runtime import logs, metrics, server, settings
from numalign.runtime.server_settings import ServerSettings

chosen = settings.from_command_line(ServerSettings, prog="toy", argv=sys.argv[1:], environ=os.environ)
log = logs.to(sys.stderr, level=chosen.log_level, form=chosen.log_format)
registry = metrics.registry(program="toy")

async def slow(request):
    log.info("toy.asked", after=gc.get_threshold()[1], record=asyncio.sslproto.SSLProtocol.max_size)
    await asyncio.sleep(0.4)
    return web.Response(text="late")

app = server.application([web.get("/slow", slow)], log=log, registry=registry, checks={})
sys.exit(server.run(lambda stop: server.serve(app, chosen, stop=stop), log=log))
"""


ROOT = Path(server.__file__).parents[2]


@pytest.mark.full
def test_begun_calls_are_answered_despite_many_sigterms() -> None:
    flags = ["--bind=127.0.0.1", "--port=0", "--metrics-port=0", "--insecure-http", "--drain-seconds=60"]
    command, environ = [sys.executable, "-c", PROGRAM, *flags], {"PATH": os.environ["PATH"]}
    with subprocess.Popen(command, cwd=ROOT, env=environ, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603 ours
        assert process.stderr is not None
        port = json.loads(process.stderr.readline())["port"]
        http = HTTPConnection("127.0.0.1", port, timeout=10)
        with socket.create_connection(("127.0.0.1", port)) as idle, contextlib.closing(http) as call:
            call.request("GET", "/slow")
            asked = json.loads(process.stderr.readline())
            assert (asked["event"], asked["record"]) == ("toy.asked", server.TLS_RECORD)
            # It is tuned as it starts.
            assert asked["after"] == server.COLLECTED_AFTER[1]
            process.send_signal(signal.SIGTERM)
            assert json.loads(process.stderr.readline())["event"] == "server.draining"
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGTERM)
            answer = call.getresponse()
            assert (answer.status, answer.headers["Connection"], answer.read()) == (200, "close", b"late")
            assert idle.recv(1) == b""
        assert [json.loads(line)["event"] for line in process.stderr] == ["server.stopped"]
    assert process.returncode == 0
