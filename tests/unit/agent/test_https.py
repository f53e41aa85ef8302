"""
Requests over HTTP/1.1: one kept connection, answers that are bounded in bytes and in time.

The API server is read, and what it refuses has a sentence; `test_publisher` shows what is written.
"""

import asyncio
import gc
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from errno import ENOENT
from http import HTTPStatus
from http.client import HTTPResponse, IncompleteRead
from os import strerror
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from agent.https import ApiServer, HttpsClient
from numalign.kube.access import Access
from numalign.kube.errors import Forbidden, InvalidObject, NotFound, Unauthorized, Unconfigured, Unreachable
from tests.unit.agent.conftest import Connect
from tests.unit.agent.scripted import Answer, request, response, scripted
from tests.unit.runtime.conftest import Mint
from tests.worlds.notation import table
from tools.clusters.fake_api import FakeApi


@asynccontextmanager
async def client(answer: Answer, within: float = 5) -> AsyncIterator[HttpsClient]:
    async with scripted(answer) as port:
        asking = HttpsClient(Access(f"http://127.0.0.1:{port}"), within=within)
        yield asking
        asking.close()


def sending(*answers: bytes, silent: bool = False) -> Answer:
    """Answers a request on each connection with the next of these; `silent` does not end connections."""
    left = [*answers]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        await writer.drain()
        if silent:
            await asyncio.Event().wait()

    return answer


async def test_request_and_answer_arrive() -> None:
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.extend([await request(reader), await reader.readexactly(4)])
        writer.write(response(b'{"kind":"Status"}', "409 Conflict"))

    async with client(answer) as asking:
        answered = await asking.request("PATCH", "/apis/x?force=true", b"body", {"Content-Type": "a/b"})
    assert answered == (409, b'{"kind":"Status"}')
    assert heads[0].startswith(b"PATCH /apis/x?force=true HTTP/1.1\r\n")
    assert b"Content-Type: a/b\r\n" in heads[0]
    assert heads[1] == b"body"


async def test_one_connection_serves_many_requests() -> None:
    connections = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            await request(reader)
            writer.write(response(b"{}"))

    async with client(answer) as asking:
        await asyncio.gather(*(asking.request("GET", f"/{number}") for number in range(5)))
    assert connections == 1


async def test_a_kept_connection_that_has_ended_is_opened_anew() -> None:
    # Nothing says that the connection ends with this answer.
    async with client(sending(response(b"once"))) as asking:
        assert [await asking.request("GET", "/") for _ in range(2)] == [(200, b"once")] * 2
    async with client(sending(b"")) as asking:
        with pytest.raises(Unreachable, match="closed the connection before it answered GET /"):
            await asking.request("GET", "/")


@pytest.mark.parametrize(
    "piece", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na"]
)
async def test_stalled_answer_costs_one_timeout(piece: bytes) -> None:
    async with client(sending(piece, response(b"well"), silent=True), within=0.2) as asking:
        with pytest.raises(Unreachable, match=r"no answer within 0\.2 s"):
            await asking.request("GET", "/")
        # The next request is a fresh one.
        assert await asking.request("GET", "/") == (200, b"well")


async def test_endless_slow_answer_times_out() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nX: ")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with client(answer, within=0.2) as asking:
        with pytest.raises(Unreachable):
            await asking.request("GET", "/")


async def test_client_closed_during_a_request_reconnects() -> None:
    closed = False

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal closed
        await request(reader)
        if not closed:
            closed = True
            asking.close()
            await asyncio.Event().wait()
        writer.write(response(b"well"))

    async with client(answer) as asking:
        with pytest.raises(Unreachable, match="closed the connection"):
            await asking.request("GET", "/")
        assert await asking.request("GET", "/") == (200, b"well")


LONG, OK, CHUNKED = "longer than 100 bytes", b"HTTP/1.1 200 OK\r\n", b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(("sent", "why"), table([
    # what is wrong        what is sent                                              why
    ("no HTTP",            b"garbage\r\n\r\n",  "garbage"),
    ("too long",           response(b"x" * 101),  LONG),
    ("without a length",   OK + b"Connection: close\r\n\r\n" + b"x" * 101,  LONG),
    ("a long chunk",       OK + CHUNKED + b"65\r\n" + b"x" * 0x65,  LONG),
    ("a bad chunk",        OK + CHUNKED + b"zz\r\n",  IncompleteRead.__name__),
    ("too short",          OK + b"Content-Length: 9\r\n\r\nabc",  IncompleteRead.__name__),
    ("many headers",       OK + b"A: b\r\n" * 101 + b"\r\n",  "failed: "),
]))  # fmt: skip
async def test_invalid_answer_raises(sent: bytes, why: str) -> None:
    async with client(sending(sent)) as asking:
        with pytest.raises(Unreachable, match=why):
            await asking.request("GET", "/", most=100)
        answers = (each for each in gc.get_objects() if issubclass(type(each), HTTPResponse))
        assert [each for each in answers if not each.isclosed()] == []


