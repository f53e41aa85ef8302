"""
Measure the webhook while the cluster changes: round trips, and how late its answers show a change.

The topologies of 15,000 nodes change 250 times per second, as exporters publish what is free when pods come
and go. Meanwhile, 500 reviews per second are sent over TLS. An API server in a separate process sends the
changes over a watch. One node, the canary, has a device that no other node has. The device is removed and
restored, and a pod that requests it is reviewed repeatedly until the answer shows the change. The staleness
of the webhook is the time from the change at the API server to that answer. For comparison, the same reviews
are sent before anything changes. This client shares the processors with the server, so what waits for the
server waits for the client too.
"""

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tools.bench import churn_server, cluster, coldstart, command_line, servers
from tools.bench.churn_server import CANARY, ApiServer
from tools.bench.cluster import Raw
from tools.bench.figures import Histogram, Spread, ms, table
from tools.bench.fleets import MOST_MAKES
from tools.bench.servers import Webhook
from tools.bench.webhook import CONNECTIONS, PATHS, Call, Client, Cost, Run, counted, introduce

LOOK_SECONDS = 0.02
"""Seconds between two reviews of the pod that requests the canary; staleness can seem longer by as much."""

PAUSE_SECONDS = 0.2
"""Seconds from an answer that shows the canary's last change to its next change."""

LONGEST = 30.0
"""Seconds after which an answer is no longer awaited: the staleness then counts as that."""


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a webhook: reviews and changes per second, and how many seconds it lasts."""

    rate: int
    changes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Period:
    """The result of a load; `staleness` in seconds, `cores` by process, `lag` as the program measures it."""

    load: Load
    run: Run
    changed: int
    staleness: Sequence[float]
    cores: dict[str, float]
    lag: Histogram

    def document(self) -> Raw:
        """Return the figures for a file, in milliseconds and cores."""
        return {
            "asked_per_s": self.load.rate,
            "reviews_per_s": self.run.rate,
            "changes_per_s": self.changed / self.run.seconds,
            "round_trip_ms": Spread.of(self.run.round_trips).millis(),
            "from_due_ms": Spread.of(self.run.from_due).millis(),
            "handler_ms": self.run.handler.spread().millis(),
            "lag_ms": self.lag.spread().millis() if self.lag.observed else None,
            "staleness_ms": Spread.of(self.staleness).millis() if self.staleness else None,
            "staleness_looks": len(self.staleness),
            "cores": self.cores,
            "decisions": dict(self.run.decisions),
        }


def measure(*, nodes: int, makes: int, templates: int, load: Load) -> tuple[list[Period], dict[str, float]]:
    """Measure reviews without changes, then with them; return both, and the webhook's memory in MiB."""
    pods = [template.pod for template in cluster.templates(templates)]
    with (
        churn_server.serving(nodes, makes) as api,
        coldstart.started(api.port, ()) as webhook,
        contextlib.ExitStack() as stack,
    ):
        connections = [
            stack.enter_context(contextlib.closing(webhook.connection())) for _ in range(CONNECTIONS + 1)
        ]
        watcher, *clients = map(Client, connections)
        calls = introduce(clients[0], pods, {path: Cost() for path in PATHS})
        quiet = Load(load.rate, 0, load.seconds / 2)
        periods = [_period(webhook, api, clients, watcher, calls, each) for each in (quiet, load)]
        return periods, webhook.server.memory()


def _period(  # noqa: PLR0913, PLR0917  who takes part
    webhook: Webhook,
    api: ApiServer,
    clients: Sequence[Client],
    watcher: Client,
    calls: Sequence[Call],
    load: Load,
) -> Period:
    api.pace(load.changes)
    changed, lag, cores = api.changed(), webhook.server.loop_lag(), _processors(webhook, api)
    with ThreadPoolExecutor(1) as thread:
        watching = thread.submit(_watch, watcher, api, load)
        run = counted(webhook, clients, calls, rate=load.rate, seconds=load.seconds)
        spent = {name: each - cores[name] for name, each in _processors(webhook, api).items()}
        staleness = watching.result()
    return Period(
        load=load,
        run=run,
        changed=api.changed() - changed,
        staleness=staleness,
        cores={name: each / run.seconds for name, each in spent.items()},
        lag=webhook.server.loop_lag().since(lag),
    )


