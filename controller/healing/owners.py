"""
The owners whose pods are moved: their moves in progress, and how many were unsuccessful.

Each owner has at most one move in progress. Moves are remembered only to wait for their result; whether all
pods of an owner are settled is read from the cluster, so the next leader knows it too.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from controller.held import OwnerKey, owner_key
from numalign.kube.pod_informer import PodInfo
from numalign.kube.writes import backoff

MOST_FAILED_MOVES = 3
"""Unsuccessful moves in a row after which no pods of an owner are evicted for a day."""

STOPPED_SECONDS = 86_400.0
"""How long in seconds no pods of an owner are evicted after that."""

FIRST_BACKOFF, LONGEST_BACKOFF = 60.0, 7_200.0
"""The first and the longest wait in seconds before an owner's next eviction; it doubles each time."""

MOST_REMEMBERED = 4096
"""Most owners to remember; the one whose wait ends first is dropped, stopped owners last."""


class MovePhase(StrEnum):
    """The phase of a move."""

    EVICTING = "evicting"
    EVICTED = "evicted"
    REPLACED = "replaced"


@dataclass(slots=True)
class PodMove:
    """The move of a pod, and its `replacement` once that is known.

    `since` is when the move began or, once there is a replacement, when that was seen. `known` are the UIDs
    of the owner's pods that existed when the move began.
    """

    pod: PodInfo
    owner: OwnerKey
    node: str
    since: float
    known: frozenset[str]
    phase: MovePhase = MovePhase.EVICTING
    replacement: str = ""


@dataclass(frozen=True, slots=True)
class _Record:
    """Unsuccessful moves in a row, failed evictions, and until when no pods of the owner are evicted."""

    failed_moves: int = 0
    failed_evictions: int = 0
    until: float = -math.inf
    stopped: bool = False


_UNKNOWN = _Record()


@dataclass(eq=False)
class Owners:
    """All owners. Times are in seconds of one clock."""

    moves: dict[OwnerKey, PodMove] = field(default_factory=dict)
    _records: dict[OwnerKey, _Record] = field(default_factory=dict)

    def forget(self) -> None:
        """Forget all owners and moves, as another replica leads now."""
        self.moves, self._records = {}, {}

    def is_moving(self, pod: PodInfo) -> bool:
        """Return whether this pod is being moved."""
        owner = owner_key(pod)
        move = self.moves.get(owner) if owner else None
        return move is not None and move.pod.uid == pod.uid

    def backoff_until(self, owner: OwnerKey) -> float:
        """Return until when no pods of an owner are evicted because of earlier moves and evictions."""
        return self._records.get(owner, _UNKNOWN).until

    def is_stopped(self, owner: OwnerKey, now: float) -> bool:
        """Return whether no pods of the owner are evicted for a day."""
        record = self._records.get(owner, _UNKNOWN)
        return record.stopped and now < record.until

    def move_succeeded(self, owner: OwnerKey) -> None:
        """Handle a replacement that is aligned: forget earlier attempts."""
        self._records.pop(owner, None)

    def move_failed(self, owner: OwnerKey, now: float) -> bool:
        """Handle an unsuccessful move; return whether the owner is stopped for a day because of it."""
        before = self._records.get(owner, _UNKNOWN)
        if before.stopped and now >= before.until:
            before = _UNKNOWN
        failed_moves = before.failed_moves + 1
        if failed_moves >= MOST_FAILED_MOVES:
            self.stop(owner, now)
            return True
        until = now + backoff(failed_moves - 1, FIRST_BACKOFF, LONGEST_BACKOFF)
        self._put(owner, _Record(failed_moves, before.failed_evictions, until))
        return False

    def eviction_failed(self, owner: OwnerKey, now: float) -> None:
        """Handle a failed eviction, for example because of a PodDisruptionBudget: wait longer each time."""
        before = self._records.get(owner, _UNKNOWN)
        until = now + backoff(before.failed_evictions, FIRST_BACKOFF, LONGEST_BACKOFF)
        self._put(owner, _Record(before.failed_moves, before.failed_evictions + 1, until))

    def stop(self, owner: OwnerKey, now: float) -> None:
        """Evict no pods of an owner for a day."""
        self._put(owner, _Record(MOST_FAILED_MOVES, 0, now + STOPPED_SECONDS, stopped=True))

    def _put(self, owner: OwnerKey, record: _Record) -> None:
        self._records[owner] = record
        if len(self._records) > MOST_REMEMBERED:
            soonest = min(
                self._records, key=lambda key: (self._records[key].stopped, self._records[key].until)
            )
            del self._records[soonest]


def unsettled_owners(pods: Iterable[PodInfo]) -> frozenset[OwnerKey]:
    """Return the owners with a pod that has not ended and is leaving or not acknowledged yet."""
    unsettled = (pod for pod in pods if not pod.ended and (pod.leaving or not pod.acknowledged))
    return frozenset(owner for pod in unsettled if (owner := owner_key(pod)))
