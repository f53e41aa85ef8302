"""
Delete rejected pods, one at a time and slowly.

The watch may be slightly outdated, so both pods that matter and the label that permits it are read again,
and the deletion has the UID and the version of the pod that was read: whatever happens in between, nothing
else is deleted. There is no hurry, so an API server in trouble gets growing pauses.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

from prometheus_client import CollectorRegistry

from controller.refused.removal import API_VERSIONS, Removal, still_lives, why_not
from numalign.kube.client import Api
from numalign.kube.decode.parts import Part
from numalign.kube.errors import ClusterError, Conflict, Forbidden, InvalidObject, NotFound
from numalign.kube.events import Event, Type
from numalign.kube.gates import pod_path
from numalign.kube.pod_informer import PodInfo
from numalign.kube.writes import FailureLog, answer, backoff, counter
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


class Remover:
    """Deletes the pods that are `due`, while `leading` returns True.

    `permitted` returns whether a namespace permits that now, and raises `ClusterError`.
    """

    def __init__(  # noqa: PLR0913  its dependencies
        self,
        api: Api,
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
        self._permitted, self._errors = permitted, FailureLog(log)
        self._clock, self._sleep, self._chance = clock, sleep, chance
        self._bucket = TokenBucket(PER_SECOND, BURST, clock=clock)
        self._not_before: LRU[str, float] = LRU(_REMEMBERED)
        self._denied_until: LRU[str, float] = LRU(_REMEMBERED)
        self._paused_until = clock()
        self._failures = 0
        self._results = counter(
            f"{PREFIX}refused_pod_removals",
            "Attempts to delete pods that a kubelet rejected, by result.",
            ["result"],
            ("removed", "gone", "changed", "uncounted", "forbidden", "failed"),
            registry,
        )

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
            pod = removal.pod
            waits = self._not_before.peek(pod.uid), self._denied_until.peek(pod.namespace)
            if max(until or 0.0 for until in waits) > self._clock():
                continue
            if not (self._leading() and self._bucket.take()):
                return
            self._results.labels(await self._result(removal)).inc()
            self._not_before.put(pod.uid, self._clock() + AGAIN_SECONDS)
            if self._clock() < self._paused_until:
                return

    async def _result(self, removal: Removal) -> str:
        pod = f"{removal.pod.namespace}/{removal.pod.name}"
        try:
            result = await self._removed(removal)
        except NotFound:
            result = "gone"
        except Conflict:
            result = "changed"
        except (Forbidden, InvalidObject) as error:
            # A policy may protect this namespace, and not others.
            namespace = removal.pod.namespace
            self._denied_until.put(namespace, self._clock() + LONGEST_PAUSE)
            return self._errors.forbidden("refused.forbidden", error, namespace=namespace)
        except ClusterError as error:
            self._failures += 1
            pause = backoff(self._failures, 1.0, LONGEST_PAUSE)
            self._paused_until = self._clock() + pause * (1 + self._chance() / 2)
            return self._errors.failed("refused.failed", error, pod=pod)
        except Exception as error:  # noqa: BLE001  one pod must not stop all others
            self._log.failed("refused.internal_error", error, pod=pod)
            return "failed"
        self._failures = 0
        if result == "removed":
            self._errors.succeeded()
        return result

    async def _removed(self, removal: Removal) -> str:
        """Read both pods and the namespace again, then delete that version; raise `ClusterError`."""
        pod, another, owner = removal.pod, removal.another, removal.owner
        stored = await self._read(pod)
        if reason := why_not(removal, stored):
            return reason
        # If the other pod is not found, that does not mean that the rejected one is gone.
        try:
            if not still_lives(removal, await self._read(another)):
                return "changed"
        except NotFound:
            return "changed"
        version = stored["metadata"]["resourceVersion"].value
        if not await answer(self._permitted(pod.namespace), within=CALL_SECONDS):
            return "changed"
        # Leadership may have changed during the three requests.
        if not self._leading() or not isinstance(version, str):
            return "changed"
        preconditions = {"uid": pod.uid, "resourceVersion": version}
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        path, what = pod_path(pod.namespace, pod.name), f"pod {pod.namespace}/{pod.name}"
        await answer(self._api.delete(path, options, what=what), within=CALL_SECONDS)
        names = {"pod": f"{pod.namespace}/{pod.name}", "owner": f"{owner.kind}/{owner.name}"}
        self._log.info("refused.removed", **names, node=pod.node, reason=pod.reason)
        message = (
            f"deleted pod {pod.name}, which the kubelet of {pod.node} rejected ({pod.reason}):"
            f" {another.name} was created since"
        ) + (f", and the {removal.kept} newest rejected pods are kept" if removal.kept else "")
        # An event on the pod would belong to a deleted object.
        about, version = (pod.namespace, owner.name, owner.uid), API_VERSIONS[owner.group, owner.kind]
        self._publish(Event(*about, Type.NORMAL, EVENT, message, kind=owner.kind, api_version=version))
        return "removed"

    async def _read(self, pod: PodInfo) -> Part:
        path, what = pod_path(pod.namespace, pod.name), f"pod {pod.namespace}/{pod.name}"
        return Part(await answer(self._api.get(path, what=what), within=CALL_SECONDS))
