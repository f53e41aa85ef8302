"""
Print the ways of calls through the running programs: the modules that each enters, in order.

    python -m tools.bench.ways
    python -m tools.bench.ways filter topology --arrows

Webhook, scorer and agent are processes beside a fake API server. A call that was made before is made again,
and meanwhile its program notes every function of ours that starts. Values, rules, decoders, the HTTP server
and the columns below `Evaluation` are listed apart: a way uses them as libraries.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any, NamedTuple

import orjson

from tools.bench import cluster
from tools.bench.agent import on_a_node
from tools.clusters import programs
from tools.clusters.fake_api import FakeApi
from tools.clusters.http_calls import Door, once, review
from tools.clusters.processes import Child
from tools.clusters.programs import Running, Site
from tools.clusters.waiting import until

Json = dict[str, Any]

ROOT = Path(__file__).parents[2]
OURS = ("webhook", "scorer", "controller", "agent", "certs", "numalign")
FOLDER = "NUMALIGN_WAYS"
"""The environment variable with the folder to which programs write their traces."""

NODES = 40
SECONDS = 1.5
"""How long a change of the cluster is traced: those who gather changes wait for less."""


# In the programs.


def listen(folder: Path) -> None:
    """Note the functions that start between SIGUSR1 and SIGUSR2, and write them to a file."""
    noted: list[tuple[str, str, list[str]]] = []
    started: dict[int, FrameType] = {}

    def note(frame: FrameType, event: str, _argument: object) -> None:
        # A coroutine starts once, and is called again whenever it goes on.
        if event != "call" or started.setdefault(id(frame), frame) is not frame:
            return
        if here := _place(frame):
            callers, caller = list[str](), frame.f_back
            while caller is not None:
                callers += [place[0] for place in [_place(caller)] if place]
                caller = caller.f_back
            noted.append((*here, callers))

    def begin(*_: object) -> None:
        noted.clear()
        started.clear()
        sys.setprofile(note)

    def end(*_: object) -> None:
        sys.setprofile(None)
        written = folder / f"{os.getpid()}.new"
        written.write_text(json.dumps(noted))
        written.replace(folder / f"{os.getpid()}.json")

    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, end)


def _place(frame: FrameType) -> tuple[str, str] | None:
    """Return module and function of a frame of ours; None of any other, and of what Python generates."""
    module, code = frame.f_globals.get("__name__", ""), frame.f_code
    generated = code.co_name.startswith("<") or code.co_qualname.startswith("__create_fn__")
    if generated or module.partition(".")[0] not in OURS:
        return None
    return module, code.co_qualname.replace(".<locals>", "")


# What a trace shows.


class Start(NamedTuple):
    """A function that started, and the modules of ours that it was called from, the nearest first."""

    module: str
    function: str
    callers: Sequence[str]


@dataclass(slots=True)
class Station:
    """A module on a way, the first function that it was entered by, and who entered it."""

    module: str
    function: str
    entered_from: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Way:
    """The modules that a call enters, in order, and those of libraries that it uses."""

    name: str
    stations: tuple[Station, ...]
    used: Mapping[str, Sequence[str]]

    @property
    def again(self) -> tuple[Station, ...]:
        """The modules that more than one module enters."""
        return tuple(each for each in self.stations if len(each.entered_from) > 1)

    def shown(self) -> Iterator[str]:
        yield f"{self.name}: {len(self.stations)} modules, {len(self.again)} entered by more than one"
        for station in self.stations:
            also = (
                f"  (also from {', '.join(station.entered_from[1:])})"
                if len(station.entered_from) > 1
                else ""
            )
            yield f"  {station.module}:{station.function}{also}"
        for library, modules in self.used.items():
            yield f"  using {library}: {', '.join(modules)}"
        yield ""
        yield ""

    def arrows(self) -> Iterator[str]:
        """Yield the way as one line."""
        names = (f"{each.module.removeprefix('numalign.')}:{each.function}" for each in self.stations)
        yield f"{self.name}: {' → '.join(names)}"


def _modules(room: str, names: str) -> tuple[str, ...]:
    return tuple(f"numalign.{room}.{name}" for name in names.split())


LIBRARIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "values": (
            *("numalign.model.", "numalign.lru", "numalign.ledger.model", "numalign.shapes.shape"),
            *_modules("cache", "question pod_question survey"),
            *_modules("kube", "effective_policy files.policy kinds pod_informer"),
        ),
        "rules": (
            *("numalign.kubelet.", "numalign.decision.", "numalign.shapes.health"),
            *_modules("ledger", "claims arithmetic ordering"),
        ),
        "decoders": ("numalign.kube.decode.",),
        "the server": ("numalign.runtime.", "numalign.kube.lease", "numalign.cache.pace"),
        "columns": (
            *_modules("cache", "batch_ plan layout columns column_ feasibility change_log widths zone_sets"),
            *_modules("cache", "node_table cluster_nodes label_column name_column health_table"),
            *_modules("cache", "preferred_hint distinct_rows"),
        ),
    }
)
"""What a way uses and does not go through, by the beginnings of the names of modules."""

BESIDE = frozenset(
    {"numalign.runtime.tls", "numalign.scheduling.pinned_pods", "scorer.program", "webhook.program"}
)
"""What programs do at regular intervals, whoever calls."""


def way(name: str, starts: Iterable[Start]) -> Way:
    """Return the way of a call whose functions started in this order."""
    stations: dict[str, Station] = {}
    used: dict[str, dict[str, None]] = {library: {} for library in LIBRARIES}
    for start in starts:
        if not BESIDE.isdisjoint((start.module, *start.callers)):
            continue
        if library := _library(start.module):
            used[library].setdefault(start.module.rpartition(".")[2])
            continue
        caller = next((each for each in start.callers if not _library(each)), "the event loop")
        if start.module != caller:
            station = stations.setdefault(start.module, Station(start.module, start.function))
            if caller not in station.entered_from:
                station.entered_from.append(caller)
    return Way(name, tuple(stations.values()), {key: [*names] for key, names in used.items() if names})


def _library(module: str) -> str | None:
    return next((library for library, names in LIBRARIES.items() if module.startswith(names)), None)


# The calls.


@dataclass(frozen=True, slots=True)
class Tracer:
    """Traces what a program does meanwhile."""

    folder: Path

    async def during(self, child: Child, call: Callable[[], Awaitable[object]]) -> list[Start]:
        pid = child.process.pid
        file = self.folder / f"{pid}.json"
        file.unlink(missing_ok=True)
        os.kill(pid, signal.SIGUSR1)
        await call()
        os.kill(pid, signal.SIGUSR2)
        await until(file.exists)
        return [Start(*each) for each in json.loads(file.read_text())]


@dataclass(frozen=True, slots=True)
class Stage:
    """Where calls are traced: programs, and the API server of all."""

    here: Site
    api: FakeApi
    tracer: Tracer

    @property
    def kubeconfig(self) -> str:
        return str(self.api.kubeconfig(self.here.folder / "kubeconfig"))

    def pod(self) -> Json:
        """Return a pod of one container that requests alignment, as the API server has it."""
        [made] = cluster.pods(1, "default")
        made["metadata"]["annotations"][cluster.POLICY] = "single-numa-node"
        return self.api.put(made)


async def traced_review(stage: Stage) -> Way:
    webhook = await stage.here.webhook("--kubeconfig", stage.kubeconfig)
    body = review(stage.pod(), uid="705ab4f5-6393-11e8-b7cc-42010a800002", namespace="default")
    await _called(webhook.door, "/validate", body)
    return await _of_call(stage, webhook, "review", "/validate", body)


async def traced_filter(stage: Stage) -> Way:
    scorer = await stage.here.scorer("--kubeconfig", stage.kubeconfig)
    body = _filtering(stage)
    await _called(scorer.door, "/filter", body)
    return await _of_call(stage, scorer, "filter", "/filter", body)


async def traced_bind(stage: Stage) -> Way:
    scorer = await stage.here.scorer("--kubeconfig", stage.kubeconfig)
    pod, door = stage.pod(), scorer.door
    fitting = orjson.loads((await once(door, "POST", "/filter", _filtering(stage))).body)["NodeNames"]
    metadata = pod["metadata"]
    named = {"PodName": metadata["name"], "PodNamespace": "default", "PodUID": metadata["uid"]}
    body = orjson.dumps({**named, "Node": fitting[0]})
    return await _of_call(stage, scorer, "bind", "/bind", body)


async def traced_topology(stage: Stage) -> Way:
    scorer = await stage.here.scorer("--kubeconfig", stage.kubeconfig)
    [topology, *_] = (
        each for each in stage.api.all("/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies")
    )

    async def change() -> None:
        changed = deepcopy(topology)
        for resource in changed["zones"][0]["resources"]:
            resource["available"] = "0"
        stage.api.put(changed)
        await asyncio.sleep(SECONDS)

    return way("topology update", await stage.tracer.during(scorer.child, change))


async def traced_report(stage: Stage) -> Way:
    async with on_a_node(stage.here, stage.api, most=8) as (kubelet, child):
        kubelet.add(0)
        await asyncio.sleep(SECONDS)

        async def change() -> None:
            kubelet.add(1)
            await asyncio.sleep(SECONDS)

        return way("agent's report", await stage.tracer.during(child, change))


def _filtering(stage: Stage) -> bytes:
    names = [each["metadata"]["name"] for each in stage.api.all("/api/v1/nodes")]
    return orjson.dumps({"Pod": stage.pod(), "Nodes": None, "NodeNames": names})


async def _of_call(stage: Stage, running: Running, name: str, path: str, body: bytes) -> Way:
    call = partial(_called, running.door, path, body)
    starts = await stage.tracer.during(running.child, call)
    return way(name, (each for each in starts if "numalign.runtime.calls" in each.callers))


async def _called(door: Door, path: str, body: bytes) -> None:
    answer = await once(door, "POST", path, body)
    if not answer.well:
        raise SystemExit(f"{path}: {answer.status} {answer.body.decode()}")


WAYS: Mapping[str, Callable[[Stage], Awaitable[Way]]] = MappingProxyType(
    {
        "review": traced_review,
        "filter": traced_filter,
        "bind": traced_bind,
        "topology": traced_topology,
        "report": traced_report,
    }
)


_BEGINNING = f"""
import os, pathlib
from tools.bench import ways
ways.listen(pathlib.Path(os.environ["{FOLDER}"]))
"""
"""What a program does before anything else, because its folder comes first on the path of modules."""


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    """Provide a stage; programs that start on it trace themselves."""
    with tempfile.TemporaryDirectory(prefix="numalign-ways-") as temporary:
        folder = Path(temporary)
        (folder / "sitecustomize.py").write_text(_BEGINNING)
        os.environ |= {"PYTHONPATH": f"{folder}:{ROOT}", FOLDER: temporary}
        async with programs.site(folder / "site") as here, FakeApi() as api:
            for each in cluster.many(NODES):
                api.put(each)
            api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
            yield Stage(here, api, Tracer(folder))


async def traced(names: Sequence[str], shown: Callable[[Way], Iterable[str]]) -> None:
    """Print the ways of these names, each through programs that start for it."""
    for name in names:
        async with stage() as there:
            found = await WAYS[name](there)
        sys.stdout.write("".join(f"{line}\n" for line in shown(found)))
        sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench.ways", description=(__doc__ or "").strip().partition("\n")[0]
    )
    parser.add_argument("way", nargs="*", choices=[*WAYS, []], help="default: all")
    parser.add_argument("--arrows", action="store_true", help="print each as one line of arrows")
    chosen = parser.parse_args()
    asyncio.run(traced(chosen.way or [*WAYS], Way.arrows if chosen.arrows else Way.shown))
    return 0


if __name__ == "__main__":
    sys.exit(main())
