"""What one server is and does at the moment, for the port that answers calls and the one that tells."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge

from numalign.runtime.logs import Log
from numalign.runtime.metrics import PREFIX
from numalign.runtime.overload import Excess, Load
from numalign.runtime.tls import Keeper

Check = Callable[[], str | None]
State = Callable[[], Mapping[str, object]]


@dataclass(slots=True)
class Life:
    """What one server is and does at the moment; it changes while the server lives."""

    log: Log
    registry: CollectorRegistry
    checks: dict[str, Check]
    state: State | None
    load: Load
    body_seconds: float
    requests: Counter
    failures: Counter
    shed: Counter
    draining: bool = False
    keeper: Keeper | None = None

    def waiting_for(self) -> dict[str, str]:
        """Why calls should not come here now, by check; empty when ready."""
        reasons = {name: check() for name, check in self.checks.items()}
        if self.draining:
            reasons["server"] = "draining"
        return {name: reason for name, reason in reasons.items() if reason is not None}


LIFE = web.AppKey("life", Life)


def begun(  # noqa: PLR0913  what a server is made of
    *,
    log: Log,
    registry: CollectorRegistry,
    checks: Mapping[str, Check],
    state: State | None,
    load: Load,
    body_seconds: float,
) -> Life:
    """The life of a server that takes on so much, with what it counts declared in the registry."""
    counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
    gauge(f"{PREFIX}http_in_flight", "Calls being handled now.").set_function(lambda: load.calls)
    gauge(f"{PREFIX}http_bytes_in_flight", "Bytes of their bodies, as announced.").set_function(
        lambda: load.bytes
    )
    shed = counter(f"{PREFIX}http_shed", "Calls turned away because too much was in flight.", ["reason"])
    for excess in Excess:
        shed.labels(excess)
    return Life(
        log=log,
        registry=registry,
        checks=dict(checks),
        state=state,
        load=load,
        body_seconds=body_seconds,
        requests=counter(f"{PREFIX}http_requests", "Answers, by status.", ["route", "code"]),
        failures=counter(f"{PREFIX}http_failures", "Calls we broke; the log says why.", ["route"]),
        shed=shed,
    )
