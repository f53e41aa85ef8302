"""
Measure whether the memory of the webhook and the scorer grows while new pods arrive for hours.

Both are the installed programs and follow an API server in a separate process. Reviews are sent as fast as
they are answered, over keep-alive connections. Meanwhile pods are created, filtered, ranked, bound, admitted
and deleted, and schedulers ask about pods that are never created. All pods are different, and none stays. So
the memory of a program at the end must be what it was after the first tenth of the run. The exit code is 1 if
either program grew by 5 % or more, or if a call failed. Caches are bounded and fill with the first 100,000
reviews, so a tenth of the run should have at least as many.
"""

import argparse
import asyncio
import itertools
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from tools.bench import cluster, command_line
from tools.bench.figures import table
from tools.bench.soak_callers import NAMES, Caller, Counts, Reviews, Schedule
from tools.bench.soak_pods import NAMESPACES, Json
from tools.clusters import programs
from tools.clusters.programs import MIB, ApiServer, Running, Site

MOST_GROWTH = 0.05
TENTH, HALF = 0.1, 0.5
SAMPLES = 15
"""Samples of the memory, a second apart, whose median counts: the last in the first tenth, and so on."""

FILLED = 100_000
"""Reviews after which nearly all that is bounded is full. After a tenth with fewer, it still fills."""

CONNECTIONS = 4
LOOK_SECONDS = 1.0
TOLD_EVERY = 30
"""Samples from one line of progress to the next."""

SCHEDULED = 10**9
"""The number of the first pod that is scheduled; those before it are only reviewed."""

_SIZES = ("bytes", "entries", "remembered", "reservations", "records")
"""Words in the names of metrics that report how much a program holds."""

Call = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Look:
    """Resident bytes of each program at a moment, and the progress of the run then."""

    seconds: float
    share: float
    assigned_pod: dict[str, int]


@dataclass(frozen=True, slots=True)
class Growth:
    """Resident bytes of a program after the first tenth, after half of a run, and at the end."""

    tenth: float
    half: float
    end: float

    @property
    def share(self) -> float:
        """By how much it grew, as a share of the first tenth; below zero if it shrank."""
        return self.end / self.tenth - 1


def growth(looks: list[Look], name: str) -> Growth:
    """Return the growth of a program: medians of the last samples in each part of a run."""
    parts = ([look.assigned_pod[name] for look in looks if look.share <= part] for part in (TENTH, HALF, 1))
    return Growth(*(median(each[-SAMPLES:]) for each in parts))


@dataclass(frozen=True, slots=True)
class Aim:
    """When a run is over: after `reviews` if that is given, else after `seconds`."""

    seconds: float
    reviews: int | None = None

    def share(self, counts: Counts, seconds: float) -> float:
        """Return the progress, from 0 to 1."""
        return min(1.0, counts.reviews / self.reviews if self.reviews else seconds / self.seconds)


@dataclass(slots=True)
class Run:
    """A soak: its end, the programs, the counts of their calls, and samples of their memory."""

    aim: Aim
    watched: dict[str, Running]
    counts: Counts = field(default_factory=Counts)
    looks: list[Look] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.began

    @property
    def over(self) -> bool:
        """Whether the run has reached its end."""
        return self.aim.share(self.counts, self.seconds) >= 1

    async def repeat(self, step: Call, *, every: float = 0.0) -> None:
        """Repeat a step until the run is over, at most once in `every` seconds."""
        while not self.over:
            began = time.monotonic()
            await step()
            await asyncio.sleep(max(0.0, every - (time.monotonic() - began)))

    async def look(self) -> None:
        """Sample the memory of the programs."""
        assigned_pod = {name: running.memory().now for name, running in self.watched.items()}
        self.looks.append(Look(self.seconds, self.aim.share(self.counts, self.seconds), assigned_pod))
        if len(self.looks) % TOLD_EVERY == 1:
            self.tell()

    def tell(self) -> None:
        """Print a line of progress."""
        assigned_pod = ", ".join(
            f"{name} {each / MIB:.1f} MiB" for name, each in self.looks[-1].assigned_pod.items()
        )
        counts, share = self.counts, self.looks[-1].share
        reviews = f"{counts.reviews} reviews ({counts.reviews / self.seconds:.0f}/s)"
        others = f"{counts.calls['filter']} filters, {counts.calls['bind']} binds"
        failed = f"{counts.outcomes['failed']} failed"
        print(
            f"{self.seconds:6.0f} s {share:4.0%}  {reviews}, {others}, {failed}; {assigned_pod}", flush=True
        )

    async def document(self, begun: dict[str, int]) -> Json:
        """Return all figures; `begun` is what each program held before the first call."""
        grown = {name: growth(self.looks, name) for name in self.watched}
        return {
            "seconds": round(self.seconds, 1),
            "reviews": self.counts.reviews,
            "calls": dict(self.counts.calls),
            "calls_per_s": {name: round(each / self.seconds, 1) for name, each in self.counts.calls.items()},
            "outcomes": dict(self.counts.outcomes),
            "failed": self.counts.failed,
            "resident_mib": {
                name: {
                    "begin": round(begun[name] / MIB, 1),
                    "tenth": round(each.tenth / MIB, 1),
                    "half": round(each.half / MIB, 1),
                    "end": round(each.end / MIB, 1),
                    "growth": round(each.share, 4),
                }
                for name, each in grown.items()
            },
            "sizes": {name: await sizes(running) for name, running in self.watched.items()},
        }


