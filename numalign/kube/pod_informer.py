"""
The pods of a cluster, one by one: which pod holds a place on a node, and how that is known.

A ledger needs each creation, change and deletion of a pod exactly once, at once; it does not need the
objects. So pods are decoded here as they arrive, and the listener is notified of changes. A pod that is
recreated under an old name is another pod, identified by its uid. Many thousand pods are kept as long as they
live, so all their common parts are stored once, and each part of one has a limited size, whatever its owner
writes.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, islice
from sys import intern
from typing import NamedTuple, Protocol

import orjson
from prometheus_client import CollectorRegistry, Gauge

from numalign.cache.pod_question import MOST_OWNERS, PinReason
from numalign.kube.decode import placements, pods
from numalign.kube.decode.parts import Part, group
from numalign.kube.decode.placements import DecodedRecord
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.decode.pod_request import MOST_KEPT, PodRequest, kept
from numalign.kube.decode.recreated import RecreatedScheduling
from numalign.kube.decode.scheduling import Scheduling, scheduling
from numalign.kube.kinds import PODS, Key, Object
from numalign.kube.stores import Problem
from numalign.ledger.model import PlacementRecord
from numalign.lru import LRU, Caches, digest
from numalign.model import intent
from numalign.model.demand import Demand
from numalign.model.errors import AND_MORE, Mistake
from numalign.runtime.logs import MANY_LINES, Log, QuietLog
from numalign.runtime.metrics import PREFIX

REMEMBERED = 1024
"""The size of the cache of placement records."""

MOST_MISTAKES = 16
"""The limit of mistakes per pod that are kept as long as it lives, and logged; many pods may be alike."""

MOST_WRITTEN = 4096
"""The limit of characters of these mistakes; the first is kept in any case."""

LONGEST_NAME = 253
"""The limit of characters in an object's name, and in words that are kept."""

LONGEST_MESSAGE = 1024
"""The limit of characters kept of a kubelet's message about a pod."""


