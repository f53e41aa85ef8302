"""Servers of which a test says byte by byte, or frame by frame, what they do."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import StreamEnded

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def scripted(
    answer: Answer, *, tls: ssl.SSLContext | None = None, socket: Path | None = None
) -> AsyncIterator[int]:
    """A server on a free port or a Unix socket, whose connections end with it."""
    served: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        served.add(task)
        try:
            await answer(reader, writer)
        except (asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async with await (
        asyncio.start_unix_server(serve, str(socket))
        if socket
        else asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    ) as server:
        yield 0 if socket else server.sockets[0].getsockname()[1]
        server.close()
        for task in served:
            task.cancel()
        await asyncio.gather(*served, return_exceptions=True)


async def request(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


def response(body: bytes = b"", status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def framing(reply: Callable[[H2Connection], None]) -> Answer:
    """Answers the first call on a connection with the frames that `reply` sends on stream 1."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = H2Connection(H2Configuration(client_side=False, validate_outbound_headers=False))
        http.initiate_connection()
        while received := await reader.read(2**16):
            if any(isinstance(event, StreamEnded) for event in http.receive_data(received)):
                reply(http)
                writer.write(http.data_to_send())
                await writer.drain()
                return

    return answer
