"""
A server that answers reviews in a cluster: how it starts, holds out and ends.

The API server calls with a deadline, keeps idle connections for 90 seconds and does not repeat a POST whose
connection broke (k8s.io/client-go transport, net/http). So connections are kept longer than that; too much
work at once is turned away with a 503 that the caller repeats (client-go obeys Retry-After); a body that is
not there in time is given up; and the end is slow on purpose: first not ready, then `Connection: close` on
every answer while calls still come, then the sockets. What a handler raises stays in the log: the peer learns
only that it was our fault.

    BadInput
    └── CannotListen    an address or port that this machine does not give
"""

import asyncio
import contextlib
import gc
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from types import MappingProxyType

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry

from numalign.rules.errors import BadInput, Mistake
from numalign.runtime import health, logs, sources
from numalign.runtime.life import LIFE, Check, Life, State, begun
from numalign.runtime.logs import Log
from numalign.runtime.overload import Excess, Load
from numalign.runtime.serving import EVERYWHERE, MAX_BYTES_IN_FLIGHT, PORT, ProcessSettings, ServerSettings
from numalign.runtime.tls import BadPair, Clock, Keeper, utc_now

# Two objects of 3 MiB each are the most an API server sends (an update), and their envelope.
LARGEST_BODY = 8 * 1024**2
# No API server packs what it sends, and what is packed becomes a thousand times as long.
PLAIN = "identity"
# Also the most that a connection may take until its first or next call is there, headers and all.
KEEPALIVE_SECONDS = 240
# The most that an API server waits for an answer (timeoutSeconds of a webhook configuration).
BODY_SECONDS = 30
# After draining, for the calls still being handled; they have deadlines of their own.
GRACE_SECONDS = 10
# For those that are not answered by then: once to come to an end, once more to give up.
LAST_SECONDS = 1
BACKLOG = 1024
COLLECTED_AFTER = (50_000, 20, 100)

Task = Callable[[], Awaitable[None]]

NONE: Mapping[str, Task] = MappingProxyType({})


class CannotListen(BadInput):
    """Raised when the sockets cannot be opened."""


class Stop:
    """How a server is told to end: asked once it drains, asked again it stops draining."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.at_once = asyncio.Event()

    def ask(self) -> None:
        """Begin the end, or hurry it."""
        (self.at_once if self.asked.is_set() else self.asked).set()


@dataclass(frozen=True, slots=True)
class Listening:
    """An open server: where it tells of itself, and where and how it answers calls; port 0 answers none."""

    bind: str
    metrics_port: int
    port: int = 0
    keeper: Keeper | None = field(default=None, repr=False)

    @property
    def scheme(self) -> str:
        """How calls are to be made to `port`."""
        return "https" if self.keeper else "http"

    def fields(self) -> dict[str, object]:
        """The same, for a line of the log."""
        own = {"port": self.port, "scheme": self.scheme} if self.port else {}
        return {"bind": self.bind, **own, "metrics_port": self.metrics_port}


def application(  # noqa: PLR0913  what a server is made of
    routes: Iterable[web.AbstractRouteDef],
    *,
    log: Log,
    registry: CollectorRegistry,
    checks: Mapping[str, Check],
    max_in_flight: int,
    max_bytes_in_flight: int = MAX_BYTES_IN_FLIGHT,
    body_seconds: float = BODY_SECONDS,
    largest_body: int = LARGEST_BODY,
    state: State | None = None,
) -> web.Application:
    """A program's own routes, with our manners around them; `listening` serves health and metrics beside it.

    A check answers None when all is well, else what is being waited for. `max_in_flight` counts calls of the
    program's own routes and `max_bytes_in_flight` their bodies, which are read before a handler is called and
    must be there in `body_seconds`; 0 sets no bound. No body may be longer than `largest_body` bytes. What
    `state` gives is served at `/debug/state`, with what the server knows of itself; None leaves that route
    out.
    """
    app = web.Application(client_max_size=largest_body, middlewares=[_mannered, _admitted])
    load = Load(max_in_flight, max_bytes_in_flight)
    app[LIFE] = begun(
        log=log, registry=registry, checks=checks, state=state, load=load, body_seconds=body_seconds
    )
    app.add_routes(routes)
    return app


def telling(app: web.Application) -> web.Application:
    """What the port for health and metrics serves beside an `application`."""
    beside = web.Application(middlewares=[_mannered])
    beside[LIFE] = app[LIFE]
    beside.add_routes(health.routes(app[LIFE]))
    return beside


@web.middleware
async def _mannered(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Count every answer, and close connections while draining."""
    life = request.app[LIFE]
    answer = await _answered(request, handler, life)
    life.requests.labels(_route(request), str(answer.status)).inc()
    if life.draining:
        answer.force_close()
    return answer


