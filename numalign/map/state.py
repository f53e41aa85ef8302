"""
The state of the map: a current tile for each node, and when each node changed last.

The ledger reports which nodes changed; their tiles are built again for the next view. Time changes tiles as
well: pods become settled, and agents stale. So the cost of a view is that of the changes since the last one,
and in a large cluster it is computed in steps, with other tasks in between.
"""

import heapq
import math
from collections import OrderedDict
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace

from numalign.kube import exporters
from numalign.kube.cluster import Change, NodeChanged
from numalign.map import fleet, node_view, pods
from numalign.map.views import Condition, Fleet, FleetQuery, NodeTile, NodeView, PodView, Visible
from numalign.runtime.cooperative import patiently, result_of
from numalign.scheduling.scheduler_state import SchedulerState

MOST_CHANGED = 1024
"""Most nodes to remember with their last change; a page that missed more reloads everything."""

MOST_FLEETS = 8
"""Most queries whose fleet is cached while nothing changes."""

KEPT_SECONDS = 1.0
"""How long in seconds a fleet is cached: it shows ages."""


class MapState:
    """Builds the views of one cluster. Not thread-safe."""

    def __init__(self, state: SchedulerState) -> None:
        self.state = state
        self._tiles: dict[str, NodeTile] = {}
        self._stale = set(state.reservations.node_names())
        self._settling: list[tuple[float, str]] = []
        self._due: list[tuple[float, str]] = []
        self._unknown: set[str] = set()
        self._silent = set[str]()
        self._listened = set[str]()
        # Later than any revision of an earlier process, so that its pages reload everything.
        self._revision = self._forgotten = int(state.wall() * 1000)
        self._changed: OrderedDict[str, int] = OrderedDict()
        self._fleets: OrderedDict[FleetQuery, Fleet] = OrderedDict()
        state.reservations.on_change(self._note)
        state.cluster.listen(self._take)

    @property
    def revision(self) -> int:
        """The revision; it grows with every possible change and begins at milliseconds since 1970."""
        self._look()
        return self._revision

    @property
    def unknown(self) -> AbstractSet[str]:
        """The names of nodes without topology."""
        return self._unknown

    def changed_since(self, revision: int) -> frozenset[str] | None:
        """Return the names of nodes that may have changed since then, including deleted ones.

        Returns None if they are not known: it is too long ago, or not a revision of this process.
        """
        self._look()
        if not self._forgotten <= revision <= self._revision:
            return None
        changed = set[str]()
        for name in reversed(self._changed):
            if self._changed[name] <= revision:
                break
            changed.add(name)
        return frozenset(changed)

    async def refresh(self) -> None:
        """Build the tiles of all changed nodes again."""
        await patiently(self._work())

    async def fleet(self, query: FleetQuery) -> Fleet:
        """Return the fleet that a query shows."""
        await self.refresh()
        revision, now = self._revision, self.state.wall()
        kept = self._fleets.get(query)
        if kept and kept.revision == revision and now - kept.now < KEPT_SECONDS:
            return kept
        # Agents observe their nodes repeatedly; often only the time changes.
        seen = self.state.cluster.observed_at
        tiles = [
            one if one.seen == seen.get(one.name) else replace(one, seen=seen.get(one.name))
            for one in self._tiles.values()
        ]
        nodes = tiles, frozenset(self._unknown), dict(self.state.labels)
        made = await result_of(fleet.fleet(*nodes, query, revision=revision, now=now))
        self._fleets[query] = made
        self._fleets.move_to_end(query)
        while len(self._fleets) > MOST_FLEETS:
            self._fleets.popitem(last=False)
        return made

    async def node(self, name: str, visible: Visible) -> NodeView | None:
        """Return a node as a viewer may see it; None if its topology is not known."""
        return node_view.node_view(self.state, name, visible, revision=self.revision)

    async def pod(self, namespace: str, name: str, visible: Visible) -> PodView | None:
        """Return a pod as a viewer may see it; None if there is none or it is not visible."""
        return pods.pod_view(self.state, namespace, name, visible, revision=self.revision)

    # Bookkeeping.

    def _note(self, name: str) -> None:
        """Record that a node has changed."""
        self._stale.add(name)
        self._revision += 1
        self._changed[name] = self._revision
        self._changed.move_to_end(name)
        if len(self._changed) > MOST_CHANGED:
            _, self._forgotten = self._changed.popitem(last=False)

    def _take(self, change: Change) -> None:
        """Note a node without topology that was added or removed; the ledger reports the others."""
        if isinstance(change, NodeChanged) and bool(change.now.bare) is not bool(change.before.bare):
            (self._unknown.add if change.now.bare else self._unknown.discard)(change.name)
            self._note(change.name)

    def _look(self) -> None:
        """Detect the effects of time."""
        now = self.state.clock()
        while self._settling and self._settling[0][0] <= now:
            self._note(heapq.heappop(self._settling)[1])
        due = []
        while self._due and self._due[0][0] <= now:
            due.append(heapq.heappop(self._due)[1])
        self._listened.difference_update(due)
        for name in [*due, *self._silent]:
            self._listen(name)

    def _listen(self, name: str) -> None:
        """Detect an agent that became stale or publishes again, and schedule the next check of the others."""
        made = self._tiles.get(name)
        if made is None:
            return
        exporter = exporters.of_node(self.state.cluster, name, now=self.state.wall())
        if exporter.stale is not (Condition.STALE in made.conditions):
            self._note(name)
        elif exporter.age is not None and not exporter.stale:
            heapq.heappush(self._due, (self.state.clock() + exporters.STALE_SECONDS - exporter.age, name))
            self._listened.add(name)

    def _work(self) -> Iterator[None]:
        """Build the tile of a changed node again at each step."""
        self._look()
        while self._stale:
            name = self._stale.pop()
            made = fleet.tile_of(self.state, name)
            if made is None:
                self._tiles.pop(name, None)
                self._silent.discard(name)
            else:
                self._tiles[name] = made
                (self._silent.add if Condition.STALE in made.conditions else self._silent.discard)(name)
                if name not in self._listened:
                    self._listen(name)
                until = self.state.reservations.valid_until(name)
                if math.isfinite(until):
                    heapq.heappush(self._settling, (until, name))
            yield
