"""
How often pods are asked to go: one of an owner, one of a node, and so many in the whole cluster.

Each is a bucket that holds one token and is empty when somebody begins to lead: whatever the last leader did
a moment ago, nobody goes faster than the rate.
"""

from dataclasses import dataclass, field

from controller.held import OwnerKey

MOST_REMEMBERED = 4096
"""Owners and nodes of which it is known when a pod went last; more are looked through for those long ago."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Seconds between two pods of an owner, of a node, and of the cluster."""

    owner: float
    node: float
    cluster: float


@dataclass(eq=False)
class Paces:
    """When the next pod may go. Times are seconds of one clock."""

    rates: Rates
    began: float
    _last: float = field(init=False)
    _owners: dict[OwnerKey, float] = field(init=False, default_factory=dict)
    _nodes: dict[str, float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._last = self.began

    def begin(self, now: float) -> None:
        """Somebody leads from now on: all buckets are empty."""
        self.began = self._last = now
        self._owners, self._nodes = {}, {}

    def due(self, owner: OwnerKey, node: str) -> float:
        """When a pod of this owner may be asked to leave this node."""
        return max(
            self._last + self.rates.cluster,
            self._owners.get(owner, self.began) + self.rates.owner,
            self._nodes.get(node, self.began) + self.rates.node,
        )

    def take(self, owner: OwnerKey, node: str, now: float) -> bool:
        """Take a token of each bucket; False, with none taken, if any of them is empty."""
        if now < self.due(owner, node):
            return False
        # By the rate and not by the turn in which somebody looked, so that no part of a token is lost.
        due = self._last + self.rates.cluster
        self._last = due if now < due + self.rates.cluster else now
        self._owners[owner] = self._nodes[node] = now
        if len(self._owners) + len(self._nodes) > MOST_REMEMBERED:
            self._owners = {key: at for key, at in self._owners.items() if now - at < self.rates.owner}
            self._nodes = {key: at for key, at in self._nodes.items() if now - at < self.rates.node}
        return True
