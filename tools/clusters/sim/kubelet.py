"""A kubelet without containers, and an exporter beside it: the real managers decide, the rest is simulated.

Besides the managers, decisions depend on when a pod counts as gone. That follows kubernetes v1.34.4:
pkg/kubelet/kubelet.go (HandlePodAdditions: the managers before the other checks; a pod that ended is not
active any more), and the status manager (a pod that was deleted gracefully leaves the API server only after
its resources are released). Changes are handled one at a time, in the order of the watch.

The exporter publishes each observation some seconds later. In between, schedulers decide by outdated
topologies. Real exporters are late by up to their period, and by their own latency and that of the API
server; here, tests set both.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from numalign.kube.client import Api, Patch
from tools.clusters.oracle.managers import Ended, Hung, Managers
from tools.clusters.sim import documents
from tools.clusters.sim.accounts import Held, Zones, available, held, refusal
from tools.clusters.sim.desk import patiently, publish, register
from tools.clusters.sim.fingerprints import Fingerprint, fingerprint
from tools.clusters.sim.shapes import SimNode

Json = dict[str, Any]
A = TypeVar("A")
T = TypeVar("T")

GRACE_SECONDS = 0.05
"""How long a deleted pod takes to end."""

OBSERVED = "numalign.io/placement-observed"


class SimulationError(Exception):
    """Raised if a kubelet does not start, or fails on a pod, with the reason; the simulation must end."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a kubelet on a pod (`namespace/name`): why it is rejected, or empty texts."""

    pod: str
    node: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Active:
    """An admitted pod that has not ended, and what it holds."""

    pod: Json
    held: Held


@dataclass(frozen=True, slots=True)
class Simulation:
    """What all nodes share: an API server, threads for their managers, how exporters publish, and decisions.

    Exporters are `lag()` seconds late, and write fingerprints by a `method`, if any. With `observe`, they
    write to each pod what it holds.
    """

    api: Api
    threads: Executor
    lag: Callable[[], float]
    method: Fingerprint | None
    observe: bool
    decisions: list[Decision] = field(default_factory=list)


