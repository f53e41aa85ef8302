"""Probes and scrapers are answered; whoever sends anything else is not waited for."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator
from dataclasses import dataclass
from errno import EADDRINUSE

import aiohttp
import pytest
import pytest_asyncio
from prometheus_client import CollectorRegistry, Counter

from agent import health
from agent.health import LONGEST_HEAD, MOST_CONNECTIONS, Health, listening
from numalign.runtime.metrics import MetricsPage


@dataclass
class Place:
    port: int = 0
    waiting: str | None = None

    async def sent(self, sent: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(sent)
        try:
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


@pytest_asyncio.fixture
async def place() -> AsyncIterator[Place]:
    made, registry = Place(), CollectorRegistry()
    Counter("numalign_toys", "Toys.", registry=registry).inc(3)
    async with listening(Health(MetricsPage(registry), lambda: made.waiting), "127.0.0.1", 0) as port:
        made.port = port
        yield made


@pytest.mark.parametrize("waiting", [None, "the first report"])
async def test_it_is_ready_once_nothing_is_waited_for(place: Place, waiting: str | None) -> None:
    place.waiting = waiting
    async with aiohttp.ClientSession(f"http://127.0.0.1:{place.port}") as session:
        async with session.get("/healthz") as answer:
            assert (answer.status, await answer.text()) == (200, "ok\n")
        async with session.get("/readyz") as answer:
            assert answer.status == (503 if waiting else 200)
            assert await answer.json() == {
                "ready": not waiting, "waiting_for": [waiting] if waiting else []
            }  # fmt: skip


@pytest.mark.parametrize("accept", [b"text/plain", b"application/openmetrics-text"])
async def test_metrics_have_the_accepted_format(place: Place, accept: bytes) -> None:
    answer = await place.sent(b"GET /metrics?name=all HTTP/1.1\r\nAccept: %s\r\n\r\n" % accept)
    assert b"Content-Type: %s" % accept in answer
    assert b"numalign_toys_total 3.0" in answer


@pytest.mark.parametrize(
    ("request_", "status"),
    [(b"GET /else HTTP/1.1\r\n\r\n", b"404"), (b"POST /healthz HTTP/1.1\r\n\r\n", b"405")],
)
async def test_nothing_else_is_there(place: Place, request_: bytes, status: bytes) -> None:
    assert (await place.sent(request_)).split(b" ")[1] == status


@pytest.mark.parametrize(
    "garbage",
    [b"\x16\x03\x01\r\n\r\n", b"GET\r\n\r\n", b"a b c d\r\n\r\n", b"x" * (2 * LONGEST_HEAD)],
    ids=["TLS", "a word", "four words", "no end"],
)
async def test_noise_is_not_answered(place: Place, garbage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    assert await place.sent(garbage) == b""
    assert (await place.sent(b"GET /healthz HTTP/1.1\r\n\r\n")).endswith(b"ok\n")
    # Nor does anybody who sends some write tracebacks into the log; what is new needs no look at the old.
    gc.collect(1)
    assert caplog.messages == []


async def test_silent_caller_is_disconnected(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "CALLER_SECONDS", 0.05)
    assert await place.sent(b"GET /healthz HTTP/1.1\r\n") == b""


async def test_oldest_of_too_many_callers_is_disconnected(place: Place) -> None:
    silent = [await asyncio.open_connection("127.0.0.1", place.port) for _ in range(MOST_CONNECTIONS)]
    assert (await place.sent(b"GET /healthz HTTP/1.1\r\n\r\n")).endswith(b"ok\n")
    with contextlib.suppress(ConnectionError):
        assert await silent[0][0].read() == b""
    for _, writer in silent:
        writer.close()


async def test_on_all_addresses_it_takes_one_port() -> None:
    async with listening(Health(MetricsPage(CollectorRegistry()), lambda: None), None, 0) as port:
        assert (await Place(port).sent(b"GET /healthz HTTP/1.1\r\n\r\n")).endswith(b"ok\n")


async def test_a_port_that_is_taken_is_an_error(place: Place) -> None:
    with pytest.raises(OSError, match=f"{place.port}") as raised:
        async with listening(Health(MetricsPage(CollectorRegistry()), lambda: None), "127.0.0.1", place.port):
            pass
    assert raised.value.errno == EADDRINUSE
