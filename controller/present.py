"""
The nodes of the cluster as they are at the moment, and their classes.

A class takes a while to work out, and of thousands of nodes a long while: so it is done beside the loop, and
once for each node as it is.
"""

import asyncio
from collections.abc import Callable, Mapping

from controller.classes import Moment
from numalign.kube.cluster_state import Snapshot
from numalign.model.node import Node, node_class
from numalign.shapes.health import missing_devices


class Present:
    """The moment of the last snapshot that was taken; `now` is replaced whole, never changed.

    `remembers` says whether it is known what nodes were before this process began.
    """

    def __init__(self, *, remembers: Callable[[], bool]) -> None:
        self.now: Moment | None = None
        self._remembers = remembers
        self._known: Mapping[str, tuple[Node, str]] = {}

    def waiting_for(self) -> str | None:
        """What is lacking: a first snapshot."""
        return None if self.now else "the first snapshot to be put together"

    async def take(self, found: Snapshot) -> None:
        """Make a snapshot the present."""
        # Asked before anything else happens: what is read later was not in this snapshot.
        remembers = self._remembers()
        self._known = await asyncio.to_thread(_classified, found, self._known)
        classes = {name: of for name, (_, of) in self._known.items()}
        self.now = Moment(found.labels, classes if remembers else {**classes, **_unproven(found)})


def moment(found: Snapshot) -> Moment:
    """The moment of a snapshot."""
    return Moment(
        found.labels,
        {node.name: node_class(node) for node in found.nodes},
        {node.name: missing_devices(node) for node in found.nodes if node.health},
    )


def _unproven(found: Snapshot) -> Mapping[str, str]:
    """The labels of classes that nobody knows here: what their nodes lack cannot be seen, so they stand."""
    known = {each.shape.node_class for each in found.shapes}
    return {
        node.name: label
        for node in found.nodes
        if (label := found.labels.get(node.name)) is not None and label not in known
    }


def _classified(found: Snapshot, before: Mapping[str, tuple[Node, str]]) -> Mapping[str, tuple[Node, str]]:
    """The class of each node; of one that is the same as before, what it was."""
    return {node.name: (node, _class(node, before.get(node.name))) for node in found.nodes}


def _class(node: Node, before: tuple[Node, str] | None) -> str:
    return before[1] if before and before[0] is node else node_class(node)
