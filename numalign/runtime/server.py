"""
A server that answers reviews in a cluster: how it starts, holds out and ends.

The API server calls with a deadline, keeps idle connections for 90 seconds and does not repeat a POST whose
connection broke (k8s.io/client-go transport, net/http). So connections are kept longer than that; too much
work at once is turned away with a 503 that the caller repeats (client-go obeys Retry-After); and the end is
slow on purpose: first not ready, then `Connection: close` on every answer while calls still come, then the
sockets. What a handler raises stays in the log: the peer learns only that it was our fault.

    BadInput
    └── CannotListen    an address or port that this machine does not give
"""

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry, Counter, Gauge

from numalign.rules.errors import BadInput, Mistake
from numalign.runtime import logs, metrics
from numalign.runtime.logs import Log
from numalign.runtime.metrics import PREFIX
from numalign.runtime.serving import EVERYWHERE, ServerSettings
from numalign.runtime.tls import BadPair, Clock, Keeper, PairFiles, utc_now

# Two objects of 3 MiB each are the most an API server sends (an update), and their envelope.
LARGEST_BODY = 8 * 1024**2
KEEPALIVE_SECONDS = 240
# After draining, for the calls still being handled; they have deadlines of their own.
GRACE_SECONDS = 10
BACKLOG = 1024

# Never turned away: a probe that fails under load would take the whole pod out and load the others.
ALWAYS_OPEN = ("/healthz", "/readyz", "/metrics")

Check = Callable[[], str | None]
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


@dataclass(slots=True)
class Life:
    """What one server is and does at the moment; it changes while the server lives."""

    log: Log
    registry: CollectorRegistry
    checks: dict[str, Check]
    max_in_flight: int
    requests: Counter
    failures: Counter
    shed: Counter
    in_flight: int = 0
    draining: bool = False

    def waiting_for(self) -> dict[str, str]:
        """Why calls should not come here now, by check; empty when ready."""
        reasons = {name: check() for name, check in self.checks.items()}
        if self.draining:
            reasons["server"] = "draining"
        return {name: reason for name, reason in reasons.items() if reason is not None}


LIFE = web.AppKey("life", Life)


@dataclass(frozen=True, slots=True)
class Listening:
    """An open server: where, how, and (with TLS) who keeps its certificate."""

    bind: str
    port: int
    scheme: str
    keeper: Keeper | None = field(default=None, repr=False)


def application(
    routes: Iterable[web.AbstractRouteDef],
    *,
    log: Log,
    registry: CollectorRegistry,
    checks: Mapping[str, Check],
    max_in_flight: int,
) -> web.Application:
    """A program's routes, with health, readiness and metrics beside them and our manners around them.

    A check answers None when all is well, else what is being waited for. `max_in_flight` counts calls of
    the program's own routes; 0 sets no bound.
    """
    app = web.Application(client_max_size=LARGEST_BODY, middlewares=[_mannered])
    app[LIFE] = _life(log=log, registry=registry, checks=checks, max_in_flight=max_in_flight)
    app.add_routes(routes)
    app.add_routes(
        [
            web.get("/healthz", _healthz),
            web.get("/readyz", _readyz),
            web.get("/metrics", _metrics),
        ]
    )
    return app


def _life(*, log: Log, registry: CollectorRegistry, checks: Mapping[str, Check], max_in_flight: int) -> Life:
    counter = partial(Counter, registry=registry)
    life = Life(
        log=log,
        registry=registry,
        checks=dict(checks),
        max_in_flight=max_in_flight,
        requests=counter(f"{PREFIX}http_requests", "Answers, by status.", ["route", "code"]),
        failures=counter(f"{PREFIX}http_failures", "Calls we broke; the log says why.", ["route"]),
        shed=counter(f"{PREFIX}http_shed", "Calls turned away because too many were in flight."),
    )
    gauge = Gauge(f"{PREFIX}http_in_flight", "Calls being handled now.", registry=registry)
    gauge.set_function(lambda: life.in_flight)
    return life


async def _healthz(_request: web.Request) -> web.Response:
    return web.Response(text="ok\n")


async def _readyz(request: web.Request) -> web.Response:
    waiting = request.app[LIFE].waiting_for()
    answer = {"ready": not waiting, "waiting_for": waiting}
    return web.json_response(answer, status=503 if waiting else 200)


async def _metrics(request: web.Request) -> web.Response:
    return metrics.exposition(request, registry=request.app[LIFE].registry)


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
        return await _admitted(request, handler, life)
    except web.HTTPException as refusal:
        return _refusal(refusal)
    except Exception as error:  # noqa: BLE001 the one place where any fault becomes an answer
        if error is request.content.exception():
            life.log.info("request.unreadable", route=_route(request), error=error)
            return _short(400, "the body of the request cannot be read")
        life.log.failed("request.failed", error, route=_route(request))
        life.failures.labels(_route(request)).inc()
        return _short(500, "internal error: the log of this server says more")


