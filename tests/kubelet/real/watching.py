"""What a kubelet knows, and what a scorer believes of it at the same time, looked at again and again.

A kubelet's word is its own files (`tools.clusters.kubelets.kept`) and, for devices that are well, its
podresources. The scorer's is what follows from the objects of the API server. A belief is dangerous where it
has something free that is not, and idle where it has something taken that is free.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from operator import itemgetter
from pathlib import Path
from time import monotonic

import aiohttp
from kubernetes_asyncio.client.api_client import ApiClient

from agent.podresources import PodResources
from numalign.kube.cluster import Settled
from numalign.kube.cluster_state import ClusterState
from numalign.kube.errors import ClusterError
from numalign.ledger.model import Basis, PodName
from numalign.model.bitset import members, union
from numalign.model.machine import CpuSet, read_list
from numalign.model.resources import CPU, MILLI
from tests.kubelet.real.published import NODES, PODS, listening
from tests.worlds.clusters import published
from tools.clusters.api_requests import Json, ask
from tools.clusters.kubelets.kept import given
from tools.clusters.kubelets.kubelets import RealKubelet
from tools.clusters.sim.desk import TOPOLOGIES

EVERY = 0.1
ENDED = ("Failed", "Succeeded")

Amounts = Mapping[tuple[int, str], int]
"""By zone and resource."""

Item = tuple[object, ...]
"""One thing that can be free or not: a CPU, or an amount of a resource on a zone."""


class Wrong(Enum):
    """In which direction a belief is wrong."""

    DANGEROUS = "believed free, and is not"
    IDLE = "free, and not believed so"


@dataclass(frozen=True, slots=True)
class Answers:
    """What a kubelet answers: the devices that it would give out, and the pods that it runs."""

    well: AbstractSet[tuple[str, str]]
    running: AbstractSet[PodName]


@dataclass(frozen=True, slots=True)
class Truth:
    """What a kubelet's files say that pods have, by UID, and what it answers.

    None is what nobody could tell: there was no file, or no kubelet that answers.
    """

    cpus: Mapping[str, CpuSet] | None
    blocks: Mapping[str, Sequence[Json]]
    memory: Amounts | None
    devices: Mapping[str, AbstractSet[tuple[str, str]]]
    answers: Answers | None


@dataclass(frozen=True, slots=True)
class Belief:
    """What is believed to be free; `cpus` are None where only amounts are known. `active` are pods by UID."""

    cpus: CpuSet | None
    free: Amounts
    active: Mapping[str, PodName]


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a node."""

    at: float
    truth: Truth
    belief: Belief


def truth(kubelet: RealKubelet, answers: Answers | None) -> Truth:
    """As it stands in the files now."""
    cpus, memory = (_read(kubelet.state / f"{name}_manager_state") for name in ("cpu", "memory"))
    devices: dict[str, set[tuple[str, str]]] = {}
    for uid, _, resource, ids in given(kubelet.state):
        devices.setdefault(uid, set()).update((resource, each) for each in ids)
    return Truth(
        cpus=None
        if cpus is None
        else {
            uid: union(read_list(listed) for listed in by_name.values() if listed)
            for uid, by_name in _entries(cpus)
        },
        blocks={uid: [*chain.from_iterable(by_name.values())] for uid, by_name in _entries(memory)},
        memory=None
        if memory is None
        else {
            (int(zone), resource): amounts["free"]
            for zone, has in (memory.get("machineState") or {}).items()
            for resource, amounts in has["memoryMap"].items()
        },
        devices=devices,
        answers=answers,
    )


def _read(file: Path) -> Json | None:
    if not file.exists():
        return None
    state: Json = json.loads(file.read_text())
    return state


def _entries(state: Json | None) -> Iterator[tuple[str, Json]]:
    yield from ((state or {}).get("entries") or {}).items()


def wrong(machine: Json, sample: Sample) -> Iterator[tuple[Wrong, Item]]:
    """All that is wrong in one look."""
    known, belief = sample.truth, sample.belief
    # The pods that can have anything, by UID: the API server hears last of those that are over.
    active = {
        uid for uid, name in belief.active.items() if known.answers is None or name in known.answers.running
    }
    if known.cpus is not None and belief.cpus is not None:
        held = union(cpus for uid, cpus in known.cpus.items() if uid in active)
        for cpu in members(belief.cpus & held):
            yield Wrong.DANGEROUS, (CPU, cpu)
    there = _free(machine, known, active)
    for place in belief.free.keys() & there.keys():
        if belief.free[place] != there[place]:
            yield Wrong.DANGEROUS if belief.free[place] > there[place] else Wrong.IDLE, place


