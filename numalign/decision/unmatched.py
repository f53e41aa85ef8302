"""Which labels that a pod requires its nodes do not have, in words."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import nsmallest
from itertools import islice

from numalign.model.constraints import NAME_FIELD, Constraints, Operator, Requirement
from numalign.model.errors import cut

MOST_NAMED = 4
"""The limit of labels that are named; users select by a handful."""

_LONGEST = 80


def lacking(constraints: Constraints, nodes: Mapping[str, Mapping[str, str]]) -> str:
    """Return what the pod requires and none of these nodes has: `gpu=a100, pool in (a,b)`.

    Empty if some node meets each requirement by itself; of several terms of its node affinity, one of them.
    """
    # Node affinity can require a name like a label.
    labels = [{**own, NAME_FIELD: name} for name, own in nodes.items()]
    selected = [*_unmet(constraints.selector, labels)]
    terms = [[*_unmet((*term.expressions, *term.fields), labels)] for term in constraints.terms or ()]
    either = [" or ".join(_some(map(", ".join, terms)))] if all(terms) else []
    return ", ".join(_some(filter(None, selected + either)))


def _unmet(requirements: Iterable[Requirement], labels: Sequence[Mapping[str, str]]) -> Iterator[str]:
    return _some(_shown(each) for each in requirements if not any(map(each.holds, labels)))


def _shown(requirement: Requirement) -> str:
    """Return a requirement as users write it for kubectl."""
    if requirement.operator is Operator.IN and len(requirement.values) == 1:
        return cut(f"{requirement.key}={min(requirement.values)}", _LONGEST)
    # A tenant may list thousands of values, of which more than these, of a character each, are cut anyway.
    few = replace(requirement, values=frozenset(nsmallest(_LONGEST, requirement.values)))
    return cut(str(few), _LONGEST)


def _some(texts: Iterable[str]) -> Iterator[str]:
    for number, text in enumerate(islice(texts, MOST_NAMED + 1)):
        yield text if number < MOST_NAMED else "more"