class Phase(StrEnum):
    """The phase of a pod, in the words of the API."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


LEAST_PRIORITY = -(2**31)
"""Priorities are int32."""

MOST_CONDITIONS = 64
"""The limit of conditions of one pod that are read; a kubelet writes seven."""

MOST_GATES, KEPT_GATES = 64, 8
"""The limits of scheduling gates of one pod that are read and kept; programs add one or two."""


class AlignmentMark(NamedTuple):
    """The annotations `aligned` and `aligned-why` of a pod; None if absent."""

    aligned: str | None = None
    why: str | None = None


UNMARKED = AlignmentMark()


class Owner(NamedTuple):
    """The controller that creates pods like this one: its API group, kind, name and uid."""

    group: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PodInfo:
    """A pod, as a ledger needs it.

    `node` is empty while it is not bound. `created` and `scheduled` (when it was bound) are by the clock of
    an API server, `started` by its kubelet's, in whole seconds since 1970, 0 if not set. `acknowledged` is
    whether its kubelet has reported on it, `leaving` whether it was deleted and is not gone yet, and its
    kubelet is to kill it by `leaves`, by the clock of an API server; `reason` and `message` are those of its
    status. `request` is the request of the pod by itself; `record` is None if no readable record says what it
    holds.

    `gates` are the names of its scheduling gates, `group` that of its pod group, empty if it has none, and
    `owner` its controller, None if it has none. A pod that is not bound may be `pinned` to a node by the
    controller, at `pinned_at` (seconds since 1970); empty and 0 if not. `mark` are its alignment annotations,
    which any user may have written. `recreated` are the constraints on nodes of the pod that its owner would
    create in its place; None if not needed.
    """

    uid: str
    namespace: str
    name: str
    node: str
    scheduler: str
    created: int
    started: int
    phase: Phase
    acknowledged: bool
    leaving: bool
    reason: str
    message: str
    request: PodRequest
    record: PlacementRecord | None
    gates: tuple[str, ...] = ()
    priority: int = 0
    group: str = ""
    owner: Owner | None = None
    pinned: str = ""
    pinned_at: int = 0
    mark: AlignmentMark = UNMARKED
    recreated: Scheduling | None = None
    scheduled: int = 0
    leaves: int = 0

    @property
    def latest(self) -> int:
        """The latest of these times, by whichever clock."""
        return max(self.created, self.scheduled, self.started)

    @property
    def demand(self) -> Demand | None:
        """The demand of its containers; None if they cannot be read."""
        return self.request.demand

    @property
    def ended(self) -> bool:
        """Whether its containers will never run again."""
        return self.phase in _ENDED


class PodListener(Protocol):
    """The receiver of changes. Its methods must not wait."""

    def update_pod(self, pod: PodInfo) -> None:
        """Take a new or changed pod."""

    def remove_pod(self, uid: str) -> None:
        """Take that a known pod is gone."""


class PodInformer:
    """Notifies a listener of changes to pods, which are `put`, `drop`ped and `keep`t.

    A pod without a name or a UID cannot be identified and is ignored; of an otherwise invalid pod, the valid
    parts are read. Both are among the `problems`. With `recreated`, pods also carry the request of the pod
    that would replace them.
    """

    def __init__(
        self,
        listener: PodListener,
        reader: PodReader,
        *,
        recreated: RecreatedScheduling | None = None,
        log: Log,
        registry: CollectorRegistry,
    ) -> None:
        self._listener = listener
        self._log = QuietLog(log, lines=MANY_LINES)
        self._pods: dict[Key, PodInfo] = {}
        self._keys: dict[str, Key] = {}
        self._mistakes: dict[Key, tuple[Mistake, ...]] = {}
        self._reader, self._recreated = reader, recreated
        self._records: LRU[bytes, DecodedRecord] = LRU(REMEMBERED)
        self._owners: LRU[Owner, Owner] = LRU(REMEMBERED)
        self._logged: LRU[bytes, None] = LRU(REMEMBERED)
        Gauge(f"{PREFIX}unreadable_pods", "Pods that are invalid in part.", registry=registry).set_function(
            lambda: len(self._mistakes)
        )

    def __len__(self) -> int:
        """Return the number of known pods."""
        return len(self._pods)

    def __iter__(self) -> Iterator[PodInfo]:
        """Iterate over the known pods, as last reported."""
        return iter(self._pods.values())

    def caches(self) -> Caches:
        """Return the caches of pods, which may include deleted ones."""
        recreated = {"recreated": self._recreated.cache} if self._recreated else {}
        return {"records": self._records, "owners": self._owners, "unreadable": self._logged, **recreated}

    def problems(self) -> Iterator[Problem]:
        """Return the pods with mistakes."""
        return (Problem(PODS.kind, _shown(key), mistakes) for key, mistakes in self._mistakes.items())

    def put(self, raw: Object) -> None:
        """Add or update a pod, given as a v1 Pod."""
        part = Part(raw)
        pod = self._decode(part)
        key = (pod.namespace, pod.name)
        if pod.uid and pod.name and self._keys.get(pod.uid, key) != key:
            self._taken_over(pod)
        self._note(key, _first(part.mistakes))
        self._set(key, pod if pod.uid and pod.name else None)

    def drop(self, key: Key) -> None:
        """Remove a pod."""
        self._mistakes.pop(key, None)
        self._set(key, None)

    def keep(self, keys: AbstractSet[Key]) -> None:
        """Remove all other pods."""
        for key in (self._pods.keys() | self._mistakes.keys()) - keys:
            self.drop(key)

    def _set(self, key: Key, pod: PodInfo | None) -> None:
        """Set the pod under a key, and notify the listener of the change."""
        before = self._pods.get(key)
        if pod == before:
            return
        if before and (pod is None or pod.uid != before.uid):
            del self._pods[key], self._keys[before.uid]
            self._listener.remove_pod(before.uid)
        if pod:
            self._pods[key], self._keys[pod.uid] = pod, key
            self._listener.update_pod(pod)

    def _taken_over(self, pod: PodInfo) -> None:
        """Assign a uid of two pods to the last one: a listener could not distinguish them."""
        loser, winner = self._keys[pod.uid], f"{pod.namespace}/{pod.name}"
        self._note(loser, (Mistake("metadata.uid", f"is also the UID of pod {winner}, which is used"),))
        self._set(loser, None)

    def _note(self, key: Key, mistakes: tuple[Mistake, ...]) -> None:
        if mistakes == self._mistakes.get(key, ()):
            return
        self._mistakes.pop(key, None)
        if mistakes:
            self._mistakes[key] = mistakes
        # An unreadable template creates many unreadable pods, and one line reports them all.
        lines = [*map(str, mistakes)]
        if lines and (text := digest("\n".join(lines).encode(errors="replace"))) not in self._logged:
            self._logged.put(text, None)
            self._log.warning("pod.unreadable", pod=_shown(key), errors=lines)

    def _decode(self, part: Part) -> PodInfo:
        metadata, spec, status = part["metadata"], part["spec"], part["status"]
        phase = _phase(status["phase"])
        pinned, pinned_at = _pin(part)
        request = kept(self._reader.request(pods.admitted(part.value), most_mistakes=MOST_MISTAKES + 1))
        decoded = self._record(metadata["annotations"])
        part.mistakes.extend(decoded.mistakes)
        part.mistakes.extend(request.mistakes)
        return PodInfo(
            uid=metadata["uid"].uid() if metadata["uid"].required_text() else "",
            namespace=intern(metadata["namespace"].text()),
            name=metadata["name"].required_text(),
            node=intern(spec["nodeName"].text()),
            scheduler=intern(spec["schedulerName"].text()[:LONGEST_NAME]),
            created=metadata["creationTimestamp"].time(),
            started=status["startTime"].time(),
            phase=phase,
            acknowledged=phase is not Phase.PENDING or _acknowledged(status),
            leaving=metadata["deletionTimestamp"].value is not None,
            reason=intern(status["reason"].text()[:LONGEST_NAME]),
            message=status["message"].text()[:LONGEST_MESSAGE],
            request=request,
            record=decoded.record,
            gates=_gates(spec["schedulingGates"]),
            priority=spec["priority"].integer(least=LEAST_PRIORITY) or 0,
            group=intern(spec["schedulingGroup"]["podGroupName"].text()[:LONGEST_NAME]),
            owner=self._owner(metadata),
            pinned=pinned,
            pinned_at=pinned_at,
            mark=_mark(metadata["annotations"]),
            recreated=self._recreated.of(_object(part)) if self._recreated else None,
            scheduled=_scheduled(status["conditions"]),
            leaves=metadata["deletionTimestamp"].time(),
        )

    def _owner(self, metadata: Part) -> Owner | None:
        """Return the owner, stored once for all of its pods."""
        owner = owner_of(metadata)
        return owner and self._owners.get(owner, lambda: owner)

    def _record(self, annotations: Part) -> DecodedRecord:
        """Return the record; pods of a template on the same zones share it."""
        written = {key: text for key in placements.KEYS if (text := annotations[key].value) is not None}
        if not written:
            return placements.NOTHING
        try:
            key = digest(orjson.dumps(written))
        except orjson.JSONEncodeError:
            return _record(written)
        return self._records.get(key, lambda: _record(written))


_ENDED = frozenset({Phase.SUCCEEDED, Phase.FAILED})


def _record(written: Mapping[str, object]) -> DecodedRecord:
    """Return the record; none if it is larger than that of any real pod, for it is kept with the pod."""
    decoded = placements.record_of(written)
    return decoded if len(repr(decoded)) <= MOST_KEPT else DecodedRecord(None, (_TOO_LARGE,))


_TOO_LARGE = Mistake("metadata.annotations", f"a placement of more than {MOST_KEPT:,} characters is ignored")


def owner_of(metadata: Part) -> Owner | None:
    """Return the first owner that controls a pod; an API server allows only one."""
    owners = islice(metadata["ownerReferences"].objects(), MOST_OWNERS)
    reference = next((owner for owner in owners if owner["controller"].value is True), None)
    if reference is None:
        return None
    return Owner(
        group(reference["apiVersion"].text()[:LONGEST_NAME]),
        reference["kind"].text()[:LONGEST_NAME],
        reference["name"].text()[:LONGEST_NAME],
        reference["uid"].uid(),
    )


def _gates(gates: Part) -> tuple[str, ...]:
    names = [intern(gate["name"].text()[:LONGEST_NAME]) for gate in islice(gates.objects(), MOST_GATES)]
    # The gate that is ours must not be overlooked, wherever it is in the list.
    return tuple(names if len(names) <= KEPT_GATES else sorted(names, key=_is_other)[:KEPT_GATES])


def _is_other(gate: str) -> bool:
    return gate != intent.PLACEMENT_GATE


def _mark(annotations: Part) -> AlignmentMark:
    values = (annotations[key].value for key in (intent.ALIGNED, intent.ALIGNED_WHY))
    mark = AlignmentMark(*(None if value is None else str(value)[:LONGEST_MESSAGE] for value in values))
    return UNMARKED if mark == UNMARKED else mark


def _pin(pod: Part) -> tuple[str, int]:
    """Return the node to which the controller pinned a pod by affinity, and since when, if recorded."""
    at = pod["metadata"]["annotations"][intent.PINNED_AT].time()
    if not at or pod["spec"]["nodeName"].text():
        return "", 0
    # Its mistakes are reported where its question is read.
    pin = scheduling(pod.value).pin
    named = pin.node if pin and pin.why is PinReason.NODE_FIELD else None
    return (named, at) if named else ("", 0)


def _phase(part: Part) -> Phase:
    """Return the phase; a pod without one is as new as the API server creates it."""
    if part.value is None:
        return Phase.PENDING
    return part.one_of(Phase) or Phase.UNKNOWN


def _scheduled(conditions: Part) -> int:
    """Return when an API server bound the pod (assignPod, pkg/registry/core/pod/storage/storage.go)."""
    for condition in islice(conditions.objects(), MOST_CONDITIONS):
        if condition["type"].value == "PodScheduled" and condition["status"].value == "True":
            return condition["lastTransitionTime"].time()
    return 0


def bound_at(pod: Part) -> int:
    """Return when a v1 Pod was created or bound, by the clock of an API server, as `PodInfo` has times."""
    return max(pod["metadata"]["creationTimestamp"].time(), _scheduled(pod["status"]["conditions"]))


def _acknowledged(status: Part) -> bool:
    return bool(status["startTime"].value or status["containerStatuses"].value)


def _object(part: Part) -> Object:
    return part.value if isinstance(part.value, dict) else {}


def _first(mistakes: Iterable[Mistake]) -> tuple[Mistake, ...]:
    """Return each mistake once; of many the first, and that there are more."""
    once = tuple(dict.fromkeys(mistakes))
    ends = accumulate(len(each.where) + len(each.message) + len(each.text) for each in once)
    fitting = max(1, sum(end <= MOST_WRITTEN for end in islice(ends, MOST_MISTAKES)))
    return once if len(once) <= fitting else (*once[:fitting], AND_MORE)


def _shown(key: Key) -> str:
    return "/".join(key)
