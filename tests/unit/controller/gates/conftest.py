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
from numalign.scheduling.node_fit import NodeFit
from tests.worlds.scorer import TEAM, Raw, Scorer, on, raw, wall
from tools.clusters.fake_api import PATCHES, merged

_TURNS = 50
"""How often every task runs after each second, if they do not all wait before."""

GATED = {"gate": "enabled"}
PIN_PATIENCE = 60.0


def gated(*containers: str, gates: tuple[str, ...] = (PLACEMENT_GATE,), **fields: Any) -> Raw:  # noqa: ANN401
    """A pod behind these gates, as `raw` otherwise."""
    made = raw(*containers, **fields)
    made["spec"] |= {"schedulingGates": [{"name": name} for name in gates]}
    return made


@dataclass
class GatedCluster:
    """The parts of the controller for gates, joined as in the program, and the pods on an API server.

    Patches raise `failing`, reads raise `unreadable`; `before_patch` runs first. The next patches end in
    errors of `unanswered` once they are done, and each takes `seconds`.
    """

    patience: float = 30.0
    scorer: Scorer = field(default_factory=Scorer)
    led: float = HANDOVER_SECONDS
    refusing: tuple[str, ...] = ()
    pods: dict[str, Raw] = field(default_factory=dict)
    failing: Exception | None = None
    unreadable: ClusterError | None = None
    patches: list[tuple[str, Raw, Patch]] = field(default_factory=list)
    reads: int = 0
    before_patch: Callable[[], None] = lambda: None
    unanswered: list[Exception] = field(default_factory=list)
    seconds: float = 0.0
    api: Any = None
    deleted_nodes: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        scorer, state = self.scorer, self.scorer.state
        self.clock, self.log, self.events = scorer.time, scorer.journal, scorer.teller
        self.reservations, self.count = scorer.reservations, scorer.count
        self.queue = GateQueue()
        metrics = GateMetrics(scorer.registry, self.queue.__len__)
        server: Any = self.api or self
        pods = GatedPods(server, metrics, self.log.log, partial(wall, self.clock))
        pins = PinWriter(pods, scorer.reservations, lambda name: name not in self.deleted_nodes)
        scorer.binder.write = pins
        fit, exclusion = NodeFit(state), Exclusion(state, scorer.nodes, lambda *_pod: self.refusing)
        shared: dict[str, Any] = {
            "state": state,
            "pods": pods,
            "metrics": metrics,
            "turns": NamespaceTurns(self.clock),
        }
        shared |= {"leading": lambda: scorer.leads, "publish": self.events.append}
        shared |= {"log": self.log.log, "clock": self.clock, "sleep": self.clock.sleep}
        self.pinned = PinnedPods(
            **shared,
            wall=partial(wall, self.clock),
            lacking=self.queue.lacking,
            patience=PIN_PATIENCE,
            contested=15.0,
        )
        self.keeper = GateKeeper(
            **shared,
            chooser=Chooser(state, scorer.nodes, scorer.context.ranker, fit),
            exclusion=exclusion,
            binder=scorer.binder,
            pins=pins,
            queue=self.queue,
            pinned=self.pinned.expect,
            patience=self.patience,
        )
        bound_fit, keeper, pinned = exclusion.bound_fit, self.keeper, self.pinned
        watchers = (each.update_pod for each in (fit, bound_fit, keeper, pinned))
        state.watchers = (*state.watchers, *watchers)

    # The API server.

    async def get(self, path: str, query: Query = (), *, what: str, most: int | None = None) -> object:
        assert not query
        assert most
        self.reads += 1
        await asyncio.sleep(0)
        if self.unreadable:
            raise self.unreadable
        return self._at(path, what)

    async def patch(self, path: str, body: object, query: Query = (), *, how: Patch, what: str) -> object:
        assert dict(query) == {"timeout": "4s"}
        assert isinstance(body, dict)
        self.before_patch()
        await (self.clock.sleep(self.seconds) if self.seconds else asyncio.sleep(0))
        if self.failing:
            raise self.failing
        pod = self._at(path, what)
        for key in ("uid", "resourceVersion"):
            if body["metadata"].get(key, pod["metadata"][key]) != pod["metadata"][key]:
                raise Conflict(f"{what} was changed")
        self.patches.append((pod["metadata"]["name"], body, how))
        self.make(merged(pod, body, PATCHES[how]))
        if self.unanswered:
            raise self.unanswered.pop()
        return None

    def _at(self, path: str, what: str) -> Raw:
        name = path.rpartition("/")[2]
        if name not in self.pods:
            raise NotFound(f"{what} is not there")
        pod = self.pods[name]
        assert path == f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{name}"
        return pod

    # The cluster.

    async def know(self, members: Mapping[str, Any], **fields: Any) -> None:  # noqa: ANN401  as `snapshot`
        """The cluster is this now; nodes carry their names unless there are other `labels`."""
        labels = {name: {NODE_LABEL: node_label(name)} for name in members}
        await self.scorer.know(members, **{TEAM: GATED, "labels": labels, **fields})

    def make(self, *pods: Raw) -> None:
        """Pods are created or changed."""
        for made in pods:
            name = made["metadata"]["name"]
            version = int(self.pods.get(name, made)["metadata"].get("resourceVersion", "0")) + 1
            stored = {**made, "metadata": {**made["metadata"], "resourceVersion": str(version)}}
            self.pods[name] = stored
            self.scorer.pods.put(stored)

    def delete(self, *names: str) -> None:
        for name in names:
            pod = self.pods.pop(name)
            self.scorer.pods.drop((pod["metadata"]["namespace"], name))

    def bind(self, name: str, node: str | None = None) -> None:
        """The scheduler binds a pod, to the node of its pin unless there is another."""
        assert not self.gates(name), name
        self.make(on(node or str(self.pin(name)), self.pods[name]))

    # What is asserted.

    def gates(self, name: str = "web") -> list[str]:
        return [gate["name"] for gate in self.pods[name]["spec"].get("schedulingGates") or ()]

    def waiting(self) -> list[str]:
        """The pods behind gates."""
        return [name for name in self.pods if self.gates(name)]

    def pin(self, name: str = "web") -> str | None:
        pin = scheduling(self.pods[name]).pin
        return pin.node if pin else None

    def reserved(self) -> dict[str, str | None]:
        """The nodes of reservations, by pod."""
        return self.scorer.kept()

    def reasons(self) -> list[tuple[str, str]]:
        """The events, by pod and reason."""
        return [(event.pod, event.reason) for event in self.events]

    # Time.

    @contextlib.asynccontextmanager
    async def running(self, *pods: Raw) -> AsyncIterator[None]:
        """Create pods; the keeper works, and has led for `led` seconds."""
        self.make(*pods)
        loops = (self.keeper.place, self.keeper.lift, self.pinned.run, self._expire)
        tasks = [asyncio.ensure_future(loop()) for loop in loops]
        try:
            await self.clock.sleep(self.led)
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def run(self, seconds: float, *pods: Raw) -> None:
        """Create pods, and let the keeper work for so long."""
        async with self.running(*pods):
            await self.pass_by(seconds)

    async def pass_by(self, seconds: float) -> None:
        """Let time pass, second by second, until what has begun ends."""
        until = self.clock() + seconds
        while (rest := until - self.clock()) > 0:
            await self.clock.sleep(min(rest, 1.0))
            # While a sleep ends now, time does not go on.
            now = self.clock()
            self.clock.ends.append(now)
            await self.clock.turns(_TURNS)
            self.clock.ends.remove(now)

    async def _expire(self) -> None:
        while True:
            await self.clock.sleep(1.0)
            self.scorer.state.expire()


@pytest.fixture
def cluster() -> GatedCluster:
    """A cluster that has no nodes yet."""
    return GatedCluster()


@pytest.fixture
def scorer() -> Scorer:
    """The state of a cluster, without a keeper of gates."""
    return Scorer()