def _free(machine: Json, known: Truth, active: AbstractSet[str]) -> Amounts:
    """What is free on each zone, where that is known, if these pods have what stands in the files."""
    amounts = Counter[tuple[int, str]]()
    if known.cpus is not None:
        held = union(cpus for uid, cpus in known.cpus.items() if uid in active)
        free = ~(held | read_list(machine["reservedSystemCPUs"]))
        for zone in machine["zones"]:
            own = union(1 << cpu for core in zone["cores"] for cpu in core)
            amounts[zone["id"], CPU] = (own & free).bit_count() * MILLI
    if known.memory is not None:
        amounts.update(known.memory)
        # What stands there of pods that are gone is free as soon as the next one comes.
        for uid, blocks in known.blocks.items():
            if uid not in active:
                amounts.update(
                    {(zone, one["type"]): one["size"] for one in blocks for zone in one["numaAffinity"]}
                )
    if known.answers is not None:
        gone = {each for uid, held_ones in known.devices.items() if uid in active for each in held_ones}
        for resource, listed in machine["devices"].items():
            for one in listed:
                for zone in one["zones"]:
                    amounts[zone, resource] += (resource, one["id"]) in known.answers.well - gone
    return amounts


@dataclass
class Watch:
    """Looks at all nodes of a cluster. `samples` are by node, `problems` what readers complained of."""

    api: ApiClient
    kubelets: Mapping[str, RealKubelet]
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    problems: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._state, self._pods = listening()
        self._cluster = ClusterState(complete=True, cluster=self._state.cluster)
        self._active: dict[str, dict[str, PodName]] = {}

    async def run(self) -> None:
        """Never returns."""
        while True:
            await self._look()
            await asyncio.sleep(EVERY)

    async def _look(self) -> None:
        at = monotonic()
        answers = await asyncio.gather(*map(_answers, self.kubelets.values()))
        # Whoever reads the objects after the files finds in them what is at least as new.
        truths = {
            name: truth(kubelet, answer)
            for (name, kubelet), answer in zip(self.kubelets.items(), answers, strict=True)
        }
        with suppress(aiohttp.ClientError, OSError, _Away):
            await self._learn()
        for name, known in truths.items():
            if belief := self._belief(name):
                self.samples.setdefault(name, []).append(Sample(at, known, belief))

    async def _learn(self) -> None:
        """Hear of all that the API server has, as a scorer would."""
        nodes, topologies, pods = [await self._listed(path) for path in (NODES, TOPOLOGIES, PODS)]
        for store, objects in ((self._cluster.nodes, nodes), (self._cluster.topologies, topologies)):
            for one in objects:
                store.put(one["metadata"]["name"], one)
        published(self._cluster).apply(Settled())
        self.problems.update(map(str, self._state.cluster.problems))
        for pod in pods:
            self._pods.put(pod)
        self._pods.keep({(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods})
        self._active = {name: dict(_active(pods, name)) for name in self.kubelets}

    async def _listed(self, path: str) -> list[Json]:
        answer = await ask(self.api, "GET", path)
        if answer.code != 200:
            raise _Away
        items: list[Json] = answer.body["items"]
        return items

    def _belief(self, name: str) -> Belief | None:
        capacity = self._state.reservations.free_capacity(name, now=monotonic())
        if capacity is None:
            return None
        exact = capacity.basis is Basis.OBSERVED and capacity.node.stock and capacity.node.machine
        return Belief(
            cpus=capacity.node.stock.cpus if exact and capacity.node.stock else None,
            free={
                (zone.id, resource): amount
                for zone in capacity.node.zones
                for resource, amount in zone.free.items()
            },
            active=self._active.get(name, {}),
        )


class _Away(Exception):
    """The API server does not give what it has."""


async def _answers(kubelet: RealKubelet) -> Answers | None:
    """None if it does not answer."""
    podresources = PodResources(kubelet.podresources, within=1.0)
    try:
        allocatable, listed = await podresources.allocatable(), await podresources.listed()
    except (ClusterError, OSError):
        return None
    return Answers(
        {(one.resource, one.id) for one in allocatable.devices},
        {(pod.namespace, pod.name) for pod in listed},
    )


def _active(pods: Sequence[Json], node: str) -> Iterator[tuple[str, PodName]]:
    for pod in pods:
        if pod["spec"].get("nodeName") == node and pod["status"].get("phase") not in ENDED:
            yield pod["metadata"]["uid"], (pod["metadata"]["namespace"], pod["metadata"]["name"])


@asynccontextmanager
async def watching(api: ApiClient, kubelets: Mapping[str, RealKubelet]) -> AsyncIterator[Watch]:
    """A watch that runs."""
    watch = Watch(api, kubelets)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch.run())
        yield watch
        task.cancel()


Longest = Mapping[Wrong, tuple[float, Item]]
"""In each direction for how many seconds one thing was believed wrongly without a break, and which."""


def longest(machine: Json, samples: Iterable[Sample]) -> Longest:
    """Of these looks, one after another."""
    most: dict[Wrong, tuple[float, Item]] = dict.fromkeys(Wrong, (0.0, ()))
    since: dict[tuple[Wrong, Item], float] = {}
    for sample in samples:
        for (direction, item), began in since.items():
            most[direction] = max(most[direction], (sample.at - began, item), key=itemgetter(0))
        since = {what: since.get(what, sample.at) for what in wrong(machine, sample)}
    return most
