"""
Measure the scorer as kube-scheduler sees it: the real process, one keep-alive connection, one pod at a time.

For each pod, the scheduler sends the names of the nodes that passed its own filters to /filter, then those
that are left to /prioritize, and waits for both before the next pod. The figure is the round trip of each
call, from sending the request to the last byte of the answer; there are no concurrent calls. It is compared
with the handler's own histogram, from the complete request to the encoded answer, as the difference between
two scrapes. The first pod of a template and later pods of it are measured separately. All nodes are read
before the first call, and do not change. They come from `fleets.py`, of many makes and, for comparison, of
one make.
"""

import argparse
import contextlib
import http.client
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from numalign.model.intent import Policy
from tools.bench import cluster, command_line, documents, servers
from tools.bench.cluster import Raw
from tools.bench.figures import Histogram, Spread, ms, table
from tools.bench.fleets import MOST_MAKES, Case
from tools.bench.servers import Server

VERBS = ("filter", "prioritize")

PHASES = ("first", "again")
"""Pods of new templates, and later pods of the same templates."""

_SEED = 6
_LONGEST_READING = 120
_BUCKET = re.compile(
    r'^numalign_scheduler_call_seconds_bucket{le="([^"]+)",verb="(\w+)"} (\S+)$', re.MULTILINE
)
_READ = re.compile(r"^numalign_ledger_nodes{[^}]*} (\S+)$", re.MULTILINE)


@dataclass(slots=True)
class Cost:
    """Figures of one verb in one phase: round trips in seconds, and the server's histogram."""

    round_trips: list[float] = field(default_factory=list)
    handler: Histogram = field(default_factory=Histogram)


Costs = dict[str, dict[str, Cost]]
"""Figures by verb and phase."""


