"""
What every node says at the moment, all of them asked at once.

A ledger works out what is free on one node; a board answers for thousands. Here the one follows the other: a
node is read anew when anything happened to it, or when time alone changed what is free there, and only once
somebody asks about it. So a question costs what happened since the last one, and nothing for all the rest.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from numalign.cache.arrays import Ints, Rows
from numalign.cache.board import Answer, Board
from numalign.cache.question import Question
from numalign.decision.verdict import Verdict
from numalign.ledger.reservations import Reservations
from numalign.lru import Caches

STRANGE = 0
"""The number of what is said of a node whose topology is not known."""

ADMITTED = 1
"""The number of what a node says that takes the pod."""

_REFUSED = 2


@dataclass(frozen=True, slots=True)
class Said:
    """What some nodes say to one question; good until the ledger changes.

    `rows` are their rows in the `answer`, in the order in which they were asked, -1 for a node whose topology
    is not known.
    """

    answer: Answer
    rows: Rows

    def numbers(self) -> Ints:
        """A number per node: `STRANGE`, `ADMITTED` or, above these, that of a refusal.

        What refuses under the same number does so for the same reason, for good or for now; the same answer
        means the same by it at any time, and there are few.
        """
        rows, said = self.rows, self.answer.said
        if not len(said):
            return np.full(len(rows), STRANGE)
        # Where nothing is refused it says -1.
        found: Ints = said[rows] + _REFUSED
        found[rows < 0] = STRANGE
        return found

    def verdict(self, place: int) -> Verdict:
        """All that one of these nodes says, by its place; raises `KeyError` for one that is not known."""
        row = int(self.rows[place])
        if row < 0:
            raise KeyError(place)
        return self.answer.verdict(row)


def met(numbers: Ints) -> list[int]:
    """The numbers that are there."""
    return list[int](np.flatnonzero(np.bincount(numbers)).tolist())


def sorted_by(numbers: Ints, kinds: Mapping[int, int]) -> Ints:
    """Per place the kind that its number is of, 0 for a number that is of none."""
    table = np.zeros(numbers.max(initial=max(kinds, default=0)) + 1, dtype=np.int8)
    table[[*kinds]] = [*kinds.values()]
    return np.asarray(table[numbers])


class SchedulerCache:
    """The nodes of a ledger, in columns, with what is free on them."""

    def __init__(self, reservations: Reservations) -> None:
        self._reservations = reservations
        self._board = Board()
        self._late = set(reservations.node_names())
        self._due: list[tuple[float, str]] = []
        reservations.on_change(self._late.add)

    def caches(self) -> Caches:
        """What is remembered of what was asked."""
        return self._board.caches()

    def ask(self, names: Sequence[str], question: Question, *, now: float) -> Said:
        """What these nodes say to a question."""
        self._look(now)
        self._follow(self._late.intersection(names) if self._late else (), now)
        return Said(self._board.ask(question), self._board.rows(names))

    def asking(self, names: Sequence[str], question: Question, *, now: float) -> Iterator[None]:
        """Find out what takes long to say, step by step; what these nodes say is then there at once."""
        self._look(now)
        self._follow(self._late.intersection(names) if self._late else (), now)
        yield from self._board.ask(question).asking()

    def catching_up(self, most: int, clock: Callable[[], float]) -> Iterator[int]:
        """Read anew what nobody has asked about since, `most` nodes at a time; gives how many are left."""
        while self._late:
            now = clock()
            self._look(now)
            self._follow(tuple(islice(self._late, most)), now)
            yield len(self._late)

    def _look(self, now: float) -> None:
        """Notice whose standing has run out of time."""
        while self._due and self._due[0][0] <= now:
            self._late.add(heapq.heappop(self._due)[1])

    def _follow(self, names: Iterable[str], now: float) -> None:
        for name in names:
            self._late.discard(name)
            found = self._reservations.free_capacity(name, now=now)
            if found is None:
                self._board.drop(name)
                continue
            self._board.put(found.node)
            until = self._reservations.valid_until(name)
            if math.isfinite(until):
                heapq.heappush(self._due, (until, name))