async def _answered(request: web.Request, handler: Handler, life: Life) -> web.StreamResponse:
    """The handler's answer; whatever it raises becomes a short one."""
    try:
        return await handler(request)
    except web.HTTPException as refusal:
        return _refusal(refusal)
    except Exception as error:  # noqa: BLE001 the one place where any fault becomes an answer
        if error is request.content.exception():
            life.log.info("request.unreadable", route=_route(request), error=error)
            return _short(400, "the body of the request cannot be read")
        life.log.failed("request.failed", error, route=_route(request))
        life.failures.labels(_route(request)).inc()
        return _short(500, "internal error: the log of this server says more")


@web.middleware
async def _admitted(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The handler's answer, unless too much is being handled already, or the body does not come."""
    if request.match_info.http_exception:
        return await handler(request)
    life = request.app[LIFE]
    size = _size(request)
    excess = life.load.excess(size)
    if excess:
        life.shed.labels(excess).inc()
        return _overloaded(excess)
    with life.load.carrying(size):
        try:
            async with asyncio.timeout(life.body_seconds):
                await request.read()
        except TimeoutError:
            life.log.info("request.slow", route=_route(request), seconds=life.body_seconds)
            return _slow(life.body_seconds)
        # Handlers that ask for the body are given the one that was read.
        return await handler(request)


def _size(request: web.Request) -> int:
    """How many bytes the body may come to; raises `HTTPException` for one that is not taken."""
    if not request.body_exists:
        return 0
    coding = request.headers.get("Content-Encoding", PLAIN)
    if coding != PLAIN:
        raise web.HTTPUnsupportedMediaType(text=f"the content encoding is {coding}: send the body as it is")
    announced = request.content_length
    if announced is not None and announced > request.client_max_size:
        raise web.HTTPRequestEntityTooLarge(request.client_max_size, announced)
    # A body that comes in chunks does not say how long it is.
    return request.client_max_size if announced is None else announced


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


@contextlib.asynccontextmanager
async def listening(
    app: web.Application,
    settings: ProcessSettings,
    *,
    clock: Clock = utc_now,
    keepalive: float = KEEPALIVE_SECONDS,
    grace: float = GRACE_SECONDS,
) -> AsyncIterator[Listening]:
    """Serve inside the `async with`; leaving it closes the sockets and waits for open calls.

    The port for health and metrics is the first to open and the last to close; a program that answers no
    calls has no other. A connection is closed when no call came over it for `keepalive` seconds. At the end
    open calls are waited for up to `grace` seconds, and those left over are cut off.
    Raises `BadPair` or `CannotListen` before anything is served. The event `server.listening` tells the
    ports that were really taken.
    """
    life = app[LIFE]
    life.keeper = _keeper(settings, life, clock=clock)
    async with contextlib.AsyncExitStack() as stack:
        # Both sockets are there before either is served.
        opened = {name: stack.enter_context(_socket(settings, name)) for name in settings.ports}
        ports = {name: each.getsockname()[1] for name, each in opened.items()}
        place = Listening(settings.bind, keeper=life.keeper, **ports)
        for name, each in opened.items():
            door = app if name == PORT else telling(app)
            context = life.keeper.context if life.keeper and name == PORT else None
            await stack.enter_async_context(
                _served(door, each, context=context, keepalive=keepalive, grace=grace)
            )
        life.log.info("server.listening", **place.fields())
        yield place


@contextlib.asynccontextmanager
async def _served(
    app: web.Application,
    opened: socket.socket,
    *,
    context: ssl.SSLContext | None,
    keepalive: float,
    grace: float,
) -> AsyncIterator[None]:
    """Serve an application at a socket; at the end its calls are waited for."""
    runner = web.AppRunner(
        app,
        access_log=None,
        auto_decompress=False,
        keepalive_timeout=keepalive,
        shutdown_timeout=min(grace, LAST_SECONDS),
    )
    await runner.setup()
    try:
        site = web.SockSite(runner, opened, ssl_context=context, backlog=BACKLOG)
        await site.start()
        try:
            yield
        finally:
            await site.stop()
            await _finished(app[LIFE], grace)
    finally:
        await runner.cleanup()


async def _finished(life: Life, grace: float) -> None:
    """Wait for the calls being handled; a connection that is being shut down would read no more of a body."""
    life.draining = True
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(life.load.none(), grace)


def _keeper(settings: ProcessSettings, life: Life, *, clock: Clock) -> Keeper | None:
    if settings.pair is None:
        return None
    keeper = Keeper(settings.pair, log=life.log, registry=life.registry, clock=clock)
    life.checks["certificate"] = keeper.trouble
    return keeper


def renew(app: web.Application) -> None:
    """Show what the pair's files hold now, for whoever has just written them; nothing before it listens."""
    if keeper := app[LIFE].keeper:
        keeper.reload()


@contextlib.contextmanager
def _socket(settings: ProcessSettings, name: str) -> Iterator[socket.socket]:
    """The socket of the port so called: one, so that one port is taken even if it is any free one."""
    everywhere = settings.bind == EVERYWHERE
    both = everywhere and socket.has_dualstack_ipv6()
    address = ("" if everywhere else settings.bind, settings.ports[name])
    family = socket.AF_INET6 if both or ":" in settings.bind else socket.AF_INET
    try:
        opened = socket.create_server(address, family=family, dualstack_ipv6=both)
    except (OSError, UnicodeError) as error:
        place = f"--bind {settings.bind} {sources.flag(name)} {address[1]}"
        # The first sentence of the standard library's; the rest repeats the address.
        reason = str(getattr(error, "strerror", error)).partition(" (while")[0]
        raise CannotListen([Mistake(place, f"cannot listen: {reason}")]) from error
    with opened:
        yield opened


async def serve(  # noqa: PLR0913  what the life of a server depends on
    app: web.Application,
    settings: ProcessSettings,
    *,
    stop: Stop,
    tasks: Mapping[str, Task] = NONE,
    clock: Clock = utc_now,
    grace: float = GRACE_SECONDS,
) -> int:
    """Serve until asked to stop, drain, end; the exit code of the program.

    0 after a graceful end; 1 if one of the `tasks`, which run beside the server, failed, for a server whose
    snapshot no longer follows the world must be replaced; 2 if it could not start, with the reasons logged.
    """
    log = app[LIFE].log
    try:
        async with listening(app, settings, clock=clock, grace=grace) as place:
            beside = {**tasks, **_renewal(place, settings)}
            async with _running(beside, log=log, stop=stop) as failed:
                await stop.asked.wait()
                await _drained(app[LIFE], settings.drain_seconds, stop=stop)
    except (BadPair, CannotListen) as error:
        return refused(log, error.mistakes)
    log.info("server.stopped", failed=failed)
    return 1 if failed else 0


def refused(log: Log, mistakes: Sequence[object]) -> int:
    """Say why a program does not start; its exit code."""
    log.error("server.refused", mistakes=mistakes)
    return 2


def _renewal(place: Listening, settings: ProcessSettings) -> dict[str, Task]:
    match place.keeper, settings:
        case Keeper() as keeper, ServerSettings(tls_reload_seconds=every) if every:
            return {"tls": partial(keeper.watch, every=every)}
    return {}


@contextlib.asynccontextmanager
async def _running(tasks: Mapping[str, Task], *, log: Log, stop: Stop) -> AsyncIterator[list[str]]:
    """Tasks beside the server; gives the names of those that failed. A failure asks the server to stop."""
    failed: list[str] = []

    async def guarded(name: str, task: Task) -> None:
        try:
            await task()
        except Exception as error:  # noqa: BLE001 any fault of a task ends the server, gracefully
            log.failed("task.failed", error, task=name)
            failed.append(name)
            stop.asked.set()

    running = [asyncio.create_task(guarded(name, task)) for name, task in tasks.items()]
    try:
        yield failed
    finally:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _drained(life: Life, seconds: float, *, stop: Stop) -> None:
    """Go on serving as not ready, so that nobody calls a closed door."""
    life.draining = True
    life.log.info("server.draining", seconds=seconds, in_flight=life.load.calls)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.at_once.wait(), seconds)


def run(program: Callable[[Stop], Awaitable[int]], *, log: Log) -> int:
    """Let a program serve until SIGTERM or SIGINT and give its exit code: the last call of a main."""
    logs.adopt_libraries(log)
    # A large cluster is a million objects without a cycle. To look for cycles as often as Python does by
    # itself takes longer than to read them (bench/coldstart).
    gc.set_threshold(*COLLECTED_AFTER)
    return asyncio.run(_until_signalled(program))


async def _until_signalled(program: Callable[[Stop], Awaitable[int]]) -> int:
    stop = Stop()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.ask)
    return await program(stop)
