"""Unix sockets of which a test says byte by byte, or frame by frame, what is behind them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import StreamEnded

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(socket: Path, answer: Answer) -> AsyncIterator[None]:
    served: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        served.add(task)
        try:
            await answer(reader, writer)
        except (asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    async with await asyncio.start_unix_server(serve, str(socket)):
        yield
        for task in served:
            task.cancel()
        await asyncio.gather(*served, return_exceptions=True)


def framing(reply: Callable[[H2Connection], None]) -> Answer:
    """Answers the first call on a connection with the frames that `reply` sends on stream 1."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = H2Connection(H2Configuration(client_side=False, validate_outbound_headers=False))
        http.initiate_connection()
        asked = False
        while not asked:
            received = await reader.read(2**16)
            if not received:
                return
            asked = any(isinstance(event, StreamEnded) for event in http.receive_data(received))
        reply(http)
        writer.write(http.data_to_send())
        await writer.drain()

    return answer
