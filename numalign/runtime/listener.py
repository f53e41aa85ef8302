"""
The listener: accepts connections and closes those that are too slow.

asyncio and aiohttp limit how much a caller sends, but hardly how slowly. So here a TLS handshake and the
headers of a request have a few seconds, and an invalid request closes the connection and is logged at most
once a minute. Connections are counted before TLS begins, because that is the expensive part; and handshakes
begin in turn by peer, because they are the most expensive operation for unauthenticated clients; most turns
go to peers that have been served before.
"""

import asyncio
import fcntl
import socket
import ssl
import termios
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Self

from aiohttp import web
from aiohttp.web_request import BaseRequest

from numalign.runtime.connections import AcceptedQueue, ConnectionTable
from numalign.runtime.in_flight import Peer, Slow
from numalign.runtime.server_state import ServerState

BACKLOG = 1024
# In one round of the event loop, so that calls are read between many new connections. To accept one takes
# little time, to set it up more, and with TLS much more.
ACCEPTED_AT_ONCE = 128
SET_UP_AT_ONCE, HANDSHAKES_AT_ONCE = 8, 1
# The pause if this process has no more file descriptors.
PAUSE_SECONDS = 1.0
# The headers of known clients have some hundred bytes; with a token and a proxy some thousand.
LONGEST_HEAD = 32 * 1024
# What one connection can make the kernel, and asyncio's TLS, hold before it is counted.
BUFFERED = 64 * 1024


