"""
The nodes of the cluster as they are at the moment, and their classes.

A class takes a while to work out, and of thousands of nodes a long while: so it is done beside the loop, and
once for each node as it is.
"""

import asyncio
from collections.abc import Mapping

from controller.classes import Moment
from numalign.cluster.world import Snapshot
from numalign.rules.topology import Node, node_class


class Present:
    """The moment of the last snapshot that was taken; `now` is replaced whole, never changed."""

    def __init__(self) -> None:
        self.now: Moment | None = None
        self._known: Mapping[str, tuple[Node, str]] = {}

    def waiting_for(self) -> str | None:
        """What is lacking: a first snapshot."""
        return None if self.now else "the first snapshot to be put together"

    async def take(self, found: Snapshot) -> None:
        """Make a snapshot the present."""
        self._known = await asyncio.to_thread(_classified, found, self._known)
        self.now = Moment(found.labels, {name: of for name, (_, of) in self._known.items()})


def moment(found: Snapshot) -> Moment:
    """The moment of a snapshot."""
    return Moment(found.labels, {node.name: node_class(node) for node in found.nodes})


def _classified(found: Snapshot, before: Mapping[str, tuple[Node, str]]) -> Mapping[str, tuple[Node, str]]:
    """The class of each node; of one that is the same as before, what it was."""
    return {node.name: (node, _class(node, before.get(node.name))) for node in found.nodes}


def _class(node: Node, before: tuple[Node, str] | None) -> str:
    return before[1] if before and before[0] is node else node_class(node)
