"""
The cluster as a scheduler sees it: nodes with what is free on them once reservations are counted.

A ledger works out what is free on one node, tables answer for thousands. Here the one follows the other: a
node is read anew when anything happened to it, or when time alone changed what is free there, and only once
somebody asks about it. So a question costs what happened since the last one, and nothing for all the rest.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from numalign.cache.batch import Batch, OwnNode
from numalign.cache.cluster_cache import ClusterCache
from numalign.cache.eligibility import NUMBERS
from numalign.cache.question import Question
from numalign.decision.verdict import Verdict
from numalign.ledger.reservations import Reservations
from numalign.lru import Caches
from numalign.model.constraints import Constraints, Unmet
from numalign.model.node import Node
from numalign.shapes import UnknownNode

REMEMBERED = 256
"""Questions whose answers are kept; the least recently asked goes first."""

_ASKED = frozenset({"nodes", "eligible", "labels", "unknown_eligible", "unknown_labels", "assumed_machines"})
"""What a scheduler asks for."""

_UNMET: Mapping[int, Unmet] = {number: unmet for unmet, number in NUMBERS.items() if unmet}


@dataclass(frozen=True, slots=True)
class NotEligible:
    """What keeps a pod from a node, for now or, if `lasting`, as long as nobody relabels the node."""

    unmet: Unmet
    lasting: bool


class SchedulerCache:
    """The nodes of a ledger, with what is free on them; nodes without topology are `set_unknown`."""

    def __init__(self, reservations: Reservations) -> None:
        self._reservations = reservations
        self._cluster = ClusterCache(remembered=REMEMBERED)
        self._stale = set(reservations.node_names())
        self._due: list[tuple[float, str]] = []
        reservations.on_change(self._stale.add)

    def caches(self) -> Caches:
        """Return what is remembered of what was asked, by its name in metrics."""
        return {name: cache for name, cache in self._cluster.caches().items() if name in _ASKED}

    def evaluated(self) -> Mapping[str, int]:
        """See `ClusterCache.evaluated`."""
        return self._cluster.evaluated()

    def set_unknown(self, unknown: Mapping[str, UnknownNode]) -> Iterator[None]:
        """Hold these nodes without topology and no others, some at each step."""
        return self._cluster.update_unknown(unknown)

    def ask(
        self, names: Sequence[str], question: Question, *, now: float, uid: str = "", created: int = 0
    ) -> Batch:
        """Return what these nodes answer to a question, whose pod, if it has a `uid`, was `created` then.

        Where the pod itself holds a reservation, its node is evaluated as if that were not there.
        """
        self._refresh(names, now)
        own = self._own(names, question, now=now, uid=uid, created=created)
        return self._cluster.ask(names, question, own)

    def ask_one(self, node: Node, verdict: Verdict, question: Question) -> Batch:
        """Return what a single node answers to a question, which has this verdict if it is like this."""
        return self._cluster.ask([node.name], question, OwnNode(0, node, verdict))

    def work(self, names: Sequence[str], question: Question, *, now: float) -> Iterator[None]:
        """Work out in steps what `ask` then gives at once."""
        self._refresh(names, now)
        yield from self._cluster.work(names, question)

    def work_ahead(self, most: int, clock: Callable[[], float]) -> Iterator[int]:
        """Read anew what nobody has asked about since, `most` nodes at a time; gives how many are left."""
        while self._stale:
            now = clock()
            self._notice_time(now)
            self._read(tuple(islice(self._stale, most)), now)
            yield len(self._stale)

    def not_eligible(
        self, names: Sequence[str], constraints: Constraints, *, now: float
    ) -> Mapping[str, NotEligible]:
        """Return what keeps a pod from these nodes, by name; a node that nobody knows keeps nobody away."""
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
        # A reservation of this very pod stands in nobody's way, least of all in its own.
        prediction = self._reservations.predict(
            name, question.demand, question.intent, created=created, now=now, without=(uid,)
        )
        return prediction and OwnNode(names.index(name), prediction.node, prediction.verdict)

    def _refresh(self, names: Sequence[str], now: float) -> None:
        self._notice_time(now)
        self._read(self._stale.intersection(names) if self._stale else (), now)

    def _notice_time(self, now: float) -> None:
        """Notice nodes on which time alone has changed what is free."""
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
