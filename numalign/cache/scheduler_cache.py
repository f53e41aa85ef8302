"""
The cluster as a scheduler sees it: nodes with what is free on them after reservations.

A ledger computes what is free on one node, tables answer for thousands. This module connects them: a node is
read again after a change, or when time alone changed what is free there, and only when it is needed. So a
question costs only the changes since the last one.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from numalign.cache.batch import Batch, OwnNode
from numalign.cache.cluster_cache import ClusterCache
from numalign.cache.eligibility import NUMBERS
from numalign.cache.pace import Pace
from numalign.cache.question import Question
from numalign.decision.verdict import Verdict
from numalign.ledger.reservations import Reservations
from numalign.lru import Caches
from numalign.model.constraints import Constraints, Unmet
from numalign.model.node import Node
from numalign.shapes import UnknownNode

REMEMBERED = 256
"""The size of the cache of questions and answers."""

_ASKED = frozenset({"nodes", "eligible", "labels", "unknown_eligible", "unknown_labels"})
"""The caches that a scheduler uses."""

_UNMET: Mapping[int, Unmet] = {number: unmet for unmet, number in NUMBERS.items() if unmet}


@dataclass(frozen=True, slots=True)
class NotEligible:
    """What keeps a pod from a node, for now or, if `lasting`, as long as the node is not relabelled."""

    unmet: Unmet
    lasting: bool


class SchedulerCache:
    """The nodes of a ledger, with what is free on them; nodes without topology come from `update_unknown`."""

    def __init__(self, reservations: Reservations) -> None:
        self._reservations = reservations
        self._cluster = ClusterCache(remembered=REMEMBERED)
        self._stale = set(reservations.node_names())
        self._due: list[tuple[float, str]] = []
        reservations.on_change(self._stale.add)

    @property
    def pace(self) -> Pace:
        """How answers are computed."""
        return self._cluster.pace

    def caches(self) -> Caches:
        """Return the caches, by their names in metrics."""
        return {name: cache for name, cache in self._cluster.caches().items() if name in _ASKED}

    def evaluated(self) -> Mapping[str, int]:
        """Return `ClusterCache.evaluated`."""
        return self._cluster.evaluated()

    def update_unknown(self, name: str, unknown: UnknownNode | None) -> None:
        """Add or update a node without topology; remove it if it is None."""
        self._cluster.unknown_nodes.update(name, unknown)

    def ask(
        self, names: Sequence[str], question: Question, *, now: float, uid: str = "", created: int = 0
    ) -> Batch:
        """Return the answers of these nodes to a question, whose pod, if it has a `uid`, was `created` then.

        If the pod itself has a reservation, its node is evaluated without it.
        """
        self._refresh(names, now)
        own = self._own(names, question, now=now, uid=uid, created=created)
        return self._cluster.ask(names, question, own)

    def ask_one(self, node: Node, verdict: Verdict, question: Question) -> Batch:
        """Return the answer of a single node to a question, given its verdict in this state."""
        return self._cluster.ask([node.name], question, OwnNode(0, node, verdict))

    def work_ahead(self, most: int, clock: Callable[[], float]) -> Iterator[int]:
        """Read changed nodes ahead of questions, `most` at a time; yield how many are left."""
        while self._stale:
            now = clock()
            self._notice_time(now)
            self._read(tuple(islice(self._stale, most)), now)
            yield len(self._stale)

    def not_eligible(
        self, names: Sequence[str], constraints: Constraints, *, now: float
    ) -> Mapping[str, NotEligible]:
        """Return what keeps a pod from these nodes, by name; unknown names are left out."""
        self._refresh(names, now)
        cluster, found = self._cluster, dict[str, NotEligible]()
        for table, eligibility in (
            (cluster.nodes, cluster.eligibility),
            (cluster.unknown_nodes, cluster.unknown_eligibility),
        ):
            lasting, passing = (eligibility.unmet_ever(constraints), eligibility.unmet_now(constraints))
            for name, row in zip(names, table.rows(names).tolist(), strict=True):
                if row >= 0 and (unmet := _UNMET.get(int(passing[row]))):
                    found[name] = NotEligible(unmet, lasting=int(lasting[row]) in _UNMET)
        return found

    def _own(
        self, names: Sequence[str], question: Question, *, now: float, uid: str, created: int
    ) -> OwnNode | None:
        name = self._reservations.node_of(uid) if uid else None
        if name is None or name not in names:
            return None
        # The pod's own reservation does not block it.
        prediction = self._reservations.predict(
            name, question.demand, question.intent, created=created, now=now, without=(uid,)
        )
        return prediction and OwnNode(names.index(name), prediction.node, prediction.verdict)

    def _refresh(self, names: Sequence[str], now: float) -> None:
        self._notice_time(now)
        self._read(self._stale.intersection(names) if self._stale else (), now)

    def _notice_time(self, now: float) -> None:
        """Mark nodes on which time alone has changed what is free."""
        while self._due and self._due[0][0] <= now:
            self._stale.add(heapq.heappop(self._due)[1])

    def _read(self, names: Iterable[str], now: float) -> None:
        for name in names:
            self._stale.discard(name)
            free = self._reservations.free_capacity(name, now=now)
            if free is None:
                self._cluster.nodes.drop(name)
                continue
            self._cluster.nodes.put(free.node)
            until = self._reservations.valid_until(name)
            if math.isfinite(until):
                heapq.heappush(self._due, (until, name))
