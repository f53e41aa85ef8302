"""
Measure how many pods per second the real kube-scheduler binds: with the scorer, an empty extender, or none.

All programs are real: etcd, kube-apiserver, kube-scheduler, the scorer of numalign. Nodes exist only as
objects, and their kubelets only write into the status of a bound pod that it runs. In every cell, the same
pods are in the queue before the scheduler starts, on the same nodes. A pod counts as bound when a watch of
the API server shows its node. The cells of a round run one after another on one control plane, and the next
round in reverse order. A ratio compares two cells of one round; the median is shown.

Each cell with the scorer has a counterpart with an extender that does nothing, and one without an extender.
The difference from the first is the cost of numalign; the difference between the two is the cost of the
protocol. The scheduler may send 1,000 requests per second: with its default limit of 50, it would bind only
that many.
"""

import asyncio
import hashlib
import os
import sys
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import aiohttp

from numalign.kube.client import Api
from tools.bench import cluster, site
from tools.bench.calls import processor_seconds
from tools.bench.site import ADMIN, PATIENCE_SECONDS, call
from tools.bench.tables import MET, MISSED, Measurement, one_of, program
from tools.clusters import shipped
from tools.clusters.api_objects import namespace
from tools.clusters.controlplane.planes import Plane
from tools.clusters.controlplane.schedulers import extender_at, scheduler
from tools.clusters.gotools import Workshop
from tools.clusters.processes import Child, Children, answers, free_port, until
from tools.clusters.programs import READY, Site
from tools.clusters.sim.desk import TOPOLOGIES, learn
from tools.clusters.sim.documents import stamp

LEAST = 0.9
"""The least ratio of pods bound per second to those with the empty extender."""
WAYS: Mapping[str, str] = {
    "none": "no extender",
    "empty": "empty: filter, prioritize",
    "numalign-rank": "numalign, --reserve-at prioritize",
    "empty-bind": "empty: filter, prioritize, bind",
    "numalign-bind": "numalign, --reserve-at bind (default)",
}
"""Ways to schedule; the extender binds in the last two."""
EMPTY = {"numalign-rank": "empty", "numalign-bind": "empty-bind"}
"""The way with the empty extender that each way with the scorer is compared with."""
APART = "-apart"
"""Cells with an extender that has a processor for itself, as on a separate host."""
CELLS = (*WAYS, *(f"{way}{APART}" for way in WAYS))
WARM_UP = "none"
"""A cell that runs before all others and does not count: an API server is slow at first."""

NAMESPACE = "default"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"

_EXTENDERS = ("numalign-scorer", "empty-extender")
_PROGRAMS = (("kube-scheduler-default-scheduler",), _EXTENDERS, ("kube-apiserver", "etcd"))
COSTS = ("scheduler, ms per pod", "extender", "API server, etcd")
HEAD = ("", "pods/s", "to empty", "to none", *COSTS, "target", "")


class Run(NamedTuple):
    """Pods bound per second, from the first to the last, and processor milliseconds per pod by program."""

    rate: float
    cpu: Mapping[str, float]


async def measure(chosen: Namespace, here: Site) -> list[Measurement]:
    for name in chosen.cells:
        one_of(name, CELLS)
    runs: dict[str, list[Run]] = {name: [] for name in chosen.cells}
    # New nodes are tainted until a controller has seen them, and there is none here.
    plane = await site.control_plane(here, ("--disable-admission-plugins=TaintNodesByCondition",))
    async with plane.client(ADMIN) as client, site.session(plane) as api:
        await learn(Api(client, namespace=NAMESPACE))
        await call(api, "POST", "/api/v1/namespaces", namespace(shipped.NAMESPACE, {}))
        paths = {"Node": "/api/v1/nodes", "NodeResourceTopology": TOPOLOGIES}
        made = cluster.snapshot(chosen.nodes, chosen.makes)["items"]
        await asyncio.gather(*(call(api, "POST", paths[each["kind"]], each) for each in made))
        await _run(WARM_UP, chosen, here, plane, api)
        for turn in range(chosen.repeats):
            for name in chosen.cells[:: -1 if turn % 2 else 1]:
                runs[name].append(await _run(name, chosen, here, plane, api))
                sys.stderr.write(f"{_title(name)}: {runs[name][-1].rate:.1f} pods/s\n")
    size = f"{chosen.nodes:,} nodes of {chosen.makes} makes, {chosen.pods} pods, {chosen.repeats} rounds"
    text = (
        "Pods bound per second, starting with a queue of pods, and processor time per pod. The empty extender"
        " is written in Go and answers at once: its cost is that of the protocol. All programs share the"
        " processors of one machine; in some rows the extender has one of its own, as on a separate host."
    )
    return [Measurement(f"The real kube-scheduler: {size}", [_row(name, runs) for name in runs], text, HEAD)]


async def _run(name: str, chosen: Namespace, here: Site, plane: Plane, api: aiohttp.ClientSession) -> Run:
    """Run one of `CELLS`; raise `RuntimeError` if pods are left without a node."""
    await asyncio.gather(*(call(api, "POST", PODS, pod) for pod in cluster.pods(chosen.pods, NAMESPACE)))
    try:
        async with _extender(name.removesuffix(APART), chosen.nodes, here, plane) as extender:
            with _apart(here.children) if name.endswith(APART) else nullcontext():
                binding = asyncio.create_task(_bound(chosen.pods, here.children, api))
                try:
                    async with scheduler(here.children, plane, extender=extender):
                        return await binding
                finally:
                    binding.cancel()
    finally:
        for path in (PODS, EVENTS):
            await call(api, "DELETE", path, gracePeriodSeconds="0")


