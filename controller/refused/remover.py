"""
Delete rejected pods, one at a time and slowly.

The watch may be slightly outdated, so both pods that matter and the label that permits it are read again,
and the deletion has the UID and the version of the pod that was read: whatever happens in between, nothing
else is deleted. There is no hurry, so an API server in trouble gets growing pauses.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Protocol
from urllib.parse import quote

from prometheus_client import CollectorRegistry, Counter

from controller.refused.removal import API_VERSIONS, Removal, still_lives, why_not
from numalign.kube.client import Query
from numalign.kube.decode.parts import Part
from numalign.kube.errors import ClusterError, Conflict, Forbidden, InvalidObject, NotFound, Unreachable
from numalign.kube.events import Event, Type
from numalign.lru import LRU
from numalign.model.steps import Steps
from numalign.runtime.clock import Sleep
from numalign.runtime.cooperative import result_of
from numalign.runtime.logs import Log
from numalign.runtime.metrics import PREFIX
from numalign.runtime.token_bucket import TokenBucket

EVENT = "NUMARefusedRemoved"
"""The reason of the event on the owner."""

TURN_SECONDS = 2.0
PER_SECOND, BURST = 5.0, 20
"""Deletions; each takes four requests."""

CALL_SECONDS = 5
"""Timeout in seconds of one API request."""

AGAIN_SECONDS = 60.0
"""Seconds after which a pod that was not deleted, or is still seen, is checked again."""

LONGEST_PAUSE = 300.0
"""Longest pause in seconds for a failing API server, and the pause for a namespace that denies deletion."""

_REMEMBERED = 4096


class RemovalResult(StrEnum):
    """The result of deleting a pod, as a label."""

    REMOVED = "removed"
    GONE = "gone"
    CHANGED = "changed"
    UNCOUNTED = "uncounted"
    FORBIDDEN = "forbidden"
    FAILED = "failed"


class PodStore(Protocol):
    """The methods of `Api` that are used; the real one raises `ClusterError`."""

    async def get(self, path: str, query: Query = (), *, what: str) -> object:
        """Return the object at `path`."""

    async def delete(self, path: str, options: object, *, what: str) -> object:
        """Delete the object at `path`."""


class Remover:
    """Deletes the pods that are `due`, while `leading` returns True.

    `permitted` returns whether a namespace permits that now, and raises `ClusterError`.
    """

    def __init__(  # noqa: PLR0913  its dependencies
        self,
        api: PodStore,
        *,
        due: Callable[[], Steps[tuple[Removal, ...]]],
        permitted: Callable[[str], Awaitable[bool]],
        leading: Callable[[], bool],
        publish: Callable[[Event], None],
        log: Log,
        registry: CollectorRegistry,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._api, self._due, self._leading, self._publish, self._log = api, due, leading, publish, log
        self._permitted = permitted
        self._clock, self._sleep, self._chance = clock, sleep, chance
        self._bucket = TokenBucket(PER_SECOND, BURST, clock=clock)
        self._not_before: LRU[str, float] = LRU(_REMEMBERED)
        self._denied_until: LRU[str, float] = LRU(_REMEMBERED)
        self._paused_until = clock()
        self._failures = 0
        self._forbidden = False
        self._results = Counter(
            f"{PREFIX}refused_pod_removals",
            "Attempts to delete pods that a kubelet rejected, by result.",
            ["result"],
            registry=registry,
        )
        for result in RemovalResult:
            self._results.labels(result)

    async def run(self) -> None:
        """Delete what is due; never returns."""
        while True:
            try:
                await self._turn()
            except Exception as error:  # noqa: BLE001  no pod may end the program
                self._log.failed("refused.internal_error", error)
                self._paused_until = self._clock() + AGAIN_SECONDS
            await self._sleep(TURN_SECONDS)

    async def _turn(self) -> None:
        if not self._leading() or self._clock() < self._paused_until:
            return
        for removal in await result_of(self._due()):
            if self._waits(removal):
                continue
            if not (self._leading() and self._bucket.take()):
                return
            result = await self._removed(removal)
            self._results.labels(result).inc()
            self._not_before.put(removal.pod.uid, self._clock() + AGAIN_SECONDS)
            if self._clock() < self._paused_until:
                return

    def _waits(self, removal: Removal) -> bool:
        """Return whether it is too early to check the pod again."""
        waits = self._not_before.peek(removal.pod.uid), self._denied_until.peek(removal.pod.namespace)
        return max(until or 0.0 for until in waits) > self._clock()

    async def _removed(self, removal: Removal) -> RemovalResult:
        try:
            result = await self._checked_and_removed(removal)
        except NotFound:
            result = RemovalResult.GONE
        except Conflict:
            result = RemovalResult.CHANGED
        except (Forbidden, InvalidObject) as error:
            return self._denied(removal, error)
        except ClusterError as error:
            return self._failed(removal, error)
        except Exception as error:  # noqa: BLE001  one pod must not stop all others
            self._log.failed(
                "refused.internal_error", error, pod=f"{removal.pod.namespace}/{removal.pod.name}"
            )
            return RemovalResult.FAILED
        self._failures = 0
        self._forbidden &= result is not RemovalResult.REMOVED
        return result

    async def _checked_and_removed(self, removal: Removal) -> RemovalResult:
        """Read both pods and the namespace again, then delete that version; raise `ClusterError`."""
        pod, another = removal.pod, removal.another
        path, what = _place(pod.namespace, pod.name)
        stored = Part(await _in_time(self._api.get(path, what=what)))
        if reason := why_not(removal, stored):
            return RemovalResult(reason)
        other_path, other = _place(another.namespace, another.name)
        # If the other pod is not found, that does not mean that the rejected one is gone.
        try:
            if not still_lives(removal, Part(await _in_time(self._api.get(other_path, what=other)))):
                return RemovalResult.CHANGED
        except NotFound:
            return RemovalResult.CHANGED
        version = stored["metadata"]["resourceVersion"].value
        if not await _in_time(self._permitted(pod.namespace)):
            return RemovalResult.CHANGED
        # Leadership may have changed during the three requests.
        if not self._leading() or not isinstance(version, str):
            return RemovalResult.CHANGED
        await _in_time(self._api.delete(path, _options(pod.uid, version), what=what))
        self._notify_owner(removal)
        return RemovalResult.REMOVED

    def _notify_owner(self, removal: Removal) -> None:
        """Create an event on the owner: an event on the pod would belong to a deleted object."""
        pod, owner = removal.pod, removal.owner
        message = (
            f"deleted pod {pod.name}, which the kubelet of {pod.node} rejected ({pod.reason}):"
            f" {removal.another.name} was created since"
        ) + (f", and the {removal.kept} newest rejected pods are kept" if removal.kept else "")
        self._log.info(
            "refused.removed",
            pod=f"{pod.namespace}/{pod.name}",
            node=pod.node,
            reason=pod.reason,
            owner=f"{owner.kind}/{owner.name}",
        )
        self._publish(
            Event(
                pod.namespace,
                owner.name,
                owner.uid,
                Type.NORMAL,
                EVENT,
                message,
                kind=owner.kind,
                api_version=API_VERSIONS[owner.group, owner.kind],
            )
        )

    def _denied(self, removal: Removal, error: ClusterError) -> RemovalResult:
        """Pause for the namespace: a policy may protect it, and not others."""
        self._denied_until.put(removal.pod.namespace, self._clock() + LONGEST_PAUSE)
        if not self._forbidden:
            self._log.error("refused.forbidden", namespace=removal.pod.namespace, error=str(error))
        self._forbidden = True
        return RemovalResult.FORBIDDEN

    def _failed(self, removal: Removal, error: ClusterError) -> RemovalResult:
        """Pause for the API server, longer each time."""
        self._failures += 1
        pause = min(2.0 ** min(self._failures, 16), LONGEST_PAUSE)
        self._paused_until = self._clock() + pause * (1 + self._chance() / 2)
        pod = f"{removal.pod.namespace}/{removal.pod.name}"
        self._log.warning("refused.failed", pod=pod, error=str(error))
        return RemovalResult.FAILED


async def _in_time(call: Awaitable[object]) -> object:
    """Return the response of the API server; raise `Unreachable` if it takes too long."""
    try:
        async with asyncio.timeout(CALL_SECONDS):
            return await call
    except TimeoutError as error:
        raise Unreachable(f"the API server did not answer within {CALL_SECONDS} s") from error


def _place(namespace: str, name: str) -> tuple[str, str]:
    """Return the path of a pod, and its name in errors."""
    return (
        f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}",
        f"pod {namespace}/{name}",
    )


def _options(uid: str, version: str) -> Mapping[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": uid, "resourceVersion": version},
    }
