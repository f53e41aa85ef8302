"""
What was found out about nodes, for as long as it holds.

A moment that follows another one begins with all that the other had found. It is made in a thread of its own
while the other is asked, so it takes that over only when it is asked itself: then both are in one thread.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from numalign.fleet.arrays import Bools
from numalign.fleet.question import Question
from numalign.fleet.recent import Cache, Recent
from numalign.rules.topology import Node

Place = tuple[int, int]
"""A place in what changed (`Changes.place`)."""


@dataclass(frozen=True, slots=True)
class Able:
    """Which rows could ever take a pod, as of a place in what changed; of them those that did not answer."""

    question: Question
    place: Place
    rows: Bools
    unanswered: Bools

    @property
    def weight(self) -> int:
        """The bytes that it takes in memory."""
        return self.question.weight + self.rows.nbytes + self.unanswered.nbytes


@dataclass(frozen=True, slots=True)
class Room:
    """Which node has room for a pod, or may have, None if there is no such node, as of a place in changes."""

    question: Question
    place: Place
    witness: Node | None

    @property
    def weight(self) -> int:
        """The bytes that it takes in memory beside its node, which is there anyway."""
        return self.question.weight


Kept = TypeVar("Kept", Able, Room)


class Found(Generic[Kept]):
    """What was found out by question; of so many, those that were asked for most recently."""

    def __init__(self, limit: int, before: "Found[Kept] | None" = None) -> None:
        self._limit = limit
        self._before: Found[Kept] | None = before
        self._kept: Recent[Question, Kept] = Recent(limit, weigh=lambda _, kept: kept.weight)

    @property
    def cache(self) -> Cache:
        """What was found, at this moment or, if nobody has asked at it, before."""
        return self._before.cache if self._before else self._kept

    def of(self, question: Question) -> Kept | None:
        """What was found, at this moment or before."""
        self._take_over()
        kept = self._kept.peek(question)
        return None if kept is None else self._kept.get(question, lambda: kept)

    def put(self, kept: Kept) -> None:
        """Keep what was found."""
        self._take_over()
        self._kept.put(kept.question, kept)

    def following(self) -> "Found[Kept]":
        """For the next moment: what is found until that is asked for the first time."""
        # One that was never asked has nothing of its own; so they do not become a chain.
        return Found(self._limit, self._before or self)

    def _take_over(self) -> None:
        before = self._before
        if before is not None:
            self._before = None
            for kept in before.taken():
                self._kept.put(kept.question, kept)

    def taken(self) -> list[Kept]:
        """All that was found."""
        self._take_over()
        return self._kept.values()