async def _bound(number: int, children: Children, api: aiohttp.ClientSession) -> Run:
    """Play all kubelets until so many pods are bound; this process is none of those that are measured."""
    times = dict[str, float]()

    def used() -> dict[str, float]:
        running = filter(Child.running, children.started)
        return {child.name: processor_seconds(child.process.pid) for child in running}

    before = dict[str, float]()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as group:
            async for event in site.events(api, PODS):
                name = event["object"]["metadata"]["name"]
                if "nodeName" in event["object"]["spec"] and name not in times:
                    before = before or used()
                    times[name] = time.monotonic()
                    if len(times) == number:
                        after = used()
                        break
                    running = {"status": {"phase": "Running", "startTime": stamp()}}
                    group.create_task(call(api, "PATCH", f"{PODS}/{name}/status", running))
    except TimeoutError:
        raise RuntimeError(f"{len(times)} of {number} pods were bound in {PATIENCE_SECONDS} s") from None
    first, *_, last = times.values()
    cpu = {each: 1000 * (after[each] - before.get(each, 0)) / (number - 1) for each in after}
    return Run((number - 1) / (last - first), cpu)


@asynccontextmanager
async def _extender(way: str, nodes: int, here: Site, plane: Plane) -> AsyncIterator[site.Json | None]:
    """Run the extender of a way to schedule, if it has one; its start is not measured."""
    if way == "none":
        yield None
    elif way in EMPTY:
        scorer, extender = await site.extending(here, plane, "bind" if way.endswith("bind") else "prioritize")

        async def knows() -> bool:
            return bool(await scorer.metric("numalign_ledger_nodes") >= nodes)

        await until(knows, what="all nodes were in its ledger", child=scorer.child)
        yield extender
        # It releases its Lease, so that the next one need not wait for it.
        await scorer.child.stop()
    else:
        port, program = free_port(), str(await _empty_extender())
        words = ("-port", str(port), "-token", ADMIN, "-server", plane.url, "-ca", str(plane.ca))
        ready = partial(answers, f"http://127.0.0.1:{port}{READY}")
        async with here.children.run(program, *words, name="empty-extender", ready=ready):
            verbs = ("filter", "prioritize", *(["bind"] if way.endswith("bind") else []))
            yield extender_at(f"http://127.0.0.1:{port}", verbs=verbs)


async def _empty_extender() -> Path:
    """Return the empty extender, built with Go if necessary; raise `UnavailableError` without Go."""
    shop = Workshop("empty-extender", Path(__file__).with_name("empty_extender"))
    digest = hashlib.sha256((shop.folder / "main.go").read_bytes()).hexdigest()[:12]
    return await shop.program(".", shop.cache(digest, "empty-extender"))


@contextmanager
def _apart(children: Children) -> Iterator[None]:
    """Give the extender the last processor for itself, and everything else the others."""
    every = os.sched_getaffinity(0)
    own = {max(every)}

    def keep(pid: int, processors: set[int]) -> None:
        # All threads of a program, and those that it will start.
        with suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), processors)

    pids = {child.process.pid: child.name for child in children.started if child.running()}
    try:
        for pid, name in pids.items():
            keep(pid, own if name in _EXTENDERS else every - own or every)
        # Programs that are started from now on inherit it.
        keep(os.getpid(), every - own or every)
        yield
    finally:
        for pid in (os.getpid(), *pids):
            keep(pid, every)


def _title(name: str) -> str:
    way = name.removesuffix(APART)
    where = "on the other processors" if way == "none" else "on a processor of its own"
    return WAYS[way] if way == name else f"{WAYS[way]}, {where}"


def _row(name: str, runs: Mapping[str, Sequence[Run]]) -> Sequence[float | str | None]:
    mine, way, apart = runs[name], name.removesuffix(APART), APART * name.endswith(APART)
    to_empty = _ratio(mine, runs.get(f"{EMPTY.get(way)}{apart}", ()))
    to_none = None if way == "none" else _ratio(mine, runs.get(f"none{apart}", ()))
    cpu = (median(sum(run.cpu.get(each, 0) for each in programs) for run in mine) for programs in _PROGRAMS)
    verdict = ("", "") if to_empty is None else (f"to empty ≥ {LEAST}", MET if to_empty >= LEAST else MISSED)
    return _title(name), median(run.rate for run in mine), to_empty, to_none, *cpu, *verdict


def _ratio(mine: Sequence[Run], others: Sequence[Run]) -> float | None:
    """Return the median over the rounds of the ratio of two rates; None if the other cell was not run."""
    return median(one.rate / other.rate for one, other in zip(mine, others, strict=True)) if others else None


main = program(
    "scheduling_rate",
    __doc__,
    site.at_site(measure),
    nodes=(1000, 100, "nodes of the cluster"),
    makes=(36, 6, "makes of the nodes"),
    pods=(500, 20, "pods in each cell"),
    repeats=(3, 1, "rounds"),
    cells=(CELLS, CELLS, "ways to schedule"),
)

if __name__ == "__main__":
    sys.exit(main(None))
