"""
Make unary gRPC calls over a Unix socket: one message out, one message back.

The agent needs no more, twice for each observation. So each call has its own connection, and a kubelet that
restarts leaves nothing behind. h2 implements HTTP/2; what gRPC adds is small and implemented here: five bytes
before a message, and a status after it (PROTOCOL-HTTP2.md of grpc/grpc).
"""

import asyncio
from contextlib import closing
from pathlib import Path
from struct import Struct
from urllib.parse import unquote

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from numalign.kube.errors import ClusterError, Unreachable
from numalign.model.errors import cut

OK, RESOURCE_EXHAUSTED = 0, 8
"""gRPC statuses (codes.go of grpc/grpc-go)."""

CALL_SECONDS = 10.0
LONGEST_MESSAGE = 2**24
"""Bytes; other clients of the kubelet accept as many."""

# The first byte is 1 for a compressed message, which is not requested; the message's length follows.
_PREFIX = Struct(">BI")
_PIECE = 2**16
# What a response may take in addition to its message: headers, frames, pings.
_BESIDE = 2**20
_LONGEST_REASON = 500


class CallRefused(ClusterError):
    """Raised when a call is answered with a status that is not OK."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


async def call(
    socket: Path, method: str, message: bytes, *, within: float = CALL_SECONDS, most: int = LONGEST_MESSAGE
) -> bytes:
    """
    Call `method` (`/v1.PodResourcesLister/List`) on a socket, and return the message of the response.

    The response has at most `most` bytes and takes at most `within` seconds. Raise `CallRefused`, and
    `Unreachable` for every other failure.
    """
    what = f"call to the kubelet's socket {socket} failed: {method}"
    try:
        async with asyncio.timeout(within):
            reader, writer = await asyncio.open_unix_connection(str(socket))
            with closing(writer):
                return await _Exchange(method, message, most).run(reader, writer)
    except TimeoutError as error:
        raise Unreachable(f"{what}: no answer within {within:g} s") from error
    except (OSError, ProtocolError, ValueError) as error:
        raise Unreachable(f"{what}: {cut(str(error), _LONGEST_REASON) or type(error).__name__}") from error


class _Exchange:
    def __init__(self, method: str, message: bytes, most: int) -> None:
        self._method, self._most = method, most
        self._http = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        # The window is as large as what is accepted, so a server never has to wait, nor can it send more.
        window = {SettingCodes.INITIAL_WINDOW_SIZE: most + _PREFIX.size, SettingCodes.ENABLE_PUSH: 0}
        self._http.local_settings = Settings(client=True, initial_values=window)
        self._http.initiate_connection()
        self._http.increment_flow_control_window(most + _PREFIX.size)
        stream = self._http.get_next_available_stream_id()
        headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", method),
            (":authority", "localhost"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "numalign-agent"),
        ]
        self._http.send_headers(stream, headers)
        self._http.send_data(stream, _PREFIX.pack(0, len(message)) + message, end_stream=True)
        self._left = most + _PREFIX.size + _BESIDE
        self._headers: dict[bytes, bytes] = {}
        self._body = bytearray()
        self._ended = False

    async def run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """Return the message of the response; raise `CallRefused`, and the causes of `Unreachable`."""
        while not self._ended:
            # Do not wait for the write: it is never more than was read, and the server may be gone although
            # its response is here.
            writer.write(self._http.data_to_send())
            received = await reader.read(_PIECE)
            if not received:
                raise ValueError("the connection was closed before the answer was complete")
            self._left -= len(received)
            if self._left < 0:
                raise ValueError(f"the answer is longer than {self._most} bytes")
            for event in self._http.receive_data(received):
                # Ignore what follows the end.
                if not self._ended:
                    self._take(event)
        if (http := self._headers.get(b":status")) != b"200":
            raise ValueError(f"it answered with HTTP status {_shown(http or b'none')}")
        status = self._headers.get(b"grpc-status", b"")
        if not status.isdigit() or len(status) > len("16"):
            raise ValueError("the answer has no gRPC status")
        if int(status) != OK:
            reason = unquote(_shown(self._headers.get(b"grpc-message", b"")))
            message = f"the kubelet answered {self._method} with gRPC status {int(status)}"
            raise CallRefused(f"{message}: {reason or 'no reason given'}", status=int(status))
        if (
            len(self._body) < _PREFIX.size
            or len(self._body) < _PREFIX.size + _PREFIX.unpack_from(self._body)[1]
        ):
            raise ValueError("the answer ended before its message was complete")
        return bytes(self._body[_PREFIX.size :])

    def _take(self, event: events.Event) -> None:
        match event:
            case events.ResponseReceived(headers=pairs) | events.TrailersReceived(headers=pairs) if pairs:
                self._headers.update({_raw(name): _raw(value) for name, value in pairs})
            case events.DataReceived(data=data) if data:
                self._body += data
                self._check_length()
            case events.StreamEnded():
                self._ended = True
            case events.StreamReset(error_code=code):
                raise ValueError(f"the call was reset with error {code}")
            # Without an error code, the server may still answer earlier requests.
            case events.ConnectionTerminated(error_code=code) if code:
                raise ValueError(f"the connection was closed with error {code}")

    def _check_length(self) -> None:
        if len(self._body) < _PREFIX.size:
            return
        compressed, length = _PREFIX.unpack_from(self._body)
        if compressed:
            raise ValueError("the answer is compressed, which was not requested")
        if length > self._most:
            raise ValueError(f"an answer of {length} bytes is too long: at most {self._most} are accepted")
        if len(self._body) > length + _PREFIX.size:
            raise ValueError("the answer has more than one message")


def _raw(text: bytes | str) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _shown(raw: bytes) -> str:
    return cut(raw.decode(errors="replace"), _LONGEST_REASON)
