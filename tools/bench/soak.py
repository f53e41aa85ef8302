"""
Measure whether the memory of the webhook and the scorer grows while new pods arrive for hours.

Reviews are sent as fast as they are answered. Meanwhile pods are created, filtered, ranked, bound, admitted
and deleted. All pods are different, and none stays, so the memory at the end must be what it was after the
first tenth of the run. The exit code is 1 if either program grew by 5 % or more, or if a call failed. Caches
fill with the first 100,000 reviews, so a tenth of the run should have at least as many.
"""

import asyncio
import itertools
import random
import sys
import tempfile
import time
import uuid
from argparse import Namespace
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from tools.bench import cluster
from tools.bench.calls import MERGE, Caller, Calls, Json, Scheduler, review
from tools.bench.tables import JSON, MISSED, Measurement, parsed, row, write_json
from tools.clusters import programs
from tools.clusters.programs import MIB, Running

MOST_GROWTH = 0.05
TENTH, HALF = 0.1, 0.5
SAMPLES = 15
"""Samples of the memory, a second apart, whose median counts: the last in the first tenth, and so on."""
CONNECTIONS = 4
NAMES = 12
"""Nodes in the calls of a scheduler for one pod."""
PATHS, WORKLOADS = ("mutate", "validate"), "validate-workloads"
EVERY_WORKLOAD = 10
"""Of so many pods, the workload of one is reviewed too."""
LIFE_SECONDS = 5.0
SAMPLE_SECONDS, TOLD_EVERY = 1.0, 30
"""Seconds between two samples of the memory, and samples between two lines of progress."""
SCHEDULED = 10**9
"""The number of the first pod that is scheduled; those before it are only reviewed."""


NAMESPACES = tuple(f"team-{number}" for number in range(20))
EVERY: Mapping[str, int] = {"broken": 50, "long": 40, "strange": 30, "unknown": 10, "asking": 2}
"""Of so many templates, one is invalid, longer than what is remembered of a pod, requests a resource that no
node has, is in a namespace that does not exist, or requests a policy."""
LONG = 20_000
"""Bytes of an annotation, more than is remembered of a pod."""
POLICIES = ("single-numa-node", "restricted", "best-effort", "none")


def new_pod(number: int) -> Json:
    """Return the pod of this number, which no program has seen; two consecutive numbers share a template."""
    template = number // 2
    dice = random.Random(template)  # noqa: S311 - it makes input, not secrets
    pod = cluster.pod(template, dice, gpus=dice.choice((0, 0, 0, 1)))
    first, annotations = pod["spec"]["containers"][0], {"example.com/build": f"{dice.getrandbits(64):x}"}
    if _is("asking", template):
        annotations[cluster.POLICY] = dice.choice(POLICIES)
    if broken(number):
        # With the policy none, the amounts of a pod do not matter.
        first["resources"]["requests"] = {"cpu": f"{template}q"}
        annotations[cluster.POLICY] = "restricted"
    elif _is("strange", template):
        first["resources"]["limits"][f"example.com/device-{template}"] = "1"
    if _is("long", template):
        annotations["example.com/long"] = f"{template}-" * (LONG // len(f"{template}-"))
    unknown = _is("unknown", template)
    pod["metadata"] |= {
        "name": f"soak-{template}-{number}",
        "namespace": f"unknown-{template}" if unknown else NAMESPACES[template % len(NAMESPACES)],
        "uid": str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))),
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "annotations": annotations,
    }
    return pod


def broken(number: int) -> bool:
    """Return whether the pod of this number is invalid."""
    return _is("broken", number // 2)


def _is(kind: str, template: int) -> bool:
    # Each kind begins at a different template, so that most odd templates are odd in one way.
    return template % EVERY[kind] == len(kind) % EVERY[kind]


def _deployment(pod: Json) -> tuple[Json, tuple[str, str, str]]:
    """Return the Deployment that creates a pod, with its group, kind and resource."""
    metadata = pod["metadata"]
    template = {"metadata": {key: metadata[key] for key in ("labels", "annotations")}, "spec": pod["spec"]}
    selector = {"matchLabels": {"app": metadata["labels"]["app"]}}
    made = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {key: metadata[key] for key in ("name", "namespace", "labels")},
        "spec": {"replicas": 1, "selector": selector, "template": template},
    }
    return made, ("apps", "Deployment", "deployments")