async def sizes(running: Running) -> dict[str, float]:
    """Return a program's metrics of how much it holds."""
    found = programs.samples(await running.metrics())
    return {
        series: value
        for series, value in found.items()
        if series.startswith("numalign_") and any(word in series.partition("{")[0] for word in _SIZES)
    }


async def soak(here: Site, aim: Aim, *, nodes: int, pace: float) -> Json:
    """Start everything, call until the end, and return the figures; `pace` is schedules per second."""
    objects = [*cluster.snapshot(nodes)["items"], *map(namespace, NAMESPACES)]
    names = [each["metadata"]["name"] for each in objects if each["kind"] == "Node"]
    api = await here.api_server(objects)
    watched = {"webhook": await webhook(here, api), "scorer": await scorer(here, api)}
    begun = {name: running.memory().now for name, running in watched.items()}
    run = Run(aim, watched)
    callers, scheduling = _callers(run, api, names)
    async with asyncio.TaskGroup() as group:
        for each in callers:
            group.create_task(run.repeat(each.step))
        group.create_task(run.repeat(scheduling.step, every=1 / pace))
        group.create_task(run.repeat(run.look, every=LOOK_SECONDS))
    await scheduling.reap(float("inf"))
    run.tell()
    return await run.document(begun)


def _callers(run: Run, api: ApiServer, names: list[str]) -> tuple[list[Reviews], Schedule]:
    reviewed, scheduled = itertools.count(), itertools.count(SCHEDULED)
    asked, ranked = run.watched["webhook"].door, run.watched["scorer"].door
    callers = [Reviews(Caller(asked, run.counts), reviewed) for _ in range(CONNECTIONS)]
    dice = random.Random(0)  # noqa: S311 - it makes input, not secrets
    apis, scorers = Caller(api.door, run.counts), Caller(ranked, run.counts)
    return callers, Schedule(apis, scorers, names, scheduled, dice)


def namespace(name: str) -> Json:
    """Return a namespace; every other one has a default policy for pods without a policy."""
    labels = {"numalign.io/default": "best-effort"} if int(name[-1]) % 2 else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


async def webhook(here: Site, api: ApiServer) -> Running:
    """Start the webhook as in a cluster, without a log line for each review."""
    return await here.webhook("--kubeconfig", str(api.kubeconfig), "--log-level", "warning")


async def scorer(here: Site, api: ApiServer) -> Running:
    """Start the scorer as in a cluster."""
    return await here.scorer("--kubeconfig", str(api.kubeconfig), "--log-level", "warning")


def verdict(document: Json) -> list[str]:
    """Return what is not as it should be."""
    grown = {name: each["growth"] for name, each in document["resident_mib"].items()}
    full = document["reviews"] * TENTH >= FILLED
    why = "" if full else f" while its caches filled: a tenth of the run is under {FILLED} reviews"
    wrong = [f"the {name} grew by {share:.1%}{why}" for name, share in grown.items() if share >= MOST_GROWTH]
    failed = document["outcomes"].get("failed", 0)
    return [*wrong, *([f"{failed} calls failed: {document['failed'][0]}"] if failed else [])]


def text(document: Json) -> str:
    """Return the tables."""
    memory = [
        [name, *(f"{each[key]:.1f}" for key in ("begin", "tenth", "half", "end")), f"{each['growth']:+.1%}"]
        for name, each in document["resident_mib"].items()
    ]
    calls = [
        [name, str(count), f"{document['calls_per_s'][name]:.1f}"]
        for name, count in document["calls"].items()
    ]
    held = [
        [name, series, f"{value:g}"]
        for name, found in document["sizes"].items()
        for series, value in found.items()
    ]
    outcomes = ", ".join(f"{count} {name}" for name, count in sorted(document["outcomes"].items()))
    return "\n".join(
        [
            table(["MiB resident", "begin", "first tenth", "half", "end", "growth"], memory),
            table(["calls", "total", "per second"], calls),
            f"{document['reviews']} reviews in {document['seconds']:.0f} s; {outcomes}",
            table(["at the end", "metric", "value"], held),
        ]
    )


async def _run(chosen: argparse.Namespace) -> Json:
    aim = Aim(chosen.minutes * 60, chosen.reviews)
    with tempfile.TemporaryDirectory() as folder:
        async with programs.site(Path(folder)) as here:
            return await soak(here, aim, nodes=chosen.nodes, pace=chosen.pods)


def main(arguments: list[str] | None = None) -> int:
    """Soak as the flags say; return 1 if anything grew or failed."""
    parser = command_line.parser("tools.bench.soak", __doc__)
    parser.add_argument("--minutes", type=float, default=10, help="minutes to run (default 10)")
    parser.add_argument("--reviews", type=int, help="run for so many reviews instead")
    parser.add_argument("--nodes", type=int, default=40, help="nodes of the cluster (default 40)")
    parser.add_argument(
        "--pods", type=float, default=40, help="at most so many scheduled pods per second (default 40)"
    )
    chosen = parser.parse_args(arguments)
    if min(chosen.minutes, chosen.pods, chosen.reviews or 1) <= 0 or chosen.nodes < NAMES:
        parser.error(f"every number must be above zero, and --nodes at least {NAMES}")
    document = asyncio.run(_run(chosen))
    print(text(document))
    command_line.write(document, chosen.json)
    wrong = verdict(document)
    print("\n".join(wrong) or f"no program grew by {MOST_GROWTH:.0%} or more, and no call failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