class HttpConnection(web.RequestHandler):
    """One connection, from its acceptance on; it is the `protocol` of its requests."""

    def __init__(
        self, server: web.Server, accepted: socket.socket, peer: Peer, *, listener: "Listener"
    ) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # aiohttp means this to be possible
            auto_decompress=False,
            keepalive_timeout=listener.state.timeouts.idle,
            lingering_time=listener.state.timeouts.lingering,
        )
        self.peer, self.accepted = peer, accepted
        self._listener, self._state = listener, listener.state
        self._head = 0
        self.received_at = 0.0
        """When the first byte of the last request arrived, in seconds of `time.perf_counter`."""

        # What arrived while a call was handled: from one read, because none follows it.
        self._works, self._early = False, b""
        self._deadline: asyncio.TimerHandle | None = None
        self._taking: asyncio.TimerHandle | None = None
        self.setup_task: asyncio.Task[None] | None = None
        """Leads to the first byte, and is cancelled if the connection is closed before."""

        self.is_in = False

    def end_setup(self) -> None:
        """Release everything if no connection came of it: the collector is late for TLS."""
        self.setup_task = None
        if not self.is_in:
            self.accepted.close()
            self.connection_lost(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note that TLS is done, if used: the peer is known by now."""
        if transport.get_extra_info("peercert"):
            self.peer = self.peer._replace(proven=True)
            self._listener.connections.prove(self)
        self.is_in = True
        # asyncio's TLS has one, of 256 KiB by default.
        if limit := getattr(transport, "set_read_buffer_limits", None):
            limit(high=BUFFERED)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Remove the closed connection."""
        self._listener.connections.leave(self)
        self._end_of_head()
        self._end_of_taking()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the timer for an answer that is not read."""
        super().pause_writing()
        self._taking = self._loop.call_later(self._state.timeouts.answer, self._not_taken)

    def resume_writing(self) -> None:
        """Stop the timer: most of the answer was read."""
        self._end_of_taking()
        super().resume_writing()

    def _end_of_taking(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None

    def _not_taken(self) -> None:
        self._state.slow(Slow.ANSWER, seconds=self._state.timeouts.answer)
        if self.transport is not None:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Pass on bytes, and limit the time for headers."""
        if self._works and data:
            self._early += data
            if self.transport is not None:
                self.transport.pause_reading()
            return
        before, between_calls = self._request_count, self._between_calls()
        if between_calls and data and not self._head:
            self.received_at = time.perf_counter()
        super().data_received(data)
        if self._request_count != before:
            self._end_of_head()
            if len(self._messages) > 1:
                # Known clients send no request before they have an answer, and each takes memory.
                self._refuse("pipelined requests")
        elif data and between_calls:
            self._head += len(data)
            if self._head > LONGEST_HEAD:
                self._refuse("the headers are too long")
            elif self._deadline is None:
                self._deadline = self._loop.call_later(self._state.timeouts.headers, self._headers_timed_out)

    def _between_calls(self) -> bool:
        """Return whether data belongs to the headers of the next request, not to a body."""
        if not self._request_count:
            return True
        if self._waiter is not None:
            return not self._waiter.done()
        current = self._current_request
        return current is not None and current.content.is_eof()

    def _end_of_head(self) -> None:
        self._head = 0
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _headers_timed_out(self) -> None:
        self._deadline = None
        self._state.slow(Slow.HEADERS, seconds=self._state.timeouts.headers)
        self.cut()

    def _refuse(self, reason: str) -> None:
        self._state.malformed(reason)
        self.cut()

    def cut(self) -> None:
        """Close the connection at once, whatever is still to be sent."""
        transport = self.transport
        self.force_close()
        if transport is not None:
            transport.abort()
        elif self.setup_task is not None:
            self.setup_task.cancel()
        else:
            self._listener.accepted.withdraw(self)
            self.end_setup()

    def waits(self) -> bool:
        """Return whether bytes have come that are not read yet, as while this process is busy."""
        if not self.is_in or self.accepted.fileno() < 0:
            return False
        # The number is an int in C.
        return any(fcntl.ioctl(self.accepted, termios.FIONREAD, bytes(4)))

    def work(self) -> None:
        """Keep the connection while a call is handled: nothing more is read before its answer."""
        self._listener.connections.work(self)
        self._works = True

    def rest(self) -> None:
        """Continue reading after the answer."""
        self._listener.connections.rest(self)
        self._works = False
        if self._early:
            self._loop.call_soon(self._resume_reading)

    def serve(self) -> None:
        """Note that a call has been answered well."""
        self._listener.connections.serve(self)

    def _resume_reading(self) -> None:
        early, self._early = self._early, b""
        if self.transport is not None:
            self.transport.resume_reading()
            self.data_received(early)

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the answer to an unreadable request; any client can send one, so it is no internal error."""
        if status != web.HTTPBadRequest.status_code:
            return super().handle_error(request, status, exc, message)
        self._state.malformed(type(exc).__name__)
        answer = web.json_response({"error": "the request is not valid HTTP"}, status=status)
        answer.force_close()
        return answer


@dataclass(slots=True)
class Listener:
    """Accepts connections at a socket, inside an `async with`."""

    opened: socket.socket
    server: web.Server
    state: ServerState
    connections: ConnectionTable
    context: ssl.SSLContext | None = None
    accepted: AcceptedQueue[HttpConnection] = field(init=False)
    _setting_up: bool = False
    _coming: set["asyncio.Task[None]"] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.accepted = AcceptedQueue(self.connections)

    async def __aenter__(self) -> Self:
        self.opened.settimeout(0)
        # Accepted connections inherit it.
        self.opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFERED)
        self.opened.listen(BACKLOG)
        asyncio.get_running_loop().add_reader(self.opened, self._accept)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop accepting; open connections stay."""
        asyncio.get_running_loop().remove_reader(self.opened)
        self.opened.close()
        while connection := self.accepted.next():
            self.connections.leave(connection)
            connection.cut()
        for task in self._coming:
            task.cancel()
        await asyncio.gather(*self._coming, return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, address = self.opened.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # There are no file descriptors, or no memory: some calls may end meanwhile.
                self.state.quiet_log.warning("server.full", error=error, connections=len(self.connections))
                loop = asyncio.get_running_loop()
                loop.remove_reader(self.opened)
                loop.call_later(PAUSE_SECONDS, self._resume)
                return
            accepted.settimeout(0)
            connection = HttpConnection(self.server, accepted, Peer(str(address[0])), listener=self)
            self.connections.enter(connection)
            self.accepted.join(connection)
            if not self._setting_up:
                self._setting_up = True
                asyncio.get_running_loop().call_soon(self._set_up_some)

    def _resume(self) -> None:
        # It may have been closed meanwhile.
        if self.opened.fileno() >= 0:
            asyncio.get_running_loop().add_reader(self.opened, self._accept)

    def _set_up_some(self) -> None:
        loop, some = asyncio.get_running_loop(), HANDSHAKES_AT_ONCE if self.context else SET_UP_AT_ONCE
        while some and (connection := self.accepted.next()):
            task = loop.create_task(self._set_up(connection))
            connection.setup_task = task
            self._coming.add(task)
            task.add_done_callback(partial(self._end_setup, connection))
            some -= 1
        self._setting_up = not some
        if self._setting_up:
            loop.call_soon(self._set_up_some)

    async def _set_up(self, connection: HttpConnection) -> None:
        """Hand a new connection to asyncio, which closes it on failure; with TLS if configured."""
        timeouts = self.state.timeouts
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                connection.accepted,
                ssl=self.context,
                ssl_handshake_timeout=timeouts.handshake if self.context else None,
                ssl_shutdown_timeout=timeouts.lingering if self.context else None,
            )
        except ConnectionAbortedError:
            self.state.slow(Slow.HANDSHAKE, seconds=timeouts.handshake)
        except OSError as error:
            self.state.no_handshake(error)

    def _end_setup(self, connection: HttpConnection, task: "asyncio.Task[None]") -> None:
        self._coming.discard(task)
        connection.end_setup()
