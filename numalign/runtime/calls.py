"""
How a call is handled, from its headers to its answer.

Its body is read here, counted as it arrives, before a handler is called: slow or oversized calls never reach
one. Then calls begin in turn by peer, and long bodies, which take up to 60 times as much memory when parsed,
are handled one at a time. A call is counted until its answer is sent. Errors of a handler stay in the log:
the peer gets only an internal error.
"""

import asyncio
import io
import re
import time
from contextlib import nullcontext
from functools import partial
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Handler

from numalign.runtime.cooperative import CALL, CallWork, Tenant
from numalign.runtime.in_flight import HUGE, LARGE, LEAST, LONG, LONGEST_REST, Overloaded, Peer, Slow, Usage
from numalign.runtime.listener import HttpConnection
from numalign.runtime.server_state import SERVER_STATE

# API servers do not compress requests, and compressed ones can grow a thousandfold.
PLAIN = "identity"

_NAMESPACE = re.compile(rb'"namespace" *: *"([a-z0-9-]{1,63})"')
_EARLY = 4096

_BODY = web.RequestKey("body", bytes)


class _Unreadable(Exception):
    """Raised if a body is truncated or invalid: the sender hung up, was cut off, or sent invalid data."""


def body(request: web.Request) -> bytes:
    """Return the whole body of a call; handlers are called after it has arrived."""
    return request[_BODY]


def received_at(request: web.Request) -> float:
    """Return when the first byte of a call arrived, in seconds of `time.perf_counter`."""
    connection = _connection(request)
    return connection.received_at if connection else time.perf_counter()


def _connection(request: web.Request) -> HttpConnection | None:
    return request.protocol if isinstance(request.protocol, HttpConnection) else None