async def test_unreachable_server_is_named() -> None:
    async with scripted(sending(b"")) as port:
        asking = HttpsClient(Access(f"http://127.0.0.1:{port}"))
        # A path that is none never reaches the server.
        with pytest.raises(Unreachable, match=r"(?s)^GET / HTTP/1\.1.* at .* failed: "):
            await asking.request("GET", "/ HTTP/1.1\r\nEvil: header")
    with pytest.raises(Unreachable, match=f"GET /configz at 127.0.0.1:{port} failed"):
        await asking.request("GET", "/configz")


async def echo_headers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(response(await request(reader)))


async def test_a_token_that_is_renewed_is_the_one_that_is_shown(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    async with scripted(echo_headers) as port:
        asking = HttpsClient(Access(f"http://127.0.0.1:{port}", token_file=str(token)))
        assert b"Authorization: Bearer first\r\n" in (await asking.request("GET", "/"))[1]
        token.write_text("another")
        assert b"Authorization: Bearer another\r\n" in (await asking.request("GET", "/"))[1]
        asking.close()


@pytest.mark.parametrize("content", [None, b"", b"\n", b"a\r\nEvil: b", b"\xff", b"x" * (2**16 + 1)])
async def test_invalid_token_raises(tmp_path: Path, content: bytes | None) -> None:
    token = tmp_path / "token"
    why = f"{token} cannot be read: .*{strerror(ENOENT)}" if content is None else str(token)
    if content is not None:
        token.write_bytes(content)
    with pytest.raises(Unauthorized, match=why):
        await HttpsClient(Access("http://127.0.0.1:1", token_file=str(token))).request("GET", "/")


async def test_a_server_is_known_by_its_authority(tmp_path: Path) -> None:
    mint = Mint(tmp_path, rsa.generate_private_key(public_exponent=65537, key_size=2048))
    pair, other = mint.pair(), mint.pair()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    async with scripted(echo_headers, tls=context) as port:
        url = f"https://127.0.0.1:{port}"
        assert await status(Access(url, authority=str(pair.cert))) == HTTPStatus.OK
        assert await status(Access(url, verify=False)) == HTTPStatus.OK
        with pytest.raises(Unreachable, match=f"GET / at 127.0.0.1:{port} failed: .*"):
            await status(Access(url, authority=str(other.cert)))


async def status(access: Access) -> int:
    asking = HttpsClient(access)
    answered, _ = await asking.request("GET", "/")
    asking.close()
    return answered


async def test_unreadable_ca_raises(tmp_path: Path) -> None:
    asking = HttpsClient(Access("https://[fd00::1]:1", authority=str(tmp_path / "ca.crt")))
    with pytest.raises(Unconfigured, match=r"certificates for \[fd00::1\]:1 cannot be read"):
        await asking.request("GET", "/")


NODE = "/api/v1/nodes/a"


async def test_an_object_is_read(fake: FakeApi, api: ApiServer) -> None:
    found = await api.get(NODE, what="node a")
    assert isinstance(found, dict)
    assert found["metadata"]["name"] == "a"
    assert isinstance(await api.metadata(NODE, what="node a"), dict)
    await api.get("/api/v1/pods", [("fieldSelector", "spec.nodeName=a")], what="pods")
    assert fake.received("LIST", "/api/v1/pods")[0].query == {"fieldSelector": "spec.nodeName=a"}


async def test_a_merge_changes_no_other_object(api: ApiServer) -> None:
    with pytest.raises(NotFound):
        await api.merge(f"{NODE[:-1]}b", {}, what="node b")
    with pytest.raises(InvalidObject):
        await api.merge(NODE, {"metadata": {"uid": "another", "labels": {"a": "b"}}}, what="node a")


@pytest.mark.parametrize(
    ("status", "error"), [(401, Unauthorized), (403, Forbidden), (429, Unreachable), (500, Unreachable)]
)
async def test_refusal_raises(fake: FakeApi, api: ApiServer, status: int, error: type[Exception]) -> None:
    fake.failures[NODE] = HTTPStatus(status)
    with pytest.raises(error, match=r"node a|credentials"):
        await api.get(NODE, what="node a")


async def test_garbage_is_no_answer(fake: FakeApi, api: ApiServer) -> None:
    with pytest.raises(Unreachable, match="longer than 10 bytes"):
        await api.get(NODE, what="node a", most=10)
    fake.oddities[NODE] = b"<html>"
    with pytest.raises(Unreachable, match="is invalid: node a is not JSON"):
        await api.get(NODE, what="node a")


async def test_a_token_is_shown(fake: FakeApi, connect: Connect) -> None:
    fake.token = "let-me-in"  # noqa: S105  of no server
    with pytest.raises(Unauthorized):
        await connect(Access(fake.url)).get(NODE, what="node a")
    assert await connect(Access(fake.url, token=fake.token)).get(NODE, what="node a")


async def test_a_server_that_restarts_is_found_again(fake: FakeApi, api: ApiServer) -> None:
    await api.get(NODE, what="node a")
    await fake.stop()
    with pytest.raises(Unreachable):
        await api.get(NODE, what="node a")
    await fake.start()
    assert await api.get(NODE, what="node a")


async def test_an_address_may_have_a_path(fake: FakeApi, connect: Connect) -> None:
    fake.documents["/k8s/clusters/c/version"] = {"minor": "34"}
    api = connect(Access(f"{fake.url}/k8s/clusters/c/"))
    assert await api.get("/version", what="the version") == {"minor": "34"}