async def _admitted(request: web.Request, handler: Handler, life: Life) -> web.StreamResponse:
    """The handler's answer, unless too many calls are being handled already."""
    if request.path in ALWAYS_OPEN:
        return await handler(request)
    if life.max_in_flight and life.in_flight >= life.max_in_flight:
        life.shed.inc()
        return _overloaded()
    life.in_flight += 1
    try:
        return await handler(request)
    finally:
        life.in_flight -= 1


def _overloaded() -> web.Response:
    """The caller comes again in a second, on a new connection, perhaps to another replica."""
    answer = _short(503, "too many calls in flight: try again")
    answer.headers["Retry-After"] = "1"
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
    app: web.Application, settings: ServerSettings, *, clock: Clock = utc_now
) -> AsyncIterator[Listening]:
    """Serve inside the `async with`; leaving it closes the sockets and waits for open calls.

    Raises `BadPair` or `CannotListen` before anything is served. The event `server.listening` tells the
    port that was really taken.
    """
    life = app[LIFE]
    keeper = _keeper(settings, life, clock=clock)
    with _socket(settings) as opened:
        runner = web.AppRunner(
            app,
            access_log=None,
            keepalive_timeout=KEEPALIVE_SECONDS,
            shutdown_timeout=GRACE_SECONDS,
        )
        await runner.setup()
        try:
            context = keeper.context if keeper else None
            await web.SockSite(runner, opened, ssl_context=context, backlog=BACKLOG).start()
            port = opened.getsockname()[1]
            place = Listening(settings.bind, port, "https" if keeper else "http", keeper)
            life.log.info("server.listening", bind=place.bind, port=port, scheme=place.scheme)
            yield place
        finally:
            await runner.cleanup()


def _keeper(settings: ServerSettings, life: Life, *, clock: Clock) -> Keeper | None:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    pair = PairFiles(settings.tls_cert, settings.tls_key)
    keeper = Keeper(pair, log=life.log, registry=life.registry, clock=clock)
    life.checks["certificate"] = keeper.trouble
    return keeper


@contextlib.contextmanager
def _socket(settings: ServerSettings) -> Iterator[socket.socket]:
    """One socket, so that one port is taken even if it is any free one."""
    everywhere = settings.bind == EVERYWHERE
    both = everywhere and socket.has_dualstack_ipv6()
    address = ("" if everywhere else settings.bind, settings.port)
    family = socket.AF_INET6 if both or ":" in settings.bind else socket.AF_INET
    try:
        opened = socket.create_server(address, family=family, dualstack_ipv6=both)
    except (OSError, UnicodeError) as error:
        place = f"--bind {settings.bind} --port {settings.port}"
        # The first sentence of the standard library's; the rest repeats the address.
        reason = str(getattr(error, "strerror", error)).partition(" (while")[0]
        raise CannotListen([Mistake(place, f"cannot listen: {reason}")]) from error
    with opened:
        yield opened


async def serve(
    app: web.Application,
    settings: ServerSettings,
    *,
    stop: Stop,
    tasks: Mapping[str, Task] = NONE,
    clock: Clock = utc_now,
) -> int:
    """Serve until asked to stop, drain, end; the exit code of the program.

    0 after a graceful end; 1 if one of the `tasks`, which run beside the server, failed, for a server whose
    snapshot no longer follows the world must be replaced; 2 if it could not start, with the reasons logged.
    """
    log = app[LIFE].log
    try:
        async with listening(app, settings, clock=clock) as place:
            beside = {**tasks, **_renewal(place, settings)}
            async with _running(beside, log=log, stop=stop) as failed:
                await stop.asked.wait()
                await _drained(app[LIFE], settings.drain_seconds, stop=stop)
    except (BadPair, CannotListen) as error:
        return _not_started(log, error)
    log.info("server.stopped", failed=failed)
    return 1 if failed else 0


def _not_started(log: Log, error: BadInput) -> int:
    log.error("server.refused", mistakes=error.mistakes)
    return 2


def _renewal(place: Listening, settings: ServerSettings) -> dict[str, Task]:
    if place.keeper is None or not settings.tls_reload_seconds:
        return {}
    return {"tls": partial(place.keeper.watch, every=settings.tls_reload_seconds)}


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
    life.log.info("server.draining", seconds=seconds, in_flight=life.in_flight)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.at_once.wait(), seconds)


def run(app: web.Application, settings: ServerSettings, *, tasks: Mapping[str, Task] = NONE) -> int:
    """Serve until SIGTERM or SIGINT and give the exit code: the last call of a program's main."""
    logs.adopt_libraries(app[LIFE].log)
    return asyncio.run(_until_signalled(app, settings, tasks))


async def _until_signalled(app: web.Application, settings: ServerSettings, tasks: Mapping[str, Task]) -> int:
    stop = Stop()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.ask)
    return await serve(app, settings, stop=stop, tasks=tasks)
