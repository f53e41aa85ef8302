"""
The objects of one kind, always as the API server has them.

A list returns the current objects, a watch the changes from then on. Watches break often: a server restarts,
a load balancer closes an idle connection, a network drops packets silently. The next watch then resumes from
the last resource version, so nothing is lost or read twice. Only if that is impossible (compacted history, a
restored store, an invalid event) everything is listed again; until that list is complete, the previous
objects remain. Only the fields that the kind keeps are stored of an object, and only the names of a list.

The use of a watch follows the Kubernetes documentation, "Kubernetes API Concepts", "Efficient detection of
changes"; the failures in practice follow k8s.io/client-go, tools/cache/reflector.go.
"""

import asyncio
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import aclosing, suppress
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from types import MappingProxyType
from typing import Protocol, Self

import aiohttp
import orjson
from prometheus_client import CollectorRegistry, Counter, Gauge

from numalign.kube.client import Api, Query
from numalign.kube.decode.parts import Part, group, named
from numalign.kube.errors import ClusterError, Forbidden, Gone, NotFound, Unauthorized
from numalign.kube.kinds import Collection, Key, Object
from numalign.runtime.clock import Sleep
from numalign.runtime.cooperative import TimeSlice
from numalign.runtime.logs import Log
from numalign.runtime.metrics import PREFIX
from numalign.runtime.nesting import why_not_json

PAGE = 200
"""Objects per page. Nodes are stored with all their images, and a page is read without interruption."""

PAGED_TRIES = 3
"""The number of attempts to list in pages, before the list is requested as a whole."""

WATCH_SECONDS = 300
"""The minimum duration of a watch; the maximum is twice that, so that not all of them end at once."""

SILENCE_SECONDS = 150
"""A watch without a byte for this long is dead: a bookmark comes about once a minute."""

LASTING_SECONDS = 30
"""After a watch that lasted this long, the next failure counts as the first one."""

RELIST_AFTER = 2
"""After so many watches in a row that were refused, or sent nothing, everything is listed again."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""The maximum of seconds before the first retry, and before any retry."""

CHEAP_PAUSE = 5.0
"""The maximum before any retry that costs nothing: there is no connection, or it is refused at once. A
starting server answers 403 to everybody for a moment. These failures do not make other pauses longer."""

LOG_AGAIN_SECONDS = 60
"""The minimum time between two log lines about the same cause."""


class Sink(Protocol):
    """The receiver of objects. Its methods must not wait."""

    def put(self, raw: Object) -> None:
        """Add or update an object, with the fields that its kind keeps."""

    def drop(self, key: Key) -> None:
        """Remove an object."""

    def keep(self, keys: AbstractSet[Key]) -> None:
        """Remove all objects except these; each of them was put before."""


class WatchFailure(StrEnum):
    """Why a list or a watch ended early, as a label and the end of an event's name."""

    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    FORBIDDEN = "forbidden"
    UNAUTHORIZED = "unauthorized"
    NOT_SERVED = "not_served"
    VANISHED = "vanished"
    EXPIRED = "expired"
    FAILED = "failed"
    UNREADABLE = "unreadable"
    SILENT = "silent"
    SHORT = "short"


@dataclass(frozen=True, slots=True)
class WatchMetrics:
    """What informers count; made once for all that share a registry."""

    lists: Counter
    events: Counter
    failures: Counter
    age: Gauge

    @classmethod
    def of(cls, registry: CollectorRegistry) -> Self:
        """Return metrics in this registry."""
        return cls(
            Counter(
                f"{PREFIX}watch_lists",
                "Full lists from the API server, by kind.",
                ["kind"],
                registry=registry,
            ),
            Counter(
                f"{PREFIX}watch_events",
                "Watch events received, by kind and type.",
                ["kind", "type"],
                registry=registry,
            ),
            Counter(
                f"{PREFIX}watch_failures",
                "Failed lists and watches, and skipped objects, by kind and reason.",
                ["kind", "reason"],
                registry=registry,
            ),
            Gauge(
                f"{PREFIX}watch_age_seconds",
                "Seconds since the API server last sent anything about a kind.",
                ["kind"],
                registry=registry,
            ),
        )


