"""A kubelet without containers: the real managers decide, and this module simulates what surrounds them.

Besides the managers, decisions depend on the order in which a kubelet handles changes, and on when a pod
counts as gone. Both follow kubernetes v1.34.4: pkg/kubelet/config/config.go (changes that arrive together:
removed pods first, then new ones, then the rest), pkg/kubelet/kubelet.go (HandlePodAdditions: new pods by
creation; the managers before the other checks; a pod that ended is not active any more), and the status
manager (a pod that was deleted gracefully leaves the API server only after its resources are released).
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from tools.clusters.sim import documents
from tools.clusters.sim.accounts import Held, Zones, available, held
from tools.clusters.sim.desk import ApiDesk
from tools.clusters.sim.oracles import Oracle
from tools.clusters.sim.predicates import Refusal, refusal
from tools.clusters.sim.shapes import SimNode

Json = dict[str, Any]

GRACE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a kubelet on a pod (`namespace/name`); `at` is a time of the monotonic clock."""

    at: float
    pod: str
    node: str
    admitted: bool
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class News:
    """A change of a pod: its state (`pod`), or None if it is gone; `ended` if its grace period is over."""

    uid: str
    pod: Json | None = None
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Active:
    """An admitted pod that has not ended, and what it holds."""

    pod: Json
    held: Held


def ordered(batch: Sequence[News], known: Iterable[str]) -> list[News]:
    """Return changes that arrived together in the kubelet's order, only the last one of each pod."""
    old = set(known)
    last = {(news.uid, news.ended): news for news in batch}
    gone = [news for news in last.values() if news.pod is None and not news.ended and news.uid in old]
    ended = [news for news in last.values() if news.ended]
    there = [news for news in last.values() if news.pod is not None]
    new = sorted((news for news in there if news.uid not in old), key=_created)
    return [*gone, *ended, *new, *(news for news in there if news.uid in old)]


def _created(news: News) -> str:
    assert news.pod
    # Timestamps have one format and time zone, so their texts sort by time.
    return str(news.pod["metadata"].get("creationTimestamp") or "")


class Kubelet:
    """The kubelet of a node: call `tell` with changes of pods, while `run` runs.

    `changed` is called when pods hold more or less than before. Decisions are appended to `decisions`.
    `grace` is how many seconds a pod takes to end.
    """

    def __init__(
        self, machine: SimNode, managers: Oracle, desk: ApiDesk, decisions: list[Decision], grace: float
    ) -> None:
        self.machine = machine
        self.changed: Callable[[], None] = lambda: None
        self._managers = managers
        self._desk = desk
        self._decisions = decisions
        self._grace = grace
        self._allocatable = documents.allocatable(machine.make)
        self._known: dict[str, Json] = {}
        self._active: dict[str, Active] = {}
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._inbox: list[News] = []
        self._arrived = asyncio.Event()
        self._busy = False

    @property
    def quiet(self) -> bool:
        return not (self._busy or self._inbox or self._ending)

    @property
    def active(self) -> list[Active]:
        return list(self._active.values())

    def available(self) -> Zones:
        shape = self.machine.make
        return available(dict.fromkeys(shape.ids, shape.allocatable()), (one.held for one in self.active))

    def tell(self, news: News) -> None:
        """Queue a change without waiting; changes that are queued before the next look arrive together."""
        self._inbox.append(news)
        self._arrived.set()

    async def run(self) -> None:
        """Handle changes; never returns."""
        try:
            while True:
                await self._arrived.wait()
                self._busy = True
                batch, self._inbox = self._inbox, []
                self._arrived.clear()
                for news in ordered(batch, self._known):
                    await self._handle(news)
                self._busy = False
        finally:
            for ending in self._ending.values():
                ending.cancel()

    async def _handle(self, news: News) -> None:
        uid, pod = news.uid, news.pod
        if news.ended:
            await self._end(uid)
            return
        if pod is None:
            await self._forget(uid)
            return
        new = uid not in self._known
        self._known[uid] = pod
        if uid in self._active:
            self._active[uid] = replace(self._active[uid], pod=pod)
        if (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
            await self._release(uid)
        elif new:
            await self._admit(uid, pod)
        if pod["metadata"].get("deletionTimestamp") and uid not in self._ending:
            self._ending[uid] = asyncio.create_task(self._expire(uid))

    async def _admit(self, uid: str, pod: Json) -> None:
        answer = await self._managers.create(_named_by_uid(pod))
        refused = None if answer["admitted"] else Refusal(answer["reason"], answer["message"])
        refused = refused or refusal(pod, (one.pod for one in self.active), self._allocatable)
        key = "{namespace}/{name}".format_map(pod["metadata"])
        why = (refused.reason, refused.message) if refused else ()
        self._decisions.append(Decision(time.monotonic(), key, self.machine.name, refused is None, *why))
        if refused:
            if answer["admitted"]:
                await self._managers.delete(uid)
            await self._desk.status(pod, documents.rejected(refused))
            return
        self._active[uid] = Active(pod, held(pod, answer))
        self.changed()
        await self._desk.status(pod, documents.running(pod))

    async def _expire(self, uid: str) -> None:
        await asyncio.sleep(self._grace)
        self.tell(News(uid, ended=True))

    async def _end(self, uid: str) -> None:
        """End a pod whose containers have stopped: release it from the managers, then delete it."""
        if pod := self._known.get(uid):
            await self._release(uid)
            await self._desk.remove(pod)
        self._ending.pop(uid, None)

    async def _forget(self, uid: str) -> None:
        del self._known[uid]
        if ending := self._ending.pop(uid, None):
            ending.cancel()
            with suppress(asyncio.CancelledError):
                await ending
        await self._release(uid)

    async def _release(self, uid: str) -> None:
        if self._active.pop(uid, None):
            await self._managers.delete(uid)
            self.changed()


def _named_by_uid(pod: Json) -> Json:
    """Return the pod with its UID as its name: the managers know pods by name only, without the namespace."""
    metadata = {key: pod["metadata"][key] for key in ("namespace", "uid")}
    quality = {"qosClass": pod["status"]["qosClass"]} if "qosClass" in (pod.get("status") or {}) else {}
    return {"metadata": {**metadata, "name": metadata["uid"]}, "spec": pod["spec"], "status": quality}
