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
import time
import uuid
from argparse import Namespace
from collections import deque
from collections.abc import Iterator, Mapping
from statistics import median

from tools.bench import cluster
from tools.bench.calls import MERGE, Caller, Calls, Json, Scheduler
from tools.bench.site import at_site
from tools.bench.tables import MISSED, Measurement, program, row
from tools.clusters.api_objects import namespace
from tools.clusters.http_calls import review
from tools.clusters.programs import MIB, Running, Site

MOST_GROWTH = 0.05
SAMPLES = 15
"""Samples of the memory, a second apart, whose median counts: the last in the first tenth, and so on."""
CONNECTIONS = 4
NAMES = 12
"""Nodes in the calls of a scheduler for one pod."""
EVERY_WORKLOAD = 10
"""Of so many pods, the workload of one is reviewed too."""
LIFE_SECONDS = 5.0
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
    resources = pod["spec"]["containers"][0]["resources"]
    annotations = {"example.com/build": f"{dice.getrandbits(64):x}"}
    if is_a("asking", number):
        annotations[cluster.POLICY] = dice.choice(POLICIES)
    if is_a("broken", number):
        # With the policy none, the amounts of a pod do not matter.
        resources["requests"], annotations[cluster.POLICY] = {"cpu": f"{template}q"}, "restricted"
    elif is_a("strange", number):
        resources["limits"][f"example.com/device-{template}"] = "1"
    if is_a("long", number):
        annotations["example.com/long"] = f"{template}-" * (LONG // len(f"{template}-"))
    known = NAMESPACES[template % len(NAMESPACES)]
    pod["metadata"] |= {
        "name": f"soak-{template}-{number}",
        "namespace": f"unknown-{template}" if is_a("unknown", number) else known,
        "uid": str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))),
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "annotations": annotations,
    }
    return pod


def is_a(kind: str, number: int) -> bool:
    # Each kind begins at a different template, so that most odd templates are odd in one way.
    return number // 2 % EVERY[kind] == len(kind) % EVERY[kind]


def reviews(number: int) -> Iterator[tuple[str, bytes]]:
    """Yield the reviews of a pod, and sometimes of the Deployment that creates it, with their paths."""
    pod = new_pod(number)
    metadata, uid = pod["metadata"], pod["metadata"]["uid"]
    yield from ((path, review(pod, uid=uid)) for path in ("/mutate", "/validate"))
    if number % EVERY_WORKLOAD == 0:
        template = {
            "metadata": {key: metadata[key] for key in ("labels", "annotations")},
            "spec": pod["spec"],
        }
        selector = {"matchLabels": {"app": metadata["labels"]["app"]}}
        made = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {key: metadata[key] for key in ("name", "namespace", "labels")},
            "spec": {"replicas": 1, "selector": selector, "template": template},
        }
        yield "/validate-workloads", review(made, ("apps", "Deployment", "deployments"), uid=uid)


async def review_all(caller: Caller, numbers: Iterator[int], until: float) -> None:
    """Review one pod after another; validation must deny invalid pods, the rest depends on the nodes."""
    while time.monotonic() < until:
        number = next(numbers)
        for path, body in reviews(number):
            if answer := await caller.post(path, path, body):
                allowed = answer["response"]["allowed"]
                caller.calls.outcomes["allowed" if allowed else "denied"] += 1
                if path == "/validate" and is_a("broken", number) and allowed:
                    caller.calls.fail(f"{path}: pod {number} is invalid and was let in")


async def schedule_all(scheduler: Scheduler, every: float, until: float) -> None:
    """Take pods from their creation to their kubelet, ask about others, and delete each after a while."""
    numbers, living = itertools.count(SCHEDULED), deque[tuple[float, str]]()
    while living or time.monotonic() < until:
        began = time.monotonic()
        if began < until:
            await scheduler.fitting(new_pod(next(numbers)))
            metadata = (pod := new_pod(next(numbers)))["metadata"]
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods"
            living.append((began + LIFE_SECONDS, f"{path}/{metadata['name']}"))
            await scheduler.schedule(pod, path)
        while living and (living[0][0] <= began or began >= until):
            await scheduler.api.call("delete", "DELETE", living.popleft()[1], b"", MERGE)
        await asyncio.sleep(max(0.0, began + every - time.monotonic()))


async def samples(watched: Mapping[str, Running], until: float) -> list[dict[str, float]]:
    """Return the MiB of programs, each second; report now and then."""
    found = list[dict[str, float]]()
    while time.monotonic() < until:
        found.append({name: running.memory().now / MIB for name, running in watched.items()})
        if len(found) % 30 == 1:
            memory = ", ".join(f"{name} {mib:.1f} MiB" for name, mib in found[-1].items())
            sys.stderr.write(f"{until - time.monotonic():6.0f} s left  {memory}\n")
        await asyncio.sleep(1)
    return found


async def soak(chosen: Namespace, here: Site) -> list[Measurement]:
    # Every other namespace has a default policy for pods without a policy.
    spaces = (
        namespace(name, {"numalign.io/default": "best-effort"} if at % 2 else {})
        for at, name in enumerate(NAMESPACES)
    )
    objects = [*cluster.snapshot(chosen.nodes)["items"], *spaces]
    names = [each["metadata"]["name"] for each in objects if each["kind"] == "Node"]
    api = await here.api_server(objects)
    flags = ("--kubeconfig", str(api.kubeconfig), "--log-level", "warning")
    watched = {"webhook": await here.webhook(*flags), "scorer": await here.scorer(*flags)}
    calls, numbers, seconds = Calls(), itertools.count(), chosen.minutes * 60
    until, dice = time.monotonic() + seconds, random.Random(0)  # noqa: S311 - it makes input, not secrets
    scheduler = Scheduler(calls.caller(api.door), calls.caller(watched["scorer"].door), names, NAMES, dice)
    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(review_all(calls.caller(watched["webhook"].door), numbers, until))
        group.create_task(schedule_all(scheduler, 1 / chosen.pods, until))
        sampling = group.create_task(samples(watched, until))
    calls.close()
    held, memory = sampling.result(), []
    for name in watched:
        counted = (held[: max(1, int(share * len(held)))][-SAMPLES:] for share in (0.1, 0.5, 1))
        tenth, half, end = (median(each[name] for each in last) for last in counted)
        memory.append(row(f"{name}, half", half, "MiB", (tenth, "first tenth")))
        memory.append(row(f"{name}, end", end, "MiB", (tenth, "first tenth"), most=tenth * (1 + MOST_GROWTH)))
    failed = row("calls that failed", calls.outcomes["failed"], "", most=0)
    rates = [(kind, count, count / seconds) for kind, count in calls.counts.items()]
    return [
        Measurement("Resident memory", [*memory, failed], "\n".join(calls.failures)),
        Measurement(f"Calls within {seconds:.0f} s", rates, head=("", "total", "per second")),
        Measurement("Outcomes", sorted(calls.outcomes.items()), head=("", "total")),
    ]


def measure(chosen: Namespace) -> Iterator[Measurement]:
    yield from (found := at_site(soak)(chosen))
    if any(cells[-1] == MISSED for cells in found[0].cells):
        sys.exit(f"a program grew by {MOST_GROWTH:.0%} or more, or a call failed")


main = program(
    "soak",
    __doc__,
    measure,
    minutes=(10.0, 0.2, "minutes to run"),
    nodes=(40, 20, "nodes of the cluster"),
    pods=(40.0, 10.0, "at most so many scheduled pods per second"),
)

if __name__ == "__main__":
    sys.exit(main(None))