class _Unusable(Exception):
    """Raised for an answer that cannot be used."""

    def __init__(self, reason: WatchFailure, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(slots=True)
class _Position:
    """The watched collection, and the last resource version received."""

    collection: Collection
    version: str


class Informer:
    """Keeps a sink equal to the API server, while it is `run`.

    `collections` are the versions of one kind, the preferred one first; the first served version is watched.
    A kind that is not served has no objects. `synced` is whether there was a complete list, and `trouble`
    what is missing at present, or None. `silence` is in seconds. Failures that are `expected` are logged as
    information, not as warnings.
    """

    def __init__(  # noqa: PLR0913  what it works with, and its time and chance
        self,
        api: Api,
        collections: Sequence[Collection],
        sink: Sink,
        *,
        log: Log,
        metrics: WatchMetrics,
        silence: float = SILENCE_SECONDS,
        expected: AbstractSet[WatchFailure] = frozenset(),
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.kind, self._what = collections[0].kind, collections[0].plural
        # As in a rule of a ClusterRole.
        self._resource = ".".join(filter(None, (self._what, group(collections[0].api_version))))
        self.synced_at: float | None = None
        self.failed_at = -math.inf
        self.trouble: str | None = f"a first list of {self._what}"
        self._api = api
        self._collections = collections
        self._sink = sink
        self._log = log.bound(kind=self.kind)
        self._metrics = metrics
        self._silence = silence
        self._levels = {**_LEVELS, **dict.fromkeys(expected, Log.info)}
        self._clock = clock
        self._sleep = sleep
        self._chance = chance
        self._position: _Position | None = None
        self._last_response_at: float | None = None
        self._logged_at: dict[WatchFailure, float] = {}
        self._reported = False
        # Consecutive failures, by the longest pause after them.
        self._failures: dict[float, int] = {}
        self._without_events = self._absences = 0
        self._listed_at = -math.inf
        metrics.age.labels(self.kind).set_function(self.age)
        for reason in WatchFailure:
            metrics.failures.labels(self.kind, reason)

    def age(self) -> float:
        """Return seconds since the last answer about this kind; infinite before the first."""
        return float("inf") if self._last_response_at is None else self._clock() - self._last_response_at

    @property
    def synced(self) -> bool:
        """Whether there was a complete list."""
        return self.synced_at is not None

    async def run(self) -> None:
        """List and watch, forever; failures of the API server are not raised."""
        while True:
            await self._sleep(await self._list_or_watch())

    async def _list_or_watch(self) -> float:
        """List, or watch until the watch ends; return the seconds to wait before the next round."""
        began = self._clock()
        try:
            if self._position is None:
                await self._list()
                return 0
            await self._watch(self._position)
        except (ClusterError, _Unusable) as error:
            return self._failed(error, lasted=self._clock() - began)
        self._failures.clear()
        return 0

    # Lists.

    async def _list(self) -> None:
        """List every object of the first served version."""
        for collection in self._collections:
            with suppress(NotFound):
                version = await self._list_all(collection)
                self._position = _Position(collection, version)
                self._absences = 0
                self._recovered()
                return
        if not group(self._collections[0].api_version):
            # Every API server serves these kinds, so this answer is wrong.
            raise _Unusable(
                WatchFailure.VANISHED,
                (f"{self._api.host} does not serve {self._what}, so it is not an API server"),
            )
        self._absent()
        raise _Unusable(WatchFailure.NOT_SERVED, _NOT_SERVED.format(resource=self._resource))

    def _absent(self) -> None:
        """Remove all objects once the kind is reported missing twice: a starting server reports that too."""
        self._last_response_at = self._clock()
        self._absences += 1
        if not self.synced or self._absences > 1:
            self._sink.keep(frozenset())
            self._sync()

    async def _list_all(self, collection: Collection) -> str:
        """List every object, in pages if possible, and return the resource version of the list."""
        for _ in range(PAGED_TRIES):
            with suppress(Gone):
                return await self._pages(collection, [("limit", str(PAGE))])
        return await self._pages(collection, [])

    async def _pages(self, collection: Collection, limit: Query) -> str:
        keys: set[Key] = set()
        following, version = await self._page(collection, limit, keys)
        while following:
            before = following
            following, _ = await self._page(collection, [*limit, ("continue", before)], keys)
            if following == before:
                raise _Unusable(
                    WatchFailure.UNREADABLE,
                    (f"the list of {self._what} never ends: the API server repeated a continue token"),
                )
        self._sink.keep(keys)
        self._sync()
        self._listed_at = self._clock()
        self._metrics.lists.labels(self.kind).inc()
        self._log.info("watch.listed", objects=len(keys))
        return version

    def _sync(self) -> None:
        if self.synced_at is None:
            self.synced_at = self._clock()

    async def _page(self, collection: Collection, query: Query, keys: set[Key]) -> tuple[str, str]:
        """Put the objects of a page and note their keys; return the next page and the version."""
        what = f"the list of {self._what}"
        page = Part(await self._api.get(collection.path, [*collection.selector, *query], what=what))
        self._last_response_at = self._clock()
        items = list(page["items"].elements())
        following, version = (page["metadata"][key] for key in ("continue", "resourceVersion"))
        position = following.text(), version.required_text()
        if page.mistakes:
            raise _Unusable(WatchFailure.UNREADABLE, f"{what} is invalid: {page.mistakes[0]}")
        time_slice = TimeSlice()
        for item in items:
            if key := _key(item.value):
                keys.add(key)
                self._put(collection, key, item.value)
            else:
                self._report(WatchFailure.UNREADABLE, f"{item.where} of {what} has no name")
            await time_slice.share()
        return position

    # Watches.

    async def _watch(self, position: _Position) -> None:
        """Process changes until the watch ends regularly."""
        began = self._clock()
        query = [
            *position.collection.selector,
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", position.version),
            ("timeoutSeconds", str(WATCH_SECONDS + int(self._chance() * WATCH_SECONDS))),
        ]
        events = self._api.lines(
            position.collection.path, query, what=f"the watch of {self._what}", silence=self._silence
        )
        # An unfinished generator closes its connection only when it is closed explicitly.
        async with aclosing(events) as lines:
            async for line in lines:
                self._last_response_at = self._clock()
                # An empty line only shows that the server answers.
                if line:
                    self._event(position, line)
                self._recovered()
        if self._clock() - began < LASTING_SECONDS:
            raise _Unusable(WatchFailure.SHORT, f"the API server ended the watch of {self._what} early")

    def _event(self, position: _Position, line: bytes) -> None:
        try:
            event = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            message = f"an event of {len(line)} bytes {why_not_json(line, error)}"
            raise _Unusable(WatchFailure.UNREADABLE, message) from error
        kind = event.get("type") if isinstance(event, dict) else None
        if not isinstance(kind, str) or kind not in _EVENT_TYPES:
            raise _Unusable(WatchFailure.UNREADABLE, f"an event has the unknown type {named(kind)}")
        self._metrics.events.labels(self.kind, kind).inc()
        raw = event.get("object")
        if kind == "ERROR":
            raise self._given_up(Part(raw))
        key = None if kind == "BOOKMARK" else _required_key(raw)
        version = _required_version(raw)
        if key and kind == "DELETED":
            self._sink.drop(key)
        elif key:
            self._put(position.collection, key, raw)
        position.version = version
        self._without_events = 0

    def _given_up(self, status: Part) -> _Unusable:
        """Return why the API server ended the watch, from its Status."""
        code, message = status["code"].integer(), status["message"].text()
        reason = WatchFailure.EXPIRED if code == HTTPStatus.GONE else WatchFailure.FAILED
        why = f"{message or 'no reason given'} ({code})"
        return _Unusable(reason, f"the API server ended the watch of {self._what}: {why}")

    def _put(self, collection: Collection, key: Key, raw: object) -> None:
        try:
            self._sink.put(collection.described(raw))
        except Exception as error:  # noqa: BLE001  one object must not stop all others
            self._metrics.failures.labels(self.kind, WatchFailure.UNREADABLE).inc()
            self._log.failed("watch.object_failed", error, object="/".join(filter(None, key)))

    # Failures.

    def _failed(self, error: ClusterError | _Unusable, *, lasted: float) -> float:
        """Decide where to resume, and return the seconds to wait before that."""
        reason = _reason(error)
        self.failed_at = self._clock()
        forbidden = reason is WatchFailure.FORBIDDEN
        self.trouble = _GRANT.format(resource=self._resource) if forbidden else str(error)
        self._report(reason, self.trouble)
        if lasted >= LASTING_SECONDS:
            self._failures.clear()
        if reason in _WITHOUT_EVENTS:
            self._without_events += 1
        if reason in _RELISTED or self._without_events >= RELIST_AFTER:
            self._position, self._without_events = None, 0
        if reason is WatchFailure.NOT_SERVED:
            return LONGEST_PAUSE
        if reason is WatchFailure.EXPIRED and self._clock() - self._listed_at > LASTING_SECONDS:
            # However long the API server was unavailable, it can answer a list now.
            return self._chance() * FIRST_PAUSE
        return self._pause(_LONGEST.get(reason, LONGEST_PAUSE))

    def _pause(self, longest: float) -> float:
        """Return a random pause, longer with each failure, so that many clients do not return at once."""
        failures = self._failures.get(longest, 0)
        most = min(FIRST_PAUSE * 2.0 ** min(failures, 10), longest)
        self._failures[longest] = failures + 1
        return self._chance() * most

    def _report(self, reason: WatchFailure, sentence: str) -> None:
        """Count the failure, and log it unless its reason was logged recently."""
        self._metrics.failures.labels(self.kind, reason).inc()
        now, before = self._clock(), self._logged_at.get(reason)
        if before is not None and (reason in _PERMANENT or now - before < LOG_AGAIN_SECONDS):
            return
        self._logged_at[reason] = now
        self._reported = True
        log = self._levels.get(reason, Log.warning)
        log(self._log, f"watch.{reason}", error=sentence)

    def _recovered(self) -> None:
        """Clear the trouble, and log the recovery if a failure was logged."""
        self.trouble = None
        for reason in _PERMANENT & self._logged_at.keys():
            del self._logged_at[reason]
        if self._reported:
            self._reported = False
            self._log.info("watch.recovered")


def _reason(error: ClusterError | _Unusable) -> WatchFailure:
    if isinstance(error, _Unusable):
        return error.reason
    cause = error.__cause__
    # An error status from the API server has no cause.
    fallback = WatchFailure.REFUSED if cause is None else WatchFailure.UNREACHABLE
    reasons = (reason for kind, reason in _CAUSES.items() if isinstance(cause, kind))
    return _ERRORS.get(type(error)) or next(reasons, fallback)


def _key(raw: object) -> Key | None:
    """Return the namespace and name of an object; None if it has no valid name."""
    metadata = raw.get("metadata") if isinstance(raw, dict) else None
    if not isinstance(metadata, dict):
        return None
    name, namespace = metadata.get("name"), metadata.get("namespace") or ""
    return (namespace, name) if name and isinstance(name, str) and isinstance(namespace, str) else None


def _required_key(raw: object) -> Key:
    key = _key(raw)
    if key is None:
        raise _Unusable(WatchFailure.UNREADABLE, "an event has no object with a name")
    return key


def _required_version(raw: object) -> str:
    part = Part(raw)["metadata"]["resourceVersion"]
    version = part.required_text()
    if not version:
        raise _Unusable(WatchFailure.UNREADABLE, f"an event is invalid: object.{part.mistakes[0]}")
    return version


_NOT_SERVED = "the cluster does not serve {resource}: until it does, none are known"
_GRANT = (
    "not allowed to list or watch {resource}: a ClusterRole must allow the verbs list and watch on {resource}"
)

_EVENT_TYPES = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"})

_ERRORS: Mapping[type[ClusterError], WatchFailure] = MappingProxyType(
    {
        Forbidden: WatchFailure.FORBIDDEN,
        Gone: WatchFailure.EXPIRED,
        NotFound: WatchFailure.VANISHED,
        Unauthorized: WatchFailure.UNAUTHORIZED,
    }
)
_CAUSES: Mapping[type[Exception], WatchFailure] = MappingProxyType(
    {aiohttp.SocketTimeoutError: WatchFailure.SILENT, orjson.JSONDecodeError: WatchFailure.UNREADABLE}
)

_RELISTED = frozenset(
    {WatchFailure.EXPIRED, WatchFailure.FAILED, WatchFailure.UNREADABLE, WatchFailure.VANISHED}
)
_WITHOUT_EVENTS = frozenset({WatchFailure.REFUSED, WatchFailure.SILENT})
_PERMANENT = frozenset({WatchFailure.FORBIDDEN, WatchFailure.NOT_SERVED})
"""Failures that last until somebody acts: logged once, and retried slowly."""

_LONGEST: Mapping[WatchFailure, float] = MappingProxyType(
    {WatchFailure.UNREACHABLE: CHEAP_PAUSE, WatchFailure.FORBIDDEN: CHEAP_PAUSE}
)

_LEVELS: Mapping[WatchFailure, Callable[..., None]] = MappingProxyType(
    {
        WatchFailure.EXPIRED: Log.info,
        WatchFailure.SHORT: Log.info,
        WatchFailure.FORBIDDEN: Log.error,
        WatchFailure.UNAUTHORIZED: Log.error,
    }
)
