"""
The scorer as kube-scheduler meets it: the real process, one keep-alive connection, a pod at a time.

For each pod the scheduler sends the names of the nodes that passed its own filters, first to /filter and
then, with those that are left, to /prioritize, and waits for both before it looks at the next pod. So what is
measured is the round trip of each, from sending to the last byte of the answer; nothing is sent at the same
time. A pod of a new template is told apart from one of a template that was met before. Nothing changes on the
nodes meanwhile.
"""

import argparse
import contextlib
import http.client
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from bench import cluster, servers
from bench.cluster import Raw
from bench.figures import Spread, ms, table
from bench.servers import Server

VERBS = ("filter", "prioritize")

_SEED = 6


@dataclass(slots=True)
class Cost:
    """Round trips in seconds, by verb: of the first pod of a template, and of those after it."""

    first: dict[str, list[float]] = field(default_factory=lambda: {verb: [] for verb in VERBS})
    again: dict[str, list[float]] = field(default_factory=lambda: {verb: [] for verb in VERBS})


@dataclass(slots=True)
class Scheduler:
    """One keep-alive connection, used as kube-scheduler uses it."""

    connection: http.client.HTTPConnection
    sent: int = 0

    def schedule(self, pod: Raw, names: Sequence[str]) -> dict[str, float]:
        """Seconds that each verb took; raises `RuntimeError` for an answer that is none."""
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


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that was measured, by how many names were sent."""

    nodes: int
    pods: int
    starting: float
    costs: dict[int, Cost]
    memory: dict[str, float]

    def document(self) -> Raw:
        """For a file: milliseconds and MiB."""
        return {
            "nodes": self.nodes,
            "pods": self.pods,
            "starting_s": self.starting,
            "rss_mib": self.memory,
            "round_trips_ms": {
                str(names): {
                    verb: {
                        "first": Spread.of(cost.first[verb]).millis(),
                        "again": Spread.of(cost.again[verb]).millis(),
                    }
                    for verb in VERBS
                }
                for names, cost in self.costs.items()
            },
        }

    def __str__(self) -> str:
        """The tables."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.nodes} nodes of {cluster.CLASSES} classes, {cluster.ZONES} zones each, {self.pods} pods"
        yield f"start to listening: {self.starting:.2f} s"
        yield f"resident: {self.memory['now']:.0f} MiB, at most {self.memory['most']:.0f} MiB"
        yield ""
        head = ["names", "round trip, ms", "first p50", "first max", "again p50", "again p99", "again max"]
        yield table(head, (row for names, cost in self.costs.items() for row in _rows(names, cost)))


def _rows(names: int, cost: Cost) -> Iterator[list[str]]:
    for verb in VERBS:
        first, again = Spread.of(cost.first[verb]), Spread.of(cost.again[verb])
        figures = (first.p50, first.most, again.p50, again.p99, again.most)
        yield [str(names), verb, *map(ms, figures)]


@contextlib.contextmanager
def serving(listed: Raw) -> Iterator[Server]:
    """The scorer on a made-up cluster."""
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


def measure(*, nodes: int, sizes: Sequence[int], templates: int, repeats: int) -> Outcome:
    """Start a scorer, and schedule pods of every template with so many names at a time."""
    listed = cluster.occupied(cluster.snapshot(nodes))
    every = [item["metadata"]["name"] for item in listed["items"] if item["kind"] == "Node"]
    pods = [template.pod for template in cluster.templates(templates)]
    dice = random.Random(_SEED)  # noqa: S311 - it makes input, not secrets
    with serving(listed) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        with contextlib.closing(connection):
            scheduler = Scheduler(connection)
            costs = {size: _cost(scheduler, pods, every, size, repeats, dice) for size in sizes}
        occupants = sum(item["kind"] == "Pod" for item in listed["items"])
        return Outcome(nodes, occupants, server.starting, costs, server.memory())


def _cost(  # noqa: PLR0913, PLR0917  what a round of pods is made of
    scheduler: Scheduler,
    pods: Sequence[Raw],
    every: Sequence[str],
    size: int,
    repeats: int,
    dice: random.Random,
) -> Cost:
    cost = Cost()
    for turn in range(repeats + 1):
        for pod in pods:
            took = scheduler.schedule(pod, dice.sample(every, size))
            for verb, seconds in took.items():
                (cost.again if turn else cost.first)[verb].append(seconds)
    return cost


def main() -> int:
    """Measure as the flags say; 0 however slow it was."""
    parser = argparse.ArgumentParser(prog="python -m bench.extender", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--nodes", type=int, default=5000, help="nodes of the cluster (default 5000)")
    parser.add_argument("--names", default="500,5000", help="nodes that are asked about (default 500,5000)")
    parser.add_argument("--templates", type=int, default=20, help="workloads that send pods (default 20)")
    parser.add_argument("--repeats", type=int, default=20, help="pods of each after the first (default 20)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here as well")
    chosen = parser.parse_args()
    sizes = [int(word) for word in chosen.names.split(",") if word.isdigit()]
    if not sizes or not 0 < max(sizes) <= chosen.nodes or min(chosen.templates, chosen.repeats) <= 0:
        parser.error("every number must be above zero, and no more names than nodes")
    outcome = measure(nodes=chosen.nodes, sizes=sizes, templates=chosen.templates, repeats=chosen.repeats)
    print(outcome)
    if chosen.json:
        chosen.json.write_bytes(orjson.dumps(outcome.document(), option=orjson.OPT_INDENT_2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
