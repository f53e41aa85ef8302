"""The state of one server, for its port for calls and its port for health and metrics."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge

from numalign.runtime.connections import ConnectionTable
from numalign.runtime.cooperative import WorkQueue
from numalign.runtime.in_flight import (
    ROUND,
    TOGETHER,
    Budget,
    BudgetQueue,
    Limits,
    Load,
    ShedReason,
    Slow,
    Timeouts,
    Turns,
)
from numalign.runtime.logs import Log, QuietLog
from numalign.runtime.metrics import PREFIX, MetricsPage
from numalign.runtime.tls import Keeper
from numalign.runtime.tracing import Tracer

Check = Callable[[], str | None]  # A readiness check: what is missing, None when ready.
DebugState = Callable[[], Mapping[str, object]]  # For `/debug/state`: what JSON or `str` can show.


class Counters:
    """The metrics of calls, at zero for known labels."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        self.requests = counter(
            f"{PREFIX}http_requests", "Answers, by route and status code.", ["route", "code"]
        )
        self.failures = counter(
            f"{PREFIX}http_failures", "Calls that failed because of an internal error.", ["route"]
        )
        self.shed = counter(
            f"{PREFIX}http_shed", "Calls rejected with 503 because too much was in flight.", ["reason"]
        )
        self.slow = counter(f"{PREFIX}http_slow", "Calls that timed out, by part.", ["part"])
        self.malformed = counter(f"{PREFIX}http_malformed", "Requests that are not valid HTTP.")
        self.proven = counter(f"{PREFIX}http_proven", "Calls of clients with a valid client certificate.")
        self.handshakes = counter(f"{PREFIX}tls_handshake_failures", "Failed TLS handshakes.")
        self.displaced = counter(
            f"{PREFIX}http_connections_displaced", "Connections closed to make room for new ones."
        )
        for reason in ShedReason:
            self.shed.labels(reason)
        for slow in Slow:
            self.slow.labels(slow)


@dataclass(slots=True)
class ServerState:
    """The state of one server: its readiness `checks` by name, what `debug` shows, load and metrics."""

    log: Log
    registry: CollectorRegistry
    checks: dict[str, Check]
    debug: DebugState | None
    limits: Limits
    timeouts: Timeouts
    draining: bool = False
    keeper: Keeper | None = None
    tracer: Tracer | None = None
    load: Load = field(init=False)
    connections: ConnectionTable = field(init=False)
    counters: Counters = field(init=False)
    metrics: MetricsPage = field(init=False)
    quiet_log: QuietLog = field(init=False)
    # Complete bodies while they are parsed and handled: one long body, and short ones.
    long: BudgetQueue = field(default_factory=lambda: BudgetQueue(Budget(1)))
    short: BudgetQueue = field(default_factory=lambda: BudgetQueue(Budget(TOGETHER)))
    turns: Turns = field(default_factory=lambda: Turns(ROUND))
    work: WorkQueue = field(default_factory=WorkQueue)

    def __post_init__(self) -> None:
        self.load = load = Load.of(self.limits)
        self.counters = Counters(self.registry)
        self.metrics = MetricsPage(self.registry)
        self.quiet_log = QuietLog(self.log)
        self.connections = ConnectionTable(self.limits.connections, displaced=self.counters.displaced.inc)
        gauge = partial(Gauge, registry=self.registry)
        gauge(f"{PREFIX}ready", "1 while this replica is ready, else 0.").set_function(
            lambda: not self.waiting_for()
        )
        gauge(f"{PREFIX}http_in_flight", "Calls in progress.").set_function(lambda: load.calls.total)
        gauge(f"{PREFIX}http_reading", "Calls whose body is still being received.").set_function(
            lambda: load.open - load.calls.total
        )
        gauge(f"{PREFIX}http_bytes_in_flight", "Bytes of request bodies received so far.").set_function(
            lambda: load.bytes.total
        )
        gauge(f"{PREFIX}http_connections", "Open connections.").set_function(lambda: len(self.connections))

    def waiting_for(self) -> dict[str, str]:
        """Return why the server is not ready, by check; empty when ready."""
        reasons = {name: check() for name, check in self.checks.items()}
        if self.draining:
            reasons["server"] = "draining"
        return {name: reason for name, reason in reasons.items() if reason is not None}

    def slow(self, part: Slow, **fields: object) -> None:
        """Count and log a step that timed out."""
        self.counters.slow.labels(part).inc()
        self.quiet_log.info("request.slow", part=str(part), **fields)

    def malformed(self, reason: str) -> None:
        """Count and log a request that is not HTTP."""
        self.counters.malformed.inc()
        self.quiet_log.info("request.malformed", reason=reason)

    def no_handshake(self, error: OSError) -> None:
        """Count and log a TLS handshake that failed, or an invalid client certificate."""
        self.counters.handshakes.inc()
        self.quiet_log.info("tls.handshake_failed", error=error)


SERVER_STATE = web.AppKey("server_state", ServerState)
