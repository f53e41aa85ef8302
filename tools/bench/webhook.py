"""
Measure the webhook as an API server sees it: the real process, TLS, and keep-alive connections.

Reviews are sent at a fixed rate, however long the previous answer took. If a late answer delays the next
review, that delay counts as latency (`from due`). The time in the handler comes from the server's own
histogram, as the difference between two scrapes of /metrics, so the measurement adds nothing to the server.
"""

import base64
import contextlib
import functools
import http.client
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import orjson

from tools.bench import churn_server, cluster, coldstart, command_line
from tools.bench.cluster import Raw
from tools.bench.figures import MILLI, Histogram, Spread, ms, table
from tools.bench.fleets import MOST_MAKES
from tools.bench.servers import Webhook
from tools.bench.targets import HANDLER_MS, WEBHOOK_MIB

SHARES = {"p50": 0.50, "p99": 0.99}

PATHS = ("/mutate", "/validate")
REPEATS = 5
CONNECTIONS = 4
"""Kept alive and used in turn, so that a late answer does not delay all reviews that are due."""

_UID = b"00000000-0000-0000-0000-%012d"
_HOLE = "uid-of-this-review"
_BUCKET = re.compile(r'numalign_review_seconds_bucket\{le="([^"]+)",webhook="(\w+)"\} (\S+)')


@dataclass(frozen=True, slots=True)
class Call:
    """A review with a gap for its uid."""

    path: str
    before: bytes
    after: bytes

    @classmethod
    def of(cls, path: str, pod: Raw) -> "Call":
        """Return the review of a pod that is created."""
        asked = {
            "uid": _HOLE,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "team-0",
            "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
            "object": pod,
            "dryRun": False,
        }
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
        before, _, after = orjson.dumps(body).partition(_HOLE.encode())
        return cls(path, before, after)

    @property
    def size(self) -> int:
        """Bytes on the wire, without headers."""
        return len(self.before) + len(_UID % 0) + len(self.after)