class Kubelet:
    """The kubelet of a node and its exporter: `tell` it changes of pods.

    `deciding` and `publishing` are the tasks of the two that are not done, or failed.
    """

    def __init__(self, machine: SimNode, managers: Managers, shared: Simulation) -> None:
        self.machine = machine
        self.active: dict[str, Active] = {}
        self.deciding: set[asyncio.Task[None]] = set()
        self.publishing: set[asyncio.Task[None]] = set()
        self._managers = managers
        self._shared = shared
        self._known: set[str] = set()
        self._ending: set[str] = set()
        self._turn, self._publication = asyncio.Lock(), asyncio.Lock()
        self._due, self._samples, self._newest = 0.0, 0, 0

    async def start(self) -> None:
        """Start the managers, and create the node and its topology."""
        if refused := await self._call(self._managers.node, self.machine.line()):
            raise SimulationError(f"the kubelet of {self.machine.name} does not start: {refused}")
        await register(self._shared.api, documents.node(self.machine))
        await self._publish(list(self.active.values()))

    def available(self) -> Zones:
        return self._left(list(self.active.values()))

    def _left(self, pods: list[Active]) -> Zones:
        shape = self.machine.make
        return available(dict.fromkeys(shape.ids, shape.allocatable()), (one.held for one in pods))

    def tell(self, uid: str, pod: Json | None) -> None:
        """Queue a change of a pod without waiting: its state, or None if it is gone."""
        _start(self.deciding, self._handle(uid, pod))

    async def _handle(self, uid: str, pod: Json | None) -> None:
        # Tasks that wait for a lock get it in their order.
        async with self._turn:
            if pod is None:
                self._known.discard(uid)
                self._ending.discard(uid)
                await self._release(uid)
                return
            new = uid not in self._known
            self._known.add(uid)
            if uid in self.active:
                self.active[uid] = replace(self.active[uid], pod=pod)
            if (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
                await self._release(uid)
            elif new:
                await self._admit(uid, pod)
        if pod["metadata"].get("deletionTimestamp") and uid not in self._ending:
            self._ending.add(uid)
            _start(self.deciding, self._end(uid, pod))

    async def _admit(self, uid: str, pod: Json) -> None:
        answer = await self._call(self._managers.create, _named_by_uid(pod))
        if "panicked" in answer:
            raise SimulationError(f"the kubelet of {self.machine.name} panicked: {answer['panicked']}")
        if answer["admitted"]:
            others = (one.pod for one in self.active.values())
            reason, message = refusal(pod, others, self.machine.make.whole(reserved=False)) or ("", "")
        else:
            reason, message = answer["reason"], answer["message"]
        key = "{namespace}/{name}".format_map(pod["metadata"])
        self._shared.decisions.append(Decision(key, self.machine.name, reason, message))
        if not reason:
            self.active[uid] = Active(pod, held(pod, answer))
            self._changed()
            await self._write(pod, "/status", {"status": documents.running(pod)})
            return
        if answer["admitted"]:
            await self._call(self._managers.delete, uid)
        status = {"phase": "Failed", "startTime": documents.stamp(), "reason": reason}
        await self._write(pod, "/status", {"status": {**status, "message": f"Pod was rejected: {message}"}})

    async def _end(self, uid: str, pod: Json) -> None:
        """End a pod whose containers have stopped: release it from the managers, then delete it."""
        await asyncio.sleep(GRACE_SECONDS)
        async with self._turn:
            await self._release(uid)
        # A pod of the same name with another UID stays.
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        await patiently(lambda: self._shared.api.delete(_path(pod), options, what=_path(pod)))

    async def _release(self, uid: str) -> None:
        if self.active.pop(uid, None):
            await self._call(self._managers.delete, uid)
            self._changed()

    def _changed(self) -> None:
        """Take a sample, as pods hold more or less than before, and schedule its publication."""
        # A later sample is not published earlier.
        self._due = max(self._due, time.monotonic() + self._shared.lag())
        self._samples += 1
        late = self._publish_late(self._due, self._samples, list(self.active.values()))
        _start(self.publishing, late)

    async def _publish_late(self, due: float, number: int, pods: list[Active]) -> None:
        await asyncio.sleep(due - time.monotonic())
        self._newest = max(self._newest, number)
        async with self._publication:
            # Of several that are due, only the last one is published.
            if number == self._newest:
                await self._publish(pods)

    async def _publish(self, pods: list[Active]) -> None:
        for one in pods if self._shared.observe else ():
            if OBSERVED not in one.pod["metadata"].get("annotations", {}):
                annotations = {OBSERVED: documents.placement(one.held)}
                await self._write(one.pod, "", {"metadata": {"annotations": annotations}})
        attributes: dict[str, str] = {}
        if method := self._shared.method:
            counted = [one.pod["metadata"] for one in pods if one.held or method is Fingerprint.ALL]
            made = fingerprint((each["namespace"], each["name"]) for each in counted)
            attributes = {
                "nodeTopologyPodsFingerprint": made,
                "nodeTopologyPodsFingerprintMethod": method,
            }
        await publish(self._shared.api, documents.topology(self.machine, self._left(pods), attributes))

    async def _write(self, pod: Json, part: str, body: Json) -> None:
        """Merge this into a pod, or its status; do nothing if the pod is gone."""
        path, uid = _path(pod) + part, pod["metadata"]["uid"]
        change = {**body, "metadata": {**body.get("metadata", {}), "uid": uid}}
        await patiently(lambda: self._shared.api.patch(path, change, how=Patch.STRATEGIC, what=path))

    async def _call(self, what: Callable[[A], T], of: A) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._shared.threads, what, of)
        except (Hung, Ended) as error:
            raise SimulationError(f"the managers of {self.machine.name}: {error}") from error


def _start(tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
    tasks.add(task := asyncio.create_task(work))

    def done(task: asyncio.Task[None]) -> None:
        if task.cancelled() or not task.exception():
            tasks.discard(task)

    task.add_done_callback(done)


def _path(pod: Json) -> str:
    return "/api/v1/namespaces/{namespace}/pods/{name}".format_map(pod["metadata"])


def _named_by_uid(pod: Json) -> Json:
    """Return the pod with its UID as its name: the managers know pods by name only, without the namespace."""
    metadata = {key: pod["metadata"][key] for key in ("namespace", "uid")}
    quality = {"qosClass": pod["status"]["qosClass"]} if "qosClass" in (pod.get("status") or {}) else {}
    return {"metadata": {**metadata, "name": metadata["uid"]}, "spec": pod["spec"], "status": quality}
