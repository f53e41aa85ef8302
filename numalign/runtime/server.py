"""
A server that answers reviews in a cluster: its start, its limits and its shutdown.

The API server calls with a deadline, keeps idle connections for 90 seconds and does not repeat a POST whose
connection broke (k8s.io/client-go transport, net/http). So connections are kept longer than that; excess work
is rejected with a 503 that the caller retries (client-go obeys Retry-After); and shutdown is slow on purpose:
first not ready, then `Connection: close` on every answer while calls still arrive, then the sockets.
listener.py accepts connections, and calls.py handles calls.

Health, readiness, metrics and the debug state have a port of their own: an API server calls with TLS, a
kubelet probes and Prometheus reads without, and a network policy can distinguish them. No request there is
rejected under load, because a failed probe would remove the whole pod and load the others.

    BadInput
    └── CannotListen    an address or port that cannot be opened
"""

import asyncio
import contextlib
import gc
import resource
import signal
import socket
import time
from asyncio import sslproto
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

import orjson
from aiohttp import web
from prometheus_client import CollectorRegistry, Histogram

from numalign.model.errors import BadInput, Mistake
from numalign.runtime import calls, logs
from numalign.runtime.clock import Clock, Sleep, utc_now
from numalign.runtime.connections import ConnectionTable
from numalign.runtime.in_flight import Limits, Timeouts
from numalign.runtime.listener import Listener
from numalign.runtime.logs import Log
from numalign.runtime.metrics import PREFIX
from numalign.runtime.server_settings import ServingSettings
from numalign.runtime.server_state import SERVER_STATE, Check, DebugState, ServerState
from numalign.runtime.settings import EVERYWHERE, ListenAddress
from numalign.runtime.tls import BadPair, Keeper
from numalign.runtime.tracing import Tracer

HEALTH = "/healthz"
READINESS = "/readyz"
METRICS = "/metrics"
STATE = "/debug/state"

# After draining, for the calls still being handled; they have deadlines of their own.
GRACE_SECONDS = 10
# For those not answered by then: once to finish, once more to cancel.
LAST_SECONDS = 1
# For the port for health and metrics.
MOST_WATCHERS = 256
COLLECTED_AFTER = (1_000, 1_000, 100)
# The record size of TLS (RFC 8446, 5.1), which is enough for reading. asyncio keeps a buffer of 256 KiB for
# every connection, even for one that never sends anything.
TLS_RECORD = 16 * 1024

TICK_SECONDS = 0.05  # Takes a thousandth of a CPU, and detects stalls of a millisecond each second.

BackgroundTask = Callable[[], Awaitable[None]]

NONE: Mapping[str, BackgroundTask] = MappingProxyType({})


class CannotListen(BadInput):
    """Raised when the sockets cannot be opened."""