@dataclass(slots=True)
class Run:
    """A soak: when it ends, the programs, the counts of their calls, and samples of their memory."""

    seconds: float
    reviews: int
    watched: dict[str, Running]
    calls: Calls = field(default_factory=Calls)
    samples: list[tuple[float, dict[str, int]]] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    @property
    def reviewed(self) -> int:
        """The number of reviews on all paths."""
        return sum(self.calls.counts[path] for path in (*PATHS, WORKLOADS))

    @property
    def share(self) -> float:
        """The progress, from 0 to 1: of so many reviews if they are given, else of the time."""
        return self.reviewed / self.reviews if self.reviews else self.took / self.seconds

    @property
    def took(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.began

    async def repeat(self, step: Callable[[], Awaitable[None]], every: float = 0.0) -> None:
        """Repeat a step until the run is over, at most once in `every` seconds."""
        while self.share < 1:
            began = time.monotonic()
            await step()
            await asyncio.sleep(max(0.0, every - (time.monotonic() - began)))

    async def sample(self) -> None:
        """Sample the memory of the programs; print a line of progress now and then."""
        held = {name: running.memory().now for name, running in self.watched.items()}
        self.samples.append((self.share, held))
        if len(self.samples) % TOLD_EVERY == 1:
            memory = ", ".join(f"{name} {each / MIB:.1f} MiB" for name, each in held.items())
            counts = f"{self.reviewed} reviews, {self.calls.counts['bind']} binds"
            sys.stderr.write(f"{self.took:6.0f} s {self.share:4.0%}  {counts}; {memory}\n")

    def resident(self, name: str) -> tuple[float, ...]:
        """Return the MiB of a program after the first tenth, after half, and at the end."""
        parts = ([held[name] for share, held in self.samples if share <= most] for most in (TENTH, HALF, 1))
        return tuple(median(each[-SAMPLES:] or [self.samples[0][1][name]]) / MIB for each in parts)


@dataclass(slots=True)
class Reviews:
    """The calls of an API server: reviews of new pods, one after another."""

    caller: Caller
    numbers: Iterator[int]

    async def step(self) -> None:
        """Review one pod; validation must deny invalid pods, everything else depends on the nodes."""
        number = next(self.numbers)
        pod, calls = new_pod(number), self.caller.calls
        uid = pod["metadata"]["uid"]
        for path in (*PATHS, *([] if number % EVERY_WORKLOAD else [WORKLOADS])):
            asked = review(*_deployment(pod), uid=uid) if path == WORKLOADS else review(pod, uid=uid)
            answer = await self.caller.post(path, f"/{path}", asked)
            if answer:
                response = answer["response"]
                calls.outcomes["allowed" if response["allowed"] else "denied"] += 1
                if response["uid"] != uid:
                    calls.fail(f"/{path}: an answer to another review")
                if path == "validate" and broken(number) and response["allowed"]:
                    calls.fail(f"/{path}: {pod['metadata']['name']} is invalid and was let in")


@dataclass(slots=True)
class Schedule:
    """A scheduler, and the controller that deletes its pods after a while."""

    scheduler: Scheduler
    numbers: Iterator[int]
    living: deque[tuple[float, str]] = field(default_factory=deque)

    async def step(self) -> None:
        """Take a pod from its creation to its kubelet, and only ask about another one."""
        await self.scheduler.fitting(new_pod(next(self.numbers)))
        pod = new_pod(next(self.numbers))
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
        self.living.append((time.monotonic() + LIFE_SECONDS, f"{path}/{pod['metadata']['name']}"))
        await self.scheduler.schedule(pod, path)
        await self.reap(time.monotonic())

    async def reap(self, now: float) -> None:
        """Delete the pods whose time is over by then."""
        while self.living and self.living[0][0] <= now:
            await self.scheduler.api.call("delete", "DELETE", self.living.popleft()[1], b"", MERGE)


async def soak(chosen: Namespace, folder: Path) -> tuple[Run, list[Measurement]]:
    """Start everything, call until the end, and return the figures."""
    objects = [*cluster.snapshot(chosen.nodes)["items"], *map(_namespace, NAMESPACES)]
    names = [each["metadata"]["name"] for each in objects if each["kind"] == "Node"]
    async with programs.site(folder / "site") as here:
        api = await here.api_server(objects)
        flags = ("--kubeconfig", str(api.kubeconfig), "--log-level", "warning")
        watched = {"webhook": await here.webhook(*flags), "scorer": await here.scorer(*flags)}
        run = Run(chosen.minutes * 60, chosen.reviews, watched)
        numbers = itertools.count()
        callers = [Reviews(run.calls.caller(watched["webhook"].door), numbers) for _ in range(CONNECTIONS)]
        dice = random.Random(0)  # noqa: S311 - it makes input, not secrets
        scheduler = Scheduler(
            run.calls.caller(api.door), run.calls.caller(watched["scorer"].door), names, NAMES, dice
        )
        schedule = Schedule(scheduler, itertools.count(SCHEDULED))
        async with asyncio.TaskGroup() as group:
            for each in callers:
                group.create_task(run.repeat(each.step))
            group.create_task(run.repeat(schedule.step, every=1 / chosen.pods))
            group.create_task(run.repeat(run.sample, every=SAMPLE_SECONDS))
        await schedule.reap(float("inf"))
        run.calls.close()
        return run, list(_tables(run))


def _namespace(name: str) -> Json:
    """Return a namespace; every other one has a default policy for pods without a policy."""
    labels = {"numalign.io/default": "best-effort"} if int(name[-1]) % 2 else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _tables(run: Run) -> Iterator[Measurement]:
    memory = []
    for name in run.watched:
        tenth, half, end = run.resident(name)
        memory.append(row(f"{name}, half", half, "MiB", (tenth, "first tenth")))
        memory.append(row(f"{name}, end", end, "MiB", (tenth, "first tenth"), most=tenth * (1 + MOST_GROWTH)))
    yield Measurement(
        "Resident memory", [*memory, row("calls that failed", run.calls.outcomes["failed"], "")]
    )
    rates = [(kind, count, count / run.took) for kind, count in run.calls.counts.items()]
    yield Measurement(f"Calls within {run.took:.0f} s", rates, head=("", "total", "per second"))
    outcomes = [(name, count) for name, count in sorted(run.calls.outcomes.items())]
    yield Measurement("Outcomes", outcomes, head=("", "total"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak as the flags say; return 1 if anything grew or failed."""
    chosen = parsed(
        "soak",
        __doc__,
        arguments,
        minutes=(10.0, 0.2, "minutes to run"),
        reviews=(0, 0, "run for so many reviews instead"),
        nodes=(40, 20, "nodes of the cluster"),
        json=JSON,
        pods=(40.0, 10.0, "at most so many scheduled pods per second"),
    )
    with tempfile.TemporaryDirectory() as folder:
        run, found = asyncio.run(soak(chosen, Path(folder)))
    print("\n\n".join(each.printed() for each in found))
    write_json(found, chosen.json)
    grown = [cells[0] for cells in found[0].cells if cells[-1] == MISSED]
    wrong = [f"{what}: it grew by {MOST_GROWTH:.0%} or more" for what in grown] + run.calls.failures
    print("\n".join(wrong) or f"no program grew by {MOST_GROWTH:.0%} or more, and no call failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
