"""
Measure the webhook's CPU time per review with tracing: off, and on with no, one in 100 or all traces sampled.

The real process answers reviews of one template over one keep-alive connection, one after another. CPU time
is what the kernel counts for the whole process, so it includes the thread that sends spans. The receiver runs
in this process. Modes are measured in turn, round after round, because the speed of a machine changes from
one minute to the next.
"""

import argparse
import asyncio
import io
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType

from prometheus_client import CollectorRegistry

from numalign.runtime import logs, tracing
from numalign.runtime.tracing import SpanAttributes
from tools.bench import cluster, command_line
from tools.bench.figures import table
from tools.bench.webhook import Call
from tools.clusters import programs
from tools.clusters.http_calls import Connection
from tools.clusters.otlp import OtlpReceiver, receiving
from tools.clusters.programs import Running, Site

MICRO = 1e6
NODES = 100
SPANS, SPAN_ROUNDS = 200, 10

_ATTRIBUTES: SpanAttributes = MappingProxyType(
    {
        "http.request.method": "POST",
        "http.route": "/validate",
        "numalign.review.uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "numalign.review.dry_run": False,
        "numalign.decision": "admitted",
        "k8s.namespace.name": "team",
        "k8s.pod.name": "web-5d9c7b7f4-x2x7q",
    }
)

MODES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "off": (),
        "on, none sampled": ("--trace-ratio", "0"),
        "on, 1 in 100 sampled": ("--trace-ratio", "0.01"),
        "on, all sampled": ("--trace-ratio", "1"),
    }
)


@dataclass(frozen=True, slots=True)
class Measured:
    """Microseconds of each round: of processor time per review, and of the median round trip."""

    cpu: Sequence[float]
    round_trip: Sequence[float]

    @property
    def row(self) -> tuple[float, float]:
        """The minimum of each: other work on the machine can only add to it."""
        return min(self.cpu), min(self.round_trip)


async def measure(reviews: int, rounds: int) -> tuple[dict[str, Measured], int]:
    """Return the figures of each mode, and the number of spans received."""
    figures = {mode: Measured([], []) for mode in MODES}
    with receiving() as receiver, tempfile.TemporaryDirectory() as folder:
        for mode in [mode for _ in range(rounds) for mode in MODES]:
            place = Path(tempfile.mkdtemp(dir=folder))
            async with programs.site(place / "site") as here:
                webhook = await _webhook(here, receiver, mode)
                cpu, took = await _reviewed(webhook, reviews)
            measured = figures[mode]
            figures[mode] = Measured([*measured.cpu, cpu * MICRO], [*measured.round_trip, took * MICRO])
        return figures, len(receiver.spans)


async def _webhook(here: Site, receiver: OtlpReceiver, mode: str) -> Running:
    flags = ("--otlp-endpoint", receiver.endpoint, *MODES[mode]) if MODES[mode] else ()
    snapshot = here.file("cluster.json", cluster.snapshot(NODES))
    return await here.webhook("--snapshot", str(snapshot), "--log-level", "error", *flags)


async def _reviewed(webhook: Running, reviews: int) -> tuple[float, float]:
    """Return the seconds per review: of processor time, and of the median round trip."""
    [template] = cluster.templates(1)
    call = Call.of("/validate", template.pod)
    body = b"".join((call.before, b"one", call.after))
    connection = await Connection.open(webhook.door)
    await _asked(connection, body, max(reviews // 10, 1))
    before = _cpu_seconds(webhook)
    took = await _asked(connection, body, reviews)
    # By then, all waiting spans are sent.
    await asyncio.sleep(2.5)
    used = _cpu_seconds(webhook) - before
    connection.close()
    return used / reviews, statistics.median(took)


async def _asked(connection: Connection, body: bytes, count: int) -> list[float]:
    took = []
    for _ in range(count):
        began = time.perf_counter()
        answer = await connection.call("POST", "/validate", body)
        took.append(time.perf_counter() - began)
        if not answer.well:
            raise RuntimeError(f"the webhook answered {answer.status}: {answer.body[:200]!r}")
    return took


def span_cost(ratio: float, endpoint: str) -> float:
    """Return the processor time of a span in the thread that answers, in seconds; the best of some rounds."""
    log = logs.to(io.StringIO(), level="error", form="json")
    registry = CollectorRegistry()
    made = tracing.exporting(endpoint, ratio=ratio, program="bench", log=log, registry=registry)
    rounds = []
    with made as tracer:
        for _ in range(SPAN_ROUNDS):
            began = time.thread_time()
            for _ in range(SPANS):
                with tracer.called("POST /validate", {}) as span:
                    if span:
                        span.add(_ATTRIBUTES)
                        span.end_with(HTTPStatus.OK)
            rounds.append((time.thread_time() - began) / SPANS)
    return min(rounds)


def _cpu_seconds(program: Running) -> float:
    """Return the process' user and system time in seconds (proc(5), /proc/PID/stat, fields 14 and 15)."""
    fields = Path(f"/proc/{program.child.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2]
    user, system = fields.split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def text(figures: Mapping[str, Measured], spans: int) -> str:
    """Return the table."""
    least, _ = figures["off"].row
    rows = [
        (mode, f"{cpu:.0f}", f"{cpu - least:+.0f}", f"{took:.0f}")
        for mode, (cpu, took) in ((mode, measured.row) for mode, measured in figures.items())
    ]
    head = ("traces", "CPU us per review", "more than off", "round trip us, p50")
    return f"{table(head, rows)}\n{spans} spans received"


def main(argv: Sequence[str]) -> int:
    """Measure and print the figures; return 0."""
    parser = command_line.parser("tools.bench.tracing", __doc__)
    parser.add_argument(
        "--reviews",
        type=command_line.number,
        default=5000,
        help="reviews in each mode and round (default 5000)",
    )
    parser.add_argument("--rounds", type=command_line.number, default=3, help="rounds (default 3)")
    chosen: argparse.Namespace = parser.parse_args(argv)
    figures, spans = asyncio.run(measure(chosen.reviews, chosen.rounds))
    sys.stdout.write(text(figures, spans) + "\n")
    with receiving() as receiver:
        for name, ratio in (("not sampled", 0.0), ("sampled", 1.0)):
            cost = span_cost(ratio, receiver.endpoint) * MICRO
            sys.stdout.write(f"a span that is {name}: {cost:.1f} us in the answering thread\n")
    command_line.write({mode: asdict(measured) for mode, measured in figures.items()}, chosen.json)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