def _watch(client: Client, api: ApiServer, load: Load) -> list[float]:
    """Take the canary away and give it back until the load ends; return the delays of answers in seconds."""
    call, until, found, free = Call.of("/validate", _canary_pod()), time.perf_counter() + load.seconds, [], 1
    while time.perf_counter() < until:
        free = 1 - free
        changed = api.set_canary(free)
        while (late := time.perf_counter() - changed) < LONGEST:
            if shows_room(client.ask(call)) == bool(free):
                late = time.perf_counter() - changed
                break
            time.sleep(LOOK_SECONDS)
        found.append(late)
        time.sleep(PAUSE_SECONDS)
    return found


def shows_room(response: Raw) -> bool:
    """Return whether a pod is admitted, without a warning that nodes lack room."""
    return response["allowed"] and not response.get("warnings")


def _canary_pod() -> Raw:
    amounts = {"cpu": "1", "memory": "1Gi", CANARY: "1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "canary",
            "namespace": "team-0",
            "annotations": {cluster.POLICY: "single-numa-node"},
        },
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}]
        },
    }


def _processors(webhook: Webhook, api: ApiServer) -> dict[str, float]:
    return {
        "webhook": webhook.server.processor_seconds(),
        "API server": servers.processor_seconds(api.pid),
        "client": time.process_time(),
    }


def text(periods: Sequence[Period]) -> str:
    """Return the tables."""
    return "\n\n".join("\n".join(_lines(period)) for period in periods)


def _lines(period: Period) -> Iterator[str]:
    run, cores = period.run, ", ".join(f"{name} {each:.2f}" for name, each in period.cores.items())
    changes = f"{period.changed / run.seconds:.0f} changes/s"
    yield f"{run.rate:.0f} reviews/s, {changes}; cores: {cores}"
    rows = [_row("round trip", Spread.of(run.round_trips)), _row("from due", Spread.of(run.from_due))]
    rows += [_row("handler", run.handler.spread()), _row("staleness", Spread.of(period.staleness))]
    rows += [_row("lag of the loop", period.lag.spread())] if period.lag.observed else []
    yield table(["ms", "p50", "p99", "max"], rows)


def _row(what: str, spread: Spread) -> list[str]:
    return [what, ms(spread.p50), ms(spread.p99), ms(spread.most)]


def main() -> int:
    """Measure as the flags say; return 0 however slow it was."""
    parser = command_line.parser("tools.bench.churn", __doc__)
    number, makes = command_line.number, command_line.number
    parser.add_argument("--nodes", type=number, default=15_000, help="nodes of the cluster (default 15000)")
    parser.add_argument(
        "--makes", type=makes, default=36, help=f"makes of the nodes, at most {MOST_MAKES} (default 36)"
    )
    parser.add_argument(
        "--templates", type=number, default=100, help="workloads that create pods (default 100)"
    )
    parser.add_argument("--rate", type=number, default=500, help="reviews per second (default 500)")
    parser.add_argument(
        "--changes", type=number, default=250, help="changes of topologies per second (default 250)"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=20,
        help="seconds with changes, after half as long without (default 20)",
    )
    chosen = parser.parse_args()
    if chosen.seconds <= 0 or chosen.makes > MOST_MAKES:
        parser.error(f"--seconds must be above zero, and --makes at most {MOST_MAKES}")
    load = Load(chosen.rate, chosen.changes, chosen.seconds)
    periods, memory = measure(nodes=chosen.nodes, makes=chosen.makes, templates=chosen.templates, load=load)
    quiet, churn = (period.document() for period in periods)
    print(text(periods))
    document = {
        "nodes": chosen.nodes,
        "makes": chosen.makes,
        "templates": chosen.templates,
        "changes_asked_per_s": chosen.changes,
        "quiet": quiet,
        "churn": churn,
        "rss_mib": memory,
    }
    command_line.write(document, chosen.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
