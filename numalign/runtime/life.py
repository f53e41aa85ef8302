"""What one server is and does at the moment, for the port that answers calls and the one that tells."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge

from numalign.runtime.connections import ConnectionTable
from numalign.runtime.logs import Log, QuietLog
from numalign.runtime.metrics import PREFIX
from numalign.runtime.overload import ROUND, TOGETHER, Excess, Gate, Limits, Load, Pool, Turns
from numalign.runtime.timeouts import Slow, Timeouts
from numalign.runtime.tls import Keeper

Check = Callable[[], str | None]
State = Callable[[], Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Counters:
    """What is counted of calls."""

    requests: Counter
    failures: Counter
    shed: Counter
    slow: Counter
    malformed: Counter
    proven: Counter
    handshakes: Counter

    @classmethod
    def of(cls, registry: CollectorRegistry) -> "Counters":
        """Declared, and at zero where what can happen is known."""
        counter = partial(Counter, registry=registry)
        made = cls(
            requests=counter(f"{PREFIX}http_requests", "Answers, by status.", ["route", "code"]),
            failures=counter(f"{PREFIX}http_failures", "Calls we broke; the log says why.", ["route"]),
            shed=counter(
                f"{PREFIX}http_shed", "Calls turned away because too much was in flight.", ["reason"]
            ),
            slow=counter(f"{PREFIX}http_slow", "What did not come in time, and was given up.", ["part"]),
            malformed=counter(f"{PREFIX}http_malformed", "Requests that cannot be read as HTTP."),
            proven=counter(f"{PREFIX}http_proven", "Calls by callers whose certificate was proven."),
            handshakes=counter(f"{PREFIX}tls_handshake_failures", "TLS handshakes that failed."),
        )
        for excess in Excess:
            made.shed.labels(excess)
        for slow in Slow:
            made.slow.labels(slow)
        return made


@dataclass(slots=True)
class Life:
    """What one server is and does at the moment; it changes while the server lives."""

    log: Log
    registry: CollectorRegistry
    checks: dict[str, Check]
    state: State | None
    limits: Limits
    timeouts: Timeouts
    load: Load
    connections: ConnectionTable
    counters: Counters
    quiet_log: QuietLog
    # Bodies of which all is there, as they are parsed and judged: one that is long, and short ones.
    long: Gate = field(default_factory=lambda: Gate(Pool(1)))
    short: Gate = field(default_factory=lambda: Gate(Pool(TOGETHER)))
    turns: Turns = field(default_factory=lambda: Turns(ROUND))
    draining: bool = False
    keeper: Keeper | None = None

    def waiting_for(self) -> dict[str, str]:
        """Why calls should not come here now, by check; empty when ready."""
        reasons = {name: check() for name, check in self.checks.items()}
        if self.draining:
            reasons["server"] = "draining"
        return {name: reason for name, reason in reasons.items() if reason is not None}

    def slow(self, part: Slow, **fields: object) -> None:
        """Something did not come in time."""
        self.counters.slow.labels(part).inc()
        self.quiet_log.info("request.slow", part=str(part), **fields)

    def malformed(self, reason: str) -> None:
        """Somebody sent what is no HTTP."""
        self.counters.malformed.inc()
        self.quiet_log.info("request.malformed", reason=reason)

    def no_handshake(self, error: OSError) -> None:
        """Somebody could not agree with us on TLS, or showed a certificate that proves nothing."""
        self.counters.handshakes.inc()
        self.quiet_log.info("tls.no_handshake", error=error)


LIFE = web.AppKey("life", Life)


def begun(  # noqa: PLR0913  what a server is made of
    *,
    log: Log,
    registry: CollectorRegistry,
    checks: Mapping[str, Check],
    state: State | None,
    limits: Limits,
    timeouts: Timeouts,
) -> Life:
    """The life of a server that takes on so much, with what it counts declared in the registry."""
    life = Life(
        log=log,
        registry=registry,
        checks=dict(checks),
        state=state,
        limits=limits,
        timeouts=timeouts,
        load=Load.of(limits),
        connections=ConnectionTable(limits.connections),
        counters=Counters.of(registry),
        quiet_log=QuietLog(log),
    )
    _watch(life, registry)
    return life


def _watch(life: Life, registry: CollectorRegistry) -> None:
    gauge, counter = partial(Gauge, registry=registry), partial(Counter, registry=registry)
    load, connections = life.load, life.connections
    gauge(f"{PREFIX}http_in_flight", "Calls being handled now.").set_function(lambda: load.calls.total)
    gauge(f"{PREFIX}http_reading", "Calls whose body is still to come.").set_function(
        lambda: load.open - load.calls.total
    )
    gauge(f"{PREFIX}http_bytes_in_flight", "Bytes of bodies that have arrived.").set_function(
        lambda: load.bytes.total
    )
    gauge(f"{PREFIX}http_connections", "Connections that are open.").set_function(lambda: len(connections))
    displaced = counter(
        f"{PREFIX}http_connections_displaced", "Connections that had to go because others came."
    )
    connections.displaced = displaced.inc