@web.middleware
async def watched(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer on the port for health and metrics, where no call is rejected."""
    return await _sent(request, await _answered(request, handler))


@web.middleware
async def called(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer the calls of a program, within its limits, and in a span of the caller's trace if sampled."""
    if request.match_info.http_exception:
        return await _sent(request, await _answered(request, handler))
    state, connection = request.app[SERVER_STATE], _connection(request)
    peer = connection.peer if connection else Peer(request.remote or "")
    if peer.proven:
        state.counters.proven.inc()
    with state.load.usage(peer) as usage:
        admitted = partial(_admitted, handler=handler, usage=usage)
        if not state.tracer:
            return await _sent(request, await _answered(request, admitted))
        route = _route(request)
        with state.tracer.called(f"{request.method} {route}", request.headers) as span:
            answer = await _answered(request, admitted)
            if span:
                span.add({"http.request.method": request.method, "http.route": route})
                span.end_with(answer.status)
            return await _sent(request, answer)


async def _answered(request: web.Request, handler: Handler) -> web.StreamResponse:
    state = request.app[SERVER_STATE]
    try:
        return await handler(request)
    except web.HTTPException as refusal:
        answer = _short(refusal.status, refusal.text or refusal.reason)
        if "Allow" in refusal.headers:
            answer.headers["Allow"] = refusal.headers["Allow"]
        return answer
    except Overloaded as error:
        state.counters.shed.labels(error.reason).inc()
        answer = _short(HTTPStatus.SERVICE_UNAVAILABLE, f"{error}: try again")
        # The caller retries in a second, on a new connection, perhaps to another replica.
        answer.headers["Retry-After"] = "1"
        answer.force_close()
        return answer
    except _Unreadable as error:
        state.quiet_log.info("request.unreadable", route=_route(request), error=error)
        return _short(400, "the request body cannot be read")
    except Exception as error:  # noqa: BLE001 the one place where any fault becomes an answer
        state.log.failed("request.failed", error, route=_route(request))
        state.counters.failures.labels(_route(request)).inc()
        return _short(500, "internal error: see the log of this server")


async def _sent(request: web.Request, answer: web.StreamResponse) -> web.StreamResponse:
    """Count an answer and send it; the connection checks that it is read. Draining closes connections."""
    state = request.app[SERVER_STATE]
    state.counters.requests.labels(_route(request), str(answer.status)).inc()
    if state.draining:
        answer.force_close()
    try:
        await answer.prepare(request)
        await answer.write_eof()
        if answer.status < HTTPStatus.BAD_REQUEST and (connection := _connection(request)):
            connection.serve()
    except ConnectionError:
        # The caller is gone; aiohttp detects that by itself.
        pass
    return answer


async def _admitted(request: web.Request, *, handler: Handler, usage: Usage) -> web.StreamResponse:
    """Return the handler's answer, once the body is there and it is this call's turn."""
    state, connection = request.app[SERVER_STATE], _connection(request)
    seconds, most_values = state.timeouts.body, state.limits.values
    try:
        # Data that came with the headers, as short bodies do, needs no timer.
        async with nullcontext() if request.content.is_eof() else asyncio.timeout(seconds):
            request[_BODY] = body = await _read(request, usage, state.limits.body)
    except TimeoutError:
        state.slow(Slow.BODY, route=_route(request), seconds=seconds)
        answer = _short(HTTPStatus.REQUEST_TIMEOUT, f"the request body did not arrive within {seconds:g} s")
        answer.force_close()
        return answer
    # About how many JSON values a long body has, at least.
    if most_values and len(body) > LONG and sum(map(body.count, (b",", b"[", b"{"))) > most_values:
        text = f"the request body has more than {LONG} bytes, and more than {most_values} commas and brackets"
        raise web.HTTPRequestEntityTooLarge(LONG, len(body), text=text)
    # API servers and schedulers write the namespace before anything of the pod's owner, except names. It
    # decides only whose turn it is, and handlers correct that.
    named = _NAMESPACE.search(body, 0, _EARLY)
    usage.namespace = named[1].decode() if named else ""
    usage.begin()
    if connection:
        connection.work()
    try:
        return await _in_turn(request, handler, usage)
    finally:
        if connection:
            connection.rest()


async def _in_turn(request: web.Request, handler: Handler, usage: Usage) -> web.StreamResponse:
    """Handle a call when it is its turn: long bodies go one at a time, short ones in parallel."""
    state, clock = request.app[SERVER_STATE], asyncio.get_running_loop().time
    is_short = usage.bytes <= LARGE
    queue, amount = (state.short, usage.bytes) if is_short else (state.long, 1)
    async with queue.passing(usage.tenant, amount) as taken:
        began = clock()
        try:
            await state.turns.wait(usage.tenant, max(usage.bytes, LEAST))
            CALL.set(CallWork(state.work, Tenant(usage.peer.proven, usage.namespace)))
            return await handler(request)
        finally:
            # A pause after one of the longest.
            if usage.bytes > HUGE and state.load.open > 1:
                taken.rest = min(clock() - began, LONGEST_REST)


async def _read(request: web.Request, usage: Usage, longest: int) -> bytes:
    """Return the body, counted as it arrives; raise `Overloaded`, `HTTPException` and `_Unreadable`."""
    coding = request.headers.get("Content-Encoding", PLAIN)
    if request.body_exists and coding != PLAIN:
        text = f"content encoding {coding} is not supported: send the body without one"
        raise web.HTTPUnsupportedMediaType(text=text)
    too_large = f"the request body has more than {longest} bytes"
    if request.body_exists and (request.content_length or 0) > longest:
        raise web.HTTPRequestEntityTooLarge(longest, request.content_length or 0, text=too_large)
    body = io.BytesIO()
    while True:
        try:
            chunk = await request.content.readany()
        except Exception as error:
            # aiohttp raises many errors for a peer that is gone, RuntimeError among them.
            raise _Unreadable(f"{type(error).__name__}: {error}") from error
        if not chunk:
            return body.getvalue()
        usage.arrived(len(chunk))
        body.write(chunk)
        if usage.bytes > longest:
            raise web.HTTPRequestEntityTooLarge(longest, usage.bytes, text=too_large)


def _short(status: int, text: str) -> web.Response:
    return web.json_response({"error": text}, status=status)


def _route(request: web.Request) -> str:
    """Return the route as declared; unmatched ones share one name, or a peer could invent labels."""
    resource = request.match_info.route.resource
    return resource.canonical if resource else "unmatched"
