"""
A cluster in memory for tests of healing: an API server, owners that recreate pods, a gate and kubelets.

A call can fail, be lost after it was done, or be the last of a leader; then another leader may begin.
"""

import asyncio
import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import Mock

from prometheus_client import CollectorRegistry

from controller.healing.eviction_limits import EvictionLimits, Rates
from controller.healing.healer import Healer
from controller.healing.marks import TIMEOUT, MarkWriter
from controller.healing.moves import Moves
from controller.healing.observing import RunningPodAlignments
from controller.healing.owners import Owners
from controller.healing.replacements import BetterPlaces
from controller.held import HeldPlaces
from numalign.kube.client import Patch, Query
from numalign.kube.decode.kubelet_reports import ObservedPlacement
from numalign.kube.errors import Conflict, NotFound, Throttled
from numalign.kube.events import Event
from numalign.model.bitset import bits
from numalign.model.intent import ALIGNED, ALIGNED_WHY, Policy
from numalign.model.node import Node
from numalign.model.placement import Held
from numalign.scheduling.ranking import Ranker, RankingRules
from tests.worlds.clock import Clock
from tests.worlds.clusters import become
from tests.worlds.log import RecordedLog
from tests.worlds.notation import bag, node
from tests.worlds.scorer import SINGLE, TEAM, Raw, Scorer, raw, running, snapshot
from tools.clusters.fake_api import merged

HEALED = {"gate": "enabled", "heal": "running"}
"""The labels of a namespace with healing."""

ROOMY = node("cpu=16 mem=64Gi", "cpu=16 mem=64Gi", policy="restricted")
LOOSE = replace(ROOMY, policy=Policy.NONE)

SPREAD = {"node-0": "cpu=2", "node-1": "cpu=2"}
TOGETHER = {"node-0": "cpu=4"}


class Killed(BaseException):
    """Ends a leader in the middle of a call."""


def owned(made: Raw, owner: str, **reference: Any) -> Raw:  # noqa: ANN401  JSON
    """A pod of a ReplicaSet, or of the owner in `reference`."""
    names = {"name": owner, "uid": f"uid-of-{owner}", "controller": True}
    fields = {"apiVersion": "apps/v1", "kind": "ReplicaSet", **names, **reference}
    return {**made, "metadata": {**made["metadata"], "ownerReferences": [fields]}}


def web(name: str, owner: str = "web", *, cpu: int = 4, policy: str = SINGLE, **changes: Any) -> Raw:  # noqa: ANN401
    """A pod that requests one zone."""
    return owned(raw(f"cpu={cpu} mem=1Gi", name=name, policy=policy, **changes), owner)


def nodes(names: str = "ab") -> dict[str, Node]:
    """Equal, empty nodes; the first one has no policy, so pods may be misaligned there."""
    return {name: ROOMY if at else LOOSE for at, name in enumerate(names)}


