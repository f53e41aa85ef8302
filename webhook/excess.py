"""
Pods with more in them than anybody means.

A mutating webhook is asked before the API server validates anything, so a pod may have a hundred thousand
terms, and a patch that tightens each of them would be as long again. Such a pod is never refused for it, and
never steered. Lists are measured from the outside in and not read, so that it costs no more than another pod
to find out.
"""

from collections.abc import Mapping

from numalign.fleet.pod_question import (
    MOST_OWNERS,
    MOST_REQUIREMENTS,
    MOST_TERMS,
    MOST_VALUES,
    Excess,
)

LONGEST_PATCH = 2**19
"""Bytes of a patch; an API server stores no object of more than some 1.5 MiB."""

_AFFINITY = ("spec", "affinity", "nodeAffinity")
_TERMS = (*_AFFINITY, "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
_PREFERENCES = (*_AFFINITY, "preferredDuringSchedulingIgnoredDuringExecution")
_OWNERS = ("metadata", "ownerReferences")
_REQUIREMENTS = ("matchExpressions", "matchFields")


class Unsteered(Exception):
    """Raised for a pod that is left as it is; `str()` is what there is too much of."""


def excess(pod: Mapping[str, object]) -> Excess | None:
    """What there is too much of in a pod; what has another shape than Kubernetes gives it counts as none."""
    terms = _list(pod, *_TERMS)
    if len(_list(pod, *_OWNERS)) > MOST_OWNERS:
        return Excess.OWNERS
    if max(len(terms), len(_list(pod, *_PREFERENCES))) > MOST_TERMS:
        return Excess.TERMS
    lists = [_list(term, key) for term in terms for key in _REQUIREMENTS]
    if sum(map(len, lists)) > MOST_REQUIREMENTS:
        return Excess.REQUIREMENTS
    values = sum(len(_list(requirement, "values")) for listed in lists for requirement in listed)
    return Excess.VALUES if values > MOST_VALUES else None


def crowded(owned: object) -> bool:
    """Whether an object of any kind has more owners than are read."""
    return len(_list(owned, *_OWNERS)) > MOST_OWNERS


def _list(value: object, *steps: str) -> list[object]:
    """The list at the end of some members; empty, if there is none."""
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, list) else []
