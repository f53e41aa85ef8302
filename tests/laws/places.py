"""
Where pods may go, for laws: labels, taints and conditions of nodes, and what pods say about them.

Built with `pick`, as fleets are (`tests/laws/fleets.py`). There are few keys and values, so that requirements
often hold and often do not; among the values are numbers, what only looks like one, and none at all.
"""

from collections.abc import Sequence
from typing import TypeVar

from numalign.model.attributes import NO_EXECUTE, NO_SCHEDULE, UNSCHEDULABLE, Attributes, Labels, Taint
from numalign.model.constraints import (
    ANYWHERE,
    NAME_FIELD,
    Constraints,
    Operator,
    Requirement,
    Term,
    Tolerating,
    Toleration,
)
from tests.laws.fleets import OFTEN, RARELY, SELDOM, SOMETIMES, Pick

T = TypeVar("T")

KEYS = ["pool", "zone", "generation", "elsewhere"]
"""The last is one that no node has."""

SYSTEMS = ["linux", "windows"]

WORDS = ["a", "b", "", "1", "2", "10", "+3", "-4", "007", "1e3", "99999999999999999999"]

TAINTS = [
    Taint("dedicated", "a"),
    Taint("dedicated", "b"),
    Taint("dedicated", "a", NO_EXECUTE),
    Taint("node.kubernetes.io/not-ready", "", NO_EXECUTE),
    UNSCHEDULABLE,
]


def some(pick: Pick, options: Sequence[T], often: Sequence[bool]) -> list[T]:
    """Those of some things that luck chooses."""
    return [one for one in options if pick(often)]


def attributes(pick: Pick) -> Attributes:
    """What says who may go to a node."""
    labels = {key: pick(WORDS) for key in some(pick, KEYS[:-1], OFTEN)}
    taints = tuple(some(pick, TAINTS, SELDOM))
    conditions = {"cordoned": pick(SELDOM), "ready": not pick(SELDOM)}
    return Attributes(Labels(labels), taints, **conditions, os=pick(["", *SYSTEMS]))


def requirement(pick: Pick, keys: Sequence[str] = KEYS, words: Sequence[str] = WORDS) -> Requirement:
    """One about a label, or a name."""
    return Requirement(pick(keys), pick(list(Operator)), frozenset(some(pick, words, SOMETIMES)))


def term(pick: Pick, names: Sequence[str]) -> Term:
    """One of a required affinity; names of nodes are asked for sometimes, and sometimes nothing is."""
    expressions = tuple(requirement(pick) for _ in range(pick([1, 1, 2, 0])))
    fields = tuple(requirement(pick, [NAME_FIELD], names) for _ in range(pick([0, 0, 0, 1])))
    return Term(expressions, fields)


def toleration(pick: Pick) -> Toleration:
    """One of taints that there are, or of all."""
    return Toleration(
        key=pick(["", *(taint.key for taint in TAINTS)]),
        operator=pick([*Tolerating, None]),
        value=pick(["", "a", "b"]),
        effect=pick(["", NO_SCHEDULE, NO_EXECUTE]),
    )


def constraints(pick: Pick, names: Sequence[str]) -> Constraints:
    """What a pod says about nodes of these names and others."""
    if pick(RARELY):
        return ANYWHERE
    terms = tuple(term(pick, names) for _ in range(pick([1, 2, 3, 0])))
    return Constraints(
        selector=tuple(requirement(pick) for _ in range(pick([0, 0, 1, 2]))),
        terms=pick([None, terms]),
        tolerations=tuple(toleration(pick) for _ in range(pick([0, 1, 2]))),
        os=pick(["", "", *SYSTEMS]),
    )
