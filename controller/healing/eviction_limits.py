"""
The rate limits of evictions: for each owner, for each node, and for the whole cluster.

Each is a bucket of one token that is empty when a replica begins to lead: whatever its predecessor did just
before, the rate is not exceeded.
"""

from dataclasses import dataclass, field

from controller.held import OwnerKey
from controller.settings import ControllerSettings

MOST_REMEMBERED = 4096
"""Owners and nodes with a last eviction; if there are more, those whose interval is over are dropped."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Seconds between two evictions of an owner's pods, on a node, and in the cluster."""

    owner: float
    node: float
    cluster: float

    @classmethod
    def of(cls, settings: ControllerSettings) -> "Rates":
        """Return the rates that are configured."""
        return cls(settings.heal_owner_seconds, settings.heal_node_seconds, 60 / settings.heal_per_minute)


@dataclass(eq=False)
class EvictionLimits:
    """Tracks when the next pod may be evicted. Times are in seconds of one clock."""

    rates: Rates
    began: float
    _last: float = field(init=False)
    _owners: dict[OwnerKey, float] = field(init=False, default_factory=dict)
    _nodes: dict[str, float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._last = self.began

    def begin(self, now: float) -> None:
        """Begin with empty buckets, as this replica leads from now on."""
        self.began = self._last = now
        self._owners, self._nodes = {}, {}

    def due(self, owner: OwnerKey, node: str) -> float:
        """Return when a pod of this owner may be evicted from this node."""
        return max(
            self._last + self.rates.cluster,
            self._owners.get(owner, self.began) + self.rates.owner,
            self._nodes.get(node, self.began) + self.rates.node,
        )

    def take(self, owner: OwnerKey, node: str, now: float) -> bool:
        """Take a token from each bucket; return False and take none if any of them is empty."""
        if now < self.due(owner, node):
            return False
        # Count from when the token was due and not from this turn, so that no part of a token is lost.
        due = self._last + self.rates.cluster
        self._last = due if now < due + self.rates.cluster else now
        self._owners[owner] = self._nodes[node] = now
        if len(self._owners) + len(self._nodes) > MOST_REMEMBERED:
            self._owners = {key: at for key, at in self._owners.items() if now - at < self.rates.owner}
            self._nodes = {key: at for key, at in self._nodes.items() if now - at < self.rates.node}
        return True
