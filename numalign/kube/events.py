"""
Events that users see in `kubectl describe pod`.

No code waits for an event, and what it reports has happened whether it is written or not. So the caller
continues at once. Events are written in the background, slowly, so as not to burden a busy API server, and of
one namespace after the other, so that none waits for the events of another. Failures are counted, and logged
now and then. The same event about the same pod has the same name, so repeated, or sent by two replicas, it
exists once.
"""

import asyncio
import hashlib
import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from prometheus_client import CollectorRegistry, Counter

from numalign.kube.client import ObjectWriter
from numalign.kube.errors import ClusterError, Conflict, Unreachable
from numalign.namespace_queue import NamespaceQueue
from numalign.runtime.clock import Sleep, utc_now
from numalign.runtime.logs import Log
from numalign.runtime.metrics import PREFIX

MOST_WAITING = 1000
"""The limit of waiting events; beyond it the namespace with the most loses its last one."""

PACE_SECONDS = 0.1
"""Seconds between two events."""

PAUSES = (1.0, 5.0, 15.0)
"""Seconds before an event is retried; after the last of them it is given up."""

ATTEMPT_SECONDS = 10
"""How long the API server may take for one."""

LOG_AGAIN_SECONDS = 60
"""How long failures to write events are not logged again."""

LONGEST_MESSAGE = 1024
"""The limit of characters, as in the events of Kubernetes itself."""

_LONGEST_NAME = 253
_CUT = "..."


class Type(StrEnum):
    """The severity of an event, in the words of the API."""

    NORMAL = "Normal"
    WARNING = "Warning"


class EventOutcome(StrEnum):
    """The outcome of an event, as a label."""

    WRITTEN = "written"
    REPEATED = "repeated"
    FAILED = "failed"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Event:
    """An event about a pod: the reason is one word for programs, the message is for people.

    With another `kind` it is about such an object, whose name is in `pod`. Events of several replicas with
    different messages are stored once if they have the same `key`.
    """

    namespace: str
    pod: str
    uid: str
    type: Type
    reason: str
    message: str
    kind: str = "Pod"
    api_version: str = "v1"
    key: str = ""


class Recorder:
    """Writes events as `component`, while it is `run`."""

    def __init__(  # noqa: PLR0913  the API server, the component, and what every part of a process is given
        self,
        api: ObjectWriter,
        *,
        component: str,
        log: Log,
        registry: CollectorRegistry,
        now: Callable[[], datetime] = utc_now,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._api = api
        self._component = component
        self._log = log
        self._now = now
        self._clock = clock
        self._sleep = sleep
        self._waiting: NamespaceQueue[int, tuple[Event, datetime]] = NamespaceQueue(MOST_WAITING)
        self._numbers = itertools.count()
        self._published = asyncio.Event()
        self._logged_at = -math.inf
        self._count = Counter(
            f"{PREFIX}pod_events",
            "Kubernetes Events about pods, by outcome.",
            ["outcome"],
            registry=registry,
        )
        for outcome in EventOutcome:
            self._count.labels(outcome)

    def publish(self, event: Event) -> None:
        """Queue an event to be written; never raises and never waits."""
        self._published.set()
        if not self._waiting.put(event.namespace, next(self._numbers), (event, self._now())):
            self._lost(EventOutcome.DROPPED, f"{MOST_WAITING} other Events are waiting")

    async def run(self) -> None:
        """Write queued events; never returns."""
        while True:
            await self._published.wait()
            self._published.clear()
            while self._waiting:
                _, (event, at) = self._waiting.take()
                await self._write(event, at)
                await self._sleep(PACE_SECONDS)

    async def _write(self, event: Event, at: datetime) -> None:
        for pause in (*PAUSES, None):
            try:
                await self._create(event, at)
            except Conflict:
                self._count.labels(EventOutcome.REPEATED).inc()
            except (Unreachable, TimeoutError) as error:
                if pause is not None:
                    await self._sleep(pause)
                    continue
                self._lost(EventOutcome.FAILED, str(error) or f"no answer within {ATTEMPT_SECONDS} s")
            except ClusterError as error:
                self._lost(EventOutcome.FAILED, str(error))
            except Exception as error:  # noqa: BLE001  no event may end the program
                self._lost(EventOutcome.FAILED, repr(error))
            else:
                self._count.labels(EventOutcome.WRITTEN).inc()
            return

    async def _create(self, event: Event, at: datetime) -> None:
        path = f"/api/v1/namespaces/{quote(event.namespace, safe='')}/events"
        what = f"the event {event.reason} of {event.kind.lower()} {event.namespace}/{event.pod}"
        async with asyncio.timeout(ATTEMPT_SECONDS):
            await self._api.create(path, written(event, by=self._component, at=at), what=what)

    def _lost(self, outcome: EventOutcome, reason: str) -> None:
        self._count.labels(outcome).inc()
        if self._clock() - self._logged_at >= LOG_AGAIN_SECONDS:
            self._logged_at = self._clock()
            self._log.warning("event.lost", outcome=outcome, reason=reason)


def written(event: Event, *, by: str, at: datetime) -> dict[str, Any]:
    """Return the v1 Event."""
    moment = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    involved = {
        "apiVersion": event.api_version,
        "kind": event.kind,
        "namespace": event.namespace,
        "name": event.pod,
        "uid": event.uid,
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": _name(event, by=by), "namespace": event.namespace},
        "involvedObject": involved,
        "type": event.type,
        "reason": event.reason,
        "message": _shortened(event.message),
        "source": {"component": by},
        "reportingComponent": by,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }


def _name(event: Event, *, by: str) -> str:
    """Return the name of the pod and a number, as client-go does; here it is a hash of the content."""
    content = ascii((by, event.uid, event.type.value, event.reason, event.key or event.message))
    number = hashlib.sha256(content.encode()).hexdigest()[:16]
    return f"{event.pod[: _LONGEST_NAME - len(number) - 1].rstrip('-.')}.{number}"


def _shortened(message: str) -> str:
    return message if len(message) <= LONGEST_MESSAGE else message[: LONGEST_MESSAGE - len(_CUT)] + _CUT