@dataclass(slots=True)
class Scheduler:
    """A connection that is kept alive, used as by kube-scheduler."""

    server: Server
    connection: http.client.HTTPConnection
    sent: int = 0

    def schedule(self, pod: Raw, names: Sequence[str]) -> dict[str, float]:
        """Return the seconds of each call for a pod; raise `RuntimeError` for any status but 200."""
        self.sent += 1
        whole = {
            **pod,
            "metadata": {**pod["metadata"], "name": f"pod-{self.sent}", "uid": f"uid-{self.sent}"},
        }
        filtering, found = self._asked("filter", {"Pod": whole, "Nodes": None, "NodeNames": names})
        fit = found["NodeNames"]
        if len(fit) <= 1:
            return {"filter": filtering}
        ranking, _ = self._asked("prioritize", {"Pod": whole, "Nodes": None, "NodeNames": fit})
        return {"filter": filtering, "prioritize": ranking}

    def _asked(self, verb: str, asked: Raw) -> tuple[float, Raw]:
        body = orjson.dumps(asked)
        began = time.perf_counter()
        self.connection.request("POST", f"/{verb}", body, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        content = answer.read()
        took = time.perf_counter() - began
        if answer.status != http.HTTPStatus.OK:
            raise RuntimeError(f"/{verb} answered {answer.status}: {content[:200]!r}")
        return took, orjson.loads(content)

    def handled(self) -> dict[str, Histogram]:
        """Return the server's histogram of each verb so far."""
        totals: dict[str, dict[float, float]] = {verb: {} for verb in VERBS}
        for bound, verb, count in _BUCKET.findall(self.server.metrics()):
            totals[verb][float(bound)] = float(count)
        return {verb: Histogram.cumulative(found) for verb, found in totals.items()}

    def wait(self, nodes: int) -> float:
        """Wait until the server has read so many nodes; return the seconds that took."""
        began = time.monotonic()
        while sum(map(float, _READ.findall(self.server.metrics()))) < nodes:
            if time.monotonic() - began > _LONGEST_READING:
                raise RuntimeError("the scorer does not finish reading its nodes")
            time.sleep(0.1)
        return time.monotonic() - began


@dataclass(frozen=True, slots=True)
class Outcome:
    """Figures of one fleet by the number of names sent; `starting` and `reading` in seconds."""

    makes: int
    pods: int
    starting: float
    reading: float
    costs: dict[int, Costs]
    memory: dict[str, float]

    def document(self) -> Raw:
        """Return the figures for a file, in milliseconds and MiB."""
        return {
            "pods": self.pods,
            "starting_s": self.starting,
            "reading_s": self.reading,
            "rss_mib": self.memory,
            "round_trips_ms": self._spreads(lambda cost: Spread.of(cost.round_trips)),
            "handler_ms": self._spreads(lambda cost: cost.handler.spread()),
        }

    def _spreads(self, spread: Callable[[Cost], Spread]) -> Raw:
        return {
            str(names): {
                verb: {phase: spread(cost).millis() for phase, cost in phases.items()}
                for verb, phases in costs.items()
            }
            for names, costs in self.costs.items()
        }

    def __str__(self) -> str:
        """Return the tables."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"nodes of {self.makes} makes, {self.pods} pods"
        yield f"start to listening: {self.starting:.2f} s, then to all nodes read: {self.reading:.2f} s"
        yield f"resident: {self.memory['now']:.0f} MiB, peak {self.memory['most']:.0f} MiB"
        yield ""
        head = ["names", "verb", "template", *(f"{what} {key}" for what in _WHAT for key in _KEYS)]
        yield table(head, (row for names, costs in self.costs.items() for row in _rows(names, costs)))
        yield "ms; p50 and p99 of the handler are interpolated in its buckets, max is the bound of the last"


_WHAT = ("trip", "handler")
_KEYS = ("p50", "p99", "max")


def _rows(names: int, costs: Costs) -> Iterator[list[str]]:
    for verb, phases in costs.items():
        for phase, cost in phases.items():
            spreads = (Spread.of(cost.round_trips), cost.handler.spread())
            figures = (figure for each in spreads for figure in (each.p50, each.p99, each.most))
            yield [str(names), verb, phase, *map(ms, figures)]


@contextlib.contextmanager
def serving(listed: Raw) -> Iterator[Server]:
    """Run the scorer on a synthetic cluster."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "cluster.json").write_bytes(orjson.dumps(listed))
        settings = {
            "--snapshot": folder / "cluster.json",
            "--snapshot-reload-seconds": 0,
            "--insecure-http": "true",
            "--drain-seconds": 0,
        }
        with servers.started("scorer", settings, folder=folder) as server:
            yield server


@dataclass(frozen=True, slots=True)
class Load:
    """`templates` new pods for each number of names, and `repeats` more of each template."""

    names: tuple[int, ...]
    templates: int
    repeats: int


def measure(*, nodes: int, makes: int, load: Load) -> Outcome:
    """Start a scorer on nodes of so many makes; schedule pods of every template."""
    members = Case.mixed(nodes, makes, Policy.NONE).members()
    listed, every = cluster.occupied(documents.listed(members)), [node.name for node in members]
    pods = [template.pod for template in cluster.templates(load.templates * len(load.names))]
    dice = random.Random(_SEED)  # noqa: S311 - it makes input, not secrets
    with serving(listed) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        with contextlib.closing(connection):
            scheduler = Scheduler(server, connection)
            reading = scheduler.wait(nodes)
            costs = {
                size: _costs(scheduler, pods[at :: len(load.names)], every, size, load.repeats, dice)
                for at, size in enumerate(load.names)
            }
        assigned = sum(item["kind"] == "Pod" for item in listed["items"])
        return Outcome(makes, assigned, server.starting, reading, costs, server.memory())


def _costs(  # noqa: PLR0913, PLR0917  what a round of pods is made of
    scheduler: Scheduler,
    pods: Sequence[Raw],
    every: Sequence[str],
    size: int,
    repeats: int,
    dice: random.Random,
) -> Costs:
    costs: Costs = {verb: {phase: Cost() for phase in PHASES} for verb in VERBS}
    for phase, turns in zip(PHASES, (1, repeats), strict=True):
        before = scheduler.handled()
        for pod in [*pods] * turns:
            for verb, seconds in scheduler.schedule(pod, dice.sample(every, size)).items():
                costs[verb][phase].round_trips.append(seconds)
        after = scheduler.handled()
        for verb in VERBS:
            costs[verb][phase].handler = after[verb].since(before[verb])
    return costs


def main() -> int:
    """Measure as the flags say; return 0 however slow it was."""
    parser = _parser()
    chosen = parser.parse_args()
    if max(chosen.names) > chosen.nodes:
        parser.error("--names must not be above --nodes")
    outcomes = [_measured(chosen, makes, names) for makes, names in _plan(chosen)]
    document = {
        "nodes": chosen.nodes,
        "templates": chosen.templates,
        "fleets": {str(outcome.makes): outcome.document() for outcome in outcomes},
    }
    print("\n\n".join(map(str, outcomes)))
    command_line.write(document, chosen.json)
    return 0


def _measured(chosen: argparse.Namespace, makes: int, names: tuple[int, ...]) -> Outcome:
    load = Load(names, chosen.templates, chosen.repeats)
    return measure(nodes=chosen.nodes, makes=makes, load=load)


def _plan(chosen: argparse.Namespace) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield makes and numbers of names: all numbers for the first makes, only the first for the others."""
    first, *others = chosen.makes
    yield first, chosen.names
    yield from ((makes, chosen.names[:1]) for makes in others)


def _parser() -> argparse.ArgumentParser:
    parser = command_line.parser("tools.bench.extender", __doc__)
    parser.add_argument(
        "--nodes", type=command_line.number, default=5000, help="nodes of the cluster (default 5000)"
    )
    parser.add_argument(
        "--makes",
        type=command_line.numbers(most=MOST_MAKES),
        default=(36, 1),
        metavar="N,...",
        help="makes of the nodes; after the first, only with the first of --names (default 36,1)",
    )
    parser.add_argument(
        "--names",
        type=command_line.numbers(),
        default=(500, 5000),
        metavar="N,...",
        help="node names in a call (default 500,5000)",
    )
    parser.add_argument(
        "--templates", type=command_line.number, default=60, help="workloads for each of --names (default 60)"
    )
    parser.add_argument(
        "--repeats", type=command_line.number, default=5, help="later pods of each workload (default 5)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
