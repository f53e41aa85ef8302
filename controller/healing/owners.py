"""
What is known of those whose pods are moved: what is on its way, and how often it did not help.

Of one owner one pod is on its way at a time. What is on its way is remembered for patience alone; whether an
owner is at rest can be seen in the cluster, also by whoever leads next.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from controller.held import OwnerKey, owner_key
from numalign.kube.pod_informer import PodInfo

MOST_TRIES = 3
"""Replacements that are still misaligned, after which an owner is left alone."""

LEFT_ALONE_SECONDS = 86_400.0
"""For how long."""

FIRST_BACKOFF, LONGEST_BACKOFF = 60.0, 7_200.0
"""Seconds before an owner's next pod, doubled with each try in vain."""

MOST_REMEMBERED = 4096
"""Owners with tries in vain; the one that may be tried next soonest is forgotten first."""


class MovePhase(StrEnum):
    """How far the move of a pod has come."""

    ASKED = "asked"
    GOING = "going"
    LANDING = "landing"


@dataclass(slots=True)
class PodMove:
    """A pod that was asked to go at `since`, and its `replacement` once that is known.

    `known` are the pods of its owner that were there before.
    """

    pod: PodInfo
    owner: OwnerKey
    node: str
    since: float
    known: frozenset[str]
    phase: MovePhase = MovePhase.ASKED
    replacement: str = ""


@dataclass(frozen=True, slots=True)
class _Record:
    """Tries in a row in vain, refusals of the API server, and until when the owner is left alone."""

    tries: int = 0
    refusals: int = 0
    until: float = -math.inf
    stopped: bool = False


_UNKNOWN = _Record()


@dataclass(eq=False)
class Owners:
    """All owners. Times are seconds of one clock."""

    moves: dict[OwnerKey, PodMove] = field(default_factory=dict)
    _records: dict[OwnerKey, _Record] = field(default_factory=dict)

    def forget(self) -> None:
        """Nothing of it is ours any more."""
        self.moves, self._records = {}, {}

    def is_moving(self, pod: PodInfo) -> bool:
        """Whether this very pod was asked to go, and its move is not over."""
        owner = owner_key(pod)
        move = self.moves.get(owner) if owner else None
        return move is not None and move.pod.uid == pod.uid

    def tries(self, owner: OwnerKey) -> int:
        """Tries in a row that were in vain."""
        return self._records.get(owner, _UNKNOWN).tries

    def left_alone_until(self, owner: OwnerKey) -> float:
        """Until when no pod of an owner is asked to go, for what happened before."""
        return self._records.get(owner, _UNKNOWN).until

    def is_stopped(self, owner: OwnerKey, now: float) -> bool:
        """Whether it is left alone for good, as far as a day is that."""
        record = self._records.get(owner, _UNKNOWN)
        return record.stopped and now < record.until

    def helped(self, owner: OwnerKey) -> None:
        """A replacement sits as it was meant."""
        self._records.pop(owner, None)

    def in_vain(self, owner: OwnerKey, now: float) -> bool:
        """A replacement sits no better; True if that was once too often."""
        before = self._records.get(owner, _UNKNOWN)
        if before.stopped and now >= before.until:
            before = _UNKNOWN
        tries = before.tries + 1
        if tries >= MOST_TRIES:
            self.stop(owner, now)
            return True
        self._put(owner, _Record(tries, before.refusals, now + _backoff(tries)))
        return False

    def refused(self, owner: OwnerKey, now: float) -> None:
        """The budget of a pod lets it not go now; later and later it is asked again."""
        before = self._records.get(owner, _UNKNOWN)
        refusals = before.refusals + 1
        self._put(owner, _Record(before.tries, refusals, now + _backoff(refusals)))

    def stop(self, owner: OwnerKey, now: float) -> None:
        """Leave an owner alone for a day."""
        self._put(owner, _Record(MOST_TRIES, 0, now + LEFT_ALONE_SECONDS, stopped=True))

    def _put(self, owner: OwnerKey, record: _Record) -> None:
        self._records[owner] = record
        if len(self._records) > MOST_REMEMBERED:
            soonest = min(
                self._records, key=lambda key: (self._records[key].stopped, self._records[key].until)
            )
            del self._records[soonest]


def restless(pods: Iterable[PodInfo]) -> frozenset[OwnerKey]:
    """The owners of whose pods one is on its way out, or in, or has failed to come in."""
    return frozenset(owner for owner in _owners_of_unsettled(pods))


def _owners_of_unsettled(pods: Iterable[PodInfo]) -> Iterator[OwnerKey]:
    for pod in pods:
        if not pod.ended and (pod.leaving or not pod.acknowledged) and (owner := owner_key(pod)):
            yield owner


def _backoff(times: int) -> float:
    return min(FIRST_BACKOFF * 2.0 ** min(times - 1, 16), LONGEST_BACKOFF)