@dataclass
class Cluster:
    """
    The objects of an API server, and what happens to them. `placements` are the agents' reports.

    `fails` is raised by the next calls of a method, one each; `after` runs once a call of a method was done,
    before it is answered, and `between` once an eviction was counted, before the pod is deleted. `budget` is
    that of a PodDisruptionBudget. With `recreates`, owners create another pod at once, which waits at the
    gate and is then placed as `sits_as`.
    """

    nodes: dict[str, Node] = field(default_factory=nodes)
    namespaces: dict[str, Mapping[str, str]] = field(default_factory=lambda: {TEAM: HEALED})
    time: Clock = field(default_factory=Clock)
    pods: dict[tuple[str, str], Raw] = field(default_factory=dict)
    placements: dict[str, dict[str, ObservedPlacement]] = field(default_factory=dict)
    fails: dict[str, list[BaseException]] = field(default_factory=dict)
    after: dict[str, Callable[[], object]] = field(default_factory=dict)
    between: Callable[[], None] = lambda: None
    budget: float = math.inf
    evicted: list[tuple[float, str]] = field(default_factory=list)
    evictions: list[Raw] = field(default_factory=list)
    recreates: bool = True
    sits_as: Mapping[str, str] = field(default_factory=lambda: TOGETHER)
    leaders: list["Leader"] = field(default_factory=list)
    created: int = 0
    version: int = 1
    unpublished: bool = True

    def put(self, made: Raw) -> None:
        """A pod is stored like this, and watches report it."""
        self.version += 1
        made = copy.deepcopy(made)
        metadata = made["metadata"]
        metadata["resourceVersion"] = str(self.version)
        self.pods[metadata["namespace"], metadata["name"]] = made
        for leader in self.leaders:
            leader.pods.put(made)

    def drop(self, namespace: str, name: str) -> None:
        self.pods.pop((namespace, name), None)
        for leader in self.leaders:
            leader.pods.drop((namespace, name))

    def run(self, made: Raw, place: str, sits: Mapping[str, str]) -> None:
        """A pod runs on a node, whose agent reports what it holds."""
        self.put(running({**made, "spec": {**made["spec"], "nodeName": place, "schedulingGates": []}}))
        self.observe(made["metadata"]["uid"], place, sits)

    def observe(self, uid: str, place: str, sits: Mapping[str, str]) -> None:
        """The agent of a node reports what a pod holds."""
        holds: Held = {(zone,): bag(amounts) for zone, amounts in sits.items()}
        self.placements.setdefault(place, {})[uid] = ObservedPlacement(holds, bits(()))
        self.unpublished = True

    async def publish(self) -> None:
        """Leaders observe nodes, namespaces and reports."""
        self.unpublished = False
        for leader in self.leaders:
            await leader.know()

    def uids(self) -> list[str]:
        """The evicted pods."""
        return [uid for _, uid in self.evicted]

    def interrupt(self, method: str, error: BaseException, *, done: bool) -> None:
        """The next call of a method raises this, before or after it is `done`."""
        if done:
            self.after[method] = Mock(side_effect=error)
        else:
            self.fails[method] = [error]

    # The API.

    async def get(self, path: str, _query: object = (), *, what: str, most: int | None = None) -> object:
        assert most
        if what.startswith("namespace "):
            await self._fail("get namespace")
            name = path.split("/")[4]
            labels = {f"numalign.io/{key}": value for key, value in self.namespaces[name].items()}
            return {"metadata": {"name": name, "labels": labels}}
        stored = await self._called("get", path, what)
        self._done("get")
        return stored

    async def patch(self, path: str, body: Any, query: Query = (), *, how: Patch, what: str) -> object:  # noqa: ANN401  JSON
        assert (how, query) == (Patch.MERGE, TIMEOUT)
        stored = await self._called("patch", path, what)
        if body["metadata"]["uid"] != stored["metadata"]["uid"]:
            raise Conflict(what)
        self.put(merged(stored, body))
        self._done("patch")
        return {}

    async def create(self, path: str, body: Any, _query: object = (), *, what: str) -> object:  # noqa: ANN401  JSON
        """An eviction, in the order of EvictionREST.Create: counted first, and then compared."""
        assert path.endswith("/eviction")
        await self._called("evict", path, what)
        if not self.budget:
            raise Throttled(f"{what}: Cannot evict pod as it would violate the pod's disruption budget.")
        self.budget -= 1
        self.between()
        stored = self._at(path)
        metadata, wanted = stored["metadata"], body["deleteOptions"]["preconditions"]
        if {key: metadata[key] for key in wanted} != wanted:
            raise Conflict(what)
        assert "deletionTimestamp" not in metadata, "a pod that is being deleted was evicted"
        self.evictions.append(body)
        self.evicted.append((self.time.seconds, metadata["uid"]))
        self.put(merged(stored, {"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z"}}))
        if self.recreates:
            self._recreate(stored)
        self._done("evict")
        return {}

    async def _fail(self, method: str) -> None:
        await asyncio.sleep(0)
        if self.fails.get(method):
            raise self.fails[method].pop(0)

    async def _called(self, method: str, path: str, what: str) -> Raw:
        await self._fail(method)
        try:
            return self._at(path)
        except KeyError:
            raise NotFound(what) from None

    def _at(self, path: str) -> Raw:
        parts = path.split("/")
        return copy.deepcopy(self.pods[parts[4], parts[6]])

    def _done(self, method: str) -> None:
        self.after.pop(method, int)()

    # Owners, kubelets and the gate.

    def _recreate(self, gone: Raw) -> None:
        self.created += 1
        name = f"new-{self.created}"
        metadata = {"name": name, "uid": f"uid-of-{name}", "annotations": {ALIGNED: None, ALIGNED_WHY: None}}
        gates = [{"name": "numalign.io/placement"}]
        made = merged(gone, {"metadata": metadata, "spec": {"nodeName": None, "schedulingGates": gates}})
        self.put({**made, "status": {"phase": "Pending"}})

    async def settle(self) -> None:
        """Deletions end, and gated pods take the place held for them, or the first node."""
        for (namespace, name), made in [*self.pods.items()]:
            if "deletionTimestamp" in made["metadata"]:
                self.drop(namespace, name)
                for reports in self.placements.values():
                    reports.pop(made["metadata"]["uid"], None)
            elif made["spec"].get("schedulingGates"):
                self.run(made, self._place(made), self.sits_as)
        if self.unpublished:
            await self.publish()

    def _place(self, made: Raw) -> str:
        for leader in self.leaders:
            pod, pending = leader.state.pods[made["metadata"]["uid"]], leader.state.pending_pod(made)
            if leader.leads and (place := leader.held.take(pod, pending)):
                return place
        return next(iter(self.nodes))