class Stop:
    """Stops a server: the first request drains it, the second stops draining."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.at_once = asyncio.Event()

    def ask(self) -> None:
        """Request the shutdown, or skip draining."""
        (self.at_once if self.asked.is_set() else self.asked).set()


@dataclass(frozen=True, slots=True)
class Listening:
    """An open server: its port for health and metrics, and its port for calls; port 0 answers none."""

    metrics_port: int
    port: int = 0
    keeper: Keeper | None = field(default=None, repr=False)

    @property
    def scheme(self) -> str:
        """The URL scheme of calls to `port`."""
        return "https" if self.keeper else "http"


def application(  # noqa: PLR0913  what a server is made of
    routes: Iterable[web.AbstractRouteDef],
    *,
    log: Log,
    registry: CollectorRegistry,
    checks: Mapping[str, Check],
    limits: Limits = Limits(),  # noqa: B008  frozen
    timeouts: Timeouts = Timeouts(),  # noqa: B008  frozen
    state: DebugState | None = None,
) -> web.Application:
    """Return a program's own routes, on a server with limits.

    `listening` serves health and metrics beside it. Bodies are read, within `limits` and `timeouts`, before a
    handler is called, which finds them in `calls.body`. Without `state` there is no `/debug/state`.
    """
    # Longer bodies are rejected as they are read, where all limits are counted.
    app = web.Application(middlewares=[calls.called])
    app[SERVER_STATE] = ServerState(log, registry, dict(checks), state, limits, timeouts)
    app.add_routes(routes)
    return app


def health_application(app: web.Application) -> web.Application:
    """Return the application of the port for health and metrics beside an `application`."""
    state = app[SERVER_STATE]

    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_request: web.Request) -> web.Response:
        waiting = state.waiting_for()
        return web.json_response(
            {"ready": not waiting, "waiting_for": waiting}, status=503 if waiting else 200
        )

    async def metrics(request: web.Request) -> web.Response:
        page, content_type = await state.metrics.written(request.headers.get("Accept", ""))
        return web.Response(body=page, headers={"Content-Type": content_type})

    async def debug(_request: web.Request) -> web.Response:
        own = {
            "draining": state.draining,
            "waiting_for": state.waiting_for(),
            "in_flight": state.load.calls.total,
            "bytes_in_flight": state.load.bytes.total,
            "connections": len(state.connections),
        }
        shown = {**(state.debug() if state.debug else {}), "server": own}
        body = orjson.dumps(shown, default=_plain, option=orjson.OPT_NON_STR_KEYS)
        return web.Response(body=body, content_type="application/json")

    health_app = web.Application(middlewares=[calls.watched])
    health_app[SERVER_STATE] = state
    health_app.add_routes([web.get(HEALTH, healthz), web.get(READINESS, readyz), web.get(METRICS, metrics)])
    if state.debug:
        health_app.add_routes([web.get(STATE, debug)])
    return health_app


def _plain(value: object) -> object:
    match value:
        case Mapping():
            return dict(value)
        case set() | frozenset():
            return list(value)
    return str(value)


@contextlib.asynccontextmanager
async def listening(
    app: web.Application, settings: ServingSettings, *, clock: Clock = utc_now, grace: float = GRACE_SECONDS
) -> AsyncIterator[Listening]:
    """Serve inside the `async with`; leaving it closes the sockets and waits for open calls.

    The port for health and metrics is the first to open and the last to close; a program that answers no
    calls has no other. At the end open calls get up to `grace` seconds, and the remaining ones are cut off.
    Raise `BadPair` or `CannotListen` before anything is served.
    """
    state, calls_port = app[SERVER_STATE], settings.calls_port
    state.keeper = None
    if calls_port and calls_port.pair:
        state.keeper = Keeper(
            calls_port.pair,
            log=state.log,
            registry=state.registry,
            clock=clock,
            client_ca=calls_port.client_ca,
        )
        state.checks["certificate"] = state.keeper.trouble
    async with contextlib.AsyncExitStack() as stack:
        # Both sockets are open before either is served.
        metrics_socket = stack.enter_context(opened(settings.metrics_address))
        called = stack.enter_context(opened(calls_port.address)) if calls_port else None
        watchers = partial(Listener, metrics_socket, connections=ConnectionTable(MOST_WATCHERS))
        await stack.enter_async_context(_served(health_application(app), watchers, grace=grace))
        place = Listening(port_of(metrics_socket), keeper=state.keeper)
        shown: dict[str, object] = {"bind": settings.bind, "metrics_port": place.metrics_port}
        if called:
            await stack.enter_async_context(answering(app, called, grace=grace))
            place = replace(place, port=port_of(called))
            shown |= {"port": place.port, "scheme": place.scheme}
        state.log.info("server.listening", **shown)
        yield place


def answering(
    app: web.Application, called: socket.socket, *, grace: float = GRACE_SECONDS
) -> contextlib.AbstractAsyncContextManager[None]:
    """Answer calls at a socket inside the `async with`, and at its end wait for open ones."""
    state = app[SERVER_STATE]
    context = state.keeper.context if state.keeper else None
    listener = partial(Listener, called, connections=state.connections, context=context)
    return _served(app, listener, grace=grace)


def port_of(listened: socket.socket) -> int:
    """Return the actual port of a socket."""
    number: int = listened.getsockname()[1]
    return number


async def answer(
    app: web.Application,
    called: socket.socket,
    *,
    stop: Stop,
    tasks: Mapping[str, BackgroundTask] = NONE,
    grace: float = LAST_SECONDS,
) -> int:
    """Answer calls until stopped, without health and metrics; return 1 if one of the `tasks` failed."""
    state = app[SERVER_STATE]
    async with answering(app, called, grace=grace), _running(tasks, log=state.log, stop=stop) as failed:
        await stop.asked.wait()
        state.draining = True
    return 1 if failed else 0


@contextlib.asynccontextmanager
async def _served(
    app: web.Application, listener: Callable[..., Listener], *, grace: float
) -> AsyncIterator[None]:
    state = app[SERVER_STATE]
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=min(grace, LAST_SECONDS))
    await runner.setup()
    try:
        async with listener(server=runner.server, state=state):
            yield
        # A connection that is being shut down would read no more of a body.
        state.draining = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(state.load.none(), grace)
    finally:
        await runner.cleanup()


def renew(app: web.Application) -> None:
    """Load the certificate files that have just been written; no effect before the server listens."""
    if keeper := app[SERVER_STATE].keeper:
        keeper.reload()


@contextlib.contextmanager
def opened(address: ListenAddress) -> Iterator[socket.socket]:
    """Provide one socket at an address, so that a free port is taken only once; raise `CannotListen`."""
    everywhere = address.bind == EVERYWHERE
    both = everywhere and socket.has_dualstack_ipv6()
    place = ("" if everywhere else address.bind, address.port)
    family = socket.AF_INET6 if both or ":" in address.bind else socket.AF_INET
    try:
        listened = socket.create_server(place, family=family, dualstack_ipv6=both)
    except (OSError, UnicodeError) as error:
        # The first sentence of the standard library's message; the rest repeats the address.
        reason = str(getattr(error, "strerror", error)).partition(" (while")[0]
        raise CannotListen([Mistake(str(address), f"cannot listen: {reason}")]) from error
    with listened:
        yield listened


async def serve(  # noqa: PLR0913  what the life of a server depends on
    app: web.Application,
    settings: ServingSettings,
    *,
    stop: Stop,
    tasks: Mapping[str, BackgroundTask] = NONE,
    tracer: Tracer | None = None,
    clock: Clock = utc_now,
    grace: float = GRACE_SECONDS,
) -> int:
    """Serve until stopped, drain, end; return the exit code of the program.

    It is 0 after a graceful shutdown; 1 if one of the `tasks`, which run beside the server, failed, because a
    server whose cluster is no longer updated must be replaced; 2 if it could not start, with the reasons
    logged.
    """
    state, log = app[SERVER_STATE], app[SERVER_STATE].log
    state.tracer = tracer
    try:
        async with listening(app, settings, clock=clock, grace=grace) as place:
            beside: dict[str, BackgroundTask] = {**tasks, "lag": partial(measure_lag, state.registry)}
            if place.keeper and settings.calls_port and settings.calls_port.reload_seconds:
                beside["tls"] = partial(place.keeper.watch, every=settings.calls_port.reload_seconds)
            async with _running(beside, log=log, stop=stop) as failed:
                await stop.asked.wait()
                # Not ready, but still serving, so that no call meets a closed listener.
                state.draining = True
                log.info("server.draining", seconds=settings.drain_seconds, in_flight=state.load.calls.total)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.at_once.wait(), settings.drain_seconds)
    except (BadPair, CannotListen) as error:
        return refused(log, error.mistakes)
    log.info("server.stopped", failed_tasks=failed)
    return 1 if failed else 0


def refused(log: Log, mistakes: Sequence[object]) -> int:
    """Log why a program does not start; return its exit code."""
    log.error("server.start_failed", errors=mistakes)
    return 2


@contextlib.asynccontextmanager
async def _running(tasks: Mapping[str, BackgroundTask], *, log: Log, stop: Stop) -> AsyncIterator[list[str]]:
    """Run tasks beside the server; provide the names of failed ones. A failure stops the server."""
    failed: list[str] = []

    async def guarded(name: str, task: BackgroundTask) -> None:
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
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def measure_lag(
    registry: CollectorRegistry, *, clock: Callable[[], float] = time.monotonic, sleep: Sleep = asyncio.sleep
) -> None:
    """Measure the delay of the event loop; never returns.

    One thread answers all requests, so each uninterrupted piece of work delays all others. The duration of
    calls does not show it, because a call is noticed only after the loop gets to it. So a timer fires all the
    time, and is as late as a call would be that arrived when the timer was due.
    """
    lag = Histogram(
        f"{PREFIX}event_loop_lag_seconds",
        "Delay of the event loop in seconds.",
        buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
        registry=registry,
    )
    due = clock() + TICK_SECONDS
    while True:
        await sleep(due - clock())
        now = clock()
        # Calls arrived while the loop was blocked, so each tick of that time counts.
        while due <= now:
            lag.observe(now - due)
            due += TICK_SECONDS


def run(program: Callable[[Stop], Awaitable[int]], *, log: Log) -> int:
    """Run a program until SIGTERM or SIGINT and return its exit code: the last call of a main."""
    logs.adopt_libraries(log)
    # A large cluster is a million objects without a cycle. Scanning the old ones as often as Python does by
    # default takes longer than reading them (tools/bench/coldstart), and scanning many new ones at once is a
    # pause.
    gc.set_threshold(*COLLECTED_AFTER)
    sslproto.SSLProtocol.max_size = TLS_RECORD
    # As many files as this process may open: a connection is one, and shells begin with 1,024.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    async def until_signalled() -> int:
        stop = Stop()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.ask)
        return await program(stop)

    return asyncio.run(until_signalled())