@dataclass(slots=True)
class Client:
    """One connection that is kept alive."""

    connection: http.client.HTTPSConnection
    sent: int = 0

    def ask(self, call: Call) -> Raw:
        """Return the response to a review; raise `RuntimeError` for any status but 200."""
        uid = _UID % self.sent
        self.sent += 1
        body = b"".join((call.before, uid, call.after))
        self.connection.request("POST", call.path, body, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        content = answer.read()
        if answer.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{call.path} answered {answer.status}: {content[:200]!r}")
        response: Raw = orjson.loads(content)["response"]
        return response

    def timed(self, call: Call) -> float:
        """Return the seconds from sending a review to the last byte of the answer."""
        began = time.perf_counter()
        self.ask(call)
        return time.perf_counter() - began


@dataclass(slots=True)
class Cost:
    """Round trips of reviews that are the first of their template, and of later ones, in seconds."""

    first: list[float] = field(default_factory=list)
    repeated: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """The median of first reviews divided by that of repeated ones."""
        return Spread.of(self.first).p50 / Spread.of(self.repeated).p50


def handled(webhook: Webhook) -> dict[str, Histogram]:
    """Return the histogram of each path so far."""
    totals: dict[str, dict[float, float]] = {path: {} for path in PATHS}
    for bound, name, count in _BUCKET.findall(webhook.metrics()):
        totals[f"/{name}"][float(bound)] = float(count)
    return {path: Histogram.cumulative(found) for path, found in totals.items()}


def introduce(client: Client, pods: Iterable[Raw], costs: dict[str, Cost]) -> list[Call]:
    """Send each pod through both paths as if new, then again; return the calls that repeat it.

    The pod that is validated is the one that would be stored, with the patch of the webhook.
    """
    calls = []
    for pod in pods:
        made = Call.of("/mutate", pod)
        costs["/mutate"].first.append(client.timed(made))
        stored = Call.of("/validate", _patched(pod, client.ask(made)))
        costs["/validate"].first.append(client.timed(stored))
        for call in (made, stored):
            costs[call.path].repeated += [client.timed(call) for _ in range(REPEATS)]
        calls += [made, stored]
    return calls


def _patched(pod: Raw, response: Raw) -> Raw:
    """Return the pod with the affinity of the patch; synthetic pods have none of their own."""
    operations = orjson.loads(base64.b64decode(response.get("patch", "W10=")))
    written = {operation["path"].rpartition("/")[2]: operation["value"] for operation in operations}
    return {**pod, "spec": {**pod["spec"], **written}}


@dataclass(slots=True)
class Run:
    """The result of a paced run; durations are in seconds, `handler` is what the server counted."""

    asked: int
    round_trips: list[float] = field(default_factory=list)
    from_due: list[float] = field(default_factory=list)
    decisions: Counter[str] = field(default_factory=Counter)
    seconds: float = 0
    handler: Histogram = field(default_factory=Histogram)

    @property
    def answered(self) -> int:
        """The number of answered reviews."""
        return len(self.round_trips)

    @property
    def rate(self) -> float:
        """Answered reviews per second."""
        return self.answered / self.seconds


def paced(
    clients: Sequence[Client],
    calls: Sequence[Call],
    *,
    rate: int,
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> Run:
    """Send a review at each tick of the clock; repeat the calls, and use the clients in turn.

    Reviews that were not sent in time are not sent at all.
    """
    run, began = Run(rate), clock()
    turns = [range(first, round(rate * seconds), len(clients)) for first in range(len(clients))]
    with ThreadPoolExecutor(len(clients)) as threads:
        for each in threads.map(
            lambda one, turn: _sent(one, calls, turn, rate, began, began + seconds, clock), clients, turns
        ):
            run.round_trips += each.round_trips
            run.from_due += each.from_due
            run.decisions += each.decisions
    run.seconds = clock() - began
    return run


def _sent(  # noqa: PLR0913, PLR0917  what a client needs to keep time
    client: Client,
    calls: Sequence[Call],
    turns: Iterable[int],
    rate: int,
    began: float,
    until: float,
    clock: Callable[[], float],
) -> Run:
    run = Run(rate)
    for number in turns:
        due = began + number / rate
        time.sleep(max(due - clock(), 0))
        sent = clock()
        if sent > until:
            break
        response = client.ask(calls[number % len(calls)])
        done = clock()
        run.round_trips.append(done - sent)
        run.from_due.append(done - due)
        run.decisions[_decision(response)] += 1
    return run


def _decision(response: Raw) -> str:
    if not response["allowed"]:
        return "denied"
    return "patched" if "patch" in response else "warned" if response.get("warnings") else "admitted"


def counted(
    webhook: Webhook, clients: Sequence[Client], calls: Sequence[Call], *, rate: int, seconds: float
) -> Run:
    """Return a paced run with what the server counted of it."""
    before = handled(webhook)
    run = paced(clients, calls, rate=rate, seconds=seconds)
    after = handled(webhook)
    run.handler = functools.reduce(Histogram.plus, (after[path].since(before[path]) for path in PATHS))
    return run


@dataclass(frozen=True, slots=True)
class Outcome:
    """All figures; there is a run for each rate, the highest last."""

    nodes: int
    makes: int
    templates: int
    bytes_per_review: int
    starting: float
    costs: dict[str, Cost]
    first_lag: Histogram
    runs: Sequence[Run]
    memory: dict[str, float]

    @property
    def aims(self) -> dict[str, bool]:
        """The targets, and whether each is met; those of handling a review at the highest rate."""
        fastest = self.runs[-1]
        within = {}
        for name, aim in HANDLER_MS.items():
            share = SHARES[name]
            said = f"{share:.0%} of {fastest.asked} reviews per second handled in at most {aim:g} ms"
            within[said] = fastest.handler.share_within(aim / MILLI) >= share
        return {**within, f"at most {WEBHOOK_MIB} MiB resident": self.memory["now"] <= WEBHOOK_MIB}

    def document(self) -> Raw:
        """Return the figures for a file, in milliseconds, MiB and reviews per second."""
        costs = {
            path: {
                "first_ms": Spread.of(cost.first).millis(),
                "repeated_ms": Spread.of(cost.repeated).millis(),
                "ratio": cost.ratio,
            }
            for path, cost in self.costs.items()
        }
        return {
            "nodes": self.nodes,
            "makes": self.makes,
            "templates": self.templates,
            "bytes_per_review": self.bytes_per_review,
            "starting_s": self.starting,
            "templates_ms": costs,
            "first_lag_ms": self.first_lag.spread().millis() if self.first_lag.observed else None,
            "runs": [_run_document(run) for run in self.runs],
            "rss_mib": self.memory,
            "aims": self.aims,
        }

    def __str__(self) -> str:
        """Return the tables."""
        runs = [line for run in self.runs for line in (*_of_run(run), "")]
        return "\n".join([*self._of_input(), "", self._of_templates(), "", *runs, *self._of_aims()])

    def _of_input(self) -> Iterator[str]:
        yield f"{self.nodes} nodes of {self.makes} makes"
        yield f"{self.templates} templates, {self.bytes_per_review} bytes per review"
        yield f"start to ready: {self.starting:.2f} s"

    def _of_templates(self) -> str:
        head = [
            "round trip, ms",
            "first p50",
            "first p99",
            "first max",
            "again p50",
            "again max",
            "first : again",
        ]
        rows = []
        for path, cost in self.costs.items():
            first, again = Spread.of(cost.first), Spread.of(cost.repeated)
            figures = map(ms, (first.p50, first.p99, first.most, again.p50, again.most))
            rows.append([path, *figures, f"{cost.ratio:.0f} : 1"])
        lag = self.first_lag.spread()
        late = f"\nlag of the event loop meanwhile: p99 {ms(lag.p99)} ms, at most {ms(lag.most)} ms"
        return table(head, rows) + (late if self.first_lag.observed else "")

    def _of_aims(self) -> Iterator[str]:
        yield f"resident: {self.memory['now']:.0f} MiB, peak {self.memory['most']:.0f} MiB"
        for aim, met in self.aims.items():
            yield f"target {'met' if met else 'MISSED'}: {aim}"


def _run_document(run: Run) -> Raw:
    return {
        "asked_per_s": run.asked,
        "reviews_per_s": run.rate,
        "reviews": run.answered,
        "decisions": dict(run.decisions),
        "handler_ms": run.handler.spread().millis(),
        "handler_buckets_s": {str(bound): count for bound, count in run.handler.counts.items()},
        "round_trip_ms": Spread.of(run.round_trips).millis(),
        "from_due_ms": Spread.of(run.from_due).millis(),
    }


def _of_run(run: Run) -> Iterator[str]:
    decisions = ", ".join(f"{count} {name}" for name, count in sorted(run.decisions.items()))
    yield f"{run.answered} reviews in {run.seconds:.1f} s: {run.rate:.1f}/s, {decisions}"
    handler = run.handler.spread()
    exact = {"round trip": Spread.of(run.round_trips), "from due": Spread.of(run.from_due)}
    rows = [["handler", ms(handler.p50), ms(handler.p99), f"<= {ms(handler.most)}"]]
    rows += [[name, ms(each.p50), ms(each.p99), ms(each.most)] for name, each in exact.items()]
    yield table(["ms", "p50", "p99", "max"], rows)


def measure(*, nodes: int, makes: int, templates: int, rates: Sequence[int], seconds: float) -> Outcome:
    """Start a webhook, send it every template for the first time, then send at each rate for so long."""
    pods = [template.pod for template in cluster.templates(templates)]
    costs = {path: Cost() for path in PATHS}
    with (
        churn_server.serving(nodes, makes) as api,
        coldstart.started(api.port, ()) as webhook,
        contextlib.ExitStack() as stack,
    ):
        connections = (
            stack.enter_context(contextlib.closing(webhook.connection())) for _ in range(CONNECTIONS)
        )
        clients = [Client(connection) for connection in connections]
        lag = webhook.server.loop_lag()
        calls = introduce(clients[0], pods, costs)
        first_lag = webhook.server.loop_lag().since(lag)
        return Outcome(
            nodes=nodes,
            makes=makes,
            templates=templates,
            bytes_per_review=round(sum(call.size for call in calls) / len(calls)),
            starting=webhook.server.starting,
            costs=costs,
            first_lag=first_lag,
            runs=[counted(webhook, clients, calls, rate=rate, seconds=seconds) for rate in sorted(rates)],
            memory=webhook.server.memory(),
        )


def main() -> int:
    """Measure as the flags say; return 0 however slow it was."""
    parser = command_line.parser("tools.bench.webhook", __doc__)
    parser.add_argument("--nodes", type=int, default=15_000, help="nodes of the cluster (default 15000)")
    parser.add_argument("--makes", type=int, default=36, help="makes of the nodes (default 36)")
    parser.add_argument("--templates", type=int, default=100, help="workloads that create pods (default 100)")
    parser.add_argument(
        "--rate", default="100,250,500", help="reviews per second, one run for each (default 100,250,500)"
    )
    parser.add_argument("--seconds", type=float, default=10, help="seconds at each rate (default 10)")
    chosen = parser.parse_args()
    rates = [int(word) if word.isdecimal() else 0 for word in chosen.rate.split(",")]
    if min(chosen.nodes, chosen.templates, *rates, chosen.seconds) <= 0:
        parser.error("every number must be above zero")
    if not 0 < chosen.makes <= MOST_MAKES:
        parser.error(f"--makes must be from 1 to {MOST_MAKES}")
    outcome = measure(
        nodes=chosen.nodes,
        makes=chosen.makes,
        templates=chosen.templates,
        rates=rates,
        seconds=chosen.seconds,
    )
    print(outcome)
    command_line.write(outcome.document(), chosen.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
