"""
What was found out, for as long as it holds.

A moment that follows another one begins with all that the other had found. It is made in a thread of its own
while the other is asked, so it takes that over only when it is asked itself: then both are in one thread.
"""

from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from numalign.cache.arrays import Bools
from numalign.cache.question import Question
from numalign.lru import LRU, Cache
from numalign.memory_size import weight
from numalign.model.constraints import Constraints
from numalign.model.node import Node

Place = tuple[int, int]
"""A place in what changed (`ChangeLog.place`)."""

Placed = tuple[Question, Constraints]
"""What a pod asks, and where it may go."""


@dataclass(frozen=True, slots=True)
class Able:
    """Which rows could ever take a pod, as of a place in what changed; of them those that did not answer."""

    key: Question
    place: Place
    rows: Bools
    unanswered: Bools

    @property
    def weight(self) -> int:
        """The bytes that it takes in memory."""
        return self.key.weight + self.rows.nbytes + self.unanswered.nbytes


@dataclass(frozen=True, slots=True)
class EligibleShapes:
    """Which shapes a pod may go to, as of a place in what was told of them."""

    key: Constraints
    place: Place
    rows: Bools

    @property
    def weight(self) -> int:
        """The bytes that it takes in memory."""
        return weight(self.key) + self.rows.nbytes


class Places(NamedTuple):
    """How far was read of what is free on nodes, of who may go there, and of what could ever be."""

    free: Place
    attributes: Place
    shapes: Place


@dataclass(frozen=True, slots=True)
class Room:
    """Which node has room for a pod, or may have, as of places in changes.

    Where there is no such node, these rows were `asked`: all that could ever take the pod.
    """

    key: Placed
    places: Places
    witness: Node | None
    asked: Bools = field(compare=False)

    @property
    def weight(self) -> int:
        """The bytes that it takes in memory beside its node, which is there anyway."""
        question, constraints = self.key
        return question.weight + weight(constraints) + self.asked.nbytes


Key = TypeVar("Key", Question, Constraints, Placed)
Kept = TypeVar("Kept", Able, EligibleShapes, Room)


class Found(Generic[Key, Kept]):
    """What was found out by what was asked; of so many, those that were asked for most recently."""

    def __init__(self, limit: int, before: "Found[Key, Kept] | None" = None) -> None:
        self._limit = limit
        self._before: Found[Key, Kept] | None = before
        self._kept: LRU[object, Kept] = LRU(limit, weigh=lambda _, kept: kept.weight)

    @property
    def cache(self) -> Cache:
        """What was found, at this moment or, if nobody has asked at it, before."""
        return self._before.cache if self._before else self._kept

    def of(self, key: Key) -> Kept | None:
        """What was found, at this moment or before."""
        self._take_over()
        kept = self._kept.peek(key)
        return None if kept is None else self._kept.get(key, lambda: kept)

    def put(self, kept: Kept) -> Kept:
        """Keep what was found, and give it."""
        self._take_over()
        self._kept.put(kept.key, kept)
        return kept

    def following(self) -> "Found[Key, Kept]":
        """For the next moment: what is found until that is asked for the first time."""
        # One that was never asked has nothing of its own; so they do not become a chain.
        return Found(self._limit, self._before or self)

    def _take_over(self) -> None:
        before = self._before
        if before is not None:
            self._before = None
            for kept in before.taken():
                self._kept.put(kept.key, kept)

    def taken(self) -> list[Kept]:
        """All that was found."""
        self._take_over()
        return self._kept.values()
