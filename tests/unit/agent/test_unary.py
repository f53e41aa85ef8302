"""One message out, one message back, over a Unix socket."""

import asyncio
import os
from collections.abc import Callable
from errno import ENOENT
from os import strerror
from pathlib import Path
from struct import pack

import grpc
import pytest
from h2.connection import H2Connection

from agent import unary
from agent.podresources_pb2 import ListPodResourcesResponse, PodResources
from numalign.kube.errors import Unreachable
from tests.unit.agent.scripted import framing, scripted
from tests.worlds.notation import table
from tools.clusters.podresources import FakePodResources

METHOD = "/v1.PodResourcesLister/List"
GOOD = [(":status", "200"), ("content-type", "application/grpc")]
DONE = [("grpc-status", "0")]


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "kubelet.sock"


@pytest.mark.parametrize(("pods", "length"), [(1, 1), (5000, 1000)], ids=["one pod", "megabytes"])
async def test_a_server_of_the_gRPC_library_answers(socket: Path, pods: int, length: int) -> None:  # noqa: N802  its name
    named = [PodResources(name=f"pod-{number}", namespace="x" * length) for number in range(pods)]
    listed = ListPodResourcesResponse(pod_resources=named)
    async with FakePodResources(listed=listed).serving(socket):
        assert await unary.call(socket, METHOD, b"") == listed.SerializeToString()


async def test_an_answer_of_more_than_makes_sense_is_not_read(socket: Path) -> None:
    listed = ListPodResourcesResponse(pod_resources=[PodResources(name="x" * 1000)])
    async with FakePodResources(listed=listed).serving(socket):
        with pytest.raises(Unreachable, match="at most 999 are accepted"):
            await unary.call(socket, METHOD, b"", most=999)


async def test_refusal_has_its_status_and_reason(socket: Path) -> None:
    busy = grpc.StatusCode.RESOURCE_EXHAUSTED
    async with FakePodResources(refusals=[(busy, "rejected by rate limit: 100 %")]).serving(socket):
        with pytest.raises(unary.CallRefused, match="rejected by rate limit: 100 %") as refused:
            await unary.call(socket, METHOD, b"")
        assert refused.value.status == unary.RESOURCE_EXHAUSTED
        with pytest.raises(unary.CallRefused) as refused:
            await unary.call(socket, "/v1.PodResourcesLister/Gett", b"")
        assert refused.value.status == grpc.StatusCode.UNIMPLEMENTED.value[0]


async def test_a_kubelet_that_hangs_is_not_waited_for(socket: Path) -> None:
    async with FakePodResources(seconds=5).serving(socket):
        with pytest.raises(Unreachable, match=r"no answer within 0\.1 s"):
            await unary.call(socket, METHOD, b"", within=0.1)


async def test_unreachable_socket_is_named(socket: Path) -> None:
    text = f"call to the kubelet's socket {socket} failed: {METHOD}: .*{strerror(ENOENT)}"
    for path, why in ((socket, text), (socket.parent / ("x" * 108), "path too long")):
        with pytest.raises(Unreachable, match=why):
            await unary.call(path, METHOD, b"")


def reply(
    body: bytes = b"", headers: list[tuple[str, str]] = GOOD, trailers: list[tuple[str, str]] = DONE
) -> Callable[[H2Connection], None]:
    def send(http: H2Connection) -> None:
        http.send_headers(1, headers)
        http.send_data(1, body)
        http.send_headers(1, trailers, end_stream=True)

    return send


def message(body: bytes) -> bytes:
    return pack(">BI", 0, len(body)) + body


async def test_an_answer_in_frames_is_put_together(socket: Path) -> None:
    async with scripted(framing(reply(message(b"body"))), socket=socket):
        assert await unary.call(socket, METHOD, b"") == b"body"


CUT, UNCLEAR, LOST = (
    "ended before its message", "no gRPC status",
    "onnection lost|connection ended|Broken pipe|reset by peer",
)  # fmt: skip


@pytest.mark.parametrize(("send", "why"), table([
    ("no whole prefix",   reply(message(b"")[:4]),                 CUT),
    ("cut off",           reply(message(b"body")[:-1]),            CUT),
    ("too much",          reply(message(b"body") + b"!"),          "more than one message"),
    ("compressed",        reply(pack(">BI", 1, 4) + b"body"),      "compressed"),
    ("endless",           reply(pack(">BI", 0, 2**32 - 1)),        "4294967295 bytes is too long"),
    ("bad gateway",       reply(headers=[(":status", "502")]),     "HTTP status 502"),
    ("no grpc-status",    reply(trailers=[("other", "0")]),        UNCLEAR),
    ("negative status",   reply(trailers=[("grpc-status", "-1")]), UNCLEAR),
    ("long status",       reply(trailers=[("grpc-status", "0" * 1000)]), UNCLEAR),
    ("only headers",      lambda http: http.send_headers(1, GOOD, end_stream=True), UNCLEAR),
    ("reset",             lambda http: http.reset_stream(1, 2),    "was reset with error 2"),
    ("goaway",            lambda http: http.close_connection(2),   "was closed with error 2"),
    ("nothing",           lambda _: None,                          LOST),
    ("no end",            lambda http: http.send_headers(1, GOOD), LOST),
]))  # fmt: skip
async def test_invalid_frames_raise(socket: Path, send: Callable[[H2Connection], None], why: str) -> None:
    async with scripted(framing(send), socket=socket):
        with pytest.raises(Unreachable, match=why):
            await unary.call(socket, METHOD, b"")


SETTINGS, PING = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]), bytes([0, 0, 8, 6, 1, 0, 0, 0, 0]) + bytes(8)
GARBAGE = [b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(100), b"\xff" * 2**17]


@pytest.mark.parametrize("seed", range(20 + len(GARBAGE)))
async def test_noise_is_answered_by_an_error(socket: Path, seed: int) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SETTINGS + os.urandom(100 * seed) if seed < 20 else GARBAGE[seed - 20])
        await writer.drain()

    async with scripted(answer, socket=socket):
        with pytest.raises(Unreachable):
            await unary.call(socket, METHOD, b"", within=2)


async def test_pings_without_end_are_not_read_without_end(socket: Path) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SETTINGS)
        while True:
            writer.write(PING * 1000)
            await writer.drain()

    async with scripted(answer, socket=socket):
        with pytest.raises(Unreachable, match="longer than 10 bytes"):
            await unary.call(socket, METHOD, b"", most=10)
