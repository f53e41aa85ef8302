"""
What becomes of a call, between its headers and its answer.

Its body is read here, counted as it comes, before a handler is called: who is slow or sends too much never
reaches one. Then calls begin in turn by peer, and long bodies, which parsed are up to 60 times as long, are
handled one at a time. A call is counted until its answer is taken. What a handler raises stays in the log:
the peer learns only that it was our fault.
"""

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Handler

from numalign.runtime.life import LIFE, Life
from numalign.runtime.listener import Connection
from numalign.runtime.overload import HUGE, LARGE, LEAST, LONGEST_REST, Excess, Peer, TooMuch, Usage
from numalign.runtime.timeouts import Slow

# No API server packs what it sends, and what is packed becomes a thousand times as long.
PLAIN = "identity"

_BODY = web.RequestKey("body", bytes)


class _Unreadable(Exception):
    """Raised where a body breaks off, or is none: whoever sent it hung up, was cut off, or sent nonsense."""


def body(request: web.Request) -> bytes:
    """The whole body of a call; handlers are called when it is there."""
    return request[_BODY]


@web.middleware
async def watched(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What is asked of the port for health and metrics: never turned away."""
    return await _sent(request, await _answered(request, handler))


@web.middleware
async def called(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What a program is asked: as much of it as can be taken on."""
    if request.match_info.http_exception:
        return await _sent(request, await _answered(request, handler))
    life, peer = request.app[LIFE], _peer(request)
    if peer.proven:
        life.counters.proven.inc()
    with life.load.usage(peer) as usage:
        admitted = partial(_admitted, handler=handler, usage=usage)
        return await _sent(request, await _answered(request, admitted))


def _peer(request: web.Request) -> Peer:
    match request.protocol:
        case Connection() as connection:
            return connection.peer
    return Peer(request.remote or "")


async def _answered(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The handler's answer; whatever it raises becomes a short one."""
    life = request.app[LIFE]
    try:
        return await handler(request)
    except web.HTTPException as refusal:
        return _refusal(refusal)
    except TooMuch as error:
        life.counters.shed.labels(error.excess).inc()
        return _overloaded(error.excess)
    except _Unreadable as error:
        life.quiet_log.info("request.unreadable", route=_route(request), error=error)
        return _short(400, "the body of the request cannot be read")
    except Exception as error:  # noqa: BLE001 the one place where any fault becomes an answer
        life.log.failed("request.failed", error, route=_route(request))
        life.counters.failures.labels(_route(request)).inc()
        return _short(500, "internal error: the log of this server says more")


async def _sent(request: web.Request, answer: web.StreamResponse) -> web.StreamResponse:
    """Count an answer and send it; the connection sees that it is taken. Draining closes connections."""
    life = request.app[LIFE]
    life.counters.requests.labels(_route(request), str(answer.status)).inc()
    if life.draining:
        answer.force_close()
    try:
        await answer.prepare(request)
        await answer.write_eof()
    except ConnectionError:
        # Whoever asked is gone; aiohttp finds out by itself.
        pass
    return answer


async def _admitted(request: web.Request, *, handler: Handler, usage: Usage) -> web.StreamResponse:
    """The handler's answer, once the body is there and it is this call's turn."""
    life = request.app[LIFE]
    _acceptable(request, life.limits.body)
    try:
        request[_BODY] = await _in_time(request, usage, life)
    except TimeoutError:
        life.slow(Slow.BODY, route=_route(request), seconds=life.timeouts.body)
        return _slow(life.timeouts.body)
    usage.begin()
    with _working(request):
        async with _passing(life, usage):
            await life.turns.wait(usage.peer, max(usage.bytes, LEAST))
            return await handler(request)


def _acceptable(request: web.Request, longest: int) -> None:
    """Raises `HTTPException` for a body that is not taken."""
    if not request.body_exists:
        return
    coding = request.headers.get("Content-Encoding", PLAIN)
    if coding != PLAIN:
        raise web.HTTPUnsupportedMediaType(text=f"the content encoding is {coding}: send the body as it is")
    if (request.content_length or 0) > longest:
        raise web.HTTPRequestEntityTooLarge(longest, request.content_length or 0)


async def _in_time(request: web.Request, usage: Usage, life: Life) -> bytes:
    """The body, counted as it comes; raises `TimeoutError`, and what `_whole` does."""
    if request.content.is_eof():
        # What came with its headers, as short ones do, needs no clock.
        return await _whole(request, usage, life.limits.body)
    async with asyncio.timeout(life.timeouts.body):
        return await _whole(request, usage, life.limits.body)


async def _whole(request: web.Request, usage: Usage, longest: int) -> bytes:
    """The body, counted as it comes; raises `TooMuch`, `HTTPException` and `_Unreadable`."""
    read = io.BytesIO()
    while chunk := await _next(request):
        usage.arrived(len(chunk))
        read.write(chunk)
        if usage.bytes > longest:
            raise web.HTTPRequestEntityTooLarge(longest, usage.bytes)
    return read.getvalue()


async def _next(request: web.Request) -> bytes:
    """What has come of the body meanwhile; nothing at its end."""
    try:
        return await request.content.readany()
    except Exception as error:
        # aiohttp has many words for a peer that is gone, RuntimeError among them.
        raise _Unreadable(f"{type(error).__name__}: {error}") from error


@contextmanager
def _working(request: web.Request) -> Iterator[None]:
    """Its connection stays and is not read from, until there is an answer."""
    connection = request.protocol
    if not isinstance(connection, Connection):
        yield
        return
    connection.work()
    try:
        yield
    finally:
        connection.rest()


def _passing(life: Life, usage: Usage) -> AbstractAsyncContextManager[object]:
    """Long bodies go one at a time; short ones pass beside."""
    if usage.bytes <= LARGE:
        return life.short.passing(usage.peer, usage.bytes)
    return _long(life, usage)


@asynccontextmanager
async def _long(life: Life, usage: Usage) -> AsyncIterator[None]:
    """After one of the longest there is a rest."""
    clock = asyncio.get_running_loop().time
    async with life.long.passing(usage.peer, 1) as taken:
        began = clock()
        try:
            yield
        finally:
            if usage.bytes > HUGE and life.load.open > 1:
                taken.rest = min(clock() - began, LONGEST_REST)


def _overloaded(excess: Excess) -> web.Response:
    """The caller comes again in a second, on a new connection, perhaps to another replica."""
    answer = _short(HTTPStatus.SERVICE_UNAVAILABLE, f"too many {excess} in flight: try again")
    answer.headers["Retry-After"] = "1"
    answer.force_close()
    return answer


def _slow(seconds: float) -> web.Response:
    answer = _short(HTTPStatus.REQUEST_TIMEOUT, f"the body of the request did not come within {seconds:g} s")
    answer.force_close()
    return answer


def _refusal(refusal: web.HTTPException) -> web.Response:
    answer = _short(refusal.status, refusal.text or refusal.reason)
    if "Allow" in refusal.headers:
        answer.headers["Allow"] = refusal.headers["Allow"]
    return answer


def _short(status: int, text: str) -> web.Response:
    return web.json_response({"error": text}, status=status)


def _route(request: web.Request) -> str:
    """The route as declared; what matches none has one name, or a peer could invent labels."""
    resource = request.match_info.route.resource
    return resource.canonical if resource else "unmatched"
