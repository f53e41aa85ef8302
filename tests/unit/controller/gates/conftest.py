"""A cluster with gated pods, a keeper of gates beside it, and a scheduler that binds what it may."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from controller.gates.choosing import Chooser
from controller.gates.exclusion import Exclusion
from controller.gates.keeper import HANDOVER_SECONDS, GateKeeper
from controller.gates.metrics import GateMetrics
from controller.gates.pods import GatedPods, PinWriter
from controller.gates.queue import GateQueue
from controller.gates.turns import NamespaceTurns
from controller.gates.unplaced import PinnedPods
from numalign.kube.client import Patch, Query
from numalign.kube.decode.scheduling import scheduling
from numalign.kube.errors import ClusterError, Conflict, NotFound
from numalign.model.intent import NODE_LABEL, PLACEMENT_GATE
from numalign.model.node import node_label
from numalign.scheduling.binding import Binder
from numalign.scheduling.node_fit import NodeFit
from tests.worlds.scorer import TEAM, Raw, Scorer, on, raw, wall
from tools.clusters.fake_api import merged, strategic

_TURNS = 50
"""So often everybody has a turn after each second."""

MERGES: Mapping[Patch, Callable[[Any, Any], Any]] = {Patch.MERGE: merged, Patch.STRATEGIC: strategic}


def gated(*containers: str, gates: tuple[str, ...] = (PLACEMENT_GATE,), **told: Any) -> Raw:  # noqa: ANN401
    """A pod behind these gates, as `raw` otherwise."""
    made = raw(*containers, **told)
    made["spec"] |= {"schedulingGates": [{"name": name} for name in gates]}
    return made


@dataclass
class PodStore:
    """The pods on an API server, as far as the keeper asks; `failing` is what it answers to patches."""

    tell: Callable[[Raw], None]
    pods: dict[str, Raw] = field(default_factory=dict)
    failing: ClusterError | None = None
    unreadable: ClusterError | None = None
    patches: list[tuple[str, Raw, Patch]] = field(default_factory=list)
    reads: int = 0
    before: Callable[[], None] = lambda: None

    def put(self, made: Raw) -> None:
        """The pod is like this now, and who watches is told."""
        name = made["metadata"]["name"]
        version = int(self.pods.get(name, made)["metadata"].get("resourceVersion", "0")) + 1
        stored = {**made, "metadata": {**made["metadata"], "resourceVersion": str(version)}}
        self.pods[name] = stored
        self.tell(stored)

    async def get(self, path: str, query: Query = (), *, what: str, most: int | None = None) -> object:
        """The pod."""
        assert not query
        assert most
        self.reads += 1
        await asyncio.sleep(0)
        if self.unreadable:
            raise self.unreadable
        return self._at(path, what)

    async def patch(self, path: str, body: object, query: Query = (), *, how: Patch, what: str) -> object:
        """Change the pod."""
        assert dict(query) == {"timeout": "4s"}
        assert isinstance(body, dict)
        self.before()
        await asyncio.sleep(0)
        if self.failing:
            raise self.failing
        pod = self._at(path, what)
        for key in ("uid", "resourceVersion"):
            if body["metadata"].get(key, pod["metadata"][key]) != pod["metadata"][key]:
                raise Conflict(f"{what} was changed")
        self.patches.append((pod["metadata"]["name"], body, how))
        self.put(MERGES[how](pod, body))
        return None

    def _at(self, path: str, what: str) -> Raw:
        name = path.rpartition("/")[2]
        if name not in self.pods:
            raise NotFound(f"{what} is not there")
        pod = self.pods[name]
        assert path == f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{name}"
        return pod


@dataclass
class GatedCluster:
    """The parts of the controller that keep gates, joined as the program does, beside a cluster."""

    patience: float = 30.0
    pin_patience: float = 60.0
    scorer: Scorer = field(default_factory=Scorer)
    binds: bool = True
    led: float = HANDOVER_SECONDS
    refusing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        scorer, state = self.scorer, self.scorer.state
        self.time, self.told, self.events = scorer.time, scorer.told, scorer.teller
        self.reservations = scorer.reservations
        self.store = PodStore(scorer.pods.put)
        queue, self.turns = GateQueue(), NamespaceTurns(self.time)
        metrics = GateMetrics.of(scorer.registry, queue.__len__)
        pods = GatedPods(self.store, metrics, scorer.told.log, partial(wall, self.time))
        self.gone: set[str] = set()
        pins = PinWriter(pods, scorer.reservations, lambda name: name not in self.gone)
        scorer.binder = Binder(
            state=state,
            write=pins,
            acts_for=lambda: 10.0 if scorer.leads else 0.0,
            patience=3.0,
            unknown=scorer.settings().unknown_nodes,
            log=scorer.told.log,
            metrics=scorer.binder.metrics,
            clock=self.time,
            sleep=self.time.sleep,
        )
        fit, exclusion = NodeFit(state), Exclusion(state, scorer.nodes, lambda *_pod: self.refusing)
        shared: dict[str, Any] = {
            "state": state,
            "pods": pods,
            "metrics": metrics,
            "turns": self.turns,
            "leading": lambda: scorer.leads,
            "publish": self.events.append,
            "log": scorer.told.log,
            "clock": self.time,
            "sleep": self.time.sleep,
        }
        self.pinned = PinnedPods(
            **shared,
            wall=partial(wall, self.time),
            lacking=queue.lacking,
            patience=self.pin_patience,
            contested=15.0,
        )
        self.keeper = GateKeeper(
            **shared,
            chooser=Chooser(state, scorer.nodes, scorer.context.ranker, fit),
            exclusion=exclusion,
            binder=scorer.binder,
            pins=pins,
            queue=queue,
            pinned=self.pinned.expect,
            patience=self.patience,
        )
        self.queue = queue
        state.watchers = (
            *state.watchers,
            fit.update_pod,
            exclusion.bound_fit.update_pod,
            self.keeper.update_pod,
            self.pinned.update_pod,
        )

    async def know(self, members: Mapping[str, Any], **told: Any) -> None:  # noqa: ANN401  as `snapshot`
        """The cluster is this now; nodes carry their names unless other `labels` are told."""
        labels = {name: {NODE_LABEL: node_label(name)} for name in members}
        await self.scorer.know(members, **{TEAM: {"gate": "enabled"}, "labels": labels, **told})

    def make(self, *pods: Raw) -> None:
        """Pods are created."""
        for each in pods:
            self.store.put(each)

    def delete(self, name: str) -> None:
        """A pod is deleted."""
        pod = self.store.pods.pop(name)
        self.scorer.pods.drop((pod["metadata"]["namespace"], name))

    def pod(self, name: str = "web") -> Raw:
        """The pod as it is now."""
        return self.store.pods[name]

    def bind(self, name: str, node: str) -> None:
        """The scheduler binds a pod."""
        assert not self.pod(name)["spec"].get("schedulingGates"), name
        self.store.put(on(node, self.pod(name)))

    def gates(self, name: str = "web") -> list[str]:
        """What keeps the scheduler from a pod."""
        return [gate["name"] for gate in self.pod(name)["spec"].get("schedulingGates") or ()]

    def pin(self, name: str = "web") -> str | None:
        """The node that a pod is pinned to."""
        pin = scheduling(self.pod(name)).pin
        return pin.node if pin else None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The keeper works, and has led for `led` seconds."""
        works = (self.keeper.place, self.keeper.lift, self.pinned.run, self._expire)
        tasks = [asyncio.ensure_future(work()) for work in works]
        try:
            await self.time.sleep(self.led)
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def pass_by(self, seconds: float) -> None:
        """Let time pass, second by second, and what was begun come to its end."""
        until = self.time() + seconds
        while (left := until - self.time()) > 0:
            await self.time.sleep(min(left, 1.0))
            # As long as somebody's time has come, it does not go on.
            now = self.time()
            self.time.ends.append(now)
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            self.time.ends.remove(now)

    async def _expire(self) -> None:
        while True:
            await self.time.sleep(1.0)
            self.scorer.state.expire()

    def reasons(self) -> list[tuple[str, str]]:
        """The events, by pod and reason."""
        return [(event.pod, event.reason) for event in self.events]


@pytest.fixture
def cluster() -> GatedCluster:
    """A cluster that has no nodes yet."""
    return GatedCluster()


@pytest.fixture
def scorer() -> Scorer:
    """What the controller knows of a cluster, with no keeper of gates."""
    return Scorer()