@dataclass
class Leader:
    """Healing in a controller that leads; calls go to `api` if it is set, else to the cluster."""

    cluster: Cluster
    leads: bool = True
    gates: bool = True
    rates: Rates = Rates(owner=600, node=300, cluster=6)  # noqa: RUF009  frozen
    api: Any = None
    log: RecordedLog = field(default_factory=RecordedLog)
    events: list[Event] = field(default_factory=list)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        clock, log, api = self.cluster.time, self.log.log, self.api or self.cluster
        scorer = Scorer(time=clock, journal=self.log, registry=self.registry)
        self.pods, self.state, state, answers = scorer.pods, scorer.state, scorer.state, scorer.nodes
        self.alignments = RunningPodAlignments(state, named=10)
        self.registry.register(self.alignments)
        state.watchers = (self.alignments.update_pod,)
        self.held, self.owners = HeldPlaces(state, answers, clock), Owners()
        common: dict[str, Any] = {"state": state, "alignments": self.alignments, "owners": self.owners}
        common |= {"publish": self.events.append, "log": log, "clock": clock}
        self.moves = Moves(**common, held=self.held, registry=self.registry)
        common |= {"api": api, "leading": lambda: self.leads, "sleep": clock.sleep}
        self.marks = MarkWriter(**common, registry=self.registry)
        self.healer = Healer(
            **common,
            places=BetterPlaces(state, answers, Ranker(RankingRules()), lambda _name, _demand: True),
            held=self.held,
            limits=EvictionLimits(self.rates, clock()),
            moves=self.moves,
            gates=self.gates,
            unplaceable=lambda made: ("volumes",) if made["spec"].get("volumes") else (),
            written_until=self.marks.written_until,
            acts_for=lambda: 10.0 if self.leads else 0.0,
        )
        self.cluster.leaders.append(self)
        for made in self.cluster.pods.values():
            self.pods.put(made)

    async def know(self) -> None:
        """Observe nodes, namespaces and reports of agents."""
        cluster = self.cluster
        reports = {name: dict(pods) for name, pods in cluster.placements.items()}
        namespaces: dict[str, Any] = {**cluster.namespaces}
        become(self.state.cluster, snapshot(cluster.nodes, placements=reports, **namespaces))
        await self.state.catch_up()

    def kill(self) -> None:
        self.leads = False
        self.cluster.leaders.remove(self)

    async def turns(self, seconds: float, *, settle: bool = True, step: int = 1) -> None:
        """Time passes, second by second; kubelets and owners act in between."""
        for _ in range(int(seconds) // step):
            self.cluster.time.seconds += step
            await self.healer.turn()
            self.state.reservations.expire(self.cluster.time())
            if settle:
                await self.cluster.settle()

    def reasons(self) -> list[str]:
        return [event.reason for event in self.events]

    def holds_nothing(self) -> bool:
        return len(self.held) == 0 and self.state.reservations.reserved() == ()

    def count(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"numalign_{name}", labels) or 0.0

    def moved(self, outcome: str) -> float:
        return self.count("healing_moves_total", outcome=outcome)


async def lead(cluster: Cluster, **fields: Any) -> Leader:  # noqa: ANN401  of a Leader
    """A leader that has observed the cluster."""
    leader = Leader(cluster, **fields)
    await cluster.publish()
    return leader


async def misaligned(*pods: str | Raw, owner: str = "web", **fields: Any) -> tuple[Cluster, Leader]:  # noqa: ANN401
    """These pods in two zones of node a, and a leader; `fields` are those of both."""
    of_leader = {key: fields.pop(key) for key in ("leads", "gates", "rates") if key in fields}
    cluster = Cluster(**fields)
    for pod in pods:
        cluster.run(web(pod, owner) if isinstance(pod, str) else pod, "a", SPREAD)
    return cluster, await lead(cluster, **of_leader)
