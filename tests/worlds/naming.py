"""Nodes for tests that hold several of them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from numalign.model.node import Node


def named(nodes: Iterable[Node]) -> list[Node]:
    """The same nodes in their order, each with a name of its own; the first of a name keeps it."""
    seen = Counter[str]()
    distinct = []
    for node in nodes:
        again = seen[node.name]
        seen[node.name] += 1
        distinct.append(replace(node, name=f"{node.name}-{again}") if again else node)
    return distinct
